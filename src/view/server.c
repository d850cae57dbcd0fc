#include "view/server.h"

#include "view/metrics.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include <microhttpd.h>

enum { TIMEOUT_MS = 2000, IDLE_SECONDS = 5, MOST_CONNECTIONS = 32 };

struct view_server {
    struct MHD_Daemon *http;
    char address[VIEW_ADDRESS_ROOM];
    char *hub;
    shoal_session *session; /* used by the server's thread alone; opened at the first request */
    shoal_slot *slots;
    uint32_t room;
};

/* ---- addresses ---- */

static struct addrinfo *read_address(const char *text) {
    const struct addrinfo hints = {.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV | AI_PASSIVE,
                                   .ai_socktype = SOCK_STREAM};
    struct addrinfo *found = NULL;
    char host[VIEW_ADDRESS_ROOM];
    const char *colon = strrchr(text, ':');
    size_t length = colon != NULL ? (size_t)(colon - text) : 0;
    if (length == 0 || length >= sizeof host) return NULL;
    if (colon[1] == 0 || strlen(colon + 1) > 5 || atoi(colon + 1) > 65535) return NULL;
    bool bracketed = text[0] == '[' && text[length - 1] == ']';
    snprintf(host, sizeof host, "%.*s", (int)length - 2 * bracketed, text + bracketed);
    if (!bracketed && strchr(host, ':') != NULL) return NULL;
    return getaddrinfo(host, colon + 1, &hints, &found) == 0 ? found : NULL;
}

static bool is_loopback(const struct sockaddr *address) {
    if (address->sa_family == AF_INET)
        return ntohl(((const struct sockaddr_in *)address)->sin_addr.s_addr) >> 24 == 127;
    return address->sa_family == AF_INET6 &&
           IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)address)->sin6_addr);
}

bool view_address_check(const char *address, bool *open) {
    struct addrinfo *found = read_address(address);
    if (found == NULL) return false;
    *open = !is_loopback(found->ai_addr);
    freeaddrinfo(found);
    return true;
}

/* ---- one page ---- */

static shoal_status ask_pool(view_server *self, shoal_pool_status *status) {
    while (true) {
        *status = (shoal_pool_status){.size = sizeof *status};
        shoal_status code = shoal_status_of(self->session, status, self->slots, self->room);
        if (code != SHOAL_OK || status->n_slots <= self->room) return code;
        uint32_t room = status->n_slots + 16;
        shoal_slot *slots = realloc(self->slots, room * sizeof *slots);
        if (slots == NULL) return SHOAL_NO_MEMORY;
        self->slots = slots;
        self->room = room;
    }
}

/* A session that has been lost is opened anew, at the next request if not at this one. */
static shoal_status look(view_server *self, shoal_pool_status *status) {
    const shoal_options options = {
        .size = sizeof options, .hub = self->hub, .timeout_ms = TIMEOUT_MS, .name = "metrics"};
    shoal_status code = SHOAL_CLOSED;
    if (self->session != NULL) code = ask_pool(self, status);
    if (code == SHOAL_OK) return code;
    if (self->session != NULL) shoal_session_close(&self->session);
    code = shoal_session_open(&options, &self->session);
    return code == SHOAL_OK ? ask_pool(self, status) : code;
}

/* The metrics as text, to be freed; NULL without memory. */
static char *write_page(const view_server *self, const shoal_pool_status *status) {
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    if (out == NULL) return NULL;
    view_metrics_write(out, status, self->slots, status->n_slots, 1);
    bool failed = ferror(out) != 0;
    if (fclose(out) == 0 && !failed) return text;
    free(text);
    return NULL;
}

static enum MHD_Result reply(struct MHD_Connection *connection, unsigned code, const char *text,
                             const char *header, const char *value) {
    struct MHD_Response *response = MHD_create_response_from_buffer(
        strlen(text), (void *)(uintptr_t)text, MHD_RESPMEM_MUST_COPY);
    if (response == NULL) return MHD_NO;
    MHD_add_response_header(response, header, value);
    enum MHD_Result result = MHD_queue_response(connection, code, response);
    MHD_destroy_response(response);
    return result;
}

