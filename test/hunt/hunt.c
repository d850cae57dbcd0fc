/* The hunt's command. */
#define _XOPEN_SOURCE 700 /* sigaltstack */
#include "hunt.h"

#include "base/clock.h"

#include <argp.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

typedef struct options {
    const char *way, *keep;
    char **files;
    uint32_t n_files;
    uint64_t seed, count;
    double seconds;
    uint32_t most, failures;
    int crashed;
    bool coverage, apart, json;
} options;

static const struct row {
    const char *name, *summary;
    void *(*begin)(void);
    const char *(*run)(void *context, const hunt_program *program);
    void (*end)(void *context);
    hunt_style style;
    uint32_t least; /* percent of programs that there must be something to compare of */
} rows[] = {
    {"cpu", "the cpu backend, under each instruction set, with the reference", hunt_cpu_new,
     hunt_cpu_run, hunt_cpu_free, HUNT_ALL, 100},
    {"fuse", "kernels as forming gives them, interpreted, with the reference", hunt_fuse_new,
     hunt_fuse_run, hunt_fuse_free, HUNT_NARROW, 100},
    {"render", "the same, rendered as C, compiled and called", hunt_render_new, hunt_fuse_run,
     hunt_fuse_free, HUNT_NARROW, 100},
    {"api", "the API in pools of 1 to 5 workers, under random layouts, with the reference",
     hunt_api_new, hunt_api_run, hunt_api_free, HUNT_ALL, 100},
    {"panels", "products and what is made of them, in pools that do all they can in panels",
     hunt_panels_new, hunt_api_run, hunt_api_free, HUNT_CHAINS, 100},
    {"vmap", "for all indices of a batch at once, with the reference for each", hunt_batch_new,
     hunt_batch_run, hunt_batch_free, HUNT_NARROW, 85},
    {"gradient", "gradients, once and twice, with differences, and on cpu", hunt_gradient_new,
     hunt_gradient_run, hunt_gradient_free, HUNT_SMOOTH, 75},
    {"numpy", "the reference with NumPy", hunt_numpy_new, hunt_python_run, hunt_python_free,
     HUNT_NARROW, 100},
    {"torch", "the reference with PyTorch", hunt_torch_new, hunt_python_run, hunt_python_free,
     HUNT_NARROW, 100},
    {"torch_gradient", "gradients with those of PyTorch's tape", hunt_torch_gradient_new,
     hunt_python_run, hunt_python_free, HUNT_SLOPE, 45},
    {"python", "programs written in Python, recorded, read on the way, and replayed",
     hunt_python_new, hunt_python_run, hunt_python_free, HUNT_NARROW, 100},
    {"python_gradient", "gradients of programs written in Python", hunt_python_gradient_new,
     hunt_python_run, hunt_python_free, HUNT_SLOPE, 60},
    {"pool", "the same in the pool that SHOAL_HUB names", hunt_pool_new, hunt_api_run,
     hunt_api_free, HUNT_ALL, 100},
};
enum { ROWS = sizeof rows / sizeof *rows, MANY = 200 };

static const struct row *row_of(const char *name) {
    for (size_t i = 0; name && i < ROWS; i++)
        if (!strcmp(rows[i].name, name)) return &rows[i];
    fprintf(stderr, "hunt: there is no way '%s'; there are:", name ? name : "");
    for (size_t i = 0; i < ROWS; i++) fprintf(stderr, " %s", rows[i].name);
    fprintf(stderr, "\n");
    exit(2);
}

/* ---- crashes ---- */

enum { APART_SECONDS = 60 };

/* Runs a program in a process of its own, so that it may crash, or never end. */
static const char *run_apart(void *context, const hunt_program *program) {
    static char why[512];
    const struct row *row = context;
    int ends[2], status = 0;
    size_t n = 0;
    fflush(stdout);
    if (pipe(ends)) hunt_must(base_fail(SHOAL_IO, "hunt: no pipe"));
    pid_t child = fork();
    if (!child) {
        for (int s = 1; s < 32; s++) signal(s, SIG_DFL);
        alarm(APART_SECONDS);
        if (!freopen("/dev/null", "w", stderr)) _exit(3);
        const char *wrong = row->run(row->begin(), program);
        size_t length = wrong ? strlen(wrong) : 0;
        _exit(write(ends[1], wrong ? wrong : "", length) != (ssize_t)length);
    }
    close(ends[1]);
    for (ssize_t got = 1; got > 0 && n<sizeof why - 1; n += got> 0 ? (size_t)got : 0)
        got = read(ends[0], why + n, sizeof why - 1 - n);
    why[n] = 0;
    close(ends[0]);
    waitpid(child, &status, 0);
    if (WIFSIGNALED(status))
        snprintf(why, sizeof why, "ended by signal %d (%s)", WTERMSIG(status),
                 WTERMSIG(status) == SIGALRM ? "it took too long" : strsignal(WTERMSIG(status)));
    else if (WEXITSTATUS(status))
        snprintf(why, sizeof why, "ended with exit code %d", WEXITSTATUS(status));
    return *why ? why : NULL;
}

