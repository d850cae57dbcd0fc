/* Pictures as SVG, written by hand: a file is some hundred bytes per rectangle at most. */
#include "view/canvas.h"

#include "view/text.h"

#include <string.h>

#define FONT "system-ui,-apple-system,'Segoe UI','DejaVu Sans',sans-serif"

double view_text_width(const char *text, double size) {
    double width = 0;
    for (const char *c = text; *c != 0; c++) {
        if (((unsigned char)*c & 0xC0) == 0x80) continue;
        width += strchr("iljtfr.,:;'|![]()1 ", *c) != NULL ? 0.36
                 : strchr("mwMW%", *c) != NULL             ? 0.9
                                                           : 0.6;
    }
    return width * size;
}

char *view_text_fit(const char *text, double size, double width, char *out, size_t room) {
    snprintf(out, room, "%s", text);
    if (view_text_width(out, size) <= width) return out;
    size_t n = strlen(out);
    while (n > 0) {
        n--;
        while (n > 0 && ((unsigned char)out[n] & 0xC0) == 0x80) n--;
        out[n] = 0;
        if (n + 4 < room && view_text_width(out, size) + 0.8 * size <= width) break;
    }
    if (n > 0) strcpy(out + n, "\xE2\x80\xA6");
    return out;
}

static void rectangle(void *context, double x, double y, double width, double height,
                      uint32_t colour, double opacity, double radius, const char *title) {
    FILE *out = context;
    fprintf(out, "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" fill=\"#%06x\"", x, y,
            width, height, colour);
    if (opacity < 1) fprintf(out, " opacity=\"%.2f\"", opacity);
    if (radius > 0) fprintf(out, " rx=\"%.1f\"", radius);
    if (title == NULL) {
        fputs("/>\n", out);
        return;
    }
    fputs("><title>", out);
    view_put_xml(out, title);
    fputs("</title></rect>\n", out);
}

static void line(void *context, double x1, double y1, double x2, double y2, uint32_t colour,
                 double width, bool dashed) {
    fprintf(context,
            "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"#%06x\" "
            "stroke-width=\"%.1f\"%s/>\n",
            x1, y1, x2, y2, colour, width, dashed ? " stroke-dasharray=\"4 3\"" : "");
}

static void text(void *context, double x, double y, double size, bool bold, view_anchor anchor,
                 uint32_t colour, double width, const char *words) {
    static const char *const anchors[] = {"", " text-anchor=\"middle\"", " text-anchor=\"end\""};
    FILE *out = context;
    char fitted[256];
    if (width > 0) words = view_text_fit(words, size, width, fitted, sizeof fitted);
    if (*words == 0) return;
    fprintf(out, "<text x=\"%.1f\" y=\"%.1f\" font-size=\"%g\" fill=\"#%06x\"%s%s>", x, y, size,
            colour, anchors[anchor], bold ? " font-weight=\"600\"" : "");
    view_put_xml(out, words);
    fputs("</text>\n", out);
}

void view_svg_begin(FILE *out, double width, double height, view_canvas *canvas) {
    *canvas = (view_canvas){out, rectangle, line, text};
    fprintf(out,
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%.0f\" "
            "viewBox=\"0 0 %.0f %.0f\" font-family=\"" FONT "\">\n",
            width, height, width, height);
}

void view_svg_end(FILE *out) { fputs("</svg>\n", out); }
