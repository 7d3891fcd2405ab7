/*
 * Compiles the table of seccomp.h at build time and prints the program as C source. At run time that would take a tenth of a
 * sandbox's start, and every supervisor would load libseccomp.
 *
 *     seccomp-compile >seccomp_program.c
 */
#include <errno.h>
#include <linux/filter.h>
#include <seccomp.h>
#include <stdio.h>
#include <string.h>

#include "runtime/seccomp.h"

static int add_masked(scmp_filter_ctx ctx, const struct seccomp_rule *rule, int nr, uint64_t mask, uint64_t value)
{
    struct scmp_arg_cmp cmp = SCMP_CMP64(rule->arg, SCMP_CMP_MASKED_EQ, mask, value);

    return seccomp_rule_add_array(ctx, SCMP_ACT_ERRNO((uint32_t) rule->error), nr, 1, &cmp);
}

/* A filter cannot test for any of several bits, so each bit gets its own rule. */
static int add_any_bit(scmp_filter_ctx ctx, const struct seccomp_rule *rule, int nr)
{
    for (uint64_t bit = 1; bit; bit <<= 1) {
        int r = rule->value & bit ? add_masked(ctx, rule, nr, bit, bit) : 0;

        if (r < 0)
            return r;
    }
    return 0;
}

static int add_pair(scmp_filter_ctx ctx, const struct seccomp_rule *rule, int nr, struct scmp_arg_cmp a, struct scmp_arg_cmp b)
{
    struct scmp_arg_cmp both[] = { a, b };

    return seccomp_rule_add_array(ctx, SCMP_ACT_ERRNO((uint32_t) rule->error), nr, 2, both);
}

/* A rule may test an argument only once, so "neither 0 nor -1" is tested bit by bit: some bit differs from the highest. */
static int add_mixed(scmp_filter_ctx ctx, const struct seccomp_rule *rule, int nr)
{
    const uint64_t top = 1ULL << 31;

    for (uint64_t bit = 1; bit < top; bit <<= 1) {
        int r = add_masked(ctx, rule, nr, top | bit, bit);

        if (r == 0)
            r = add_masked(ctx, rule, nr, top | bit, top);
        if (r < 0)
            return r;
    }
    return 0;
}

static int add_rule(scmp_filter_ctx ctx, const struct seccomp_rule *rule)
{
    int nr = seccomp_syscall_resolve_name(rule->name);
    struct scmp_arg_cmp cmp;

    if (nr == __NR_SCMP_ERROR)
        nr = rule->nr;
    /* Negative: the call does not exist on this architecture. */
    if (nr < 0)
        return 0;
    switch (rule->when) {
    case SECCOMP_ALWAYS:
        return seccomp_rule_add_array(ctx, SCMP_ACT_ERRNO((uint32_t) rule->error), nr, 0, NULL);
    case SECCOMP_ANY_BIT:
        return add_any_bit(ctx, rule, nr);
    case SECCOMP_IS:
        return add_masked(ctx, rule, nr, 0xffffffff, rule->value);
    case SECCOMP_FROM:
        cmp = SCMP_CMP64(rule->arg, SCMP_CMP_GE, rule->value, 0);
        return seccomp_rule_add_array(ctx, SCMP_ACT_ERRNO((uint32_t) rule->error), nr, 1, &cmp);
    case SECCOMP_IS_AND_NEXT_NOT_ZERO:
        return add_pair(ctx, rule, nr, SCMP_CMP64(rule->arg, SCMP_CMP_MASKED_EQ, 0xffffffff, rule->value),
                        SCMP_CMP64(2, SCMP_CMP_NE, 0, 0));
    case SECCOMP_IS_AND_NEXT_ABOVE:
        return add_pair(ctx, rule, nr, SCMP_CMP64(rule->arg, SCMP_CMP_MASKED_EQ, 0xffffffff, (uint32_t) rule->value),
                        SCMP_CMP64(2, SCMP_CMP_GT, rule->value >> 32, 0));
    case SECCOMP_MIXED:
        return add_mixed(ctx, rule, nr);
    }
    return -EINVAL;
}

static int seccomp_add_rules(scmp_filter_ctx ctx)
{
    size_t count;
    const struct seccomp_rule *rules = seccomp_rules(&count);
    int r;

    /* A 32-bit program could not report the errors and would spin, so it is killed. This also prevents x32's numbers and
     * i386's int 0x80 from bypassing the filter. */
    if ((r = seccomp_attr_set(ctx, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS)) < 0)
        return r;
    /* A binary tree instead of a list needs fewer steps per call. Old libraries lack this attribute. */
    seccomp_attr_set(ctx, SCMP_FLTATR_CTL_OPTIMIZE, 2);
    for (size_t i = 0; i < count; i++)
        if ((r = add_rule(ctx, &rules[i])) < 0)
            return r;
    return 0;
}

/* Prints one line per instruction. */
static int print_program(FILE *from)
{
    struct sock_filter at;

    rewind(from);
    printf("#include \"runtime/seccomp_program.h\"\n\nconst struct sock_filter seccomp_program[] = {\n");
    while (fread(&at, sizeof(at), 1, from) == 1)
        printf("    { 0x%04x, %u, %u, 0x%08x },\n", at.code, at.jt, at.jf, at.k);
    printf("};\n\nconst size_t seccomp_program_bytes = sizeof(seccomp_program);\n");
    return ferror(from) || fflush(stdout) != 0 ? -EIO : 0;
}

int main(void)
{
    scmp_filter_ctx ctx = seccomp_init(SCMP_ACT_ALLOW);
    FILE *program = tmpfile();
    int r = ctx && program ? seccomp_add_rules(ctx) : -ENOMEM;

    if (r == 0)
        r = seccomp_export_bpf(ctx, fileno(program));
    if (r == 0)
        r = print_program(program);
    if (r < 0)
        fprintf(stderr, "seccomp-compile: %s\n", strerror(-r));
    if (program)
        fclose(program);
    if (ctx)
        seccomp_release(ctx);
    return r < 0;
}
