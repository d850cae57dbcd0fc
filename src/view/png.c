/* Pictures as PNG, by cairo. A build without cairo says so. */
#include "view/canvas.h"

#include "view/text.h"

#include <stdlib.h>
#include <string.h>

#ifdef SHOAL_CAIRO

#include <cairo.h>

struct view_png {
    cairo_surface_t *surface;
    cairo_t *pen;
};

static void set_colour(cairo_t *pen, uint32_t colour, double opacity) {
    cairo_set_source_rgba(pen, (colour >> 16 & 255) / 255.0, (colour >> 8 & 255) / 255.0,
                          (colour & 255) / 255.0, opacity);
}

static void rectangle(void *context, double x, double y, double width, double height,
                      uint32_t colour, double opacity, double radius, const char *title) {
    static const double quarter = 1.57079632679489661923;
    cairo_t *pen = context;
    set_colour(pen, colour, opacity);
    if (radius > 0 && width > 2 * radius && height > 2 * radius) {
        cairo_new_sub_path(pen);
        cairo_arc(pen, x + width - radius, y + radius, radius, -quarter, 0);
        cairo_arc(pen, x + width - radius, y + height - radius, radius, 0, quarter);
        cairo_arc(pen, x + radius, y + height - radius, radius, quarter, 2 * quarter);
        cairo_arc(pen, x + radius, y + radius, radius, 2 * quarter, 3 * quarter);
        cairo_close_path(pen);
    } else {
        cairo_rectangle(pen, x, y, width, height);
    }
    cairo_fill(pen);
}

static void line(void *context, double x1, double y1, double x2, double y2, uint32_t colour,
                 double width, bool dashed) {
    static const double dashes[] = {4, 3};
    cairo_t *pen = context;
    set_colour(pen, colour, 1);
    cairo_set_line_width(pen, width);
    cairo_set_dash(pen, dashes, dashed ? 2 : 0, 0);
    cairo_move_to(pen, x1, y1);
    cairo_line_to(pen, x2, y2);
    cairo_stroke(pen);
}

static void text(void *context, double x, double y, double size, bool bold, view_anchor anchor,
                 uint32_t colour, double width, const char *words) {
    cairo_t *pen = context;
    char fitted[256];
    cairo_text_extents_t extents;
    view_text_fit(words, size, width > 0 ? width : 1e9, fitted, sizeof fitted);
    view_valid(fitted); /* cairo takes UTF-8 alone */
    cairo_select_font_face(pen, "sans-serif", CAIRO_FONT_SLANT_NORMAL,
                           bold ? CAIRO_FONT_WEIGHT_BOLD : CAIRO_FONT_WEIGHT_NORMAL);
    cairo_set_font_size(pen, size);
    cairo_text_extents(pen, fitted, &extents);
    set_colour(pen, colour, 1);
    cairo_move_to(pen,
                  x - (anchor == VIEW_LEFT     ? 0
                       : anchor == VIEW_MIDDLE ? extents.x_advance / 2
                                               : extents.x_advance),
                  y);
    cairo_show_text(pen, fitted);
}

static bool fail(const view_png *png, char *error, size_t room) {
    snprintf(error, room, "drawing a PNG: %s",
             png == NULL ? "no memory" : cairo_status_to_string(cairo_status(png->pen)));
    return false;
}

static void destroy(view_png **png) {
    if (*png == NULL) return;
    cairo_destroy((*png)->pen);
    cairo_surface_destroy((*png)->surface);
    free(*png);
    *png = NULL;
}

bool view_png_begin(double width, double height, double scale, view_png **out, view_canvas *canvas,
                    char *error, size_t room) {
    view_png *png = calloc(1, sizeof *png);
    *out = png;
    if (png == NULL) return fail(NULL, error, room);
    png->surface = cairo_image_surface_create(CAIRO_FORMAT_RGB24, (int)(width * scale + 0.5),
                                              (int)(height * scale + 0.5));
    png->pen = cairo_create(png->surface);
    if (cairo_status(png->pen) != CAIRO_STATUS_SUCCESS) {
        fail(png, error, room);
        destroy(out);
        return false;
    }
    cairo_scale(png->pen, scale, scale);
    *canvas = (view_canvas){png->pen, rectangle, line, text};
    return true;
}

static cairo_status_t put(void *file, const unsigned char *data, unsigned length) {
    return fwrite(data, 1, length, file) == length ? CAIRO_STATUS_SUCCESS
                                                   : CAIRO_STATUS_WRITE_ERROR;
}

bool view_png_end(view_png **png, FILE *out, char *error, size_t room) {
    bool good = cairo_status((*png)->pen) == CAIRO_STATUS_SUCCESS;
    cairo_status_t status = CAIRO_STATUS_SUCCESS;
    if (!good) fail(*png, error, room);
    if (good) status = cairo_surface_write_to_png_stream((*png)->surface, put, out);
    if (status != CAIRO_STATUS_SUCCESS)
        snprintf(error, room, "writing a PNG: %s", cairo_status_to_string(status));
    destroy(png);
    return good && status == CAIRO_STATUS_SUCCESS;
}

#else

bool view_png_begin(double width, double height, double scale, view_png **out, view_canvas *canvas,
                    char *error, size_t room) {
    *out = NULL;
    snprintf(error, room,
             "this build of shoal has no cairo, which draws PNG: give a name that ends in .svg, or "
             "build with libcairo2-dev");
    return false;
}

bool view_png_end(view_png **png, FILE *out, char *error, size_t room) { return false; }

#endif
