#include "runtime/seccomp.h"

#include <asm/ioctls.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/socket.h>

#include "base/mem.h"

#ifndef CLONE_NEWTIME
#define CLONE_NEWTIME 0x00000080
#endif

/* clone() cannot take CLONE_NEWTIME, because its low byte is the exit signal. */
#define NEW_NAMESPACES                                                                                                         \
    (CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET)

/* s390 is the only relevant architecture that passes clone()'s flags second. */
#if defined(__s390__)
#define CLONE_FLAGS_ARG 1
#else
#define CLONE_FLAGS_ARG 0
#endif

#define PIPE_BYTES_MAX 65536ULL /* the size that pipe(2) uses with 4 KiB pages */

#define ALWAYS SECCOMP_ALWAYS, 0, 0

static const struct seccomp_rule rules[] = {
    /* Namespaces: a new user namespace grants every capability in it, and with them access to most of the kernel's
     * privileged code. */
    { "clone", -1, EPERM, SECCOMP_ANY_BIT, CLONE_FLAGS_ARG, NEW_NAMESPACES, "no new namespaces" },
    { "unshare", -1, EPERM, SECCOMP_ANY_BIT, 0, NEW_NAMESPACES | CLONE_NEWTIME, "no new namespaces" },
    { "clone3", 435, ENOSYS, ALWAYS, "its flags lie in memory, where a filter cannot look; libc then uses clone" },
    { "setns", -1, EPERM, ALWAYS, "no entering of other namespaces" },

    /* Mounts: the new calls seem to be missing, so that tools try mount(2), and the old ones are forbidden. */
    { "mount", -1, EPERM, ALWAYS, "no mounts" },
    { "umount2", -1, EPERM, ALWAYS, "no unmounting of what hides something" },
    { "pivot_root", -1, EPERM, ALWAYS, "no other root" },
    { "chroot", -1, EPERM, ALWAYS, "no other root" },
    { "open_tree", 428, ENOSYS, ALWAYS, "new mount API" },
    { "move_mount", 429, ENOSYS, ALWAYS, "new mount API" },
    { "fsopen", 430, ENOSYS, ALWAYS, "new mount API" },
    { "fsconfig", 431, ENOSYS, ALWAYS, "new mount API" },
    { "fsmount", 432, ENOSYS, ALWAYS, "new mount API" },
    { "fspick", 433, ENOSYS, ALWAYS, "new mount API" },
    { "mount_setattr", 442, ENOSYS, ALWAYS, "new mount API" },
    { "open_tree_attr", 467, ENOSYS, ALWAYS, "new mount API" },

    /* Other processes: init is one, and it holds the socket to the supervisor. */
    { "ptrace", -1, EPERM, ALWAYS, "no control over other processes, init among them" },
    { "process_vm_readv", -1, EPERM, ALWAYS, "no reading of other processes' memory" },
    { "process_vm_writev", -1, EPERM, ALWAYS, "no writing of other processes' memory" },
    { "pidfd_getfd", 438, EPERM, ALWAYS, "no taking of other processes' descriptors" },
    { "kcmp", -1, EPERM, ALWAYS, "tells the order of kernel addresses" },

    /* Parts of the kernel with many past holes and no use in a build. */
    { "bpf", -1, EPERM, ALWAYS, "programs in the kernel" },
    { "perf_event_open", -1, EACCES, ALWAYS, "watches the kernel and other processes; EACCES is perf_event_paranoid's answer" },
    { "userfaultfd", -1, ENOSYS, ALWAYS, "holds the kernel still in the middle of a copy: the exploit writer's friend" },
    { "io_uring_setup", 425, ENOSYS, ALWAYS, "makes system calls that no filter sees; programs fall back to epoll" },
    { "io_uring_enter", 426, ENOSYS, ALWAYS, "makes system calls that no filter sees" },
    { "io_uring_register", 427, ENOSYS, ALWAYS, "makes system calls that no filter sees" },
    { "add_key", -1, ENOSYS, ALWAYS, "keyrings are not kept apart by namespaces" },
    { "request_key", -1, ENOSYS, ALWAYS, "keyrings are not kept apart by namespaces" },
    { "keyctl", -1, ENOSYS, ALWAYS, "keyrings are not kept apart by namespaces" },
    { "fanotify_init", -1, EPERM, ALWAYS, "watches whole file systems" },
    { "name_to_handle_at", -1, EOPNOTSUPP, ALWAYS,
      "names files past every mount; EOPNOTSUPP as of a file system without handles" },
    { "open_by_handle_at", -1, EPERM, ALWAYS, "opens files past every mount" },
    { "memfd_secret", 447, ENOSYS, ALWAYS, "memory that nobody can look at" },
    { "modify_ldt", -1, EPERM, ALWAYS, "16-bit segments: much code, no use" },
    { "lookup_dcookie", -1, EPERM, ALWAYS, "names files past every mount" },
    { "personality", -1, EPERM, SECCOMP_MIXED, 0, 0, "switches off protections such as address randomisation" },

    /* The whole machine. */
    { "syslog", -1, EPERM, ALWAYS, "the kernel's log has addresses and others' secrets" },
    { "kexec_load", -1, EPERM, ALWAYS, "another kernel" },
    { "kexec_file_load", -1, EPERM, ALWAYS, "another kernel" },
    { "init_module", -1, EPERM, ALWAYS, "code in the kernel" },
    { "finit_module", -1, EPERM, ALWAYS, "code in the kernel" },
    { "delete_module", -1, EPERM, ALWAYS, "code in the kernel" },
    { "reboot", -1, EPERM, ALWAYS, "the machine is not ours" },
    { "swapon", -1, EPERM, ALWAYS, "the machine is not ours" },
    { "swapoff", -1, EPERM, ALWAYS, "the machine is not ours" },
    { "acct", -1, EPERM, ALWAYS, "the machine is not ours" },
    { "quotactl", -1, EPERM, ALWAYS, "the machine is not ours" },
    { "quotactl_fd", 443, EPERM, ALWAYS, "the machine is not ours" },

    /* Sockets: unix, inet, inet6 and netlink's routes, which getifaddrs() needs. Every other family is unused kernel code,
     * some of it a way out: vsock reaches the hypervisor, packet the network, and alg and netlink had holes. */
    { "socket", -1, EAFNOSUPPORT, SECCOMP_IS, 0, AF_AX25, "ax.25" },
    { "socket", -1, EAFNOSUPPORT, SECCOMP_IS, 0, AF_IPX, "ipx" },
    { "socket", -1, EAFNOSUPPORT, SECCOMP_IS, 0, AF_APPLETALK, "appletalk" },
    { "socket", -1, EAFNOSUPPORT, SECCOMP_IS, 0, AF_NETROM, "netrom" },
    { "socket", -1, EAFNOSUPPORT, SECCOMP_IS, 0, AF_BRIDGE, "bridge" },
    { "socket", -1, EAFNOSUPPORT, SECCOMP_IS, 0, AF_ATMPVC, "atm" },
    { "socket", -1, EAFNOSUPPORT, SECCOMP_IS, 0, AF_X25, "x.25" },
    { "socket", -1, EAFNOSUPPORT, SECCOMP_IS, 0, AF_ROSE, "rose" },
    { "socket", -1, EAFNOSUPPORT, SECCOMP_IS, 0, AF_DECnet, "decnet" },
    { "socket", -1, EAFNOSUPPORT, SECCOMP_IS, 0, AF_NETBEUI, "netbeui" },
    { "socket", -1, EAFNOSUPPORT, SECCOMP_IS, 0, AF_SECURITY, "a placeholder" },
    { "socket", -1, EAFNOSUPPORT, SECCOMP_IS, 0, AF_KEY, "ipsec keys" },
    { "socket", -1, EAFNOSUPPORT, SECCOMP_IS_AND_NEXT_NOT_ZERO, 0, AF_NETLINK, "netlink but NETLINK_ROUTE" },
    { "socket", -1, EAFNOSUPPORT, SECCOMP_FROM, 0, AF_PACKET, "packet, alg, vsock, bluetooth, tipc, xdp and all others" },
    { "socketpair", -1, EAFNOSUPPORT, SECCOMP_FROM, 0, AF_INET, "only unix has pairs that are of use" },

    /* Pipe buffers count per user on the host, over all sandboxes: with large ones an agent could use up its owner's. */
    { "fcntl", -1, EPERM, SECCOMP_IS_AND_NEXT_ABOVE, 1, PIPE_BYTES_MAX << 32 | F_SETPIPE_SZ, "no pipe larger than it comes" },

    /* Terminals: typing commands into our user's terminal. */
    { "ioctl", -1, EPERM, SECCOMP_IS, 1, TIOCSTI, "types into the terminal" },
    { "ioctl", -1, EPERM, SECCOMP_IS, 1, TIOCLINUX, "pastes into the console" },
};

