#define _GNU_SOURCE
#include "os/shared.h"
#include "os/os.h"

#include "os/file_limit.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010 /* kernel 5.1 */
#endif

bool ts_shared_make(ts_shared *s, const char *name, size_t bytes) {
    *s = (ts_shared){NULL, bytes, {.fd = -1}};
    if (!ts_file_may_have(bytes)) return false;
    s->file = ts_own_file_of(memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING));
    int fd = s->file.fd;
    if (fd < 0 || ftruncate(fd, (off_t)bytes) != 0) return false;
    void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (at == MAP_FAILED) return false;
    s->at = at;
    /* An old kernel refuses the first; then others may write it. */
    if (fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE) != 0)
        (void)fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW);
    return true;
}

void ts_shared_end(ts_shared *s) {
    ts_own_file_close(&s->file); /* first: while it is mapped, no other file has its inode */
    if (s->at) (void)munmap(s->at, s->bytes);
    s->at = NULL;
}
