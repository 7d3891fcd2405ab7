/*
 * The filter, in two ways: by a small machine for its program, which tells exactly what each call would get; and by a child that
 * has it loaded and makes the calls. The list of calls is written here once more, apart from the table under test, so that a row
 * lost there is missed here.
 */
#include "runtime_fixture.h"

#include <asm/ioctls.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/netlink.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <seccomp.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "runtime/seccomp.h"

#if defined(__x86_64__)
#define NATIVE AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define NATIVE AUDIT_ARCH_AARCH64
#else
#error "tell the tests this architecture's audit number"
#endif

#define UPPER (7ULL << 32) /* bits that the kernel does not look at in a 32-bit argument */
#define ALLOWED 0

struct call {
    const char *name;
    long nr;
    uint64_t args[6];
    int error; /* ALLOWED, or what is expected */
};

#define DENY(name, error)                                                                                                      \
    {                                                                                                                          \
#name, SYS_##name, { 0 }, error                                                                                        \
    }

static const struct call calls[] = {
    /* namespaces */
    { "clone newuser", SYS_clone, { CLONE_NEWUSER }, EPERM },
    { "clone newns", SYS_clone, { CLONE_NEWNS }, EPERM },
    { "clone newpid", SYS_clone, { CLONE_NEWPID }, EPERM },
    { "clone newnet", SYS_clone, { CLONE_NEWNET }, EPERM },
    { "clone newipc", SYS_clone, { CLONE_NEWIPC }, EPERM },
    { "clone newuts", SYS_clone, { CLONE_NEWUTS }, EPERM },
    { "clone newcgroup", SYS_clone, { CLONE_NEWCGROUP }, EPERM },
    { "clone newuser among others", SYS_clone, { CLONE_NEWUSER | CLONE_NEWNET | SIGCHLD | UPPER }, EPERM },
    { "unshare user", SYS_unshare, { CLONE_NEWUSER }, EPERM },
    { "unshare ns", SYS_unshare, { CLONE_NEWNS }, EPERM },
    { "unshare pid", SYS_unshare, { CLONE_NEWPID }, EPERM },
    { "unshare net", SYS_unshare, { CLONE_NEWNET }, EPERM },
    { "unshare ipc", SYS_unshare, { CLONE_NEWIPC }, EPERM },
    { "unshare uts", SYS_unshare, { CLONE_NEWUTS }, EPERM },
    { "unshare cgroup", SYS_unshare, { CLONE_NEWCGROUP }, EPERM },
    { "unshare time", SYS_unshare, { 0x80 }, EPERM },
    { "unshare user with high bits", SYS_unshare, { CLONE_NEWUSER | UPPER }, EPERM },
    { "unshare files", SYS_unshare, { CLONE_FILES | CLONE_FS }, ALLOWED },
    DENY(clone3, ENOSYS),
    DENY(setns, EPERM),

    /* mounts */
    DENY(mount, EPERM),
    DENY(umount2, EPERM),
    DENY(pivot_root, EPERM),
    DENY(chroot, EPERM),
    DENY(open_tree, ENOSYS),
    DENY(move_mount, ENOSYS),
    DENY(fsopen, ENOSYS),
    DENY(fsconfig, ENOSYS),
    DENY(fsmount, ENOSYS),
    DENY(fspick, ENOSYS),
    { "mount_setattr", 442, { 0 }, ENOSYS },
    { "open_tree_attr", 467, { 0 }, ENOSYS },

    /* processes */
    DENY(ptrace, EPERM),
    DENY(process_vm_readv, EPERM),
    DENY(process_vm_writev, EPERM),
    DENY(pidfd_getfd, EPERM),
    DENY(kcmp, EPERM),

    /* corners of the kernel */
    DENY(bpf, EPERM),
    DENY(perf_event_open, EACCES),
    DENY(userfaultfd, ENOSYS),
    DENY(io_uring_setup, ENOSYS),
    DENY(io_uring_enter, ENOSYS),
    DENY(io_uring_register, ENOSYS),
    DENY(add_key, ENOSYS),
    DENY(request_key, ENOSYS),
    DENY(keyctl, ENOSYS),
    DENY(fanotify_init, EPERM),
    DENY(name_to_handle_at, EOPNOTSUPP),
    DENY(open_by_handle_at, EPERM),
    DENY(lookup_dcookie, EPERM),
    { "memfd_secret", 447, { 0 }, ENOSYS },
#ifdef SYS_modify_ldt
    DENY(modify_ldt, EPERM),
#endif
    { "personality of the default", SYS_personality, { 0 }, ALLOWED },
    { "personality asked for", SYS_personality, { 0xffffffff }, ALLOWED },
    { "personality asked for with high bits", SYS_personality, { UINT64_MAX }, ALLOWED },
    { "personality without randomisation", SYS_personality, { ADDR_NO_RANDOMIZE }, EPERM },
    { "personality of 32 bits", SYS_personality, { PER_LINUX32 }, EPERM },
    { "personality with the top bit", SYS_personality, { 0x80000000 }, EPERM },
    { "personality with all but the lowest bit", SYS_personality, { 0xfffffffe }, EPERM },
    { "personality with all but the top bit", SYS_personality, { 0x7fffffff }, EPERM },
    { "personality hidden above high bits", SYS_personality, { ADDR_NO_RANDOMIZE | UPPER }, EPERM },

    /* the machine */
    { "syslog", SYS_syslog, { 10 }, EPERM },
#ifdef SYS_kexec_load
    DENY(kexec_load, EPERM),
#endif
#ifdef SYS_kexec_file_load
    DENY(kexec_file_load, EPERM),
#endif
    DENY(init_module, EPERM),
    DENY(finit_module, EPERM),
    DENY(delete_module, EPERM),
    DENY(reboot, EPERM),
    DENY(swapon, EPERM),
    DENY(swapoff, EPERM),
    { "acct", SYS_acct, { 1 }, EPERM },
    DENY(quotactl, EPERM),
    { "quotactl_fd", 443, { 0 }, EPERM },

    /* sockets */
    { "unix", SYS_socket, { AF_UNIX, SOCK_STREAM }, ALLOWED },
    { "inet", SYS_socket, { AF_INET, SOCK_STREAM }, ALLOWED },
    { "inet6", SYS_socket, { AF_INET6, SOCK_STREAM }, ALLOWED },
    { "netlink route", SYS_socket, { AF_NETLINK, SOCK_RAW, NETLINK_ROUTE }, ALLOWED },
    { "netlink audit", SYS_socket, { AF_NETLINK, SOCK_RAW, NETLINK_AUDIT }, EAFNOSUPPORT },
    { "netlink netfilter", SYS_socket, { AF_NETLINK | UPPER, SOCK_RAW, NETLINK_NETFILTER }, EAFNOSUPPORT },
    { "netlink with high bits", SYS_socket, { AF_NETLINK, SOCK_RAW, NETLINK_SOCK_DIAG | UPPER }, EAFNOSUPPORT },
    { "ax25", SYS_socket, { 3, SOCK_DGRAM }, EAFNOSUPPORT },
    { "ipx", SYS_socket, { 4, SOCK_DGRAM }, EAFNOSUPPORT },
    { "appletalk", SYS_socket, { 5, SOCK_DGRAM }, EAFNOSUPPORT },
    { "netrom", SYS_socket, { 6, SOCK_DGRAM }, EAFNOSUPPORT },
    { "bridge", SYS_socket, { 7, SOCK_DGRAM }, EAFNOSUPPORT },
    { "atmpvc", SYS_socket, { 8, SOCK_DGRAM }, EAFNOSUPPORT },
    { "x25", SYS_socket, { 9, SOCK_DGRAM }, EAFNOSUPPORT },
    { "rose", SYS_socket, { 11, SOCK_DGRAM }, EAFNOSUPPORT },
    { "decnet", SYS_socket, { 12, SOCK_DGRAM }, EAFNOSUPPORT },
    { "netbeui", SYS_socket, { 13, SOCK_DGRAM }, EAFNOSUPPORT },
    { "security", SYS_socket, { 14, SOCK_DGRAM }, EAFNOSUPPORT },
    { "key", SYS_socket, { 15, SOCK_RAW, 2 }, EAFNOSUPPORT },
    { "key with high bits", SYS_socket, { 15 | UPPER, SOCK_RAW, 2 }, EAFNOSUPPORT },
    { "packet", SYS_socket, { AF_PACKET, SOCK_RAW }, EAFNOSUPPORT },
    { "packet with high bits", SYS_socket, { AF_PACKET | UPPER, SOCK_RAW }, EAFNOSUPPORT },
    { "tipc", SYS_socket, { AF_TIPC, SOCK_DGRAM }, EAFNOSUPPORT },
    { "bluetooth", SYS_socket, { AF_BLUETOOTH, SOCK_RAW }, EAFNOSUPPORT },
    { "alg", SYS_socket, { AF_ALG, SOCK_SEQPACKET }, EAFNOSUPPORT },
    { "vsock", SYS_socket, { AF_VSOCK, SOCK_STREAM }, EAFNOSUPPORT },
    { "xdp", SYS_socket, { AF_XDP, SOCK_RAW }, EAFNOSUPPORT },
    { "pair of unix", SYS_socketpair, { AF_UNIX, SOCK_STREAM }, ALLOWED },
    { "pair of tipc", SYS_socketpair, { AF_TIPC, SOCK_STREAM }, EAFNOSUPPORT },
    { "pair of inet", SYS_socketpair, { AF_INET, SOCK_STREAM }, EAFNOSUPPORT },

    /* terminals */
    { "a large pipe", SYS_fcntl, { 3, F_SETPIPE_SZ, 65537 }, EPERM },
    { "a large pipe with high bits", SYS_fcntl, { 3, F_SETPIPE_SZ | UPPER, 1 << 20 }, EPERM },
    { "a pipe whose size has high bits", SYS_fcntl, { 3, F_SETPIPE_SZ, UPPER | 4096 }, EPERM },
    { "a pipe as it comes", SYS_fcntl, { 3, F_SETPIPE_SZ, 65536 }, 0 },
    { "a smaller pipe", SYS_fcntl, { 3, F_SETPIPE_SZ, 4096 }, 0 },
    { "another fcntl", SYS_fcntl, { 3, F_DUPFD, 1 << 20 }, 0 },
    { "tiocsti", SYS_ioctl, { 0, TIOCSTI }, EPERM },
    { "tiocsti with high bits", SYS_ioctl, { 0, TIOCSTI | UPPER }, EPERM },
    { "tioclinux", SYS_ioctl, { 0, TIOCLINUX }, EPERM },
    { "tioclinux with high bits", SYS_ioctl, { 0, TIOCLINUX | UPPER }, EPERM },
    { "another ioctl", SYS_ioctl, { 0, TIOCGWINSZ }, ALLOWED },

    /* what every program does */
    { "read", SYS_read, { 0 }, ALLOWED },
    { "write", SYS_write, { 0 }, ALLOWED },
    { "openat", SYS_openat, { 0 }, ALLOWED },
    { "execve", SYS_execve, { 0 }, ALLOWED },
    { "fork", SYS_clone, { SIGCHLD }, ALLOWED },
    { "thread", SYS_clone, { CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM }, ALLOWED },
    { "mmap", SYS_mmap, { 0 }, ALLOWED },
    { "futex", SYS_futex, { 0 }, ALLOWED },
    { "statx", SYS_statx, { 0 }, ALLOWED },
    { "pidfd_open", SYS_pidfd_open, { 0 }, ALLOWED },
    { "memfd_create", SYS_memfd_create, { 0 }, ALLOWED },
    { "inotify_init1", SYS_inotify_init1, { 0 }, ALLOWED },
    { "epoll_create1", SYS_epoll_create1, { 0 }, ALLOWED },
    { "flock", SYS_flock, { 0 }, ALLOWED },
    { "rseq", 334, { 0 }, ALLOWED },
    { "openat2", SYS_openat2, { 0 }, ALLOWED },
    { "close_range", SYS_close_range, { 0 }, ALLOWED },
};