const struct seccomp_rule *seccomp_rules(size_t *ret_count)
{
    *ret_count = ARRAY_LEN(rules);
    return rules;
}

static int expand_masked(const struct seccomp_rule *rule, uint64_t mask, uint64_t value, seccomp_tests_fn fn, void *cookie)
{
    return fn(rule, &(struct seccomp_test){ rule->arg, SECCOMP_MASKED_EQUAL, value, mask }, 1, cookie);
}

/* "Neither 0 nor -1": some bit differs from the highest. */
static int expand_mixed(const struct seccomp_rule *rule, seccomp_tests_fn fn, void *cookie)
{
    const uint64_t top = 1ULL << 31;
    int r = 0;

    for (uint64_t bit = 1; r >= 0 && bit < top; bit <<= 1) {
        r = expand_masked(rule, top | bit, bit, fn, cookie);
        if (r >= 0)
            r = expand_masked(rule, top | bit, top, fn, cookie);
    }
    return r;
}

int seccomp_rule_expand(const struct seccomp_rule *rule, seccomp_tests_fn fn, void *cookie)
{
    struct seccomp_test tests[] = { { rule->arg, SECCOMP_MASKED_EQUAL, (uint32_t) rule->value, 0xffffffff }, { .arg = 2 } };
    int r = 0;

    switch (rule->when) {
    case SECCOMP_ALWAYS:
        return fn(rule, NULL, 0, cookie);
    case SECCOMP_ANY_BIT:
        for (uint64_t bit = 1; bit && r >= 0; bit <<= 1)
            r = rule->value & bit ? expand_masked(rule, bit, bit, fn, cookie) : 0;
        return r;
    case SECCOMP_IS:
        return fn(rule, tests, 1, cookie);
    case SECCOMP_FROM:
        return fn(rule, &(struct seccomp_test){ rule->arg, SECCOMP_GREATER_OR_EQUAL, rule->value, 0 }, 1, cookie);
    case SECCOMP_IS_AND_NEXT_NOT_ZERO:
        tests[1].op = SECCOMP_NOT_EQUAL;
        return fn(rule, tests, 2, cookie);
    case SECCOMP_IS_AND_NEXT_ABOVE:
        tests[1].op = SECCOMP_GREATER;
        tests[1].value = rule->value >> 32;
        return fn(rule, tests, 2, cookie);
    case SECCOMP_MIXED:
        return expand_mixed(rule, fn, cookie);
    }
    return -EINVAL;
}
