/*
 * The bodies of the operations. Each begins with a guard, does its work, returns 0 (or a count) or -errno, and fills its
 * outputs. None of them replies, so tests can call them without a mount. `who` is the calling process.
 */
#pragma once

#include <sys/statvfs.h>

#include "fence/fence_int.h"

/* Names. A look-up that finds nothing succeeds with answer->inode NULL, which the kernel caches too. An inode in an answer
 * carries a reference of the kernel's, which FORGET returns. */
int op_lookup(struct fence *f, const struct op_caller *who, struct inode *dir, const char *name, struct entry_answer *answer);
int op_mknod(struct fence *f, const struct op_caller *who, struct inode *dir, const char *name, mode_t mode,
             struct entry_answer *answer);
int op_mkdir(struct fence *f, const struct op_caller *who, struct inode *dir, const char *name, mode_t mode,
             struct entry_answer *answer);
int op_symlink(struct fence *f, const struct op_caller *who, struct inode *dir, const char *name, const char *target,
               struct entry_answer *answer);
int op_link(struct fence *f, const struct op_caller *who, struct inode *inode, struct inode *dir, const char *name,
            struct entry_answer *answer);
int op_unlink(struct fence *f, const struct op_caller *who, struct inode *dir, const char *name);
int op_rmdir(struct fence *f, const struct op_caller *who, struct inode *dir, const char *name);
int op_rename(struct fence *f, const struct op_caller *who, struct inode *from_dir, const char *from, struct inode *to_dir,
              const char *to, unsigned flags);

/* Attributes. */
enum { /* bits of `what` in op_setattr(), numbered as in FUSE */
       SETATTR_MODE = 1,
       SETATTR_UID = 2,
       SETATTR_GID = 4,
       SETATTR_SIZE = 8,
       SETATTR_ATIME = 16,
       SETATTR_MTIME = 32,
       SETATTR_ATIME_NOW = 128,
       SETATTR_MTIME_NOW = 256,
};

int op_getattr(struct fence *f, const struct op_caller *who, struct inode *inode, struct entry_answer *answer);
int op_setattr(struct fence *f, const struct op_caller *who, struct inode *inode, const struct stat *to, int what,
               struct entry_answer *answer);
int op_access(struct fence *f, const struct op_caller *who, struct inode *inode, int mask);
int op_statfs(struct fence *f, const struct op_caller *who, struct statvfs *ret_st);
int op_readlink(struct fence *f, const struct op_caller *who, struct inode *inode, char out[PATH_MAX]);
ssize_t op_getxattr(struct fence *f, const struct op_caller *who, struct inode *inode, const char *name, void *value,
                    size_t size);
ssize_t op_listxattr(struct fence *f, const struct op_caller *who, struct inode *inode, char *list, size_t size);
int op_setxattr(struct fence *f, const struct op_caller *who, struct inode *inode, const char *name, const void *value,
                size_t size, int flags);
int op_removexattr(struct fence *f, const struct op_caller *who, struct inode *inode, const char *name);

/* Content. OPEN arrives only with the passthrough data path. op_open() returns the id of the backing file, 0 for none, or
 * -errno. */
int op_open(struct fence *f, const struct op_caller *who, struct inode *inode, int flags);
void op_release(struct fence *f, struct inode *inode);
ssize_t op_read(struct fence *f, const struct op_caller *who, struct inode *inode, void *bytes, size_t size, off_t offset);

/* Writes the bytes to the descriptor, from memory or from another file. */
typedef ssize_t (*write_fn)(int fd, size_t size, off_t offset, void *cookie);
ssize_t op_write(struct fence *f, const struct op_caller *who, struct inode *inode, size_t size, off_t offset,
                 write_fn write_to, void *cookie);
int op_fsync(struct fence *f, const struct op_caller *who, struct inode *inode, bool data_only);
int op_fallocate(struct fence *f, const struct op_caller *who, struct inode *inode, int mode, off_t offset, off_t length);
int op_lseek(struct fence *f, const struct op_caller *who, struct inode *inode, off_t offset, int whence, off_t *ret_offset);
ssize_t op_copy_range(struct fence *f, const struct op_caller *who, struct inode *from, off_t from_offset, struct inode *to,
                      off_t to_offset, size_t size);

/* Directories. op_readdir() calls `add` for one entry after the other until it returns false, when the reply is full. With
 * `with_attrs` each entry comes with an answer; once added, the inode in it carries a reference of the kernel's. */
typedef bool (*dir_add_fn)(const char *name, uint64_t ino, uint8_t type, uint64_t cookie, const struct entry_answer *answer,
                           void *user);
int op_readdir(struct fence *f, const struct op_caller *who, struct inode *dir, uint64_t after, bool with_attrs, dir_add_fn add,
               void *user);
