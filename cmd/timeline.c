/* `shoal timeline`: a picture of who did what when. */
#include "args.h"
#include "output.h"
#include "record.h"
#include "text.h"
#include "view/chrome.h"
#include "view/timeline.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

enum { KEY_WIDTH = 0x100, KEY_SCALE, MOST_FILE = 512 << 20 };

typedef struct input {
    const char *hub, *output, *what; /* what: FILE or SECONDS */
    double width, scale;
    bool quiet, force;
} input;

static const struct argp_option options[] = {
    {"hub", 'H', "ADDRESS", 0, "The pool's hub (default: SHOAL_HUB, else shm:hub)", 0},
    {"output", 'o', "FILE", 0, "The file to write, .svg or .png (default: timeline.svg)", 0},
    OUTPUT_OPTION_FORCE,
    {"width", KEY_WIDTH, "PIXELS", 0, "Width of the picture (default: 1200)", 0},
    {"scale", KEY_SCALE, "N", 0,
     "Resolution of a PNG: its pixels per pixel of --width (default: 2)", 0},
    {"quiet", 'q', NULL, 0, "Print no progress", 0},
    CMD_OPTIONS_END};

static void take(void *to, int key, char *arg) {
    input *in = to;
    if (key == 'H') in->hub = arg;
    if (key == 'o') in->output = arg;
    if (key == KEY_WIDTH)
        in->width = (double)args_count("--width", arg, VIEW_TIMELINE_LEAST, VIEW_TIMELINE_MOST);
    if (key == KEY_SCALE) in->scale = args_positive("--scale", arg);
    if (key == 'q') in->quiet = true;
    if (key == OUTPUT_KEY_FORCE) in->force = true;
    if (key == ARGP_KEY_ARG && in->what != NULL)
        cmd_usage("timeline takes one FILE, or a number of SECONDS");
    if (key == ARGP_KEY_ARG) in->what = arg;
}

/* ---- what is shown ---- */

static char *read_file(const char *path, size_t *bytes) {
    struct stat st;
    char *text = NULL;
    FILE *file = fopen(path, "re");
    if (file == NULL || fstat(fileno(file), &st) != 0) {
        cmd_fail("reading %s: %s", path, strerror(errno));
    } else if (!S_ISREG(st.st_mode) || st.st_size > MOST_FILE) {
        cmd_fail("reading %s: not a file of at most %d MiB", path, MOST_FILE >> 20);
    } else {
        text = malloc((size_t)st.st_size + 1);
        if (text == NULL) cmd_fail("no memory to read %s", path);
        *bytes = text != NULL ? fread(text, 1, (size_t)st.st_size, file) : 0;
    }
    if (file != NULL) fclose(file);
    return text;
}

static int load(const char *path, view_record *out) {
    char error[256];
    size_t bytes = 0;
    char *text = read_file(path, &bytes);
    if (text == NULL) return CMD_FAILED;
    int code = CMD_OK;
    if (!view_chrome_read(text, bytes, out, error, sizeof error))
        code = cmd_fail("%s: %s", path, error);
    free(text);
    return code;
}

static bool is_number(const char *text) {
    return isdigit((unsigned char)text[0]) && text[strspn(text, "0123456789.")] == 0;
}

/* ---- the picture ---- */

static bool ends_in(const char *path, const char *end) {
    size_t n = strlen(path), k = strlen(end);
    return n > k && strcasecmp(path + n - k, end) == 0;
}

static bool draw_png(const view_record *record, const input *in, FILE *file, char *error,
                     size_t room) {
    view_canvas canvas;
    view_png *png;
    double height = view_timeline_height(record, in->width);
    if (!view_png_begin(in->width, height, in->scale, &png, &canvas, error, room)) return false;
    bool drawn = view_timeline_draw(record, in->width, &canvas);
    if (!drawn) snprintf(error, room, "no memory for the picture");
    return view_png_end(&png, file, error, room) && drawn;
}

static int draw(const view_record *record, const input *in) {
    char error[256] = "no memory for the picture", *beside;
    FILE *file = output_open(in->output, &beside);
    bool good;
    if (file == NULL) return CMD_FAILED;
    if (ends_in(in->output, ".png")) {
        good = draw_png(record, in, file, error, sizeof error);
    } else {
        view_canvas canvas;
        view_svg_begin(file, in->width, view_timeline_height(record, in->width), &canvas);
        good = view_timeline_draw(record, in->width, &canvas);
        view_svg_end(file);
    }
    if (good) return output_commit(file, beside, in->output);
    output_drop(file, beside);
    return cmd_fail("%s", error);
}

static int run(const cmd_command *self, int argc, char **argv) {
    input in = {.output = "timeline.svg", .width = 1200};
    cmd_parse(self, argc, argv, &in);
    if (!ends_in(in.output, ".svg") && !ends_in(in.output, ".png"))
        cmd_usage("--output '%s': must end in .svg or .png", in.output);
    if (in.scale > 8) cmd_usage("--scale '%g': at most 8", in.scale);
    if (in.scale > 0 && ends_in(in.output, ".svg"))
        cmd_usage("--scale is for a PNG; an SVG has no resolution");
    if (in.scale <= 0) in.scale = 2;
    bool number = in.what == NULL || is_number(in.what);
    if (!number && (in.hub != NULL || in.quiet))
        cmd_usage("--%s only applies to a live recording, not to the file %s",
                  in.hub != NULL ? "hub" : "quiet", in.what);
    if (output_check(in.output, in.force) != CMD_OK) return CMD_FAILED;
    double seconds = in.what != NULL && number ? record_seconds(in.what) : 2;
    view_record record = {0};
    int code = number ? record_pool(in.hub, seconds, VIEW_MOST_EVENTS, in.quiet, &record)
                      : load(in.what, &record);
    if (code == CMD_OK) code = draw(&record, &in);
    if (code == CMD_OK && cmd_json) {
        cJSON *root = cJSON_CreateObject();
        cJSON_AddStringToObject(root, "output", in.output);
        cJSON_AddNumberToObject(root, "seconds", record.seconds);
        cJSON_AddNumberToObject(root, "events", (double)record.n_spans);
        code = text_json(root);
    } else if (code == CMD_OK) {
        printf("%s\n", in.output);
    }
    view_record_fini(&record);
    return code;
}

const cmd_command cmd_timeline = {
    .name = "timeline",
    .group = CMD_SEE,
    .args = "[FILE|SECONDS]",
    .summary = "Draw what a pool does as a timeline, from a trace or live",
    .doc = "FILE was written by `shoal trace -o`; a number is the time to record (default: 2).",
    .options = options,
    .take = take,
    .run = run};
