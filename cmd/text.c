#include "text.h"

#include <assert.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <string.h>

char *text_count(int64_t value, char out[TEXT_ROOM]) {
    char digits[24];
    int length = snprintf(digits, sizeof digits, "%" PRIu64,
                          value < 0 ? 0 - (uint64_t)value : (uint64_t)value);
    char *to = out;
    if (value < 0) *to++ = '-';
    for (int i = 0; i < length; i++) {
        if (i > 0 && (length - i) % 3 == 0) *to++ = ',';
        *to++ = digits[i];
    }
    *to = 0;
    return out;
}

char *text_bytes(uint64_t bytes, char out[TEXT_ROOM]) { return shoal_bytes_text(bytes, out); }

char *text_seconds(double seconds, char out[TEXT_ROOM]) {
    long long whole = (long long)(seconds + 0.5);
    if (seconds == 0)
        snprintf(out, TEXT_ROOM, "0 s");
    else if (seconds < 0.9995e-3)
        snprintf(out, TEXT_ROOM, "%.0f us", seconds * 1e6);
    else if (seconds < 0.00995)
        snprintf(out, TEXT_ROOM, "%.1f ms", seconds * 1e3);
    else if (seconds < 0.9995)
        snprintf(out, TEXT_ROOM, "%.0f ms", seconds * 1e3);
    else if (seconds < 99.995)
        snprintf(out, TEXT_ROOM, "%.2f s", seconds);
    else if (whole < 3600)
        snprintf(out, TEXT_ROOM, "%lld min %lld s", whole / 60, whole % 60);
    else
        snprintf(out, TEXT_ROOM, "%lld h %lld min", whole / 3600, whole / 60 % 60);
    return out;
}

char *text_show_count(double value, char out[TEXT_ROOM]) { return text_count((int64_t)value, out); }
char *text_show_bytes(double value, char out[TEXT_ROOM]) {
    return text_bytes((uint64_t)value, out);
}
char *text_show_seconds(double value, char out[TEXT_ROOM]) { return text_seconds(value, out); }
char *text_show_fixed(double value, char out[TEXT_ROOM]) {
    snprintf(out, TEXT_ROOM, "%.1f", value);
    return out;
}
char *text_show_percent(double value, char out[TEXT_ROOM]) {
    snprintf(out, TEXT_ROOM, "%.4g %%", value);
    return out;
}

/* The text of a cell; numbers are written into `out`. */
static const char *show(const cJSON *row, const text_column *column, char out[TEXT_ROOM]) {
    const cJSON *cell = cJSON_GetObjectItemCaseSensitive(row, column->key);
    if (cJSON_IsString(cell)) return cell->valuestring;
    if (cJSON_IsBool(cell)) return cJSON_IsTrue(cell) ? "yes" : "no";
    if (!cJSON_IsNumber(cell)) return "-";
    if (column->show != NULL) return column->show(cell->valuedouble, out);
    snprintf(out, TEXT_ROOM, "%.10g", cell->valuedouble);
    return out;
}

/* Characters, not bytes, of UTF-8 text. */
static int width_of(const char *text) {
    int width = 0;
    for (; *text != 0; text++) width += ((unsigned char)*text & 0xc0) != 0x80;
    return width;
}

static void print_some(const char *text, int bytes) {
    for (int i = 0; i < bytes; i++) {
        unsigned char c = (unsigned char)text[i];
        putchar(c < 0x20 || c == 0x7f ? '?' : c);
    }
}

void text_print(const char *text) { print_some(text, (int)strlen(text)); }

/* Characters of a line that wraps, where there is room for fewer. */
enum { LEAST_WRAPPED = 24 };

/* How many bytes of a text go on a line of `room` characters: whole words, and one of them at
 * least. */
static int line_of(const char *text, int room) {
    int end = 0, width = 0;
    for (int i = 0; text[i] != 0; i++) {
        if (text[i] == ' ' && (width <= room || end == 0)) end = i;
        width += ((unsigned char)text[i] & 0xc0) != 0x80;
    }
    return width <= room || end == 0 ? (int)strlen(text) : end;
}

