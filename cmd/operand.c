#define _GNU_SOURCE
#include "operand.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

typedef char path_text[4096];

/* Of "path" or "path:tensor"; *name: NULL: there is none. */
static int divide(const char *text, path_text path, const char **name) {
    const char *colon = strrchr(text, ':');
    size_t length = strlen(text);
    *name = NULL;
    if (access(text, F_OK) != 0 && colon != NULL && colon != text) {
        length = (size_t)(colon - text);
        *name = colon + 1;
    }
    if (length >= sizeof(path_text)) return cmd_fail("%s: the path is too long", text);
    memcpy(path, text, length);
    path[length] = 0;
    return CMD_OK;
}

int operand_file(const char *text, shoal_file **file, uint64_t *index) {
    path_text path;
    const char *name;
    if (divide(text, path, &name) != CMD_OK) return CMD_FAILED;
    if (cmd_try(shoal_file_open(path, file)) != CMD_OK) return CMD_FAILED;
    int code = cmd_try(shoal_file_find(*file, name, index));
    if (code != CMD_OK) shoal_file_close(file);
    return code;
}

int operand_open(const char *text, args_range cut, bool transposed, cmd_operand *out) {
    *out = (cmd_operand){.text = text, .transposed = transposed};
    int code = operand_file(text, &out->file, &out->index);
    if (code != CMD_OK) return code;
    shoal_file_tensor tensor;
    code = cmd_try(shoal_file_tensor_at(out->file, out->index, &tensor));
    if (code != CMD_OK) {
        operand_close(out);
        return code;
    }
    const shoal_type *type = &tensor.type;
    out->dtype = (shoal_dtype)type->dtype;
    out->plain = tensor.stored.dtype == tensor.type.dtype;
    out->direct = tensor.direct;
    out->bytes = tensor.bytes;
    int64_t first = cut.last < 0 ? 0 : cut.first, last = cut.last < 0 ? type->dims[0] : cut.last;
    if (type->rank != 2)
        code = cmd_fail("%s: has %d dimension%s; a product needs matrices, which have 2", text,
                        type->rank, type->rank == 1 ? "" : "s");
    else if (shoal_dtype_kind(out->dtype) != 'f')
        code = cmd_fail("%s: its elements are %s; a product needs floating-point elements", text,
                        shoal_dtype_name(out->dtype));
    else if (last > type->dims[0])
        code = cmd_fail("%s: rows %lld:%lld were requested, but it has %lld rows", text,
                        (long long)first, (long long)last, (long long)type->dims[0]);
    if (code != CMD_OK) {
        operand_close(out);
        return code;
    }
    out->whole = first == 0 && last == type->dims[0];
    out->first_stored = first;
    out->stored_columns = type->dims[1];
    out->rows = transposed ? type->dims[1] : last - first;
    out->columns = transposed ? last - first : type->dims[1];
    return CMD_OK;
}

void operand_shape(const char *name, int64_t rows, int64_t columns, shoal_dtype dtype,
                   cmd_operand *out) {
    *out = (cmd_operand){.text = name,
                         .dtype = dtype,
                         .whole = true,
                         .stored_columns = columns,
                         .rows = rows,
                         .columns = columns};
}

void operand_close(cmd_operand *operand) {
    if (operand->file != NULL) shoal_file_close(&operand->file);
}

bool operand_may_map(const cmd_operand *operand) {
    path_text path;
    const char *name;
    struct stat st;
    return operand->plain && divide(operand->text, path, &name) == CMD_OK && stat(path, &st) == 0 &&
           (uint64_t)st.st_size <= 2 * operand->bytes + (1 << 20);
}

bool operand_lies(const cmd_operand *operand, shoal_dtype dtype) {
    return operand->mapped && operand->direct && !operand->transposed && operand->dtype == dtype;
}

int operand_map(cmd_operand *operand, bool (*progress)(void *context, uint64_t done, uint64_t all),
                void *context) {
    path_text path;
    const char *name;
    uint8_t digest[SHOAL_DIGEST];
    if (divide(operand->text, path, &name) != CMD_OK) return CMD_FAILED;
    int code = cmd_try(shoal_file_digest(path, progress, context, digest));
    operand->mapped = code == CMD_OK;
    return code;
}

/* A box of the stored matrix, of which workers read what they need. */
static int mapped_tensor(const cmd_operand *from, int64_t row, int64_t rows, int64_t column,
                         int64_t columns, shoal_session *session, shoal_tensor **out) {
    return cmd_try(shoal_file_load_box(from->file, from->index, (int64_t[]){row, column},
                                       (int64_t[]){row + rows, column + columns}, session, out));
}

/* [rows][columns] elements of the file as a tensor; rows begin `stride` elements apart, the first
 * one at element `first`. */
static int read_tensor(const cmd_operand *from, int64_t first, int64_t stride, int64_t rows,
                       int64_t columns, shoal_session *session, shoal_tensor **out) {
    int64_t elements, bytes, size = (int64_t)shoal_dtype_size(from->dtype);
    bool fits = !__builtin_mul_overflow(rows, columns, &elements) &&
                !__builtin_mul_overflow(elements, size, &bytes) && (uint64_t)bytes < SIZE_MAX;
    char *data = fits ? malloc(bytes > 0 ? (size_t)bytes : 1) : NULL;
    if (data == NULL)
        return cmd_fail("%s: not enough memory for %lld x %lld elements", from->text,
                        (long long)rows, (long long)columns);
    shoal_status status = SHOAL_OK;
    bool dense = stride == columns;
    int64_t reads = elements == 0 ? 0 : dense ? 1 : rows;
    uint64_t each = (uint64_t)(dense ? elements : columns);
    for (int64_t i = 0; i < reads && status == SHOAL_OK; i++)
        status = shoal_file_read(from->file, from->index, (uint64_t)(first + i * stride), each,
                                 data + (size_t)(i * columns * size));
    if (status != SHOAL_OK) {
        free(data);
        return cmd_try(status);
    }
    return cmd_try(shoal_tensor_borrow(session, from->dtype, 2, (int64_t[]){rows, columns}, data,
                                       free, data, out));
}

