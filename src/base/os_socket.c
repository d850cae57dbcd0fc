/* Local stream sockets: listening under a lock file, credentials, descriptors in messages. */
#define _GNU_SOURCE
#include "base/os.h"

#include "base/clock.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

enum { LOCK_TRIES = 20 };

static shoal_status name_path(const char *path, struct sockaddr_un *out) {
    *out = (struct sockaddr_un){.sun_family = AF_UNIX};
    size_t n = strlen(path);
    if (n >= sizeof out->sun_path)
        return base_fail(SHOAL_INVALID, "the socket path %s has %zu bytes, %zu fit: shorten it",
                         path, n, sizeof out->sun_path - 1);
    memcpy(out->sun_path, path, n + 1);
    return SHOAL_OK;
}

/* Takes a lock file. Whoever lets go removes the file, so what was locked may no longer be what the
 * path names: then *lock is -1, try again. */
static shoal_status take_lock(const char *name, int flags, int *lock) {
    *lock = -1;
    int fd = open(name, O_RDWR | O_CLOEXEC | O_NOFOLLOW | flags, 0600);
    if (fd < 0) return base_fail_errno(errno, "opening the lock file %s", name);
    if (flock(fd, LOCK_EX | LOCK_NB)) {
        int error = errno;
        close(fd);
        if (error == EINTR) return SHOAL_OK;
        return error == EWOULDBLOCK ? base_fail(SHOAL_BUSY, "%s is held by a running process", name)
                                    : base_fail_errno(error, "locking %s", name);
    }
    struct stat here, there;
    if (!fstat(fd, &here) && !stat(name, &there) && here.st_ino == there.st_ino &&
        here.st_dev == there.st_dev)
        *lock = fd;
    else
        close(fd);
    return SHOAL_OK;
}

/* Takes PATH.lock, which a sweep may hold for an instant. */
static shoal_status lock_path(const char *path, int *lock) {
    char name[PATH_MAX];
    snprintf(name, sizeof name, "%s.lock", path);
    for (int i = 0; i < LOCK_TRIES; i++) {
        shoal_status status = take_lock(name, O_CREAT, lock);
        if (status == SHOAL_OK && *lock >= 0) return SHOAL_OK;
        if (status != SHOAL_OK && status != SHOAL_BUSY) return status;
        nanosleep(&(struct timespec){.tv_nsec = BASE_MS}, NULL);
    }
    return base_fail(SHOAL_BUSY,
                     "%s is held by a running process: stop it, or choose another address", path);
}

static void unlock_path(const char *path, int lock) {
    char name[PATH_MAX];
    snprintf(name, sizeof name, "%s.lock", path);
    unlink(name); /* while it is still ours */
    close(lock);
}

static shoal_status bind_path(const char *path, const struct sockaddr_un *address, int *fd) {
    struct stat st;
    if (!lstat(path, &st)) {
        if (!S_ISSOCK(st.st_mode))
            return base_fail(SHOAL_BUSY, "%s exists and is no socket: choose another name", path);
        unlink(path);
    }
    int made = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (made < 0) return base_fail_errno(errno, "making a socket");
    if (bind(made, (const struct sockaddr *)address, sizeof *address) || chmod(path, 0600) ||
        listen(made, SOMAXCONN)) {
        int error = errno;
        close(made);
        return base_fail_errno(error, "listening at %s", path);
    }
    *fd = made;
    return SHOAL_OK;
}

shoal_status base_os_socket_listen(const char *path, int *fd, int *lock) {
    struct sockaddr_un address;
    int held;
    SHOAL_TRY(name_path(path, &address));
    SHOAL_TRY(lock_path(path, &held));
    shoal_status status = bind_path(path, &address, fd);
    if (status != SHOAL_OK) {
        unlock_path(path, held);
        return status;
    }
    *lock = held;
    return SHOAL_OK;
}

void base_os_socket_unlisten(const char *path, int fd, int lock) {
    unlink(path);
    close(fd);
    unlock_path(path, lock);
}

