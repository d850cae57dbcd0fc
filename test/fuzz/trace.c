/* Files that `shoal timeline` reads: whatever was taken can be drawn and written again. */
#include "fuzz.h"
#include "view/chrome.h"
#include "view/timeline.h"

/* cJSON takes some 64 bytes for a value of two; pictures are bounded by their width. */
size_t fuzz_limit(size_t size) { return 256 * size + (8 << 20); }

static void nothing(void *context, double x, double y, double width, double height, uint32_t colour,
                    double opacity, double radius, const char *title) {
    FUZZ_CHECK(x > -1e6 && x + width < 1e6 && y > -1e6 && y + height < 1e6);
    FUZZ_CHECK(width >= -1 && height >= -1 && opacity >= 0 && opacity <= 1);
}

static void no_line(void *context, double x1, double y1, double x2, double y2, uint32_t colour,
                    double width, bool dashed) {
    FUZZ_CHECK(x1 > -1e6 && x2 < 1e6 && y1 > -1e6 && y2 < 1e6);
}

static void no_text(void *context, double x, double y, double size, bool bold, view_anchor anchor,
                    uint32_t colour, double room, const char *text) {
    FUZZ_CHECK(text != NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    view_record record;
    char error[200];
    const view_canvas canvas = {NULL, nothing, no_line, no_text};
    if (view_chrome_read((const char *)data, size, &record, error, sizeof error)) {
        fuzz_accepted++;
        FUZZ_CHECK(view_timeline_draw(&record, 800, &canvas));
        FILE *out = fopen("/dev/null", "w");
        FUZZ_CHECK(out);
        (void)!view_chrome_write(out, &record);
        fclose(out);
    }
    view_record_fini(&record);
    return 0;
}
