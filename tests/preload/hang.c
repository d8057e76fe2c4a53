// Opening the file named in HANG_AT does not return while the file named in HANG_WHILE exists: a network file system that
// does not answer.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int open64(const char *path, int flags, ...) {
    static int (*next)(const char *, int, ...);
    if (!next) {
        next = (int (*)(const char *, int, ...))dlsym(RTLD_NEXT, "open64");
    }
    va_list arguments;
    va_start(arguments, flags);
    mode_t mode = (flags & (O_CREAT | O_TMPFILE)) ? va_arg(arguments, mode_t) : 0;
    va_end(arguments);
    const char *at = getenv("HANG_AT"), *switched = getenv("HANG_WHILE");
    while (at && switched && strcmp(path, at) == 0 && access(switched, F_OK) == 0) {
        usleep(10000);
    }
    return next(path, flags, mode);
}
