/* Multiplies two matrices on a pool: the one SHOAL_HUB names, else one inside this process.
 *
 *     cc matmul.c -lshoal -o matmul && ./matmul */
#include <shoal/shoal.h>

#include <stdio.h>

int main(void) {
    const float a[2][3] = {{1, 2, 3}, {4, 5, 6}}, b[3][2] = {{1, 0}, {0, 1}, {1, 1}};
    float c[2][2];
    shoal_session *session = NULL;
    shoal_tensor *x = NULL, *y = NULL, *z = NULL;
    shoal_status status = shoal_session_open(NULL, &session);
    if (!status) status = shoal_tensor_new(session, SHOAL_F32, 2, (int64_t[]){2, 3}, a, &x);
    if (!status) status = shoal_tensor_new(session, SHOAL_F32, 2, (int64_t[]){3, 2}, b, &y);
    if (!status) status = shoal_matmul(x, y, &z);
    if (!status) status = shoal_read(z, c, sizeof c);
    if (status)
        fprintf(stderr, "matmul: %s\n", shoal_error_message());
    else
        printf("%g %g\n%g %g\n", c[0][0], c[0][1], c[1][0], c[1][1]);
    shoal_tensor_free(&x);
    shoal_tensor_free(&y);
    shoal_tensor_free(&z);
    if (session != NULL) shoal_session_close(&session);
    return status != SHOAL_OK;
}
