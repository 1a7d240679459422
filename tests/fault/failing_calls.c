/* SPDX-License-Identifier: Apache-2.0
 * A library for LD_PRELOAD: the n-th call of one kind fails, in one program, from its main() on.
 *
 *   FAULT_PROGRAM  base name of the program; others are left alone
 *   FAULT_CALL     open, read, write, fsync, rename, mmap, spawn, malloc
 *   FAULT_NTH      1 for the first call
 *   FAULT_FOR_GOOD 1: every call from the n-th on
 *   FAULT_MARK     a file that is made when the n-th call comes: without it there were fewer calls
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { kNone, kOpen, kRead, kWrite, kFsync, kRename, kMmap, kSpawn, kMalloc };
static const char* const kNames[] = {"",       "open", "read",  "write", "fsync",
                                     "rename", "mmap", "spawn", "malloc"};

static int failing = kNone;
static long nth = 0;
static int for_good = 0;
static char mark[4096];
static atomic_long calls = 0;

/* By system call: the functions of the C library are the ones that fail. */
static void make_mark(void) {
  const long file = syscall(SYS_openat, AT_FDCWD, mark, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
  if (file >= 0) syscall(SYS_close, file);
}

static int fails(int call, int error) {
  if (call != failing) return 0;
  const long number = atomic_fetch_add(&calls, 1) + 1;
  if (number == nth) make_mark();
  if (for_good ? number < nth : number != nth) return 0;
  errno = error;
  return 1;
}

static void read_environment(void) {
  const char* program = getenv("FAULT_PROGRAM");
  const char* call = getenv("FAULT_CALL");
  const char* number = getenv("FAULT_NTH");
  const char* path = getenv("FAULT_MARK");
  if (!program || !call || !number || !path || strcmp(program, program_invocation_short_name) != 0)
    return;
  nth = atol(number);
  for_good = getenv("FAULT_FOR_GOOD") != NULL;
  snprintf(mark, sizeof mark, "%s", path);
  for (int i = kOpen; i <= kMalloc; ++i) {
    if (strcmp(call, kNames[i]) == 0) failing = i;
  }
}

static int (*real_main)(int, char**, char**);
static int counted_main(int argc, char** argv, char** variables) {
  read_environment();
  return real_main(argc, argv, variables);
}
int __libc_start_main(int (*program)(int, char**, char**), int argc, char** argv,
                      void (*init)(void), void (*fini)(void), void (*rtld_fini)(void),
                      void* stack_end) {
  int (*real)(int (*)(int, char**, char**), int, char**, void (*)(void), void (*)(void),
              void (*)(void), void*);
  *(void**)&real = dlsym(RTLD_NEXT, "__libc_start_main");
  real_main = program;
  return real(counted_main, argc, argv, init, fini, rtld_fini, stack_end);
}

/* The next definition of a function; dlsym itself may call malloc, which has one of its own. */
#define NEXT(name)               \
  static __typeof__(&name) next; \
  if (next == NULL) *(void**)&next = dlsym(RTLD_NEXT, #name)

#define OPEN_MODE(mode, flags)           \
  mode_t mode = 0;                       \
  if ((flags) & (O_CREAT | O_TMPFILE)) { \
    va_list rest;                        \
    va_start(rest, flags);               \
    mode = va_arg(rest, mode_t);         \
    va_end(rest);                        \
  }

int open(const char* path, int flags, ...) {
  NEXT(open);
  OPEN_MODE(mode, flags)
  return fails(kOpen, EMFILE) ? -1 : next(path, flags, mode);
}
int open64(const char* path, int flags, ...) {
  NEXT(open64);
  OPEN_MODE(mode, flags)
  return fails(kOpen, EMFILE) ? -1 : next(path, flags, mode);
}
int openat(int folder, const char* path, int flags, ...) {
  NEXT(openat);
  OPEN_MODE(mode, flags)
  return fails(kOpen, EMFILE) ? -1 : next(folder, path, flags, mode);
}
int openat64(int folder, const char* path, int flags, ...) {
  NEXT(openat64);
  OPEN_MODE(mode, flags)
  return fails(kOpen, EMFILE) ? -1 : next(folder, path, flags, mode);
}
FILE* fopen(const char* path, const char* mode) {
  NEXT(fopen);
  return fails(kOpen, EMFILE) ? NULL : next(path, mode);
}
FILE* fopen64(const char* path, const char* mode) {
  NEXT(fopen64);
  return fails(kOpen, EMFILE) ? NULL : next(path, mode);
}
ssize_t read(int file, void* bytes, size_t count) {
  NEXT(read);
  return fails(kRead, EIO) ? -1 : next(file, bytes, count);
}
ssize_t pread64(int file, void* bytes, size_t count, off64_t at) {
  NEXT(pread64);
  return fails(kRead, EIO) ? -1 : next(file, bytes, count, at);
}
size_t fread(void* bytes, size_t size, size_t count, FILE* file) {
  NEXT(fread);
  return fails(kRead, EIO) ? 0 : next(bytes, size, count, file);
}
ssize_t write(int file, const void* bytes, size_t count) {
  NEXT(write);
  return fails(kWrite, ENOSPC) ? -1 : next(file, bytes, count);
}
ssize_t send(int file, const void* bytes, size_t count, int flags) {
  NEXT(send);
  return fails(kWrite, ENOBUFS) ? -1 : next(file, bytes, count, flags);
}
/* Not of stderr: then there is no sentence to look for. */
size_t fwrite(const void* bytes, size_t size, size_t count, FILE* file) {
  NEXT(fwrite);
  return file != stderr && fails(kWrite, ENOSPC) ? 0 : next(bytes, size, count, file);
}
int fclose(FILE* file) {
  NEXT(fclose);
  const int lost = fails(kWrite, ENOSPC);
  const int closed = next(file);
  if (lost) errno = ENOSPC;
  return lost ? EOF : closed;
}
int fsync(int file) {
  NEXT(fsync);
  return fails(kFsync, EIO) ? -1 : next(file);
}
int rename(const char* from, const char* to) {
  NEXT(rename);
  return fails(kRename, ENOSPC) ? -1 : next(from, to);
}
int renameat(int from_folder, const char* from, int to_folder, const char* to) {
  NEXT(renameat);
  return fails(kRename, ENOSPC) ? -1 : next(from_folder, from, to_folder, to);
}
void* mmap(void* at, size_t bytes, int protection, int flags, int file, off_t offset) {
  if (fails(kMmap, ENOMEM)) return MAP_FAILED;
  return (void*)syscall(SYS_mmap, at, bytes, protection, flags, file, offset);
}
void* mmap64(void* at, size_t bytes, int protection, int flags, int file, off64_t offset) {
  if (fails(kMmap, ENOMEM)) return MAP_FAILED;
  return (void*)syscall(SYS_mmap, at, bytes, protection, flags, file, offset);
}
int posix_spawn(pid_t* process, const char* path, const posix_spawn_file_actions_t* files,
                const posix_spawnattr_t* attributes, char* const arguments[],
                char* const variables[]) {
  NEXT(posix_spawn);
  return fails(kSpawn, EAGAIN) ? EAGAIN
                               : next(process, path, files, attributes, arguments, variables);
}
pid_t fork(void) {
  NEXT(fork);
  return fails(kSpawn, EAGAIN) ? -1 : next();
}

void* __libc_malloc(size_t);
void* __libc_calloc(size_t, size_t);
void* __libc_realloc(void*, size_t);
void* malloc(size_t bytes) { return fails(kMalloc, ENOMEM) ? NULL : __libc_malloc(bytes); }
void* calloc(size_t count, size_t bytes) {
  return fails(kMalloc, ENOMEM) ? NULL : __libc_calloc(count, bytes);
}
void* realloc(void* old, size_t bytes) {
  return fails(kMalloc, ENOMEM) ? NULL : __libc_realloc(old, bytes);
}
