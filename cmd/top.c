/* `shoal top`: a pool, live. On a terminal it is a screen, elsewhere one picture after another. */
#include "args.h"
#include "status.h"
#include "text.h"
#include "view/screen.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <ncurses.h>

enum { KEY_COUNT = 0x100, KEY_SMOOTH, TIMEOUT_MS = 3000, USUAL = 80, WIDE = 200 };

typedef struct input {
    const char *hub;
    double interval, smooth;
    int64_t count; /* pictures; 0: until told to stop */
} input;

static const struct argp_option options[] = {
    {"hub", 'H', "ADDRESS", 0, "The pool's hub (default: SHOAL_HUB, else shm:hub)", 0},
    {"interval", 'i', "SECONDS", 0, "Time between updates (default: 1)", 0},
    {"smooth", KEY_SMOOTH, "PART", 0,
     "Smooth the rates: the weight of the newest, above 0 and up to 1 (default: 1, not smoothed)",
     0},
    {"count", KEY_COUNT, "N", 0, "Print N tables as text, then quit", 0},
    CMD_OPTION_WIDE,
    CMD_OPTIONS_END};

static void take(void *to, int key, char *arg) {
    input *in = to;
    if (key == 'H') in->hub = arg;
    if (key == 'i') in->interval = args_positive("--interval", arg);
    if (key == KEY_SMOOTH) in->smooth = args_positive("--smooth", arg);
    if (key == KEY_COUNT) in->count = args_count("--count", arg, 1, 1000000);
}

/* Two looks at a pool: the last one and the one before. */
typedef struct watch {
    const char *address;
    cmd_pool pool;       /* its session is kept; its slots are those of the last look */
    view_look last, old; /* old.slots: our own copy */
    shoal_slot *copy;
    view_smooth smooth;
    int looks;
    char trouble[512]; /* why there is no look; "" when there is one */
} watch;

static void forget(watch *w) {
    pool_close(&w->pool);
    free(w->copy);
    w->copy = NULL;
    view_smooth_fini(&w->smooth);
    w->looks = 0;
}

static bool keep_last(watch *w) {
    uint32_t n = w->pool.status.n_slots;
    shoal_slot *copy = realloc(w->copy, (n + 1) * sizeof *copy);
    if (copy == NULL) return false;
    w->copy = copy;
    if (n > 0) memcpy(copy, w->pool.slots, n * sizeof *copy);
    w->old = w->last;
    w->old.slots = copy;
    return true;
}

/* A hub that is gone is looked for again with the next look. */
static bool look(watch *w) {
    const shoal_options session = {
        .size = sizeof session, .hub = w->address, .timeout_ms = TIMEOUT_MS, .name = "top"};
    shoal_status status = SHOAL_OK;
    if (w->looks > 0 && !keep_last(w)) status = SHOAL_NO_MEMORY;
    if (status == SHOAL_OK)
        status = w->pool.session != NULL ? pool_look(&w->pool) : pool_open(&session, &w->pool);
    snprintf(w->trouble, sizeof w->trouble, "%s", status == SHOAL_OK ? "" : shoal_error_message());
    if (status != SHOAL_OK) {
        forget(w);
        return false;
    }
    w->last = (view_look){.status = w->pool.status,
                          .slots = w->pool.slots,
                          .paths = w->pool.paths,
                          .n_paths = w->pool.n_paths,
                          .at = cmd_now()};
    w->looks++;
    if (w->looks > 1 && !view_smooth_take(&w->smooth, &w->old, &w->last)) w->looks = 1;
    return true;
}

static void draw(const watch *w, FILE *out, int columns) {
    if (w->trouble[0] != 0)
        fprintf(out, "%.*s\n", columns, w->trouble);
    else
        view_screen_write(out, &w->smooth, &w->last, columns);
}

static int print_pictures(watch *w, const input *in) {
    for (int64_t i = 0; (in->count == 0 || i < in->count) && cmd_stop == 0; i++) {
        poll(NULL, 0, (int)(in->interval * 1e3));
        if (cmd_stop != 0) break;
        if (!look(w)) return cmd_fail("%s", w->trouble);
        if (cmd_json) {
            if (text_json_line(status_json(&w->pool)) != CMD_OK) return CMD_FAILED;
        } else {
            if (i > 0) putchar('\n');
            draw(w, stdout, cmd_wide ? WIDE : USUAL);
        }
        if (fflush(stdout) != 0 || ferror(stdout) != 0)
            return cmd_fail("writing the output: %s", strerror(errno));
    }
    return CMD_OK;
}

static void show(const watch *w) {
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    if (out == NULL) return;
    draw(w, out, COLS);
    erase();
    int row = 0;
    if (fclose(out) == 0)
        for (char *line = text, *end; row < LINES - 1 && (end = strchr(line, '\n')) != NULL;
             line = end + 1, row++) {
            bool title = strncmp(line, "WORKER ", 7) == 0;
            if (title) attron(A_REVERSE);
            mvaddnstr(row, 0, line, (int)(end - line));
            if (title) attroff(A_REVERSE);
        }
    mvaddnstr(LINES - 1, 0, "q: quit", COLS);
    refresh();
    free(text);
}

static int run_screen(watch *w, const input *in) {
    /* Not initscr, which ends the process when it does not know the terminal. */
    SCREEN *screen = newterm(NULL, stdout, stdin);
    if (screen == NULL)
        return cmd_fail("unknown terminal type '%s'; --count N prints text",
                        getenv("TERM") != NULL ? getenv("TERM") : "");
    cbreak();
    noecho();
    curs_set(0);
    for (int key = 0; cmd_stop == 0 && key != 'q' && key != 'Q';) {
        look(w);
        show(w);
        double next = cmd_now() + in->interval;
        do {
            timeout((int)((next - cmd_now()) * 1e3) + 1);
            key = getch();
            if (key == KEY_RESIZE) show(w);
        } while (cmd_stop == 0 && key != 'q' && key != 'Q' && cmd_now() < next);
    }
    endwin();
    delscreen(screen);
    return CMD_OK;
}

static int run(const cmd_command *self, int argc, char **argv) {
    input in = {.interval = 1, .smooth = 1};
    cmd_parse(self, argc, argv, &in);
    watch w = {.address = cmd_hub_address(in.hub), .smooth.part = in.smooth};
    if (in.smooth > 1) cmd_usage("--smooth '%g': must be above 0 and at most 1", in.smooth);
    if (in.interval > 3600) cmd_usage("--interval '%g': at most 3600 seconds", in.interval);
    cmd_catch_signals();
    if (cmd_json && in.smooth < 1) cmd_usage("--smooth: JSON contains sums, not rates");
    bool screen = in.count == 0 && !cmd_json && isatty(STDOUT_FILENO) && isatty(STDIN_FILENO);
    /* What is wrong at first is told as by every other command. */
    int code = look(&w) ? CMD_OK : cmd_fail("%s", w.trouble);
    if (code == CMD_OK) code = screen ? run_screen(&w, &in) : print_pictures(&w, &in);
    forget(&w);
    return code;
}

const cmd_command cmd_top = {
    .name = "top",
    .group = CMD_SEE,
    .summary = "Show a pool live: workers, operations, bytes, memory",
    .doc = "On a terminal this is a screen; q quits. Otherwise, and with --count, it prints one "
           "table after another. If the hub goes away, it reconnects once the hub is back. With "
           "--json, each update is a line.",
    .options = options,
    .take = take,
    .run = run};
