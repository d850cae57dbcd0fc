/* What tests of sessions share. */
#ifndef API_TESTING_H
#define API_TESTING_H

#include "shoal/shoal.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

static inline void ok(shoal_status status) {
    if (status != SHOAL_OK) fail_msg("%s: %s", shoal_status_name(status), shoal_error_message());
}

static inline void says(shoal_status status, shoal_status want, const char *part) {
    assert_int_equal(status, want);
    if (!strstr(shoal_error_message(), part))
        fail_msg("'%s' is not in '%s'", part, shoal_error_message());
}

static inline shoal_session *open_pool(uint32_t workers) {
    shoal_options options = {.size = sizeof options, .workers = workers, .threads = workers};
    options.hub = "embedded";
    options.timeout_ms = 20000;
    shoal_session *session;
    ok(shoal_session_open(&options, &session));
    return session;
}

#endif