/* What a crash goes on with: this program again, with the same seed and --apart. */
static char *again[12];
static char again_seed[32], again_most[32], again_keep[4096], again_crashed[] = "--crashed=00";

static void crashed(int number) {
    char *digits = again_crashed + sizeof again_crashed - 3;
    if (number > 9) *digits++ = (char)('0' + number / 10);
    *digits++ = (char)('0' + number % 10);
    *digits = 0;
    execv("/proc/self/exe", again);
}

static void watch(const options *o, const hunt_shape *shape) {
    static char name[] = "hunt", apart[] = "--apart", one[] = "-n1", json[] = "-j";
    char *const line[] = {
        name, (char *)(uintptr_t)o->way, apart, again_seed, again_most, again_crashed, one};
    uint32_t n = sizeof line / sizeof *line;
    memcpy(again, line, sizeof line);
    if (o->json) again[n++] = json;
    if (o->keep) again[n++] = again_keep;
    snprintf(again_keep, sizeof again_keep, "-k%s", o->keep ? o->keep : "");
    snprintf(again_most, sizeof again_most, "-m%u", shape->most);
    static const int signals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
    static char room[1 << 16]; /* the stack may be what there is no more of */
    sigaltstack(&(stack_t){.ss_sp = room, .ss_size = sizeof room}, NULL);
    struct sigaction action = {.sa_handler = crashed,
                               .sa_flags = (int)SA_RESETHAND | SA_NODEFER | SA_ONSTACK};
    for (int i = 0; i < 5; i++) sigaction(signals[i], &action, NULL);
}

/* ---- failures ---- */

static void keep(const options *o, const hunt_way *way, hunt_program *program, const char *first) {
    char why[512], path[4096];
    int64_t begin = base_now();
    uint32_t nodes = graph_data(program->graph)->n_nodes;
    snprintf(why, sizeof why, "%s", first);
    printf("WRONG: %s, seed %llu, %u nodes: %s\n", way->name, (unsigned long long)program->seed,
           nodes, why);
    fflush(stdout);
    hunt_shrink(way, program, 30);
    const char *now = way->run(way->context, program);
    snprintf(why, sizeof why, "%s", now ? now : "it does not fail each time");
    printf("cut down to %u nodes in %.1f s:\n", graph_data(program->graph)->n_nodes,
           (double)(base_now() - begin) / 1e9);
    hunt_write(program, way->name, why, stdout);
    if (!o->keep) return;
    snprintf(path, sizeof path, "%s/%s_%llu.mlir", o->keep, way->name,
             (unsigned long long)program->seed);
    FILE *file = fopen(path, "w");
    if (!file) {
        fprintf(stderr, "hunt: cannot write %s\n", path);
        return;
    }
    hunt_write(program, way->name, why, file);
    bool full = ferror(file) != 0;
    if (fclose(file) || full)
        fprintf(stderr, "hunt: cannot write all of %s\n", path);
    else
        printf("kept: %s\n", path);
}

/* ---- hunting ---- */

/* A line that the next one takes the place of, each second, on a terminal. */
static void progress(const char *way, const hunt_coverage *coverage, int64_t begin,
                     uint32_t wrong) {
    static int64_t last;
    int64_t now = base_now();
    if (now - last < BASE_SECOND || !isatty(STDERR_FILENO)) return;
    last = now;
    fprintf(stderr, "\r%s: %llu programs, %.0f a second, %u wrong ", way,
            (unsigned long long)coverage->programs,
            (double)coverage->programs * 1e9 / (double)(now - begin), wrong);
}