/* Addresses without memory: nothing reads what is only planned with. */
typedef struct blank {
    void *at;
    size_t bytes;
} blank;

static void blank_free(void *pointer) {
    blank *b = pointer;
    if (b->at != MAP_FAILED) munmap(b->at, b->bytes);
    free(b);
}

static int blank_tensor(const cmd_operand *from, int64_t rows, int64_t columns,
                        shoal_session *session, shoal_tensor **out) {
    blank *b = malloc(sizeof *b);
    if (b == NULL) return cmd_fail("%s: not enough memory", from->text);
    b->bytes = (size_t)(rows * columns) * shoal_dtype_size(from->dtype) + 1;
    b->at = mmap(NULL, b->bytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (b->at == MAP_FAILED) {
        blank_free(b);
        return cmd_fail("%s: %lld x %lld elements are too many", from->text, (long long)rows,
                        (long long)columns);
    }
    return cmd_try(shoal_tensor_borrow(session, from->dtype, 2, (int64_t[]){rows, columns}, b->at,
                                       blank_free, b, out));
}

/* Puts the result of an operation on *tensor in its place; *tensor is NULL after a failure. */
static int become(shoal_status status, shoal_tensor **tensor, shoal_tensor *next) {
    shoal_tensor_free(tensor);
    *tensor = status == SHOAL_OK ? next : NULL;
    return cmd_try(status);
}

int operand_block(const cmd_operand *operand, const cmd_block *block, shoal_dtype dtype,
                  shoal_session *session, shoal_tensor **out) {
    shoal_tensor *next = NULL;
    shoal_status status;
    int code;
    bool turned = operand->transposed;
    int64_t row = turned ? block->column : block->row, rows = turned ? block->columns : block->rows;
    int64_t column = turned ? block->row : block->column;
    int64_t columns = turned ? block->rows : block->columns, stride = operand->stored_columns;
    *out = NULL;
    if (operand->file == NULL)
        code = blank_tensor(operand, rows, columns, session, out);
    else if (operand->mapped)
        code = mapped_tensor(operand, operand->first_stored + row, rows, column, columns, session,
                             out);
    else if (operand->whole && block->rows == operand->rows && block->columns == operand->columns)
        code = cmd_try(shoal_file_borrow(operand->file, operand->index, session, out));
    else
        code = read_tensor(operand, (operand->first_stored + row) * stride + column, stride, rows,
                           columns, session, out);
    if (code == CMD_OK && dtype != operand->dtype) {
        status = shoal_convert(*out, dtype, &next);
        code = become(status, out, next);
    }
    if (code == CMD_OK && operand->transposed) {
        status = shoal_transpose(*out, NULL, &next);
        code = become(status, out, next);
    }
    return code;
}

/* ---- elements as double ---- */

static double half_value(uint16_t bits) {
    int exponent = bits >> 10 & 31;
    double fraction = bits & 1023;
    double value = exponent == 0    ? ldexp(fraction, -24)
                   : exponent == 31 ? (fraction != 0 ? NAN : INFINITY)
                                    : ldexp(fraction + 1024, exponent - 25);
    return bits >> 15 ? -value : value;
}

double operand_element(shoal_dtype dtype, const void *data, int64_t index) {
    const char *at = (const char *)data + (size_t)index * shoal_dtype_size(dtype);
    uint16_t half;
    float single;
    double value;
    switch (dtype) {
    case SHOAL_F64: memcpy(&value, at, sizeof value); return value;
    case SHOAL_F32: memcpy(&single, at, sizeof single); return single;
    case SHOAL_F16: memcpy(&half, at, sizeof half); return half_value(half);
    case SHOAL_BF16: {
        memcpy(&half, at, sizeof half);
        uint32_t bits = (uint32_t)half << 16;
        memcpy(&single, &bits, sizeof single);
        return single;
    }
    default: return NAN;
    }
}

int operand_stored_row(const cmd_operand *operand, int64_t row, void *room, double *out) {
    int64_t n = operand->stored_columns;
    if (n == 0) return CMD_OK;
    uint64_t first = (uint64_t)((operand->first_stored + row) * n);
    int code = cmd_try(shoal_file_read(operand->file, operand->index, first, (uint64_t)n, room));
    for (int64_t i = 0; code == CMD_OK && i < n; i++)
        out[i] = operand_element(operand->dtype, room, i);
    return code;
}

int operand_row(const cmd_operand *operand, int64_t row, void *room, double *out) {
    if (!operand->transposed) return operand_stored_row(operand, row, room, out);
    for (int64_t i = 0; i < operand->columns; i++) {
        uint64_t at = (uint64_t)((operand->first_stored + i) * operand->stored_columns + row);
        if (cmd_try(shoal_file_read(operand->file, operand->index, at, 1, room)) != CMD_OK)
            return CMD_FAILED;
        out[i] = operand_element(operand->dtype, room, 0);
    }
    return CMD_OK;
}