void base_os_socket_sweep(const char *folder) {
    static const char suffix[] = ".lock";
    DIR *listing = opendir(folder);
    const struct dirent *entry;
    while (listing && (entry = readdir(listing))) {
        char name[PATH_MAX], path[PATH_MAX];
        int length = snprintf(name, sizeof name, "%s/%s", folder, entry->d_name);
        int kept = length - (int)strlen(suffix), lock;
        if (length >= (int)sizeof name || kept <= 0 || strcmp(name + kept, suffix) != 0 ||
            take_lock(name, 0, &lock) != SHOAL_OK || lock < 0)
            continue;
        snprintf(path, sizeof path, "%.*s", kept, name);
        struct stat st;
        if (!lstat(path, &st) && S_ISSOCK(st.st_mode)) unlink(path);
        unlink(name);
        close(lock);
    }
    if (listing) closedir(listing);
}

shoal_status base_os_socket_accept(int listener, int *fd) {
    *fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (*fd >= 0 || errno == EAGAIN || errno == EINTR || errno == ECONNABORTED) return SHOAL_OK;
    return base_fail_errno(errno, "accepting a connection");
}

shoal_status base_os_socket_connect(const char *path, int *fd) {
    struct sockaddr_un address;
    SHOAL_TRY(name_path(path, &address));
    int made = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (made < 0) return base_fail_errno(errno, "making a socket");
    if (connect(made, (const struct sockaddr *)&address, sizeof address)) {
        int error = errno;
        close(made);
        if (error == EAGAIN || error == EINTR)
            return base_fail(SHOAL_BUSY, "too many wait to be accepted at %s", path);
        if (error == ENOENT || error == ECONNREFUSED || error == ENOTDIR)
            return base_fail(SHOAL_NOT_FOUND, "nobody listens at %s", path);
        return base_fail_errno(error, "connecting to %s", path);
    }
    *fd = made;
    return SHOAL_OK;
}

shoal_status base_os_socket_peer(int fd, bool *same_user, uint32_t *pid) {
    struct ucred peer;
    socklen_t size = sizeof peer;
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size))
        return base_fail_errno(errno, "asking who is at the other end of a socket");
    *same_user = peer.uid == geteuid();
    *pid = (uint32_t)peer.pid;
    return SHOAL_OK;
}

union control {
    struct cmsghdr header;
    char bytes[CMSG_SPACE(BASE_OS_MAX_FDS * sizeof(int))];
};

shoal_status base_os_socket_send(int fd, const void *bytes, size_t n, const int *fds,
                                 size_t fd_count) {
    union control control = {0};
    struct iovec part = {.iov_base = (void *)bytes, .iov_len = n};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    if (fd_count) {
        message.msg_control = control.bytes;
        message.msg_controllen = CMSG_SPACE(fd_count * sizeof(int));
        struct cmsghdr *header = CMSG_FIRSTHDR(&message);
        header->cmsg_level = SOL_SOCKET;
        header->cmsg_type = SCM_RIGHTS;
        header->cmsg_len = CMSG_LEN(fd_count * sizeof(int));
        memcpy(CMSG_DATA(header), fds, fd_count * sizeof(int));
    }
    ssize_t sent;
    do {
        sent = sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    } while (sent < 0 && errno == EINTR);
    if (sent < 0) return base_fail_errno(errno, "sending %zu bytes on a socket", n);
    if ((size_t)sent != n)
        return base_fail(SHOAL_IO, "a socket took %zd of %zu bytes only", sent, n);
    return SHOAL_OK;
}

/* All descriptors are taken over at once, so that none can be lost on the way to an error. */
static shoal_status take_fds(struct msghdr *message, int *fds, size_t *fd_count) {
    bool fit = !(message->msg_flags & MSG_CTRUNC);
    for (struct cmsghdr *h = CMSG_FIRSTHDR(message); h; h = CMSG_NXTHDR(message, h)) {
        if (h->cmsg_level != SOL_SOCKET || h->cmsg_type != SCM_RIGHTS) continue;
        size_t count = (h->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < count; i++) {
            int one;
            memcpy(&one, CMSG_DATA(h) + i * sizeof one, sizeof one);
            if (*fd_count < BASE_OS_MAX_FDS) {
                fds[(*fd_count)++] = one;
            } else {
                close(one);
                fit = false;
            }
        }
    }
    return fit ? SHOAL_OK : base_fail(SHOAL_FORMAT, "a message carries too many descriptors");
}

