#include "net.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { PROBE_MS = 2000 };

bool net_split(const char *text, char host[NET_HOST], char port[8]) {
    const char *colon = strrchr(text, ':');
    if (colon == NULL || colon == text || strlen(colon + 1) > 5 || colon[1] == 0) return false;
    if (strspn(colon + 1, "0123456789") != strlen(colon + 1) || atoi(colon + 1) > 65535)
        return false;
    bool bracketed = text[0] == '[' && colon[-1] == ']';
    int length = (int)(colon - text) - 2 * bracketed;
    if (length <= 0 || length >= NET_HOST) return false;
    snprintf(host, NET_HOST, "%.*s", length, text + bracketed);
    snprintf(port, 8, "%s", colon + 1);
    return bracketed || strchr(host, ':') == NULL;
}

static struct addrinfo *resolve(const char *host, const char *port, const char **why) {
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
    struct addrinfo *found = NULL;
    int code = getaddrinfo(host, port, &hints, &found);
    *why = code == 0 ? "" : gai_strerror(code);
    return code == 0 ? found : NULL;
}

/* ---- elsewhere ---- */

/* errno of a connect that is given PROBE_MS. */
static int try_connect(const struct addrinfo *at) {
    int fd = socket(at->ai_family, at->ai_socktype, at->ai_protocol), error = 0;
    socklen_t size = sizeof error;
    if (fd < 0) return errno;
    fcntl(fd, F_SETFL, O_NONBLOCK);
    if (connect(fd, at->ai_addr, at->ai_addrlen) != 0) error = errno;
    if (error == EINPROGRESS) {
        struct pollfd waiting = {.fd = fd, .events = POLLOUT};
        if (poll(&waiting, 1, PROBE_MS) <= 0)
            error = ETIMEDOUT;
        else if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) != 0)
            error = errno;
    }
    close(fd);
    return error;
}

net_state net_probe(const char *host, const char *port, char why[NET_TEXT]) {
    const char *reason;
    struct addrinfo *found = resolve(host, port, &reason);
    if (found == NULL) {
        snprintf(why, NET_TEXT, "%s", reason);
        return NET_UNKNOWN;
    }
    int error = try_connect(found);
    freeaddrinfo(found);
    snprintf(why, NET_TEXT, "%s", error == 0 ? "" : strerror(error));
    switch (error) {
    case 0: return NET_OPEN;
    case ECONNREFUSED: return NET_REFUSED;
    case ETIMEDOUT: return NET_SILENT;
    case EHOSTUNREACH:
    case ENETUNREACH:
    case ENETDOWN: return NET_UNREACHED;
    default: return NET_OTHER;
    }
}

bool net_socket_alive(const char *path) {
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof at.sun_path) return false;
    snprintf(at.sun_path, sizeof at.sun_path, "%s", path);
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    if (fd < 0) return false;
    fcntl(fd, F_SETFL, O_NONBLOCK);
    bool alive = connect(fd, (const struct sockaddr *)&at, sizeof at) == 0 || errno == EAGAIN;
    close(fd);
    return alive;
}

/* ---- here ---- */

int net_try_listen(const char *host, const char *port) {
    const char *reason;
    struct addrinfo *found = resolve(host, port, &reason);
    int yes = 1, error = -1;
    if (found == NULL) return error;
    int fd = socket(found->ai_family, found->ai_socktype, found->ai_protocol);
    bool good = fd >= 0 && setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) == 0 &&
                bind(fd, found->ai_addr, found->ai_addrlen) == 0 && listen(fd, 1) == 0;
    error = good ? 0 : errno;
    if (fd >= 0) close(fd);
    freeaddrinfo(found);
    return error;
}

/* The inode of a listening socket, out of the kernel's table; 0 when there is none. */
static unsigned long find_inode(const char *table, unsigned wanted) {
    char line[512];
    unsigned long found = 0;
    FILE *file = fopen(table, "re");
    while (file != NULL && found == 0 && fgets(line, sizeof line, file) != NULL) {
        unsigned port, state;
        unsigned long inode;
        if (sscanf(line, " %*[^:]: %*[^:]:%x %*s %x %*s %*s %*s %*s %*s %lu", &port, &state,
                   &inode) == 3 &&
            port == wanted && state == 0x0A)
            found = inode;
    }
    if (file != NULL) fclose(file);
    return found;
}

static bool holds(const char *pid, unsigned long inode) {
    char folder[300], path[600], want[64], link[64];
    struct dirent *entry;
    bool found = false;
    snprintf(folder, sizeof folder, "/proc/%s/fd", pid);
    snprintf(want, sizeof want, "socket:[%lu]", inode);
    DIR *open_files = opendir(folder);
    while (open_files != NULL && !found && (entry = readdir(open_files)) != NULL) {
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        ssize_t n = readlink(path, link, sizeof link - 1);
        if (n <= 0) continue;
        link[n] = 0;
        found = strcmp(link, want) == 0;
    }
    if (open_files != NULL) closedir(open_files);
    return found;
}

bool net_listener(const char *port, char out[NET_TEXT]) {
    unsigned number = (unsigned)atoi(port);
    unsigned long inode = find_inode("/proc/net/tcp", number);
    if (inode == 0) inode = find_inode("/proc/net/tcp6", number);
    DIR *processes = inode != 0 ? opendir("/proc") : NULL;
    struct dirent *entry;
    bool found = false;
    while (processes != NULL && !found && (entry = readdir(processes)) != NULL) {
        char path[300], name[64] = "?";
        if (!isdigit((unsigned char)entry->d_name[0]) || !holds(entry->d_name, inode)) continue;
        snprintf(path, sizeof path, "/proc/%s/comm", entry->d_name);
        FILE *comm = fopen(path, "re");
        if (comm != NULL && fgets(name, sizeof name, comm) != NULL) name[strcspn(name, "\n")] = 0;
        if (comm != NULL) fclose(comm);
        snprintf(out, NET_TEXT, "process %s (%s)", entry->d_name, name);
        found = true;
    }
    if (processes != NULL) closedir(processes);
    return found;
}

int net_addresses(char out[NET_TEXT]) {
    struct ifaddrs *all = NULL;
    int count = 0;
    size_t used = 0;
    out[0] = 0;
    if (getifaddrs(&all) != 0) return 0;
    for (const struct ifaddrs *i = all; i != NULL; i = i->ifa_next) {
        char text[INET6_ADDRSTRLEN];
        const void *bits;
        unsigned family = i->ifa_addr != NULL ? i->ifa_addr->sa_family : AF_UNSPEC;
        if (family == AF_INET) {
            bits = &((const struct sockaddr_in *)(const void *)i->ifa_addr)->sin_addr;
        } else if (family == AF_INET6) {
            bits = &((const struct sockaddr_in6 *)(const void *)i->ifa_addr)->sin6_addr;
            const struct in6_addr *address = bits;
            if (IN6_IS_ADDR_LINKLOCAL(address) || IN6_IS_ADDR_LOOPBACK(address)) continue;
        } else {
            continue;
        }
        if (inet_ntop((int)family, bits, text, sizeof text) == NULL) continue;
        if (family == AF_INET && strncmp(text, "127.", 4) == 0) continue;
        if (used + sizeof text + 64 > NET_TEXT) break;
        used += (size_t)snprintf(out + used, NET_TEXT - used, "%s%s (%.32s)", count > 0 ? ", " : "",
                                 text, i->ifa_name);
        count++;
    }
    freeifaddrs(all);
    return count;
}
