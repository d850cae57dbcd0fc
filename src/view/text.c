#include "view/text.h"

int view_character(const void *text) {
    const unsigned char *at = text;
    int more = at[0] < 0x80 ? 0 : at[0] < 0xC2 ? -1 : at[0] < 0xE0 ? 1 : at[0] < 0xF0 ? 2 : 3;
    if (more < 0 || at[0] > 0xF4) return 0;
    for (int i = 1; i <= more; i++)
        if ((at[i] & 0xC0) != 0x80) return 0;
    bool overlong = (at[0] == 0xE0 && at[1] < 0xA0) || (at[0] == 0xF0 && at[1] < 0x90);
    bool outside = (at[0] == 0xED && at[1] > 0x9F) || (at[0] == 0xF4 && at[1] > 0x8F);
    return overlong || outside ? 0 : more + 1;
}

char *view_valid(char *text) {
    for (unsigned char *at = (unsigned char *)text; *at != 0;) {
        int size = view_character(at);
        if (size == 0 || *at < ' ' || *at == 127) *at = '?';
        at += size > 0 ? size : 1;
    }
    return text;
}

void view_put_xml(FILE *out, const char *text) {
    for (const unsigned char *at = (const unsigned char *)text; *at != 0;) {
        int size = view_character(at);
        /* U+FFFE and U+FFFF are no characters of XML. */
        bool none = size == 3 && at[0] == 0xEF && at[1] == 0xBF && at[2] >= 0xBE;
        if (*at == '&')
            fputs("&amp;", out);
        else if (*at == '<')
            fputs("&lt;", out);
        else if (*at == '>')
            fputs("&gt;", out);
        else if (*at == '"')
            fputs("&quot;", out);
        else if (size == 0 || *at < ' ' || *at == 127 || none)
            fputc('?', out);
        else
            fwrite(at, 1, (size_t)size, out);
        at += size > 0 ? size : 1;
    }
}