void text_wrapped(const char *text, int at, int indent) {
    int width = cmd_columns(stdout);
    if (width == 0) width = INT_MAX;
    for (;;) {
        int end = line_of(text, width - at > LEAST_WRAPPED ? width - at : LEAST_WRAPPED);
        print_some(text, end);
        putchar('\n');
        if (text[end] == 0) return;
        text += end + 1;
        printf("%*s", at = indent, "");
    }
}

static void print_cell(const char *text, int width, bool right, bool last) {
    int room = width - width_of(text);
    if (right) printf("%*s", room, "");
    text_print(text);
    if (!right && !last) printf("%*s", room, "");
    fputs(last ? "\n" : "  ", stdout);
}

static void print_blocks(const cJSON *rows, const text_column *columns, int n_columns, int title) {
    const cJSON *row;
    char out[TEXT_ROOM];
    cJSON_ArrayForEach(row, rows) {
        if (row != rows->child) putchar('\n');
        for (int i = 0; i < n_columns; i++) {
            printf("%-*s  ", title, columns[i].title);
            text_print(show(row, &columns[i], out));
            putchar('\n');
        }
    }
}

void text_table(const cJSON *rows, const text_column *all, int n_all) {
    enum { MOST = 24 };
    text_column columns[MOST];
    int n_columns = 0;
    assert(n_all <= MOST);
    for (int i = 0; i < n_all; i++)
        if (!all[i].wide || cmd_wide) columns[n_columns++] = all[i];
    int widths[MOST], total = 0, widest_title = 0, terminal = cmd_columns(stdout);
    bool right[MOST];
    const cJSON *row;
    char out[TEXT_ROOM];
    for (int i = 0; i < n_columns; i++) {
        int title = width_of(columns[i].title);
        widths[i] = title;
        right[i] = false;
        if (title > widest_title) widest_title = title;
        cJSON_ArrayForEach(row, rows) {
            int width = width_of(show(row, &columns[i], out));
            if (width > widths[i]) widths[i] = width;
            right[i] |= cJSON_IsNumber(cJSON_GetObjectItemCaseSensitive(row, columns[i].key));
        }
        total += widths[i] + (i > 0 ? 2 : 0);
    }
    /* The last column may wrap when it is text and has some room. */
    int last = n_columns - 1;
    int excess = right[last] || widths[last] < LEAST_WRAPPED ? 0 : widths[last] - LEAST_WRAPPED;
    if (terminal > 0 && total - excess > terminal) {
        print_blocks(rows, columns, n_columns, widest_title);
        return;
    }
    for (int i = 0; i < n_columns; i++)
        print_cell(columns[i].title, widths[i], right[i], i == n_columns - 1);
    cJSON_ArrayForEach(row, rows) {
        for (int i = 0; i < last; i++)
            print_cell(show(row, &columns[i], out), widths[i], right[i], false);
        const char *text = show(row, &columns[last], out);
        if (right[last])
            print_cell(text, widths[last], true, true);
        else
            text_wrapped(text, total - widths[last], total - widths[last]);
    }
}

static int put_json(cJSON *json, bool one_line) {
    char *printed = json == NULL ? NULL
                    : one_line   ? cJSON_PrintUnformatted(json)
                                 : cJSON_Print(json);
    cJSON_Delete(json);
    if (printed == NULL) return cmd_fail("out of memory for the JSON output");
    puts(printed);
    cJSON_free(printed);
    return CMD_OK;
}

int text_json(cJSON *json) { return put_json(json, false); }

int text_json_line(cJSON *json) {
    int code = put_json(json, true);
    fflush(stdout);
    return code;
}

int text_list(cJSON *rows, int code, const char *none) {
    if (code == CMD_OK && cmd_json) return text_json(rows);
    if (code == CMD_OK && !cJSON_GetArraySize(rows)) puts(none);
    cJSON_Delete(rows);
    return code;
}

int text_json_pair(const char *key, const char *value) {
    cJSON *root = cJSON_CreateObject();
    cJSON_AddStringToObject(root, key, value);
    return text_json(root);
}