static void summarise(const options *o, const hunt_coverage *coverage, double seconds,
                      uint32_t wrong) {
    if (isatty(STDERR_FILENO)) fprintf(stderr, "\r\033[K");
    if (o->json) {
        printf("{\"way\": \"%s\", \"seed\": %llu, \"programs\": %llu, \"nodes\": %llu, "
               "\"seconds\": %.3f, \"wrong\": %u, \"without\": %llu, ",
               o->way, (unsigned long long)o->seed, (unsigned long long)coverage->programs,
               (unsigned long long)coverage->nodes, seconds, wrong,
               (unsigned long long)hunt_uncompared());
        hunt_report_json(coverage, stdout);
        printf("}\n");
        return;
    }
    if (o->coverage) hunt_report(coverage, stdout);
    if (hunt_uncompared())
        printf("%s: of %llu more programs there was nothing to compare\n", o->way,
               (unsigned long long)hunt_uncompared());
    printf("%s: %llu programs of %.1f nodes in %.1f s, %.0f a second: %u wrong\n", o->way,
           (unsigned long long)coverage->programs,
           (double)coverage->nodes / (double)(coverage->programs ? coverage->programs : 1), seconds,
           (double)coverage->programs / seconds, wrong);
}

static volatile sig_atomic_t stopped;

static void stop(int number) { stopped = 1; }

static int hunt(const options *o) {
    static hunt_coverage coverage;
    const struct row *row = row_of(o->way);
    if (o->keep && access(o->keep, W_OK)) {
        fprintf(stderr, "hunt: --keep: %s is no folder that can be written to\n", o->keep);
        return 2;
    }
    /* Ctrl-C ends it with what was counted, a second one at once. */
    sigaction(SIGINT,
              &(struct sigaction){.sa_handler = stop, .sa_flags = (int)SA_RESETHAND | SA_RESTART},
              NULL);
    hunt_way way = {row->name, row->run, NULL};
    if (o->apart)
        way = (hunt_way){row->name, run_apart, (void *)(uintptr_t)row};
    else
        way.context = row->begin();
    bool slopes = row->style == HUNT_SMOOTH || row->style == HUNT_SLOPE; /* costly ones */
    hunt_shape shape = {row->style, o->most ? o->most : slopes ? 16 : 60};
    if (!o->apart) watch(o, &shape);
    uint32_t wrong = 0;
    int64_t begin = base_now();
    for (uint64_t i = 0; i < o->count && wrong < o->failures && !stopped; i++) {
        hunt_program program;
        if (o->seconds > 0 && (double)(base_now() - begin) > o->seconds * 1e9) break;
        snprintf(again_seed, sizeof again_seed, "-s%llu", (unsigned long long)(o->seed + i));
        hunt_make(o->seed + i, &shape, &program);
        uint64_t before = hunt_uncompared();
        const char *why = way.run(way.context, &program);
        if (hunt_uncompared() == before) hunt_cover(&coverage, &program);
        wrong += why != NULL;
        if (why) keep(o, &way, &program, why);
        hunt_program_fini(&program);
        progress(way.name, &coverage, begin, wrong);
    }
    uint64_t without = hunt_uncompared(), programs = coverage.programs + without;
    if (!wrong && programs >= MANY && coverage.programs * 100 < programs * row->least) {
        printf("WRONG: %s, of %llu programs only %llu were compared; %u %% must be\n", row->name,
               (unsigned long long)programs, (unsigned long long)coverage.programs, row->least);
        wrong++;
    }
    double seconds = (double)(base_now() - begin) / 1e9;
    if (o->crashed && !wrong && !stopped) { /* by what programs before it left, or a race */
        printf("WRONG: %s, seed %llu: ended by signal %d (%s), but not by itself\n", row->name,
               (unsigned long long)o->seed, o->crashed, strsignal(o->crashed));
        wrong++;
    }
    if (!o->apart) row->end(way.context);
    summarise(o, &coverage, seconds, wrong);
    return wrong ? 1 : stopped ? 128 + SIGINT : 0;
}

static int replay(const options *o) {
    uint32_t passed = 0, failed = 0;
    for (uint32_t i = 0; i < o->n_files; i++) {
        hunt_program program;
        char name[32];
        hunt_read(o->files[i], &program, name);
        const struct row *row = row_of(name);
        void *context = row->begin();
        const char *why = row->run(context, &program);
        if (why) printf("FAILED %s: %s\n", o->files[i], why);
        *(why ? &failed : &passed) += 1;
        row->end(context);
        hunt_program_fini(&program);
    }
    printf("%u passed, %u failed\n", passed, failed);
    return failed != 0;
}

/* A program from a file as ways.py is told of it. */
static int tell(const options *o) {
    hunt_program program;
    char name[32];
    if (o->n_files != 1) {
        fprintf(stderr, "hunt: tell FILE\n");
        return 2;
    }
    hunt_read(o->files[0], &program, name);
    hunt_tell(&program, stdout);
    hunt_program_fini(&program);
    return 0;
}

/* ---- options ---- */

enum { KEY_CRASHED = 0x100 };

