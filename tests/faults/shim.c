// Stands before the C library's calls on files (LD_PRELOAD) and makes one of them fail, or ends, stops or signals the
// process there. Only files whose path matches a pattern count.
//
//   MRMF_FAULT="call=write,match=/tmp/case/*,nth=3,action=fail,errno=28"
//     call    write: write, pwrite, writev, pwritev and their 64-bit names; sync: fsync, fdatasync; open: for writing;
//             openr: for reading; close: of a file opened for writing; rename: rename, renameat, renameat2, link,
//             linkat; truncate: ftruncate, fallocate; mkdir; unlink; read: read, pread, readv, preadv
//     match   fnmatch pattern of the whole path; of a rename's source or target
//     nth     from 1, counted for each process
//     times   how many calls in a row, from the n-th on; 0: all of them; 1 unless given
//     action  fail (with errno), short (half of the bytes), change (a bit of what is written), signal (errno is its
//             number; the call is made afterwards)
//     rank    of MPI; any unless given
//   MRMF_FAULT_LOG=FILE  gets a line "rank call path" for each call that matches, and "! rank call path" for the fault.
//   MRMF_FAULT_PROGRAM=NAME  the shim sleeps in programs of other names (mpirun, python3).
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

enum action { FAIL, SHORT, CHANGE, SIGNAL };

static struct {
  bool awake;
  char call[16], match[PATH_MAX];
  long nth, times;
  enum action action;
  int error, log, rank;
} fault = {.log = -1};
static atomic_long calls;

// The C library's own function of that name.
#define REAL(name) ((__typeof__(&name))real(#name))
static void* real(const char* name) {
  void* found = dlsym(RTLD_NEXT, name);
  if (found == NULL) abort();
  return found;
}

static void set(const char* name, const char* value) {
  if (strcmp(name, "call") == 0) snprintf(fault.call, sizeof fault.call, "%s", value);
  if (strcmp(name, "match") == 0) snprintf(fault.match, sizeof fault.match, "%s", value);
  if (strcmp(name, "nth") == 0) fault.nth = atol(value);
  if (strcmp(name, "times") == 0) fault.times = atol(value);
  if (strcmp(name, "errno") == 0) fault.error = atoi(value);
  if (strcmp(name, "action") == 0)
    fault.action = strcmp(value, "short") == 0    ? SHORT
                   : strcmp(value, "change") == 0 ? CHANGE
                   : strcmp(value, "signal") == 0 ? SIGNAL
                                                  : FAIL;
}

