/* Loss of power, for tests: writes down what a program does to the files under POWER_ROOT, so that a test can make the
 * disk that a loss of power would have left: what was synced, and some of what was not.
 *
 * Loaded with LD_PRELOAD. A record in POWER_JOURNAL is a type, an inode, an offset, a length and so many bytes. Answers
 * of a server are written down too, so that a journal says at every record what was acknowledged. A sync is not carried
 * out: nobody cuts this machine's power. With POWER_LIES set an fdatasync is not written down either, as where a disk lies
 * about it or the call is missing. sync_file_range(2) promises nothing, so it is not looked at. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static const char *root;
static int journal = -1;
/* The inodes under the root that were opened so far. */
static ino_t known[4096];
static int known_count;

__attribute__((constructor)) static void start(void) {
    root = getenv("POWER_ROOT");
    const char *path = getenv("POWER_JOURNAL");
    if (root && path) {
        journal = syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    }
}

static void record(char type, uint64_t inode, uint64_t offset, const void *bytes, uint64_t length) {
    char head[25] = {type};
    memcpy(head + 1, &inode, 8);
    memcpy(head + 9, &offset, 8);
    memcpy(head + 17, &length, 8);
    struct iovec parts[2] = {{head, sizeof head}, {(void *)bytes, length}};
    syscall(SYS_writev, journal, parts, 2);
}

static int under_root(const char *path) {
    return journal >= 0 && strncmp(path, root, strlen(root)) == 0;
}

/* The path a call names, absolute. */
static const char *absolute(int folder, const char *path, char *out) {
    if (path[0] == '/') {
        return path;
    }
    char link[64], base[PATH_MAX];
    snprintf(link, sizeof link, folder == AT_FDCWD ? "/proc/self/cwd" : "/proc/self/fd/%d", folder);
    ssize_t length = readlink(link, base, sizeof base - 1);
    base[length < 0 ? 0 : length] = 0;
    snprintf(out, PATH_MAX, "%.2000s/%.2000s", base, path);
    return out;
}

/* The inode of an open file or folder under the root, or 0. */
static ino_t inode_of(int fd, struct stat *status) {
    if (journal < 0 || fstat(fd, status) != 0 || !(S_ISREG(status->st_mode) || S_ISDIR(status->st_mode))) {
        return 0;
    }
    for (int i = 0; i < known_count; i++) {
        if (known[i] == status->st_ino) {
            return status->st_ino;
        }
    }
    return 0;
}

static int opened(int folder, const char *name, int flags, mode_t mode) {
    char buffer[PATH_MAX];
    const char *path = absolute(folder, name, buffer);
    if (!under_root(path)) {
        return syscall(SYS_openat, folder, name, flags, mode);
    }
    pthread_mutex_lock(&lock);
    struct stat status;
    int is_new = (flags & O_CREAT) && stat(path, &status) != 0;
    int fd = syscall(SYS_openat, folder, name, flags, mode);
    if (fd >= 0 && fstat(fd, &status) == 0) {
        if (!inode_of(fd, &status) && known_count < 4096) {
            known[known_count++] = status.st_ino;
        }
        record(is_new ? 'C' : 'O', status.st_ino, 0, path, strlen(path));
        if ((flags & O_TRUNC) && !is_new) {
            record('T', status.st_ino, 0, NULL, 0);
        }
    }
    pthread_mutex_unlock(&lock);
    return fd;
}

#define OPEN_MODE                                                                                                      \
    mode_t mode = 0;                                                                                                   \
    if (flags & (O_CREAT | O_TMPFILE)) {                                                                               \
        va_list more;                                                                                                  \
        va_start(more, flags);                                                                                         \
        mode = va_arg(more, mode_t);                                                                                   \
        va_end(more);                                                                                                  \
    }

int open(const char *path, int flags, ...) { OPEN_MODE return opened(AT_FDCWD, path, flags, mode); }
int open64(const char *path, int flags, ...) { OPEN_MODE return opened(AT_FDCWD, path, flags, mode); }
int openat(int folder, const char *path, int flags, ...) { OPEN_MODE return opened(folder, path, flags, mode); }
int openat64(int folder, const char *path, int flags, ...) { OPEN_MODE return opened(folder, path, flags, mode); }

/* Writes at an offset, or where the file stands (-1). */
static ssize_t written(int fd, const struct iovec *parts, int count, off_t offset) {
    struct stat status;
    pthread_mutex_lock(&lock);
    ino_t inode = inode_of(fd, &status);
    if (inode && offset < 0) {
        offset = fcntl(fd, F_GETFL) & O_APPEND ? status.st_size : lseek(fd, 0, SEEK_CUR);
        lseek(fd, offset, SEEK_SET);
    }
    ssize_t done = !inode ? syscall(SYS_writev, fd, parts, count)
                          : syscall(SYS_pwritev, fd, parts, count, (long)offset, 0L);
    if (inode && done > 0) {
        if (!(fcntl(fd, F_GETFL) & O_APPEND)) {
            lseek(fd, offset + done, SEEK_SET);
        }
        size_t left = done;
        for (int i = 0; i < count && left > 0; i++) {
            size_t length = parts[i].iov_len < left ? parts[i].iov_len : left;
            record('W', inode, offset, parts[i].iov_base, length);
            offset += length;
            left -= length;
        }
    }
    pthread_mutex_unlock(&lock);
    return done;
}

