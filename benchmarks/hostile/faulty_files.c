/* A file system with one fault, for benchmarks/hostile/faults.py: the calls of the C library that change files below one folder
 * are counted, and one of them fails, is cut short, takes 50 ms, or ends the process. Loaded with LD_PRELOAD, so that all code of a process
 * goes through it: Python, SQLite, Arrow, HDF5, safetensors.
 *
 *     cc -shared -fPIC -O1 -o faulty_files.so faulty_files.c -ldl
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

enum fault { NONE, FAIL, FULL, SHORT, KILL, TORN, DELAY };
enum { DELAY_US = 50000 };

static char folder[PATH_MAX];
static long wanted, calls;
static int chosen, log_file = -1, full;

/* Arm: the `nth` call (from 1) below `place` has the fault; names of calls are written to `log`, unless it is negative. */
void faults_arm(const char *place, long nth, int fault, int log) {
    strncpy(folder, place, sizeof folder - 1);
    wanted = nth, chosen = fault, log_file = log, calls = 0, full = 0;
}

#define REAL(name) (*(__typeof__(&name))real(#name))
static void *real(const char *name) { return dlsym(RTLD_NEXT, name); }

static int below(const char *path) {
    size_t length = strlen(folder);
    return length && strncmp(path, folder, length) == 0 && (path[length] == '/' || !path[length]);
}

static const char *file_of(int handle, char *path) {
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", handle);
    ssize_t length = readlink(link, path, PATH_MAX - 1);
    path[length < 0 ? 0 : length] = 0;
    return path;
}

static const char *path_at(int handle, const char *name, char *path) {
    if (name[0] == '/') return name;
    char start[PATH_MAX];
    if (handle == AT_FDCWD) { if (!getcwd(start, sizeof start)) return ""; }
    else file_of(handle, start);
    if (snprintf(path, PATH_MAX, "%s/%s", start, name) >= PATH_MAX) return "";
    return path;
}

static void end(void) { kill(getpid(), SIGKILL); for (;;) pause(); }

/* Count a call; what becomes of it. `grows`: it needs room on the disk. */
static enum fault met(const char *call, const char *path, int grows) {
    if (!below(path)) return NONE;
    long number = __sync_add_and_fetch(&calls, 1);
    if (log_file >= 0) dprintf(log_file, "%s %s\n", call, path);
    if (number == wanted) {
        if (chosen == KILL) end();
        if (chosen == DELAY) { usleep(DELAY_US); return NONE; }
        if (chosen == FULL) full = 1;
        else return chosen;
    }
    return full && grows ? FULL : NONE;
}

static int refused(enum fault fault) {
    if (fault == FAIL) errno = EIO;
    if (fault == FULL) errno = ENOSPC;
    return fault == FAIL || fault == FULL;
}

static int opened(const char *name, int at, const char *path, int flags) {
    char whole[PATH_MAX];
    int writes = (flags & (O_WRONLY | O_RDWR | O_CREAT)) != 0;
    if (!writes) return 0;
    path = path_at(at, path, whole);
    enum fault fault = met(name, path, (flags & O_CREAT) && access(path, F_OK) != 0);
    return refused(fault);
}

#define MODE va_list rest; va_start(rest, flags); mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(rest, mode_t) : 0; va_end(rest)
int open(const char *path, int flags, ...) { MODE; return opened("open", AT_FDCWD, path, flags) ? -1 : REAL(open)(path, flags, mode); }
int open64(const char *path, int flags, ...) { MODE; return opened("open", AT_FDCWD, path, flags) ? -1 : REAL(open64)(path, flags, mode); }
int openat(int at, const char *path, int flags, ...) { MODE; return opened("open", at, path, flags) ? -1 : REAL(openat)(at, path, flags, mode); }
int openat64(int at, const char *path, int flags, ...) { MODE; return opened("open", at, path, flags) ? -1 : REAL(openat64)(at, path, flags, mode); }

