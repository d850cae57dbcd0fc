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

void args_shares(const char *what, const char *text, args_share *out) {
    double sum = 0;
    uint32_t percents = 0;
    const char *at = text;
    out->text = text;
    out->count = 0;
    while (true) {
        char *end;
        double value = strtod(at, &end);
        if (out->count == ARGS_MOST_SLOTS)
            cmd_usage("%s: more than %d shares", what, ARGS_MOST_SLOTS);
        uint32_t ordinal = out->count + 1;
        if (end == at || !isfinite(value) || value < 0)
            cmd_usage("%s '%s': share %u, '%.*s', must be a number of 0 or more", what, text,
                      ordinal, (int)strcspn(at, ","), at);
        if (*end == '%') {
            percents++;
            end++;
        }
        if (*end != ',' && *end != 0)
            cmd_usage("%s '%s': share %u, '%.*s', must be a number of 0 or more", what, text,
                      ordinal, (int)strcspn(at, ","), at);
        out->values[out->count++] = value;
        sum += value;
        if (*end == 0) break;
        at = end + 1;
    }
    if (!isfinite(sum)) cmd_usage("%s '%s': the sum of the shares is not finite", what, text);
    if (sum <= 0) cmd_usage("%s '%s': all shares are 0; at least one must be positive", what, text);
    if (percents != 0 && percents != out->count)
        cmd_usage("%s '%s': %u of %u shares have a percent sign; all or none must", what, text,
                  percents, out->count);
    if (percents != 0 && fabs(sum - 100) > 0.01)
        cmd_usage("%s '%s': the percentages add up to %g, not to 100", what, text, sum);
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

const char *args_more(const char *what, args_list *list, const char *value) {
    size_t used = strlen(list->text);
    int n = snprintf(list->text + used, sizeof list->text - used, "%s%s", used ? "," : "", value);
    if (!*value || n >= (int)(sizeof list->text - used))
        cmd_usage("%s '%s': must have 1 to %zu characters, with all that are given", what, value,
                  sizeof list->text - 1);
    return list->text;
}