static struct sock_filter program[4096];
static unsigned short program_len;

static int load_program(void **state)
{
    struct err err = ERR_NONE;
    autofd int fd = seccomp_open_filter(&err);
    ssize_t n;

    (void) state;
    if (fd < 0)
        fail_msg("%s", err.text);
    assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
    assert_int_equal(write(fd, "x", 1), -1);
    n = fd_read_full(fd, program, sizeof(program));
    assert_true(n > 0 && n % (ssize_t) sizeof(program[0]) == 0);
    program_len = (unsigned short) ((size_t) n / sizeof(program[0]));
    return 0;
}

static uint32_t compare_jump(const struct sock_filter *i, uint32_t a)
{
    bool yes;

    switch (BPF_OP(i->code)) {
    case BPF_JEQ:
        yes = a == i->k;
        break;
    case BPF_JGT:
        yes = a > i->k;
        break;
    case BPF_JGE:
        yes = a >= i->k;
        break;
    case BPF_JSET:
        yes = (a & i->k) != 0;
        break;
    default:
        return i->k;
    }
    return yes ? i->jt : i->jf;
}

/* The filter's verdict on a call: the few instructions that libseccomp uses. */
static uint32_t decide(uint32_t arch, long nr, const uint64_t args[6])
{
    struct seccomp_data data = { .nr = (int) nr, .arch = arch };
    uint32_t a = 0, mem[BPF_MEMWORDS] = { 0 };

    memcpy(data.args, args, sizeof(data.args));
    for (uint32_t pc = 0; pc < program_len; pc++) {
        const struct sock_filter *i = &program[pc];

        switch (BPF_CLASS(i->code)) {
        case BPF_LD:
            if (BPF_MODE(i->code) == BPF_MEM)
                a = mem[i->k];
            else
                memcpy(&a, (const char *) &data + i->k, sizeof(a));
            break;
        case BPF_ST:
            mem[i->k] = a;
            break;
        case BPF_ALU:
            assert_int_equal(BPF_OP(i->code), BPF_AND);
            a &= i->k;
            break;
        case BPF_JMP:
            pc += compare_jump(i, a);
            break;
        case BPF_RET:
            return i->k;
        default:
            fail_msg("an instruction the test does not know: %x", i->code);
        }
    }
    fail_msg("the program has no end");
    return 0;
}

