#include "supervisor/restrict.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/sanitized.h"

#if defined(__x86_64__)
#define OUR_ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define OUR_ARCH AUDIT_ARCH_AARCH64
#endif

/* Some distributions' headers are older than these calls. The numbers are the same on all architectures. */
#ifndef SYS_mount_setattr
#define SYS_mount_setattr 442
#endif
#ifndef SYS_pidfd_getfd
#define SYS_pidfd_getfd 438
#endif

#define LOAD(field) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
#define RETURN(action) BPF_STMT(BPF_RET | BPF_K, (action))
/* Each check is its own pair, so that no jump needs an offset. */
#define REFUSE(number) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (number), 0, 1), RETURN(SECCOMP_RET_ERRNO | EPERM)

int restrict_all_threads(void)
{
#ifdef OUR_ARCH
    static struct sock_filter program[] = {
        LOAD(arch),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, OUR_ARCH, 1, 0),
        RETURN(SECCOMP_RET_KILL_PROCESS),
        LOAD(nr),
        /* programs and processes */
        REFUSE(SYS_execve),
        REFUSE(SYS_execveat),
#ifndef SANITIZED_ADDRESS /* the leak checker traces our threads */
        REFUSE(SYS_ptrace),
#endif
        REFUSE(SYS_process_vm_readv),
        REFUSE(SYS_process_vm_writev),
        REFUSE(SYS_pidfd_getfd),
        /* mounts and namespaces, but not umount2, which the fence needs */
        REFUSE(SYS_mount),
        REFUSE(SYS_move_mount),
        REFUSE(SYS_open_tree),
        REFUSE(SYS_fsopen),
        REFUSE(SYS_fsconfig),
        REFUSE(SYS_fsmount),
        REFUSE(SYS_fspick),
        REFUSE(SYS_mount_setattr),
        REFUSE(SYS_pivot_root),
        REFUSE(SYS_chroot),
        REFUSE(SYS_setns),
        REFUSE(SYS_unshare),
        REFUSE(SYS_open_by_handle_at),
        /* the kernel */
        REFUSE(SYS_init_module),
        REFUSE(SYS_finit_module),
        REFUSE(SYS_delete_module),
        REFUSE(SYS_kexec_load),
        REFUSE(SYS_bpf),
        REFUSE(SYS_perf_event_open),
        REFUSE(SYS_add_key),
        REFUSE(SYS_request_key),
        REFUSE(SYS_keyctl),
        REFUSE(SYS_userfaultfd),
        REFUSE(SYS_io_uring_setup),
        REFUSE(SYS_reboot),
        REFUSE(SYS_swapon),
        /* other users */
        REFUSE(SYS_setuid),
        REFUSE(SYS_setresuid),
        REFUSE(SYS_setreuid),
        REFUSE(SYS_setgid),
        REFUSE(SYS_setgroups),
        /* no socket but a unix one */
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_socket, 0, 3),
        LOAD(args[0]),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AF_UNIX, 1, 0),
        RETURN(SECCOMP_RET_ERRNO | EPERM),
        RETURN(SECCOMP_RET_ALLOW),
    };
    struct sock_fprog filter = { .len = ARRAY_LEN(program), .filter = program };

    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        return -errno;
    long r = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &filter);
    return r < 0 ? -errno : r > 0 ? -EBUSY : 0;
#else
    return -ENOTSUP;
#endif
}
