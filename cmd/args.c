#include "args.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int64_t args_count(const char *what, const char *text, int64_t least, int64_t most) {
    char *end;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    if (end == text || *end != 0 || errno != 0 || value < least || value > most)
        cmd_usage("%s '%s': must be a whole number from %lld to %lld", what, text, (long long)least,
                  (long long)most);
    return value;
}

double args_positive(const char *what, const char *text) {
    char *end;
    double value = strtod(text, &end);
    if (end == text || *end != 0 || !isfinite(value) || value <= 0)
        cmd_usage("%s '%s': must be a number above 0", what, text);
    return value;
}

uint64_t args_size(const char *what, const char *text) {
    static const char units[] = "KMGT";
    char *end;
    double value = strtod(text, &end);
    bool good = end != text && isfinite(value) && value > 0;
    const char *unit = *end != 0 ? strchr(units, toupper((unsigned char)*end)) : NULL;
    if (unit != NULL) {
        value = ldexp(value, 10 * (int)(unit - units + 1));
        end++;
        if (*end == 'i') end++;
    }
    if (*end == 'B') end++;
    if (!good || *end != 0 || value < 1 || value >= 0x1p63)
        cmd_usage("%s '%s': must be a size such as 8G, 512M or 1.5GiB", what, text);
    return (uint64_t)value;
}

args_range args_rows(const char *what, const char *text) {
    char *end;
    args_range range;
    errno = 0;
    range.first = strtoll(text, &end, 10);
    bool good = end != text && *end == ':';
    const char *second = good ? end + 1 : text;
    range.last = strtoll(second, &end, 10);
    if (!good || end == second || *end != 0 || errno != 0 || range.first < 0 ||
        range.last < range.first)
        cmd_usage("%s '%s': must be FIRST:LAST with 0 <= FIRST <= LAST, such as 0:4096", what,
                  text);
    return range;
}

/* Adds one share, of `length` letters. */
static void add_share(const char *what, const char *text, size_t length, args_share *out) {
    char *end;
    double value = strtod(text, &end);
    uint32_t at = out->count, ordinal = at + 1;
    bool open = length == 1 && *text == '-', percent = end != text && *end == '%';
    if (at == ARGS_MOST_SLOTS) cmd_usage("%s: more than %d shares", what, ARGS_MOST_SLOTS);
    if (!open && (end == text || !isfinite(value) || value < 0 || end + percent != text + length))
        cmd_usage("%s '%s': share %u, '%.*s', must be a number of 0 or more", what, out->text,
                  ordinal, (int)length, text);
    out->values[at] = open ? 0 : value;
    out->open[at] = open;
    out->some_open |= open;
    out->count++;
}

/* What holds for all of them. */
static void check_shares(const char *what, uint32_t percents, const args_share *shares) {
    double sum = 0;
    uint32_t open = 0;
    for (uint32_t i = 0; i < shares->count; i++) {
        sum += shares->values[i];
        open += shares->open[i];
    }
    if (!isfinite(sum))
        cmd_usage("%s '%s': the sum of the shares is not finite", what, shares->text);
    if (percents != 0 && percents + open != shares->count)
        cmd_usage("%s '%s': %u of %u shares have a percent sign; all or none must", what,
                  shares->text, percents, shares->count);
    if (open == shares->count) return;
    if (open != 0 && percents == 0)
        cmd_usage("%s '%s': where some are left out, the others must be percentages", what,
                  shares->text);
    if (sum <= 0 && open == 0)
        cmd_usage("%s '%s': all shares are 0; at least one must be positive", what, shares->text);
    if (percents != 0 && open == 0 && fabs(sum - 100) > 0.01)
        cmd_usage("%s '%s': the percentages add up to %g, not to 100", what, shares->text, sum);
    if (open != 0 && sum >= 100)
        cmd_usage("%s '%s': the percentages add up to %g, which leaves nothing for those left out",
                  what, shares->text, sum);
}

void args_shares(const char *what, const char *text, args_share *out) {
    uint32_t percents = 0;
    *out = (args_share){.text = text};
    for (const char *at = text; at != NULL;) {
        size_t length = strcspn(at, ",");
        percents += length > 0 && at[length - 1] == '%';
        add_share(what, at, length, out);
        at = at[length] != 0 ? at + length + 1 : NULL;
    }
    check_shares(what, percents, out);
}

void args_named_slots(const char *what, char *text, args_slots *out) {
    static char as_given[256]; /* for messages */
    uint32_t percents = 0, given = 0;
    snprintf(as_given, sizeof as_given, "%s", text);
    *out = (args_slots){.share.text = as_given};
    for (char *at = text; at != NULL;) {
        size_t length = strcspn(at, ",");
        char *next = at[length] != 0 ? at + length + 1 : NULL;
        at[length] = 0;
        char *share = strrchr(at, '=');
        if (share != NULL) *share++ = 0;
        if (*at == 0)
            cmd_usage("%s '%s': name %u is empty; name a slot as desk or desk/opencl", what,
                      out->share.text, out->count + 1);
        given += share != NULL;
        length = share != NULL ? strlen(share) : 1;
        percents += length > 0 && share != NULL && share[length - 1] == '%';
        add_share(what, share != NULL ? share : "-", length, &out->share);
        out->names[out->count++] = at;
        at = next;
    }
    check_shares(what, percents, &out->share);
    if (given == 0) out->share.count = 0;
}

args_split args_splits(const char *what, const char *text) {
    if (strcmp(text, "rows") == 0) return (args_split){0, 1, 1};
    if (strcmp(text, "columns") == 0) return (args_split){1, 0, 1};
    if (strcmp(text, "inner") == 0) return (args_split){1, 1, 0};
    char *end;
    unsigned long rows = strtoul(text, &end, 10), columns = 0;
    bool good = isdigit((unsigned char)text[0]) && *end == 'x' && isdigit((unsigned char)end[1]);
    if (good) columns = strtoul(end + 1, &end, 10);
    if (!good || *end != 0 || rows < 1 || columns < 1 || rows > ARGS_MOST_SLOTS ||
        columns > ARGS_MOST_SLOTS)
        cmd_usage("%s '%s': must be rows, columns, inner, or a grid such as 2x3", what, text);
    return (args_split){(uint32_t)rows, (uint32_t)columns, 1};
}

bool args_shape(const char *text, int64_t out[3]) {
    const char *at = text;
    for (int i = 0; i < 3; i++) {
        char *end;
        errno = 0;
        if (!isdigit((unsigned char)*at)) return false;
        out[i] = strtoll(at, &end, 10);
        if (errno != 0 || out[i] < 1 || out[i] > INT32_MAX || *end != (i < 2 ? 'x' : 0))
            return false;
        at = end + 1;
    }
    return true;
}

const char *args_more(const char *what, args_list *list, const char *value) {
    size_t used = strlen(list->text);
    int n = snprintf(list->text + used, sizeof list->text - used, "%s%s", used ? "," : "", value);
    if (!*value || n >= (int)(sizeof list->text - used))
        cmd_usage("%s '%s': must have 1 to %zu characters, with all that are given", what, value,
                  sizeof list->text - 1);
    return list->text;
}
