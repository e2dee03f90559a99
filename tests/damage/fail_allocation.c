// SPDX-License-Identifier: BSD-3-Clause
// A library for LD_PRELOAD that makes one allocation of memory fail. It counts the allocations
// after the first call of mallopt, with which the program begins.
//
// FAIL_OBJECTS=A:B      only calls from code of these objects (parts of their paths; "program" is
// the
//                       program itself)
// FAIL_STACK=NUMBER     the first allocation with this hash of its stack fails; absent: none. The
//                       program must run without address-space randomisation (setarch -R).
// FAIL_BYTES=NUMBER     only allocations of at least this size
// FAIL_LOG=FILE         one hash per line: of all stacks, or of the one that failed

#define _GNU_SOURCE
#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <link.h>
#include <malloc.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

extern void* __libc_malloc(size_t);
extern void* __libc_calloc(size_t, size_t);
extern void* __libc_realloc(void*, size_t);
extern void* __libc_memalign(size_t, size_t);
extern int __libc_mallopt(int, int) __attribute__((weak));

enum { depth = 12, table_size = 1 << 18, most_ranges = 16 };

static struct { uintptr_t begin, end; } ranges[most_ranges];
static int range_count = 0;
static int is_active = 0;
static size_t least_bytes = 0;
static uint64_t wanted = 0;  // hash of the stack that fails; 0: none
static uint64_t seen[table_size];
static int log_file = -1;
static __thread int is_inside = 0;

static int is_named(const char* name) {
  char names[1024];
  const char* all = getenv("FAIL_OBJECTS");
  snprintf(names, sizeof names, "%s", all ? all : "program");
  for (char* each = strtok(names, ":"); each; each = strtok(NULL, ":")) {
    if (name[0] == '\0' ? strcmp(each, "program") == 0 : strstr(name, each) != NULL) return 1;
  }
  return 0;
}

static int note_object(struct dl_phdr_info* info, size_t size, void* data) {
  (void)size, (void)data;
  if (!is_named(info->dlpi_name)) return 0;
  for (int i = 0; i < info->dlpi_phnum && range_count < most_ranges; ++i) {
    const ElfW(Phdr)* header = &info->dlpi_phdr[i];
    if (header->p_type != PT_LOAD || !(header->p_flags & PF_X)) continue;
    ranges[range_count].begin = info->dlpi_addr + header->p_vaddr;
    ranges[range_count].end = ranges[range_count].begin + header->p_memsz;
    ++range_count;
  }
  return 0;
}

int mallopt(int parameter, int value) {
  if (!is_active) {
    void* frames[2];
    is_inside = 1;
    backtrace(frames, 2);  // loads its library now
    dl_iterate_phdr(note_object, NULL);
    const char* stack = getenv("FAIL_STACK");
    wanted = stack ? strtoull(stack, NULL, 16) : 0;
    const char* least = getenv("FAIL_BYTES");
    least_bytes = least ? strtoull(least, NULL, 10) : 0;
    const char* log = getenv("FAIL_LOG");
    if (log)
      log_file = (int)syscall(SYS_openat, AT_FDCWD, log, O_WRONLY | O_CREAT | O_APPEND, 0600);
    is_inside = 0;
    is_active = 1;
  }
  (void)parameter, (void)value;
  return 1;
}

static void note(uint64_t hash) {
  char line[32];
  const int length = snprintf(line, sizeof line, "%016llx\n", (unsigned long long)hash);
  if (log_file >= 0) syscall(SYS_write, log_file, line, length);
}

/// Returns whether the stack has not been seen before.
static int is_new(uint64_t hash) {
  for (uint64_t i = 0; i < table_size; ++i) {
    uint64_t* slot = &seen[(hash + i) % table_size];
    uint64_t expected = 0;
    if (__atomic_compare_exchange_n(slot, &expected, hash, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) {
      return 1;
    }
    if (expected == hash) return 0;
  }
  return 0;
}

/// Returns whether the allocation of `bytes` that `caller` requests must fail.
static int fails(const void* caller, size_t bytes) {
  if (!is_active || is_inside || bytes < least_bytes) return 0;
  int is_counted = 0;
  for (int i = 0; i < range_count; ++i) {
    is_counted |= (uintptr_t)caller >= ranges[i].begin && (uintptr_t)caller < ranges[i].end;
  }
  if (!is_counted) return 0;
  is_inside = 1;
  void* frames[depth];
  const int count = backtrace(frames, depth);
  is_inside = 0;
  uint64_t hash = 1469598103934665603u;
  for (int i = 1; i < count; ++i) hash = (hash ^ (uintptr_t)frames[i]) * 1099511628211u;
  if (hash == 0) hash = 1;
  if (wanted == 0) {
    if (is_new(hash)) note(hash);
    return 0;
  }
  if (hash != wanted) return 0;
  uint64_t expected = hash;
  if (!__atomic_compare_exchange_n(&wanted, &expected, 2, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) {
    return 0;
  }
  note(hash);
  return 1;
}

static void* refuse(void) {
  errno = ENOMEM;
  return NULL;
}

void* malloc(size_t bytes) {
  return fails(__builtin_return_address(0), bytes) ? refuse() : __libc_malloc(bytes);
}

void* calloc(size_t count, size_t bytes) {
  return fails(__builtin_return_address(0), count * bytes) ? refuse() : __libc_calloc(count, bytes);
}

void* realloc(void* old, size_t bytes) {
  return fails(__builtin_return_address(0), bytes) ? refuse() : __libc_realloc(old, bytes);
}

void* memalign(size_t alignment, size_t bytes) {
  return fails(__builtin_return_address(0), bytes) ? refuse() : __libc_memalign(alignment, bytes);
}

void* aligned_alloc(size_t alignment, size_t bytes) {
  return fails(__builtin_return_address(0), bytes) ? refuse() : __libc_memalign(alignment, bytes);
}

int posix_memalign(void** result, size_t alignment, size_t bytes) {
  if (fails(__builtin_return_address(0), bytes)) return ENOMEM;
  *result = __libc_memalign(alignment, bytes);
  return *result ? 0 : ENOMEM;
}