static void every_call_gets_what_is_expected(void **state)
{
    (void) state;
    for (size_t i = 0; i < ARRAY_LEN(calls); i++) {
        uint32_t verdict = decide(NATIVE, calls[i].nr, calls[i].args);
        uint32_t expected = calls[i].error ? SECCOMP_RET_ERRNO | (uint32_t) calls[i].error : SECCOMP_RET_ALLOW;

        if (verdict != expected)
            fail_msg("%s: %x, not %x", calls[i].name, verdict, expected);
    }
}

static void foreign_architectures_end_the_process(void **state)
{
    static const uint32_t foreign[] = { AUDIT_ARCH_I386, AUDIT_ARCH_ARM, AUDIT_ARCH_PPC64LE, 0 };
    const uint64_t none[6] = { 0 };

    (void) state;
    for (size_t i = 0; i < ARRAY_LEN(foreign); i++)
        for (long nr = 0; nr < 500; nr++)
            assert_int_equal(decide(foreign[i], nr, none), SECCOMP_RET_KILL_PROCESS);
#if defined(__x86_64__)
    for (long nr = 0; nr < 600; nr++)
        assert_int_equal(decide(NATIVE, 0x40000000 | nr, none), SECCOMP_RET_KILL_PROCESS);
#endif
}

/* What becomes of a call in a process that has the filter: 0, its errno, or 1000 + the signal. */
static int outcome(const struct call *call)
{
    struct sock_fprog fprog = { program_len, program };
    const uint64_t *a = call->args;
    pid_t pid = fork();
    int status;
    long r;

    if (pid == 0) {
        alarm(60);
        if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &fprog) < 0)
            _exit(255);
        r = syscall(call->nr, a[0], a[1], a[2], a[3], a[4], a[5]);
        _exit(r < 0 ? errno : 0);
    }
    assert_true(pid > 0);
    while (waitpid(pid, &status, 0) < 0)
        assert_int_equal(errno, EINTR);
    return WIFSIGNALED(status) ? 1000 + WTERMSIG(status) : WEXITSTATUS(status);
}

