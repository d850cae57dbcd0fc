#include "base/status.h"

#include "base/str.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { MESSAGE_BYTES = 1024 };
static _Thread_local char message[MESSAGE_BYTES];

static const char *const status_names[] = {
#define XX(name, text) #name,
    SHOAL_STATUS_MAP(XX)
#undef XX
};

const char *shoal_status_name(shoal_status status) {
    return (unsigned)status < SHOAL_STATUS_COUNT ? status_names[status] : "?";
}

const char *shoal_error_message(void) { return message; }

/* Messages contain what others have said, and may be cut off. The arguments of a format may point
 * into the message itself, so it is built aside. */
static void set(char text[MESSAGE_BYTES]) {
    base_text_clean(text, true);
    memcpy(message, text, MESSAGE_BYTES);
}

shoal_status base_fail(shoal_status status, const char *format, ...) {
    char text[MESSAGE_BYTES];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    set(text);
    return status;
}

shoal_status base_fail_prefix(shoal_status status, const char *format, ...) {
    char text[MESSAGE_BYTES];
    va_list list;
    va_start(list, format);
    int used = vsnprintf(text, sizeof text, format, list);
    va_end(list);
    if (used >= 0 && used < MESSAGE_BYTES)
        snprintf(text + used, sizeof text - (size_t)used, "%s", message);
    set(text);
    return status;
}

shoal_status base_fail_errno(int error, const char *format, ...) {
    char text[MESSAGE_BYTES], reason[128];
    va_list list;
    va_start(list, format);
    int used = vsnprintf(text, sizeof text, format, list);
    va_end(list);
    if (strerror_r(error, reason, sizeof reason)) snprintf(reason, sizeof reason, "%d", error);
    if (used >= 0 && used < MESSAGE_BYTES)
        snprintf(text + used, sizeof text - (size_t)used, ": %s", reason);
    set(text);
    switch (error) {
    case ENOMEM: return SHOAL_NO_MEMORY;
    case ENOENT: return SHOAL_NOT_FOUND;
    case EADDRINUSE: return SHOAL_BUSY;
    case ETIMEDOUT: return SHOAL_TIMEOUT;
    case EACCES:
    case EPERM: return SHOAL_DENIED;
    default: return SHOAL_IO;
    }
}