__attribute__((constructor)) static void start(void) {
  const char* program = getenv("MRMF_FAULT_PROGRAM");
  if (program != NULL && strcmp(program, program_invocation_short_name) != 0) return;
  const char* text = getenv("MRMF_FAULT");
  if (text == NULL) return;
  const char* rank = getenv("OMPI_COMM_WORLD_RANK");
  fault.rank = rank == NULL ? 0 : atoi(rank);
  fault.times = 1;
  char copy[PATH_MAX + 256], *rest = NULL;
  snprintf(copy, sizeof copy, "%s", text);
  int only_rank = -1;
  for (char* pair = strtok_r(copy, ",", &rest); pair != NULL; pair = strtok_r(NULL, ",", &rest)) {
    char* equals = strchr(pair, '=');
    if (equals == NULL) continue;
    *equals = 0;
    set(pair, equals + 1);
    if (strcmp(pair, "rank") == 0) only_rank = atoi(equals + 1);
  }
  if (only_rank >= 0 && only_rank != fault.rank) fault.nth = -1;  // counts, and never fails
  const char* log = getenv("MRMF_FAULT_LOG");
  if (log != NULL) {
    const int descriptor = REAL(open)(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    fault.log = fcntl(descriptor, F_DUPFD_CLOEXEC, 200);  // out of the way of descriptors that a test counts
    if (fault.log < 0) fault.log = descriptor; else REAL(close)(descriptor);
  }
  fault.awake = true;
}

static void note(const char* mark, const char* call, const char* path) {
  if (fault.log < 0) return;
  char line[PATH_MAX + 64];
  const int size = snprintf(line, sizeof line, "%s%d %s %s\n", mark, fault.rank, call, path);
  if (size > 0 && REAL(write)(fault.log, line, (size_t)size) < 0) abort();
}

// Is it this call's turn? Before the call is made. A signal is sent here.
static bool turn(const char* call, const char* path) {
  if (fnmatch(fault.match, path, 0) != 0) return false;
  note("", call, path);
  if (strcmp(call, fault.call) != 0) return false;
  const long number = atomic_fetch_add(&calls, 1) + 1;
  if (fault.nth <= 0 || number < fault.nth || (fault.times > 0 && number >= fault.nth + fault.times)) return false;
  note("! ", call, path);
  if (fault.action == SIGNAL) {
    kill(getpid(), fault.error);
    return false;
  }
  if (fault.action == FAIL) errno = fault.error;
  return true;
}

static bool of_descriptor(const char* call, int descriptor) {
  if (!fault.awake || descriptor == fault.log) return false;
  const int saved = errno;
  char link[64], path[PATH_MAX];
  snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
  const ssize_t size = readlink(link, path, sizeof path - 1);
  if (size <= 0 || path[0] != '/') {
    errno = saved;
    return false;
  }
  path[size] = 0;
  errno = saved;
  return turn(call, path);
}

static bool of_name(const char* call, int folder, const char* name) {
  if (!fault.awake || name == NULL) return false;
  const int saved = errno;
  char path[2 * PATH_MAX] = "", link[64];
  if (name[0] != '/') {
    if (folder == AT_FDCWD) snprintf(link, sizeof link, "/proc/self/cwd");
    else snprintf(link, sizeof link, "/proc/self/fd/%d", folder);
    const ssize_t size = readlink(link, path, PATH_MAX - 1);
    if (size <= 0) return false;
    path[size] = '/';
    path[size + 1] = 0;
  }
  strncat(path, name, PATH_MAX - 1);
  errno = saved;
  return turn(call, path);
}

static bool fails(bool now) { return now && fault.action == FAIL; }

// How many bytes of `size` go through.
static size_t shorter(bool now, size_t size) { return now && fault.action == SHORT && size > 1 ? size / 2 : size; }

// What is written, or a copy with another bit.
static const void* changed(bool now, const void* bytes, size_t size) {
  if (!now || fault.action != CHANGE || size == 0) return bytes;
  char* copy = malloc(size);  // as long as the process
  if (copy == NULL) return bytes;
  memcpy(copy, bytes, size);
  copy[size / 2] ^= 4;
  return copy;
}

#define BYTES(name, call, pointer, ...)                                       \
  {                                                                           \
    const bool now = of_descriptor(call, fd);                                 \
    return fails(now) ? -1 : REAL(name)(fd, pointer, shorter(now, size), ##__VA_ARGS__); \
  }
ssize_t write(int fd, const void* bytes, size_t size) BYTES(write, "write", changed(now, bytes, size))
ssize_t pwrite(int fd, const void* bytes, size_t size, off_t at) BYTES(pwrite, "write", changed(now, bytes, size), at)
ssize_t pwrite64(int fd, const void* bytes, size_t size, off64_t at) BYTES(pwrite64, "write", changed(now, bytes, size), at)
ssize_t read(int fd, void* bytes, size_t size) BYTES(read, "read", bytes)
ssize_t pread(int fd, void* bytes, size_t size, off_t at) BYTES(pread, "read", bytes, at)
ssize_t pread64(int fd, void* bytes, size_t size, off64_t at) BYTES(pread64, "read", bytes, at)

// A short one of many pieces takes the first piece alone.
#define PIECES(name, call, ...)                                               \
  {                                                                           \
    const bool now = of_descriptor(call, fd);                                 \
    return fails(now) ? -1 : REAL(name)(fd, pieces, (int)shorter(now, (size_t)count), ##__VA_ARGS__); \
  }
ssize_t writev(int fd, const struct iovec* pieces, int count) PIECES(writev, "write")
ssize_t pwritev(int fd, const struct iovec* pieces, int count, off_t at) PIECES(pwritev, "write", at)
ssize_t pwritev64(int fd, const struct iovec* pieces, int count, off64_t at) PIECES(pwritev64, "write", at)
ssize_t readv(int fd, const struct iovec* pieces, int count) PIECES(readv, "read")
ssize_t preadv(int fd, const struct iovec* pieces, int count, off_t at) PIECES(preadv, "read", at)
ssize_t preadv64(int fd, const struct iovec* pieces, int count, off64_t at) PIECES(preadv64, "read", at)

int fsync(int fd) { return fails(of_descriptor("sync", fd)) ? -1 : REAL(fsync)(fd); }
int fdatasync(int fd) { return fails(of_descriptor("sync", fd)) ? -1 : REAL(fdatasync)(fd); }
int ftruncate(int fd, off_t size) { return fails(of_descriptor("truncate", fd)) ? -1 : REAL(ftruncate)(fd, size); }
int ftruncate64(int fd, off64_t size) { return fails(of_descriptor("truncate", fd)) ? -1 : REAL(ftruncate64)(fd, size); }
int fallocate(int fd, int mode, off_t at, off_t size) {
  return fails(of_descriptor("truncate", fd)) ? -1 : REAL(fallocate)(fd, mode, at, size);
}
int fallocate64(int fd, int mode, off64_t at, off64_t size) {
  return fails(of_descriptor("truncate", fd)) ? -1 : REAL(fallocate64)(fd, mode, at, size);
}
// These return the error.
int posix_fallocate(int fd, off_t at, off_t size) {
  return fails(of_descriptor("truncate", fd)) ? fault.error : REAL(posix_fallocate)(fd, at, size);
}
int posix_fallocate64(int fd, off64_t at, off64_t size) {
  return fails(of_descriptor("truncate", fd)) ? fault.error : REAL(posix_fallocate64)(fd, at, size);
}

static bool for_writing(int fd) {
  const int saved = errno, flags = fcntl(fd, F_GETFL);
  errno = saved;
  return flags >= 0 && (flags & O_ACCMODE) != O_RDONLY;
}

// As on NFS: the descriptor is closed, and the error is of what was written before.
int close(int fd) {
  const bool failing = fault.awake && for_writing(fd) && fails(of_descriptor("close", fd));
  const int code = REAL(close)(fd);
  if (!failing) return code;
  errno = fault.error;
  return -1;
}
int fclose(FILE* file) {
  const int fd = fileno(file);
  const bool failing = fault.awake && fd >= 0 && for_writing(fd) && fails(of_descriptor("close", fd));
  const int code = REAL(fclose)(file);
  if (!failing) return code;
  errno = fault.error;
  return EOF;
}

static const char* opening(int flags) {
  return (flags & O_ACCMODE) == O_RDONLY && !(flags & O_CREAT) ? "openr" : "open";
}
#define MODE(flags)                             \
  mode_t mode = 0;                              \
  if ((flags) & (O_CREAT | __O_TMPFILE)) {      \
    va_list rest;                               \
    va_start(rest, flags);                      \
    mode = va_arg(rest, mode_t);                \
    va_end(rest);                               \
  }
int open(const char* path, int flags, ...) {
  MODE(flags)
  return fails(of_name(opening(flags), AT_FDCWD, path)) ? -1 : REAL(open)(path, flags, mode);
}
int open64(const char* path, int flags, ...) {
  MODE(flags)
  return fails(of_name(opening(flags), AT_FDCWD, path)) ? -1 : REAL(open64)(path, flags, mode);
}
int openat(int folder, const char* path, int flags, ...) {
  MODE(flags)
  return fails(of_name(opening(flags), folder, path)) ? -1 : REAL(openat)(folder, path, flags, mode);
}
int openat64(int folder, const char* path, int flags, ...) {
  MODE(flags)
  return fails(of_name(opening(flags), folder, path)) ? -1 : REAL(openat64)(folder, path, flags, mode);
}
static const char* stream_opening(const char* mode) {
  return mode[0] == 'r' && strchr(mode, '+') == NULL ? "openr" : "open";
}
FILE* fopen(const char* path, const char* mode) {
  return fails(of_name(stream_opening(mode), AT_FDCWD, path)) ? NULL : REAL(fopen)(path, mode);
}
FILE* fopen64(const char* path, const char* mode) {
  return fails(of_name(stream_opening(mode), AT_FDCWD, path)) ? NULL : REAL(fopen64)(path, mode);
}

int rename(const char* from, const char* to) {
  return fails(of_name("rename", AT_FDCWD, to)) ? -1 : REAL(rename)(from, to);
}
int renameat(int folder, const char* from, int other, const char* to) {
  return fails(of_name("rename", other, to)) ? -1 : REAL(renameat)(folder, from, other, to);
}
int renameat2(int folder, const char* from, int other, const char* to, unsigned flags) {
  return fails(of_name("rename", other, to)) ? -1 : REAL(renameat2)(folder, from, other, to, flags);
}
int link(const char* from, const char* to) { return fails(of_name("rename", AT_FDCWD, to)) ? -1 : REAL(link)(from, to); }
int linkat(int folder, const char* from, int other, const char* to, int flags) {
  return fails(of_name("rename", other, to)) ? -1 : REAL(linkat)(folder, from, other, to, flags);
}
int mkdir(const char* path, mode_t mode) {
  return fails(of_name("mkdir", AT_FDCWD, path)) ? -1 : REAL(mkdir)(path, mode);
}
int mkdirat(int folder, const char* path, mode_t mode) {
  return fails(of_name("mkdir", folder, path)) ? -1 : REAL(mkdirat)(folder, path, mode);
}
int unlink(const char* path) { return fails(of_name("unlink", AT_FDCWD, path)) ? -1 : REAL(unlink)(path); }
int unlinkat(int folder, const char* path, int flags) {
  return fails(of_name("unlink", folder, path)) ? -1 : REAL(unlinkat)(folder, path, flags);
}
