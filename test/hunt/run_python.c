/* Programs in Python: ways.py runs in a process of its own, which is told of programs, one after
 * the other, and answers with the bytes of results. */
#include "hunt.h"

#include "../conformance/describe.h"

#include "base/clock.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SECONDS = 60, MOST_INPUTS = 64, MOST_GIVEN = 256 };

typedef struct speaker {
    const char *way;
    bool gradient;
    pid_t child; /* 0: it has been waited for */
    FILE *to;    /* NULL: it does not run */
    int from;
    char *got; /* bytes that came and were not read yet */
    size_t n, at, room;
    uint64_t compared;
    char reason[160], why[512];
} speaker;

/* ---- the process ---- */

static void begin(speaker *s) {
    int there[2], back[2];
    if (pipe(there) || pipe(back)) hunt_must(base_fail(SHOAL_IO, "hunt: no pipe"));
    fflush(stdout);
    s->child = fork();
    if (!s->child) {
        dup2(there[0], STDIN_FILENO);
        dup2(back[1], STDOUT_FILENO);
        for (int i = 3; i < 64; i++) close(i);
        signal(SIGINT, SIG_IGN); /* the hunt says when it ends */
        setenv("PYTHONPATH", HUNT_PYTHONPATH, 1);
        setenv("PYTHONDONTWRITEBYTECODE", "1", 1);
        execlp(HUNT_PYTHON, HUNT_PYTHON, HUNT_FOLDER "/ways.py", s->way, (char *)NULL);
        _exit(127);
    }
    close(there[0]);
    close(back[1]);
    s->to = fdopen(there[1], "wb");
    s->from = back[0];
    s->n = s->at = 0;
}

static void end(speaker *s) {
    fclose(s->to);
    close(s->from);
    s->to = NULL;
    if (!s->child) return;
    kill(s->child, SIGKILL);
    waitpid(s->child, NULL, 0);
}

/* Waits for at least one more byte; false: none comes. */
static bool more(speaker *s, int64_t deadline) {
    if (s->at) memmove(s->got, s->got + s->at, s->n - s->at);
    s->n -= s->at;
    s->at = 0;
    if (s->n + 65536 > s->room) {
        s->room = 2 * s->room + 65536;
        s->got = realloc(s->got, s->room);
        if (!s->got) hunt_must(SHOAL_NO_MEMORY);
    }
    struct pollfd fd = {s->from, POLLIN, 0};
    int ready;
    do { /* a signal is no answer */
        int64_t left = (deadline - base_now()) / 1000000;
        ready = left > 0 ? poll(&fd, 1, (int)left) : 0;
    } while (ready < 0 && errno == EINTR);
    if (ready <= 0) return false;
    ssize_t got = read(s->from, s->got + s->n, s->room - s->n);
    s->n += got > 0 ? (size_t)got : 0;
    return got > 0;
}

/* A line without its end, in memory that the next call reuses; NULL: none comes. */
static char *line(speaker *s, int64_t deadline) {
    for (size_t seen = 0;;) {
        char *rest = s->got + s->at;
        char *stop = s->n > s->at + seen ? memchr(rest + seen, '\n', s->n - s->at - seen) : NULL;
        if (stop) {
            *stop = 0;
            s->at = (size_t)(stop - s->got) + 1;
            return rest;
        }
        seen = s->n - s->at;
        if (!more(s, deadline)) return NULL;
    }
}

static bool take(speaker *s, void *to, size_t bytes, int64_t deadline) {
    while (s->n - s->at < bytes)
        if (!more(s, deadline)) return false;
    memcpy(to, s->got + s->at, bytes);
    s->at += bytes;
    return true;
}

static int64_t soon(void) { return base_now() + SECONDS * INT64_C(1000000000); }

/* It did not answer: why, and what becomes of it. */
static const char *silent(speaker *s) {
    int status = 0;
    bool ended = false;
    for (int turn = 0; turn < 100 && !ended; turn++) {
        ended = waitpid(s->child, &status, WNOHANG) == s->child;
        if (!ended) poll(NULL, 0, 10);
    }
    if (!ended)
        snprintf(s->why, sizeof s->why, "Python gives no answer in %d s", SECONDS);
    else if (WIFSIGNALED(status))
        snprintf(s->why, sizeof s->why, "Python ended by signal %d", WTERMSIG(status));
    else
        snprintf(s->why, sizeof s->why, "Python ended with exit code %d", WEXITSTATUS(status));
    if (ended) s->child = 0;
    end(s);
    return s->why;
}

static void *begin_way(const char *way, bool gradient) {
    speaker *s = hunt_alloc(sizeof *s);
    *s = (speaker){.way = way, .gradient = gradient};
    signal(SIGPIPE, SIG_IGN);
    begin(s);
    const char *hello = line(s, soon());
    if (!hello || strcmp(hello, "ready")) {
        printf("%s\n", hello ? hello : silent(s));
        exit(hello && !strncmp(hello, "SKIP", 4) ? 77 : 2);
    }
    return s;
}

void *hunt_numpy_new(void) { return begin_way("numpy", false); }
void *hunt_torch_new(void) { return begin_way("torch", false); }
void *hunt_torch_gradient_new(void) { return begin_way("torch_gradient", true); }
void *hunt_python_new(void) { return begin_way("python", false); }
void *hunt_python_gradient_new(void) { return begin_way("python_gradient", true); }