static const struct argp_option known[] = {
    {"seed", 's', "N", 0, "the first program's (HUNT_SEED, else 1)", 0},
    {"count", 'n', "N", 0, "programs (no limit)", 0},
    {"seconds", 't', "S", 0, "for so long (no limit)", 0},
    {"most", 'm', "N", 0, "nodes of a program at most, about (60; where there are gradients 16)",
     0},
    {"failures", 'f', "N", 0, "ends after so many (1)", 0},
    {"keep", 'k', "FOLDER", 0, "writes what fails there, cut down", 0},
    {"apart", 'a', NULL, 0, "each in a process of its own, as is done after a crash", 0},
    {"crashed", KEY_CRASHED, "SIGNAL", OPTION_HIDDEN, "what made it begin again", 0},
    {"json", 'j', NULL, 0, "ends with an object instead of a line of text", 0},
    {"coverage", 'c', NULL, 0, "tells which operations met which", 0},
    {NULL, 0, NULL, 0, NULL, 0}};

/* The whole number of an option, not below `least`. */
static uint64_t number(struct argp_state *state, const char *option, const char *text,
                       uint64_t least, uint64_t most) {
    char *end;
    errno = 0;
    unsigned long long value = strtoull(text, &end, 0);
    if (errno || end == text || *end || *text == '-' || value < least || value > most)
        argp_error(state, "--%s: '%s' is no whole number from %llu on", option, text,
                   (unsigned long long)least);
    return value;
}

static double seconds_of(struct argp_state *state, const char *text) {
    char *end;
    double value = strtod(text, &end);
    if (end == text || *end || !(value > 0))
        argp_error(state, "--seconds: '%s' is no time in seconds", text);
    return value;
}

static bool takes_files(const char *what) {
    return !strcmp(what, "replay") || !strcmp(what, "tell");
}

static error_t parse(int key, char *text, struct argp_state *state) {
    options *o = state->input;
    switch (key) {
    case 's': o->seed = number(state, "seed", text, 0, UINT64_MAX); break;
    case 'n': o->count = number(state, "count", text, 1, UINT64_MAX); break;
    case 't': o->seconds = seconds_of(state, text); break;
    case 'm': o->most = (uint32_t)number(state, "most", text, 1, UINT16_MAX); break;
    case 'f': o->failures = (uint32_t)number(state, "failures", text, 1, UINT32_MAX); break;
    case 'k': o->keep = text; break;
    case 'a': o->apart = true; break;
    case KEY_CRASHED: o->crashed = (int)number(state, "crashed", text, 1, 64); break;
    case 'c': o->coverage = true; break;
    case 'j': o->json = true; break;
    case ARGP_KEY_ARGS:
        o->way = state->argv[state->next];
        o->files = state->argv + state->next + 1;
        o->n_files = (uint32_t)(state->argc - state->next - 1);
        if (!takes_files(o->way) && o->n_files) argp_error(state, "%s takes no file", o->way);
        if (takes_files(o->way) && !o->n_files) argp_error(state, "%s: which file?", o->way);
        break;
    case ARGP_KEY_NO_ARGS: argp_usage(state); break;
    default: return ARGP_ERR_UNKNOWN;
    }
    return 0;
}

static char *list_ways(int key, const char *text, void *input) {
    if (key != ARGP_KEY_HELP_POST_DOC) return (char *)text;
    base_str s;
    base_str_init(&s);
    base_str_text(&s, "Ways:\n");
    for (size_t i = 0; i < ROWS; i++)
        base_str_format(&s, "  %s: %s\n", rows[i].name, rows[i].summary);
    return s.data;
}

/* HUNT_SEED, so that a build that runs the same tests once more hunts elsewhere; else 1. */
static uint64_t usual_seed(void) {
    const char *told = getenv("HUNT_SEED");
    return told && *told ? strtoull(told, NULL, 10) : 1;
}

int main(int argc, char **argv) {
    options o = {.seed = usual_seed(), .count = UINT64_MAX, .failures = 1};
    const struct argp parser = {known,
                                parse,
                                "WAY\nreplay FILE...\ntell FILE\nways",
                                "Runs random programs in a way, and compares with the reference."
                                "\v",
                                NULL,
                                list_ways,
                                NULL};
    if (argp_parse(&parser, argc, argv, 0, NULL, &o)) return 2;
    setvbuf(stdout, NULL, _IOLBF, BUFSIZ); /* what was said stays said after a crash */
    if (!strcmp(o.way, "tell")) return tell(&o);
    if (!strcmp(o.way, "ways")) {
        for (size_t i = 0; i < ROWS; i++) printf("%s\n", rows[i].name);
        return 0;
    }
    return strcmp(o.way, "replay") ? hunt(&o) : replay(&o);
}
