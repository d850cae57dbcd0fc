/* The shortest whole program: an embedded pool, one product, its result. bench/run times it from
 * the start of the process to its end. */
#include "shoal/shoal.h"

#include <stdio.h>

static int fail(const char *what) {
    fprintf(stderr, "start: %s: %s\n", what, shoal_error_message());
    return 1;
}

int main(void) {
    const float a_data[2][3] = {{1, 2, 3}, {4, 5, 6}}, b_data[3][2] = {{1, 0}, {0, 1}, {1, 1}};
    const float expected[2][2] = {{4, 5}, {10, 11}};
    float result[2][2];
    shoal_session *session = NULL;
    shoal_tensor *a = NULL, *b = NULL, *product = NULL;
    const shoal_options options = {.size = sizeof options, .hub = "embedded"};

    if (shoal_session_open(&options, &session)) return fail("session");
    if (shoal_tensor_new(session, SHOAL_F32, 2, (const int64_t[]){2, 3}, a_data, &a) ||
        shoal_tensor_new(session, SHOAL_F32, 2, (const int64_t[]){3, 2}, b_data, &b))
        return fail("tensor");
    if (shoal_matmul(a, b, &product)) return fail("matmul");
    if (shoal_read(product, result, sizeof result)) return fail("read");
    for (int i = 0; i < 4; i++)
        if (result[i / 2][i % 2] != expected[i / 2][i % 2]) return fail("wrong result");
    shoal_tensor_free(&a);
    shoal_tensor_free(&b);
    shoal_tensor_free(&product);
    shoal_session_close(&session);
    return 0;
}
