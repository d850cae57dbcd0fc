/* Memory files and doorbells (memfd and eventfd on Linux). */
#define _GNU_SOURCE
#include "base/os.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SEALS = F_SEAL_SHRINK | F_SEAL_GROW };

shoal_status base_os_shared_new(const char *name, size_t bytes, int *fd) {
    int made = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (made < 0) return base_fail_errno(errno, "making a memory file of %zu bytes", bytes);
    if (ftruncate(made, (off_t)bytes) || fcntl(made, F_ADD_SEALS, SEALS)) {
        int error = errno;
        close(made);
        return base_fail_errno(error, "sizing a memory file to %zu bytes", bytes);
    }
    *fd = made;
    return SHOAL_OK;
}

shoal_status base_os_shared_check(int fd, size_t bytes) {
    struct stat st;
    int seals = fcntl(fd, F_GET_SEALS);
    if (seals < 0 || (seals & SEALS) != SEALS)
        return base_fail(SHOAL_FORMAT, "the shared memory is not sealed against shrinking");
    if (fstat(fd, &st) || !S_ISREG(st.st_mode) || (uintmax_t)st.st_size != bytes)
        return base_fail(SHOAL_FORMAT, "the shared memory does not have the size of %zu bytes",
                         bytes);
    return SHOAL_OK;
}

shoal_status base_os_shared_map(int fd, size_t offset, size_t bytes, int times, void **out) {
    size_t all = bytes * (size_t)times;
    char *at = mmap(NULL, all, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED) return base_fail_errno(errno, "reserving %zu bytes of addresses", all);
    for (int i = 0; i < times; i++) {
        if (mmap(at + bytes * (size_t)i, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd,
                 (off_t)offset) == MAP_FAILED) {
            int error = errno;
            munmap(at, all);
            return base_fail_errno(error, "mapping %zu bytes of shared memory", bytes);
        }
    }
    *out = at;
    return SHOAL_OK;
}

void base_os_shared_unmap(void *at, size_t bytes, int times) {
    if (at) munmap(at, bytes * (size_t)times);
}

shoal_status base_os_doorbell_new(int *fd) {
    *fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    return *fd < 0 ? base_fail_errno(errno, "making a doorbell") : SHOAL_OK;
}

/* Of all descriptors only those without an inode of their own have no file type. */
shoal_status base_os_doorbell_check(int fd) {
    struct stat st;
    int flags = fcntl(fd, F_GETFL);
    if (flags < 0 || !(flags & O_NONBLOCK) || fstat(fd, &st) || (st.st_mode & S_IFMT))
        return base_fail(SHOAL_FORMAT, "a descriptor that came is no doorbell");
    return SHOAL_OK;
}

/* A full counter (EAGAIN) is a rung doorbell as well. */
void base_os_doorbell_ring(int fd) {
    uint64_t one = 1;
    while (write(fd, &one, sizeof one) < 0 && errno == EINTR) continue;
}

void base_os_doorbell_drain(int fd) {
    uint64_t count;
    while (read(fd, &count, sizeof count) < 0 && errno == EINTR) continue;
}
