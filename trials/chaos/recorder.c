/* Records, in one order, what processes do to the files of one folder and what they send.
 *
 * LD_PRELOAD this; POWER_FOLDER names the folder, POWER_LOG the file to append to. One lock of all
 * threads and one of all processes is held around each call and its record, so the order of the
 * records is the order of the effects: a sync is recorded once it has returned, an answer before it
 * leaves. Memory maps are not recorded:
 * SQLite maps only its -shm file, which it builds anew after a crash.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define MOST_FILES 4096
static pthread_mutex_t turn = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
static int out = -1, depth = 0;
static char folder[PATH_MAX];
static uint8_t ours[MOST_FILES];

#define REAL(name) ((__typeof__(&name))real(#name))
static void *real(const char *name) { return dlsym(RTLD_NEXT, name); }

static void begin(void) {
  pthread_mutex_lock(&turn);
  if (out == -1) {
    const char *log = getenv("POWER_LOG"), *where = getenv("POWER_FOLDER");
    out = -2;
    if (log && where && realpath(where, folder))
      out = syscall(SYS_openat, AT_FDCWD, log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  }
  if (out >= 0 && !depth++) flock(out, LOCK_EX);
}
static void end(void) {
  if (out >= 0 && !--depth) flock(out, LOCK_UN);
  pthread_mutex_unlock(&turn);
}

static void record(char kind, uint32_t fd, uint64_t at, const void *data, uint32_t size) {
  if (out < 0) return;
  char head[21];
  uint64_t handle = (uint64_t)getpid() << 32 | fd;
  head[0] = kind;
  memcpy(head + 1, &handle, 8);
  memcpy(head + 9, &at, 8);
  memcpy(head + 17, &size, 4);
  syscall(SYS_write, out, head, sizeof head);
  if (size) syscall(SYS_write, out, data, size);
}

static int inside(const char *path, char *whole) {
  if (out < 0) return 0;
  if (path[0] == '/') snprintf(whole, PATH_MAX, "%s", path);
  else {
    char here[PATH_MAX];
    if (!getcwd(here, sizeof here)) return 0;
    if (snprintf(whole, PATH_MAX, "%s/%s", here, path) >= PATH_MAX) return 0;
  }
  size_t n = strlen(folder), m = strlen(whole);
  return !strncmp(whole, folder, n) && (whole[n] == '/' || !whole[n]) &&
         !(m > 4 && !strcmp(whole + m - 4, "-shm"));
}
static int known(int fd) { return fd >= 0 && fd < MOST_FILES && ours[fd]; }

static int opened(const char *name, int at, const char *path, int flags, mode_t mode) {
  begin();
  char whole[PATH_MAX];
  int mine = at == AT_FDCWD && inside(path, whole);
  struct stat before;
  int fresh = mine && stat(whole, &before) != 0;
  int fd = ((int (*)(int, const char *, int, ...))real(name))(at, path, flags, mode);
  int error = errno;
  if (fd >= 0 && fd < MOST_FILES) ours[fd] = mine;
  if (mine && fd >= 0) {
    record('O', fd, (fresh ? 1 : 0) | ((flags & O_TRUNC) ? 2 : 0), whole, strlen(whole));
  }
  end();
  errno = error;
  return fd;
}
static mode_t mode_of(int flags, va_list more) {
  return (flags & (O_CREAT | O_TMPFILE)) ? va_arg(more, mode_t) : 0;
}
int open(const char *path, int flags, ...) {
  va_list more; va_start(more, flags); mode_t mode = mode_of(flags, more); va_end(more);
  return opened("openat", AT_FDCWD, path, flags, mode);
}
int open64(const char *path, int flags, ...) {
  va_list more; va_start(more, flags); mode_t mode = mode_of(flags, more); va_end(more);
  return opened("openat64", AT_FDCWD, path, flags, mode);
}
int openat(int at, const char *path, int flags, ...) {
  va_list more; va_start(more, flags); mode_t mode = mode_of(flags, more); va_end(more);
  return opened("openat", at, path, flags, mode);
}
int openat64(int at, const char *path, int flags, ...) {
  va_list more; va_start(more, flags); mode_t mode = mode_of(flags, more); va_end(more);
  return opened("openat64", at, path, flags, mode);
}
int close(int fd) {
  begin();
  if (known(fd)) { record('C', fd, 0, NULL, 0); ours[fd] = 0; }
  int done = REAL(close)(fd);
  end();
  return done;
}
static ssize_t written(int fd, const void *data, ssize_t done, off_t at) {
  if (done > 0 && known(fd)) record('W', fd, at, data, done);
  return done;
}
ssize_t pwrite(int fd, const void *data, size_t size, off_t at) {
  begin();
  ssize_t done = written(fd, data, REAL(pwrite)(fd, data, size, at), at);
  end();
  return done;
}
ssize_t pwrite64(int fd, const void *data, size_t size, off64_t at) {
  begin();
  ssize_t done = written(fd, data, REAL(pwrite64)(fd, data, size, at), at);
  end();
  return done;
}
ssize_t write(int fd, const void *data, size_t size) {
  begin();
  off_t at = known(fd) ? lseek(fd, 0, SEEK_CUR) : 0;
  ssize_t done = written(fd, data, REAL(write)(fd, data, size), at);
  end();
  return done;
}
static int cut(int fd, off_t size, int done) {
  if (!done && known(fd)) record('T', fd, size, NULL, 0);
  return done;
}
int ftruncate(int fd, off_t size) {
  begin(); int done = cut(fd, size, REAL(ftruncate)(fd, size)); end(); return done;
}
int ftruncate64(int fd, off64_t size) {
  begin(); int done = cut(fd, size, REAL(ftruncate64)(fd, size)); end(); return done;
}
static int synced(int fd, int done) {
  if (!done && known(fd)) record('S', fd, 0, NULL, 0);
  return done;
}
int fsync(int fd) { begin(); int done = synced(fd, REAL(fsync)(fd)); end(); return done; }
int fdatasync(int fd) { begin(); int done = synced(fd, REAL(fdatasync)(fd)); end(); return done; }
int unlink(const char *path) {
  begin();
  char whole[PATH_MAX];
  int mine = inside(path, whole), done = REAL(unlink)(path);
  if (mine && !done) record('U', 0, 0, whole, strlen(whole));
  end();
  return done;
}
int rename(const char *from, const char *to) {
  begin();
  char both[2 * PATH_MAX], whole[PATH_MAX];
  int mine = inside(from, both) && inside(to, whole), done = REAL(rename)(from, to);
  if (mine && !done) {
    size_t n = strlen(both) + 1;
    memcpy(both + n, whole, strlen(whole));
    record('R', 0, 0, both, n + strlen(whole));
  }
  end();
  return done;
}
ssize_t send(int fd, const void *data, size_t size, int flags) {
  begin();
  if (size > 8) record('N', fd, 0, data, size);
  ssize_t done = REAL(send)(fd, data, size, flags);
  end();
  return done;
}