shoal_status base_os_socket_receive(int fd, void *bytes, size_t room, size_t *n, int *fds,
                                    size_t *fd_count) {
    union control control;
    struct iovec part = {.iov_base = bytes, .iov_len = room};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = control.bytes,
                             .msg_controllen = sizeof control.bytes};
    *n = 0;
    ssize_t got = recvmsg(fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return SHOAL_OK;
    if (got < 0 && errno == ECONNRESET) got = 0;
    if (got < 0) return base_fail_errno(errno, "receiving on a socket");
    SHOAL_TRY(take_fds(&message, fds, fd_count));
    if (got == 0) return base_fail(SHOAL_LOST, "the other process has ended or hung up");
    *n = (size_t)got;
    return SHOAL_OK;
}

int64_t base_os_socket_silence(int fd) {
    struct tcp_info info;
    socklen_t size = sizeof info;
    if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size)) return -1;
    return info.tcpi_last_data_recv;
}

double base_os_socket_speed(int fd) {
    struct tcp_info info = {0}; /* an older kernel fills in less of it */
    socklen_t size = sizeof info;
    if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size)) return 0;
    return info.tcpi_delivery_rate_app_limited ? 0 : (double)info.tcpi_delivery_rate;
}

typedef union socket_address {
    struct sockaddr any;
    struct sockaddr_in four;
    struct sockaddr_in6 six;
} socket_address;

bool base_os_socket_reached(int fd, char *out, size_t room) {
    socket_address address;
    socklen_t size = sizeof address;
    char text[INET6_ADDRSTRLEN];
    if (fd < 0 || getpeername(fd, &address.any, &size)) return false;
    bool six = address.any.sa_family == AF_INET6;
    if (!six && address.any.sa_family != AF_INET) return false;
    const void *bytes = six ? (const void *)&address.six.sin6_addr : &address.four.sin_addr;
    if (!inet_ntop(address.any.sa_family, bytes, text, sizeof text)) return false;
    unsigned port = ntohs(six ? address.six.sin6_port : address.four.sin_port);
    return snprintf(out, room, six ? "[%s]:%u" : "%s:%u", text, port) < (int)room;
}

uint64_t base_os_socket_identity(int fd) {
    struct stat is;
    return fd >= 0 && !fstat(fd, &is) && S_ISSOCK(is.st_mode) ? is.st_ino : 0;
}

void base_os_socket_cut(int fd, uint64_t identity) {
    if (identity && base_os_socket_identity(fd) == identity) shutdown(fd, SHUT_RDWR);
}

bool base_os_socket_leaves(int fd) {
    socket_address own, other;
    socklen_t size = sizeof own, other_size = sizeof other;
    if (fd < 0 || getsockname(fd, &own.any, &size) || getpeername(fd, &other.any, &other_size) ||
        own.any.sa_family != other.any.sa_family)
        return false;
    if (own.any.sa_family == AF_INET6)
        return memcmp(&own.six.sin6_addr, &other.six.sin6_addr, sizeof own.six.sin6_addr) != 0;
    return own.any.sa_family == AF_INET && own.four.sin_addr.s_addr != other.four.sin_addr.s_addr &&
           ntohl(other.four.sin_addr.s_addr) >> 24 != IN_LOOPBACKNET;
}

bool base_os_socket_numbers(const char *address) {
    char host[128];
    unsigned char bytes[sizeof(struct in6_addr)];
    const char *colon = strrchr(address, ':');
    size_t n = colon ? (size_t)(colon - address) : 0;
    if (!n || n >= sizeof host) return false;
    memcpy(host, address, n);
    bool six = host[0] == '[' && host[n - 1] == ']';
    host[six ? n - 1 : n] = 0;
    if (six) host[strcspn(host, "%")] = 0; /* the interface */
    return inet_pton(six ? AF_INET6 : AF_INET, six ? host + 1 : host, bytes) == 1;
}