/* How many of `size` bytes are written: all, half of them, or none (-1). */
static ssize_t room(int handle, size_t size, int *torn) {
    char path[PATH_MAX];
    *torn = 0;
    switch (met("write", file_of(handle, path), 1)) {
    case FAIL: errno = EIO; return -1;
    case FULL:
        if (full++ == 1 && size > 1) return size / 2;  /* what still fits */
        errno = ENOSPC; return -1;
    case SHORT: return size > 1 ? size / 2 : size;
    case TORN: *torn = 1; return size / 2;
    default: return size;
    }
}

#define WRITE(handle, size, call) \
    do { int torn; ssize_t part = room(handle, size, &torn), done; if (part < 0) return -1; done = (call); if (torn) end(); return done; } while (0)
ssize_t write(int handle, const void *bytes, size_t size) { if (!folder[0]) return REAL(write)(handle, bytes, size); WRITE(handle, size, REAL(write)(handle, bytes, part)); }
ssize_t pwrite(int handle, const void *bytes, size_t size, off_t at) { WRITE(handle, size, REAL(pwrite)(handle, bytes, part, at)); }
ssize_t pwrite64(int handle, const void *bytes, size_t size, off64_t at) { WRITE(handle, size, REAL(pwrite64)(handle, bytes, part, at)); }
ssize_t sendfile(int to, int from, off_t *at, size_t size) { WRITE(to, size, REAL(sendfile)(to, from, at, part)); }
ssize_t sendfile64(int to, int from, off64_t *at, size_t size) { WRITE(to, size, REAL(sendfile64)(to, from, at, part)); }
ssize_t writev(int handle, const struct iovec *parts, int count) {
    int torn; ssize_t part = room(handle, count ? parts[0].iov_len : 0, &torn);
    if (part < 0) return -1;
    if (count && part == (ssize_t)parts[0].iov_len) return REAL(writev)(handle, parts, count);
    ssize_t done = REAL(write)(handle, parts[0].iov_base, part);
    if (torn) end();
    return done;
}

#define ONE(type, name, args, call, at, path) \
    type name args { char whole[PATH_MAX]; return refused(met(#name, path_at(at, path, whole), 0)) ? (type)-1 : REAL(name) call; }
#define GROWS(type, name, args, call, at, path) \
    type name args { char whole[PATH_MAX]; return refused(met(#name, path_at(at, path, whole), 1)) ? (type)-1 : REAL(name) call; }
#define HANDLE(name, args, call, handle) \
    int name args { char path[PATH_MAX]; return folder[0] && refused(met(#name, file_of(handle, path), 0)) ? -1 : REAL(name) call; }

ONE(int, rename, (const char *from, const char *to), (from, to), AT_FDCWD, from)
ONE(int, renameat, (int at, const char *from, int there, const char *to), (at, from, there, to), at, from)
ONE(int, renameat2, (int at, const char *from, int there, const char *to, unsigned flags), (at, from, there, to, flags), at, from)
ONE(int, unlink, (const char *path), (path), AT_FDCWD, path)
ONE(int, unlinkat, (int at, const char *path, int flags), (at, path, flags), at, path)
ONE(int, rmdir, (const char *path), (path), AT_FDCWD, path)
ONE(int, truncate, (const char *path, off_t size), (path, size), AT_FDCWD, path)
GROWS(int, mkdir, (const char *path, mode_t mode), (path, mode), AT_FDCWD, path)
GROWS(int, mkdirat, (int at, const char *path, mode_t mode), (at, path, mode), at, path)
GROWS(int, symlink, (const char *to, const char *path), (to, path), AT_FDCWD, path)
HANDLE(fsync, (int handle), (handle), handle)
HANDLE(fdatasync, (int handle), (handle), handle)
HANDLE(ftruncate, (int handle, off_t size), (handle, size), handle)
HANDLE(ftruncate64, (int handle, off64_t size), (handle, size), handle)
HANDLE(flock, (int handle, int operation), (handle, operation), handle)