static enum MHD_Result reply_metrics(view_server *self, struct MHD_Connection *connection) {
    shoal_pool_status status;
    char text[1024];
    shoal_status code = look(self, &status);
    char *page = code == SHOAL_OK ? write_page(self, &status) : NULL;
    if (page != NULL) {
        enum MHD_Result result =
            reply(connection, MHD_HTTP_OK, page, MHD_HTTP_HEADER_CONTENT_TYPE, VIEW_METRICS_TYPE);
        free(page);
        return result;
    }
    snprintf(text, sizeof text, "%s\n", code == SHOAL_OK ? "no memory" : shoal_error_message());
    return reply(connection, MHD_HTTP_SERVICE_UNAVAILABLE, text, MHD_HTTP_HEADER_CONTENT_TYPE,
                 "text/plain");
}

static enum MHD_Result on_request(void *context, struct MHD_Connection *connection,
                                  const char *path, const char *method, const char *version,
                                  const char *upload, size_t *upload_size, void **request) {
    if (strcmp(method, MHD_HTTP_METHOD_GET) != 0 && strcmp(method, MHD_HTTP_METHOD_HEAD) != 0)
        return reply(connection, MHD_HTTP_METHOD_NOT_ALLOWED, "GET only\n", MHD_HTTP_HEADER_ALLOW,
                     "GET, HEAD");
    if (strcmp(path, "/metrics") != 0)
        return reply(connection, MHD_HTTP_NOT_FOUND, "the metrics are at /metrics\n",
                     MHD_HTTP_HEADER_CONTENT_TYPE, "text/plain");
    return reply_metrics(context, connection);
}

/* ---- the server ---- */

static void note_address(view_server *self, const struct sockaddr *given) {
    char host[VIEW_ADDRESS_ROOM] = "?";
    socklen_t length =
        given->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);
    const union MHD_DaemonInfo *port = MHD_get_daemon_info(self->http, MHD_DAEMON_INFO_BIND_PORT);
    getnameinfo(given, length, host, sizeof host, NULL, 0, NI_NUMERICHOST);
    snprintf(self->address, sizeof self->address, strchr(host, ':') ? "[%.50s]:%u" : "%.50s:%u",
             host, port != NULL ? (unsigned)port->port : 0);
}

static bool start_http(view_server *self, const struct addrinfo *at) {
    unsigned flags = MHD_USE_AUTO | MHD_USE_INTERNAL_POLLING_THREAD;
    if (at->ai_family == AF_INET6) flags |= MHD_USE_IPv6;
    errno = 0;
    self->http = MHD_start_daemon(
        flags, 0, NULL, NULL, on_request, self, MHD_OPTION_SOCK_ADDR, at->ai_addr,
        MHD_OPTION_CONNECTION_LIMIT, (unsigned)MOST_CONNECTIONS, MHD_OPTION_CONNECTION_TIMEOUT,
        (unsigned)IDLE_SECONDS, MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)16384, MHD_OPTION_END);
    return self->http != NULL;
}

bool view_server_start(const char *address, const char *hub, view_server **out, char *error,
                       size_t room) {
    struct addrinfo *at = read_address(address);
    view_server *self = calloc(1, sizeof *self);
    *out = self;
    if (self != NULL) self->hub = strdup(hub);
    bool made = at != NULL && self != NULL && self->hub != NULL;
    if (made && start_http(self, at)) {
        note_address(self, at->ai_addr);
    } else {
        snprintf(error, room, "serving metrics at %s: %s", address,
                 at == NULL   ? "this is no ADDRESS:PORT"
                 : !made      ? "no memory"
                 : errno != 0 ? strerror(errno)
                              : "the HTTP server does not start");
        view_server_stop(out);
    }
    if (at != NULL) freeaddrinfo(at);
    return *out != NULL;
}

const char *view_server_address(const view_server *server) { return server->address; }

void view_server_stop(view_server **server) {
    view_server *self = *server;
    *server = NULL;
    if (self == NULL) return;
    if (self->http != NULL) MHD_stop_daemon(self->http);
    if (self->session != NULL) shoal_session_close(&self->session);
    free(self->slots);
    free(self->hub);
    free(self);
}