static void the_kernel_answers_as_the_table_says(void **state)
{
    (void) state;
    for (size_t i = 0; i < ARRAY_LEN(calls); i++) {
        if (!calls[i].error)
            continue;
        if (outcome(&calls[i]) != calls[i].error)
            fail_msg("%s: %d, not %d", calls[i].name, outcome(&calls[i]), calls[i].error);
    }
}

#if defined(__x86_64__)
static void the_old_doors_are_closed(void **state)
{
    struct sock_fprog fprog = { program_len, program };
    const struct call x32 = { "x32 getpid", 0x40000000 | 39, { 0 }, 0 };
    int status;
    pid_t pid;

    (void) state;
    assert_int_equal(outcome(&x32), 1000 + SIGSYS);
    pid = fork();
    if (pid == 0) {
        long r = 20; /* i386 getpid */

        prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
        syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &fprog);
        __asm__ volatile("int $0x80" : "+a"(r) : : "memory");
        _exit(r > 0 ? 0 : 1);
    }
    waitpid(pid, &status, 0);
    /* A kernel without the 32-bit entry has nothing to close and faults instead. */
    assert_true(WIFSIGNALED(status) && (WTERMSIG(status) == SIGSYS || WTERMSIG(status) == SIGSEGV));
}
#endif

