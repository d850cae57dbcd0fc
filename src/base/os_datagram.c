/* Datagrams to all of one network, and which way packets go. IPv4: that is what has broadcasts. */
#define _GNU_SOURCE
#include "base/os.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static const struct sockaddr_in *in4(const struct sockaddr *address) {
    return address && address->sa_family == AF_INET ? (const void *)address : NULL;
}

/* The address of everyone on the network of the interface that has this address. Loopback is one,
 * too, though it does not say so: everything in 127/8 is this machine. */
static bool everyone_at(struct in_addr own, struct in_addr *out) {
    struct ifaddrs *all = NULL;
    bool found = false;
    if (getifaddrs(&all)) return false;
    for (const struct ifaddrs *i = all; i && !found; i = i->ifa_next) {
        const struct sockaddr_in *address = in4(i->ifa_addr), *mask = in4(i->ifa_netmask);
        if (!address || !mask || address->sin_addr.s_addr != own.s_addr) continue;
        if (!(i->ifa_flags & (IFF_BROADCAST | IFF_LOOPBACK))) continue;
        out->s_addr = own.s_addr | ~mask->sin_addr.s_addr;
        found = out->s_addr != own.s_addr;
    }
    freeifaddrs(all);
    return found;
}

shoal_status base_os_broadcast_open(const char *host, uint16_t port, int *fd) {
    struct sockaddr_in own = {.sin_family = AF_INET},
                       all = {.sin_family = AF_INET, .sin_port = htons(port)};
    int yes = 1;
    *fd = -1;
    if (inet_pton(AF_INET, host, &own.sin_addr) != 1 || !everyone_at(own.sin_addr, &all.sin_addr))
        return base_fail(SHOAL_UNSUPPORTED, "%s is on no network with broadcasts", host);
    int made = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (made < 0) return base_fail_errno(errno, "making a socket");
    /* Bound and connected: it sends from this interface, to this network, and receives nothing. */
    if (setsockopt(made, SOL_SOCKET, SO_BROADCAST, &yes, sizeof yes) ||
        bind(made, (const struct sockaddr *)&own, sizeof own) ||
        connect(made, (const struct sockaddr *)&all, sizeof all)) {
        int error = errno;
        close(made);
        return base_fail_errno(error, "announcing at %s, UDP port %u", host, port);
    }
    *fd = made;
    return SHOAL_OK;
}

void base_os_broadcast_send(int fd, const void *bytes, size_t n) {
    /* The next one may get through. */
    (void)!send(fd, bytes, n, MSG_DONTWAIT | MSG_NOSIGNAL);
}

shoal_status base_os_broadcast_listen(uint16_t port, int *fd) {
    const struct sockaddr_in any = {.sin_family = AF_INET, .sin_port = htons(port)};
    int yes = 1;
    *fd = -1;
    int made = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (made < 0) return base_fail_errno(errno, "making a socket");
    if (setsockopt(made, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) ||
        bind(made, (const struct sockaddr *)&any, sizeof any)) {
        int error = errno;
        close(made);
        return base_fail_errno(error, "listening at UDP port %u", port);
    }
    *fd = made;
    return SHOAL_OK;
}

size_t base_os_broadcast_receive(int fd, void *out, size_t room, int ms) {
    struct pollfd waiting = {.fd = fd, .events = POLLIN};
    if (poll(&waiting, 1, ms) <= 0) return 0;
    ssize_t n = recv(fd, out, room, MSG_DONTWAIT);
    return n > 0 ? (size_t)n : 0;
}

bool base_os_route(const char *host, char *out, size_t room) {
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(9)}, own;
    socklen_t size = sizeof own;
    if (inet_pton(AF_INET, host, &to.sin_addr) != 1 || room < INET_ADDRSTRLEN) return false;
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0) return false;
    /* Connecting a datagram socket sends nothing: it only chooses the way. */
    bool found = !connect(fd, (const struct sockaddr *)&to, sizeof to) &&
                 !getsockname(fd, (struct sockaddr *)&own, &size) &&
                 inet_ntop(AF_INET, &own.sin_addr, out, (socklen_t)room);
    close(fd);
    return found;
}