/* Before it is sent: who has an answer finds it in the journal. */
static void answer(const struct iovec *parts, int count) {
    char bytes[8192];
    size_t length = 0;
    for (int i = 0; i < count; i++) {
        size_t fits = sizeof bytes - length;
        size_t part = parts[i].iov_len < fits ? parts[i].iov_len : fits;
        memcpy(bytes + length, parts[i].iov_base, part);
        length += part;
    }
    if (journal >= 0 && length > 12 && memcmp(bytes, "HTTP/1.1 200", 12) == 0) {
        pthread_mutex_lock(&lock);
        record('A', 0, 0, bytes, length);
        pthread_mutex_unlock(&lock);
    }
}

ssize_t send(int fd, const void *bytes, size_t length, int flags) {
    answer(&(struct iovec){(void *)bytes, length}, 1);
    return syscall(SYS_sendto, fd, bytes, length, flags, NULL, 0);
}

static ssize_t to_file_or_socket(int fd, const struct iovec *parts, int count) {
    struct stat status;
    if (journal >= 0 && fstat(fd, &status) == 0 && S_ISREG(status.st_mode)) {
        return written(fd, parts, count, -1);
    }
    answer(parts, count);
    return syscall(SYS_writev, fd, parts, count);
}

ssize_t write(int fd, const void *bytes, size_t length) {
    return to_file_or_socket(fd, &(struct iovec){(void *)bytes, length}, 1);
}

ssize_t writev(int fd, const struct iovec *parts, int count) { return to_file_or_socket(fd, parts, count); }

ssize_t pwrite(int fd, const void *bytes, size_t length, off_t offset) {
    struct stat status;
    pthread_mutex_lock(&lock);
    ssize_t done = syscall(SYS_pwrite64, fd, bytes, length, offset);
    ino_t inode = inode_of(fd, &status);
    if (inode && done > 0) {
        record('W', inode, offset, bytes, done);
    }
    pthread_mutex_unlock(&lock);
    return done;
}
ssize_t pwrite64(int fd, const void *bytes, size_t length, off64_t offset) { return pwrite(fd, bytes, length, offset); }

int ftruncate(int fd, off_t length) {
    struct stat status;
    pthread_mutex_lock(&lock);
    int result = syscall(SYS_ftruncate, fd, length);
    ino_t inode = inode_of(fd, &status);
    if (inode && result == 0) {
        record('T', inode, length, NULL, 0);
    }
    pthread_mutex_unlock(&lock);
    return result;
}
int ftruncate64(int fd, off64_t length) { return ftruncate(fd, length); }

int fsync(int fd) {
    struct stat status;
    pthread_mutex_lock(&lock);
    ino_t inode = inode_of(fd, &status);
    if (inode) {
        record('S', inode, 0, NULL, 0);
    }
    pthread_mutex_unlock(&lock);
    return 0;
}
int fdatasync(int fd) { return getenv("POWER_LIES") ? 0 : fsync(fd); }

/* A call that changed names, made under the lock: one name, or two with a zero byte between them. */
static int named(char type, int result, int folder, const char *name, int new_folder, const char *new_name) {
    char one[PATH_MAX], two[PATH_MAX], bytes[2 * PATH_MAX + 1];
    const char *path = absolute(folder, name, one);
    if (result == 0 && under_root(path)) {
        const char *new_path = new_name ? absolute(new_folder, new_name, two) : NULL;
        int length = snprintf(bytes, sizeof bytes, "%s%c%s", path, 0, new_path ? new_path : "");
        record(type, 0, 0, bytes, new_path ? length : length - 1);
    }
    pthread_mutex_unlock(&lock);
    return result;
}

int rename(const char *old, const char *new) {
    pthread_mutex_lock(&lock);
    return named('R', syscall(SYS_rename, old, new), AT_FDCWD, old, AT_FDCWD, new);
}

int linkat(int old_folder, const char *old, int new_folder, const char *new, int flags) {
    pthread_mutex_lock(&lock);
    return named('L', syscall(SYS_linkat, old_folder, old, new_folder, new, flags), old_folder, old, new_folder, new);
}
int link(const char *old, const char *new) { return linkat(AT_FDCWD, old, AT_FDCWD, new, 0); }

int unlinkat(int folder, const char *path, int flags) {
    pthread_mutex_lock(&lock);
    return named('U', syscall(SYS_unlinkat, folder, path, flags), folder, path, 0, NULL);
}
int unlink(const char *path) { return unlinkat(AT_FDCWD, path, 0); }
int rmdir(const char *path) { return unlinkat(AT_FDCWD, path, AT_REMOVEDIR); }

int mkdir(const char *path, mode_t mode) {
    pthread_mutex_lock(&lock);
    return named('M', syscall(SYS_mkdirat, AT_FDCWD, path, mode), AT_FDCWD, path, 0, NULL);
}
