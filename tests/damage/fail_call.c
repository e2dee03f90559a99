// SPDX-License-Identifier: BSD-3-Clause
// A library for LD_PRELOAD that makes one call on a file fail, for tests of full disks and
// defective file systems.
//
// FAIL_BELOW=DIRECTORY  counts calls on paths that contain this text
// FAIL_CALL=N           the Nth of them fails; 0: none
// FAIL_ERROR=NUMBER     with this errno; 0: a write stores only a part of its bytes
// FAIL_LOG=FILE         the name and the path of the call that failed are written to this file

#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static long remaining = -1;  // calls until the failure, -1: not read yet

static const char* below(void) { return getenv("FAIL_BELOW"); }

static int error_number(void) {
  const char* text = getenv("FAIL_ERROR");
  return text ? atoi(text) : EIO;
}

/// Returns whether this call on `path` must fail.
static int fails(const char* function, const char* path) {
  if (!below() || !path || !strstr(path, below())) return 0;
  if (remaining < 0) {
    const char* text = getenv("FAIL_CALL");
    remaining = text ? atol(text) : 0;
  }
  if (remaining <= 0 || __atomic_sub_fetch(&remaining, 1, __ATOMIC_SEQ_CST) != 0) return 0;
  const char* log = getenv("FAIL_LOG");
  if (log) {
    char line[4200];
    const int length = snprintf(line, sizeof line, "%s %s\n", function, path);
    const int file = (int)syscall(SYS_openat, AT_FDCWD, log, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    syscall(SYS_write, file, line, length);
    syscall(SYS_close, file);
  }
  return 1;
}

/// Returns whether this call on an open file must fail.
static int fails_on(const char* function, int file) {
  char link[64], path[4096];
  snprintf(link, sizeof link, "/proc/self/fd/%d", file);
  const long length = syscall(SYS_readlinkat, AT_FDCWD, link, path, sizeof path - 1);
  if (length <= 0) return 0;
  path[length] = '\0';
  return fails(function, path);
}

static int refuse(void) {
  errno = error_number() ? error_number() : EIO;
  return -1;
}

#define NEXT(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

#define DEFINE_OPEN(name)                          \
  int name(const char* path, int flags, ...) {     \
    va_list arguments;                             \
    va_start(arguments, flags);                    \
    const mode_t mode = va_arg(arguments, mode_t); \
    va_end(arguments);                             \
    if (fails("open", path)) return refuse();      \
    return NEXT(name)(path, flags, mode);          \
  }
DEFINE_OPEN(open)
DEFINE_OPEN(open64)

ssize_t write(int file, const void* bytes, size_t count) {
  if (!fails_on("write", file)) return syscall(SYS_write, file, bytes, count);
  return error_number() ? refuse() : syscall(SYS_write, file, bytes, (count + 1) / 2);
}

#define DEFINE_PWRITE(name)                                                                  \
  ssize_t name(int file, const void* bytes, size_t count, off_t offset) {                    \
    if (!fails_on("pwrite", file)) return syscall(SYS_pwrite64, file, bytes, count, offset); \
    return error_number() ? refuse()                                                         \
                          : syscall(SYS_pwrite64, file, bytes, (count + 1) / 2, offset);     \
  }
DEFINE_PWRITE(pwrite)
DEFINE_PWRITE(pwrite64)

#define DEFINE_PREAD(name)                                                                         \
  ssize_t name(int file, void* bytes, size_t count, off_t offset) {                                \
    if (!fails_on("pread", file)) return syscall(SYS_pread64, file, bytes, count, offset);         \
    return error_number() ? refuse() : syscall(SYS_pread64, file, bytes, (count + 1) / 2, offset); \
  }
DEFINE_PREAD(pread)
DEFINE_PREAD(pread64)

#define DEFINE_TRUNCATE(name)                         \
  int name(int file, off_t bytes) {                   \
    if (fails_on("ftruncate", file)) return refuse(); \
    return (int)syscall(SYS_ftruncate, file, bytes);  \
  }
DEFINE_TRUNCATE(ftruncate)
DEFINE_TRUNCATE(ftruncate64)

#define DEFINE_FALLOCATE(name)                                                           \
  int name(int file, off_t offset, off_t bytes) {                                        \
    if (fails_on("posix_fallocate", file)) return error_number() ? error_number() : EIO; \
    return NEXT(name)(file, offset, bytes);                                              \
  }
DEFINE_FALLOCATE(posix_fallocate)
DEFINE_FALLOCATE(posix_fallocate64)

ssize_t sendfile(int to, int from, off_t* offset, size_t count) {
  if (fails_on("sendfile", to)) return refuse();
  return syscall(SYS_sendfile, to, from, offset, count);
}

int fsync(int file) { return fails_on("fsync", file) ? refuse() : (int)syscall(SYS_fsync, file); }

// The file is closed, as Linux does if close fails.
int close(int file) {
  const int failed = fails_on("close", file);
  const int result = (int)syscall(SYS_close, file);
  return failed ? refuse() : result;
}

int flock(int file, int operation) {
  return fails_on("flock", file) ? refuse() : (int)syscall(SYS_flock, file, operation);
}

int rename(const char* from, const char* to) {
  if (fails("rename", to)) return refuse();
  return (int)syscall(SYS_renameat, AT_FDCWD, from, AT_FDCWD, to);
}

int renameat2(int from_file, const char* from, int to_file, const char* to, unsigned flags) {
  if (fails("renameat2", to)) return refuse();
  return (int)syscall(SYS_renameat2, from_file, from, to_file, to, flags);
}

int link(const char* from, const char* to) {
  if (fails("link", to)) return refuse();
  return (int)syscall(SYS_linkat, AT_FDCWD, from, AT_FDCWD, to, 0);
}

int unlink(const char* path) {
  if (fails("unlink", path)) return refuse();
  return (int)syscall(SYS_unlinkat, AT_FDCWD, path, 0);
}

int remove(const char* path) { return fails("remove", path) ? refuse() : NEXT(remove)(path); }

int mkdir(const char* path, mode_t mode) {
  return fails("mkdir", path) ? refuse() : (int)syscall(SYS_mkdirat, AT_FDCWD, path, mode);
}

DIR* opendir(const char* path) {
  if (!fails("opendir", path)) return NEXT(opendir)(path);
  refuse();
  return NULL;
}

struct dirent* readdir(DIR* directory) {
  if (!fails_on("readdir", dirfd(directory))) return NEXT(readdir)(directory);
  refuse();
  return NULL;
}

#define DEFINE_STAT(name)                                            \
  int name(const char* path, struct stat* status) {                  \
    return fails(#name, path) ? refuse() : NEXT(name)(path, status); \
  }
DEFINE_STAT(stat)
DEFINE_STAT(lstat)

int fstat(int file, struct stat* status) {
  return fails_on("fstat", file) ? refuse()
                                 : (int)syscall(SYS_newfstatat, file, "", status, 0x1000);
}