static void ordinary_programs_run(void **state)
{
    struct sock_fprog fprog = { program_len, program };
    char *const argv[] = { (char *) "sh", (char *) "-c", (char *) "echo x | grep -q x && (exit 3)", NULL };
    int status;
    pid_t pid = fork();

    (void) state;
    if (pid == 0) {
        prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
        syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &fprog);
        execv("/bin/sh", argv);
        _exit(1);
    }
    waitpid(pid, &status, 0);
    assert_int_equal(WEXITSTATUS(status), 3);
}

static bool is_tried(const struct seccomp_rule *rule)
{
    int nr = seccomp_syscall_resolve_name(rule->name);

    nr = nr == __NR_SCMP_ERROR ? rule->nr : nr;
    for (size_t i = 0; i < ARRAY_LEN(calls); i++)
        if (calls[i].nr == nr && calls[i].error == rule->error)
            return true;
    return nr < 0;
}

static void every_row_has_its_reason_and_its_test(void **state)
{
    size_t count;
    const struct seccomp_rule *rules = seccomp_rules(&count);

    (void) state;
    for (size_t i = 0; i < count; i++) {
        assert_true(strlen(rules[i].reason) > 0);
        if (!is_tried(&rules[i]))
            fail_msg("no test tries '%s'", rules[i].name);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_call_gets_what_is_expected),
        cmocka_unit_test(foreign_architectures_end_the_process),
        cmocka_unit_test(the_kernel_answers_as_the_table_says),
#if defined(__x86_64__)
        cmocka_unit_test(the_old_doors_are_closed),
#endif
        cmocka_unit_test(ordinary_programs_run),
        cmocka_unit_test(every_row_has_its_reason_and_its_test),
    };

    return cmocka_run_group_tests(tests, load_program, NULL);
}
