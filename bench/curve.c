/* What encryption costs: libzmq with CURVE beside libzmq without, in the form in which Shoal uses
 * it (a DEALER to a ROUTER, chunks of 1 MiB, 8 of them under way). Shoal itself has no way to turn
 * encryption off, so this is libzmq alone.
 *
 *   curve serve plain|curve                      prints its port, and its public key or "-"
 *   curve send PORT KEY|- bulk|small COUNT       says `ready`; for each line of input, runs once
 * and prints seconds: COUNT MiB, or COUNT round trips */
#define _POSIX_C_SOURCE 200809L
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <zmq.h>

enum {
    CHUNK = 1 << 20,
    SMALL = 64,
    WINDOW = 8,
    KEY = 41,
    TAKE = 1,
    ANSWER = 2,
    PATIENCE_MS = 60000
};

static _Noreturn void die(const char *what) {
    fprintf(stderr, "curve: %s: %s\n", what, zmq_strerror(zmq_errno()));
    exit(1);
}

static void check(int result, const char *what) {
    if (result < 0) die(what);
}

static void set(void *socket, int option, int value) {
    check(zmq_setsockopt(socket, option, &value, sizeof value), "an option");
}

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static _Noreturn void serve(bool encrypted) {
    static char target[CHUNK];
    char public[KEY] = "-", secret[KEY], endpoint[256];
    size_t length = sizeof endpoint;
    void *router = zmq_socket(zmq_ctx_new(), ZMQ_ROUTER);
    set(router, ZMQ_RCVHWM, WINDOW);
    if (encrypted) {
        check(zmq_curve_keypair(public, secret), "a key pair");
        set(router, ZMQ_CURVE_SERVER, 1);
        check(zmq_setsockopt(router, ZMQ_CURVE_SECRETKEY, secret, KEY), "the key");
    }
    check(zmq_bind(router, "tcp://127.0.0.1:*"), "listening");
    check(zmq_getsockopt(router, ZMQ_LAST_ENDPOINT, endpoint, &length), "listening");
    printf("%s %s\n", strrchr(endpoint, ':') + 1, public);
    fflush(stdout);
    while (true) {
        zmq_msg_t id, body;
        zmq_msg_init(&id);
        zmq_msg_init(&body);
        check(zmq_msg_recv(&id, router, 0), "receiving");
        check(zmq_msg_recv(&body, router, 0), "receiving");
        size_t n = zmq_msg_size(&body);
        if (n > 0 && n <= sizeof target) memcpy(target, zmq_msg_data(&body), n);
        if (n > 0 && target[0] == ANSWER) {
            check(zmq_msg_send(&id, router, ZMQ_SNDMORE), "answering");
            check(zmq_send(router, target, SMALL, 0), "answering");
        }
        zmq_msg_close(&id);
        zmq_msg_close(&body);
    }
}

static void send_one(void *dealer, size_t bytes, char what) {
    static char source[CHUNK];
    zmq_msg_t message;
    check(zmq_msg_init_size(&message, bytes), "a message");
    memcpy(zmq_msg_data(&message), source, bytes);
    *(char *)zmq_msg_data(&message) = what;
    check(zmq_msg_send(&message, dealer, 0), "sending");
}

static int run(const char *port, const char *key, bool bulk, int count) {
    char public[KEY], secret[KEY], address[64], line[16], answer[SMALL];
    void *dealer = zmq_socket(zmq_ctx_new(), ZMQ_DEALER);
    set(dealer, ZMQ_SNDHWM, WINDOW);
    set(dealer, ZMQ_RCVTIMEO, PATIENCE_MS);
    set(dealer, ZMQ_SNDTIMEO, PATIENCE_MS);
    set(dealer, ZMQ_LINGER, 0);
    if (key[0] != '-') {
        check(zmq_curve_keypair(public, secret), "a key pair");
        check(zmq_setsockopt(dealer, ZMQ_CURVE_SERVERKEY, key, KEY), "the key");
        check(zmq_setsockopt(dealer, ZMQ_CURVE_PUBLICKEY, public, KEY), "the key");
        check(zmq_setsockopt(dealer, ZMQ_CURVE_SECRETKEY, secret, KEY), "the key");
    }
    snprintf(address, sizeof address, "tcp://127.0.0.1:%s", port);
    check(zmq_connect(dealer, address), "connecting");
    send_one(dealer, SMALL, ANSWER);
    check(zmq_recv(dealer, answer, sizeof answer, 0), "the first answer");
    puts("ready");
    fflush(stdout);
    while (fgets(line, sizeof line, stdin) != NULL) {
        double start = now();
        for (int i = 1; i <= count; i++) {
            send_one(dealer, bulk ? CHUNK : SMALL, bulk && i < count ? TAKE : ANSWER);
            if (!bulk || i == count) check(zmq_recv(dealer, answer, sizeof answer, 0), "an answer");
        }
        printf("%.9f\n", now() - start);
        fflush(stdout);
    }
    return 0;
}

int main(int argc, char **argv) {
    if (argc == 3 && strcmp(argv[1], "serve") == 0) serve(strcmp(argv[2], "curve") == 0);
    if (argc == 6 && strcmp(argv[1], "send") == 0 && atoi(argv[5]) > 0 &&
        (argv[3][0] == '-' || strlen(argv[3]) == KEY - 1))
        return run(argv[2], argv[3], strcmp(argv[4], "bulk") == 0, atoi(argv[5]));
    fprintf(stderr, "usage: curve serve plain|curve, or curve send PORT KEY bulk|small COUNT\n");
    return 2;
}
