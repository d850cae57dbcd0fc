/* The handshake of a link over shared memory: the input is what a stranger writes to the socket. */
#include "base/os.h"
#include "fuzz.h"
#include "wire/transport.h"

#include <sys/socket.h>
#include <unistd.h>

/* The answer and what is kept of the hello. */
size_t fuzz_limit(size_t size) { return 32 * size + (2 << 20); }

static wire_peer *peer;
static char path[64];

static void tidy(void) {
    char folder[64];
    wire_peer_destroy(&peer);
    snprintf(folder, sizeof folder, "%.*s", 22, path);
    rmdir(folder);
}

static void setup(void) {
    char folder[] = "/tmp/shoal-fuzz-XXXXXX", address[80];
    Shoal__Hello hello = SHOAL__HELLO__INIT;
    hello.name = (char *)"fuzzed";
    setenv("SHOAL_LOG", "error", 1);
    FUZZ_CHECK(mkdtemp(folder) && wire_peer_new(&hello, &peer) == SHOAL_OK);
    snprintf(path, sizeof path, "%s/socket", folder);
    snprintf(address, sizeof address, "shm:%s", path);
    FUZZ_CHECK(wire_listen(peer, address) == SHOAL_OK);
    atexit(tidy);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (!peer) setup();
    int fd;
    char answer[4096];
    FUZZ_CHECK(base_os_socket_connect(path, &fd) == SHOAL_OK);
    wire_pump_once(peer, &peer->sets[0], 0); /* accepts */
    (void)!send(fd, data, size, MSG_NOSIGNAL | MSG_DONTWAIT);
    shutdown(fd, SHUT_WR);
    for (int turns = 0; turns < 64 && peer->links.count; turns++)
        wire_pump_once(peer, &peer->sets[0], 0);
    FUZZ_CHECK(!peer->links.count); /* with no descriptors nobody gets in */
    if (recv(fd, answer, sizeof answer, MSG_DONTWAIT) > 0) fuzz_accepted++;
    close(fd);
    return 0;
}
