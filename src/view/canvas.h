/* What pictures are drawn on: rectangles, lines and text, in pixels from the top left. */
#ifndef VIEW_CANVAS_H
#define VIEW_CANVAS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

typedef enum view_anchor { VIEW_LEFT, VIEW_MIDDLE, VIEW_RIGHT } view_anchor;

typedef struct view_canvas {
    void *context;
    /* colour: 0xRRGGBB; opacity 0..1. title: what is told when somebody points at it, or NULL. */
    void (*rectangle)(void *context, double x, double y, double width, double height,
                      uint32_t colour, double opacity, double radius, const char *title);
    void (*line)(void *context, double x1, double y1, double x2, double y2, uint32_t colour,
                 double width, bool dashed);
    /* y is of the base line. At most `room` wide (0: any): what is longer is cut with "…". */
    void (*text)(void *context, double x, double y, double size, bool bold, view_anchor anchor,
                 uint32_t colour, double room, const char *text);
} view_canvas;

/* About as wide as a text becomes; fonts differ. */
double view_text_width(const char *text, double size);
/* The text itself, or its beginning and "…", so that it takes at most `width`. Returns out; empty
 * when not even a letter fits. */
char *view_text_fit(const char *text, double size, double width, char *out, size_t room);

/* An SVG file: begins it, and ends it. Errors show in ferror. */
void view_svg_begin(FILE *out, double width, double height, view_canvas *canvas);
void view_svg_end(FILE *out);

/* A PNG, made `scale` times as large. False with a message in `error`: without cairo, memory, or a
 * way to write. */
typedef struct view_png view_png;
bool view_png_begin(double width, double height, double scale, view_png **out, view_canvas *canvas,
                    char *error, size_t room);
/* Writes and frees it. */
bool view_png_end(view_png **png, FILE *out, char *error, size_t room);

#endif