void hunt_python_free(void *context) {
    speaker *s = context;
    printf("%llu runs compared", (unsigned long long)s->compared);
    if (*s->reason) printf("; the last program that was not: %s", s->reason);
    printf("\n");
    if (s->to) end(s);
    free(s->got);
    free(s);
}

/* ---- programs ---- */

/* The graph and all its values; with `slope`, the weights of its results and the inputs for which
 * there are gradients. */
static void tell(const hunt_program *program, const hunt_program *slope, const uint32_t *of,
                 FILE *to) {
    const shoal_graph *g = graph_data(program->graph);
    uint32_t n_weights = slope ? slope->n_inputs - program->n_inputs : 0;
    base_str s;
    base_str_init(&s);
    base_str_format(&s, "{\"seed\": %llu, \"tries\": %u, \"weights\": %u, \"of\": [",
                    (unsigned long long)program->seed, program->tries, n_weights);
    for (uint32_t i = 0; slope && i < slope->n_outputs; i++)
        base_str_format(&s, "%s%u", i ? ", " : "", of[i]);
    base_str_text(&s, "], \"graph\": ");
    describe_graph(g, &s);
    base_str_text(&s, "}\n");
    void **values = hunt_values_new(program);
    for (uint32_t n = 0; n < g->n_nodes; n++)
        hunt_must(hunt_run_node(g, &g->nodes[n], values, NULL));
    for (uint32_t v = 0; v < g->n_values; v++)
        base_str_bytes(&s, values[v], (size_t)base_type_bytes(&g->values[v].type));
    hunt_values_free(program, &values);
    for (uint32_t i = 0; i < n_weights; i++) {
        uint32_t at = program->n_inputs + i;
        const shoal_graph *with = graph_data(slope->graph);
        base_str_bytes(&s, slope->inputs[at],
                       (size_t)base_type_bytes(&with->values[with->inputs[at]].type));
    }
    hunt_must(base_str_status(&s));
    fwrite(s.data, 1, s.size, to);
    fflush(to);
    base_str_fini(&s);
}

void hunt_tell(const hunt_program *program, FILE *to) { tell(program, NULL, NULL, to); }

static void not_compared(speaker *s, const char *why) {
    hunt_not_compared();
    snprintf(s->reason, sizeof s->reason, "%s", why);
}

/* The numbers behind "given ". */
static uint32_t numbers(const char *text, uint32_t *out, uint32_t most) {
    uint32_t n = 0;
    for (char *end; n < most; text = end) {
        unsigned long number = strtoul(text, &end, 10);
        if (end == text) break;
        out[n++] = (uint32_t)number;
    }
    return n;
}

/* Results that come back, against what they must be where those values are not computed. */
static const char *check(const speaker *s, const hunt_program *gives, const uint32_t *given,
                         uint32_t n, const hunt_results *is) {
    hunt_program cut = hunt_cut(gives, given, n);
    hunt_truth truth;
    hunt_must(hunt_truth_init(&truth, &cut));
    truth.free = s->gradient; /* it is another program that computes them */
    const char *wrong = hunt_compare(&truth, is);
    hunt_truth_fini(&truth);
    hunt_program_fini(&cut);
    return wrong;
}

/* What comes back, against what the program that gives it must give. */
static const char *compare(speaker *s, const hunt_program *gives, hunt_results *results) {
    uint32_t given[MOST_GIVEN], n = 0;
    for (int64_t deadline = soon();;) {
        char *text = line(s, deadline), how[200];
        if (!text) return silent(s);
        if (!strcmp(text, "done")) return *s->why ? s->why : NULL;
        if (!strncmp(text, "none ", 5)) not_compared(s, text + 5);
        if (!strncmp(text, "wrong ", 6) && !*s->why)
            snprintf(s->why, sizeof s->why, "%s", text + 6);
        if (!strncmp(text, "given ", 6)) {
            n = numbers(text + 6, given, MOST_GIVEN);
            hunt_not_computed(given, n);
        }
        if (strncmp(text, "results ", 8)) continue;
        snprintf(how, sizeof how, "%s", text + 8);
        for (uint32_t o = 0; o < results->n; o++)
            if (!take(s, results->data[o], results->bytes[o], deadline)) return silent(s);
        s->compared++;
        const char *wrong = *s->why ? NULL : check(s, gives, given, n, results);
        if (wrong) snprintf(s->why, sizeof s->why, "%s: %s", how, wrong);
    }
}

const char *hunt_python_run(void *context, const hunt_program *program) {
    speaker *s = context;
    hunt_program slope;
    uint32_t of[MOST_INPUTS];
    *s->why = 0;
    if (s->gradient && hunt_differentiate(program, &slope, of)) {
        not_compared(s, shoal_error_message());
        return NULL;
    }
    if (!s->to) {
        begin(s);
        if (!line(s, soon())) return silent(s);
    }
    const hunt_program *gives = s->gradient ? &slope : program;
    hunt_results results = hunt_results_new(graph_data(gives->graph));
    tell(program, s->gradient ? &slope : NULL, of, s->to);
    const char *why = compare(s, gives, &results);
    hunt_results_fini(&results);
    if (s->gradient) hunt_program_fini(&slope);
    return why;
}
