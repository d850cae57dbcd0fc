/* Status codes, element types and tensor types: the vocabulary that every public header shares.
 *
 * Everything here is plain data. Nothing allocates, nothing blocks; all functions may be called
 * from any thread. */
#ifndef SHOAL_TYPES_H
#define SHOAL_TYPES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The version of these headers; shoal_version() tells that of the library. */
#define SHOAL_VERSION_MAJOR 0
#define SHOAL_VERSION_MINOR 1
#define SHOAL_VERSION_PATCH 0
/* One number to compare with: SHOAL_VERSION_NUMBER >= SHOAL_MAKE_VERSION(0, 1, 0). */
#define SHOAL_MAKE_VERSION(major, minor, patch) ((major)*10000 + (minor)*100 + (patch))
#define SHOAL_VERSION_NUMBER                                                                       \
    SHOAL_MAKE_VERSION(SHOAL_VERSION_MAJOR, SHOAL_VERSION_MINOR, SHOAL_VERSION_PATCH)

#if defined(__GNUC__)
#define SHOAL_API __attribute__((visibility("default")))
#define SHOAL_CHECK_RESULT __attribute__((warn_unused_result))
#define SHOAL_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))
#else
#define SHOAL_API
#define SHOAL_CHECK_RESULT
#define SHOAL_PRINTF(fmt, args)
#endif

/* One list gives the enum, the names and the descriptions: XX(NAME, description). */
#define SHOAL_STATUS_MAP(XX)                                                                       \
    XX(OK, "success")                                                                              \
    XX(INVALID, "an argument has a wrong value, shape or type")                                    \
    XX(UNSUPPORTED, "valid, but not available here")                                               \
    XX(NO_MEMORY, "not enough memory")                                                             \
    XX(NOT_FOUND, "no such thing")                                                                 \
    XX(FORMAT, "malformed file or message")                                                        \
    XX(IO, "the operating system refused a read, write or connection")                             \
    XX(TIMEOUT, "a deadline passed")                                                               \
    XX(LOST, "a peer died or cannot be reached")                                                   \
    XX(CLOSED, "the session or link is closed")                                                    \
    XX(VERSION, "the peer speaks another version")                                                 \
    XX(DENIED, "the peer is not allowed to do this")                                               \
    XX(BUSY, "the address or resource is in use")                                                  \
    XX(INTERRUPTED, "the caller asked to stop waiting")                                            \
    XX(INTERNAL, "a defect in Shoal")                                                              \
    XX(RANGE, "an index is out of range")

typedef enum shoal_status {
#define XX(name, text) SHOAL_##name,
    SHOAL_STATUS_MAP(XX)
#undef XX
        SHOAL_STATUS_COUNT
} shoal_status;

/* The name of a status, for example "INVALID"; "?" for a value that is none. */
SHOAL_API const char *shoal_status_name(shoal_status status);

/* The message of the last failed call on this thread: one line that names the thing, the value and
 * the fix. Empty when no call has failed. Owned by the thread, valid until its next failed call. */
SHOAL_API const char *shoal_error_message(void);

/* Element types: XX(NAME, name in text and NumPy, MLIR name, bytes, kind). The kind is one of
 * b (bool), i (signed), u (unsigned), f (floating). The order is part of the wire format:
 * append only. */
#define SHOAL_DTYPE_MAP(XX)                                                                        \
    XX(BOOL, "bool", "i1", 1, 'b')                                                                 \
    XX(I8, "int8", "i8", 1, 'i')                                                                   \
    XX(I16, "int16", "i16", 2, 'i')                                                                \
    XX(I32, "int32", "i32", 4, 'i')                                                                \
    XX(I64, "int64", "i64", 8, 'i')                                                                \
    XX(U8, "uint8", "ui8", 1, 'u')                                                                 \
    XX(U16, "uint16", "ui16", 2, 'u')                                                              \
    XX(U32, "uint32", "ui32", 4, 'u')                                                              \
    XX(U64, "uint64", "ui64", 8, 'u')                                                              \
    XX(F16, "float16", "f16", 2, 'f')                                                              \
    XX(BF16, "bfloat16", "bf16", 2, 'f')                                                           \
    XX(F32, "float32", "f32", 4, 'f')                                                              \
    XX(F64, "float64", "f64", 8, 'f')

typedef enum shoal_dtype {
#define XX(name, text, mlir, bytes, kind) SHOAL_##name,
    SHOAL_DTYPE_MAP(XX)
#undef XX
        SHOAL_DTYPE_COUNT
} shoal_dtype;

/* "float32"; "?" for a value that is no element type. */
SHOAL_API const char *shoal_dtype_name(shoal_dtype dtype);
/* Bytes of one element; 0 for a value that is no element type. */
SHOAL_API size_t shoal_dtype_size(shoal_dtype dtype);
/* 'b', 'i', 'u' or 'f'; 0 for a value that is no element type. */
SHOAL_API char shoal_dtype_kind(shoal_dtype dtype);
/* Finds an element type by its name ("float32", or MLIR's "f32"). Fails with INVALID. */
SHOAL_API SHOAL_CHECK_RESULT shoal_status shoal_dtype_find(const char *name, shoal_dtype *out);

/* How quantised numbers are packed: a block of `bytes` bytes holds `values` numbers. Tensors of
 * them are uint8, whole blocks along the last axis; `dequantize` gives the numbers. */
typedef struct shoal_block_format {
    const char *name; /* "q4_k": ggml's */
    uint32_t values, bytes;
    const char *fields; /* one after the other, and what they mean, for people */
} shoal_block_format;

/* The formats, by number; NULL behind the last. */
SHOAL_API const shoal_block_format *shoal_block_format_at(uint32_t index);
/* Fails with INVALID, naming those that there are. */
SHOAL_API SHOAL_CHECK_RESULT shoal_status shoal_block_format_find(const char *name,
                                                                  uint32_t *index);

/* A number of bytes for people, in units of 1024: "0 B", "12.5 MiB", "343 KiB". Returns `out`. */
#define SHOAL_BYTES_ROOM 16
SHOAL_API char *shoal_bytes_text(uint64_t bytes, char out[SHOAL_BYTES_ROOM]);

#define SHOAL_MAX_RANK 8

/* The type of a tensor: element type and shape, row-major. dims[rank..] are zero. */
typedef struct shoal_type {
    uint8_t dtype; /* shoal_dtype */
    uint8_t rank;  /* 0..SHOAL_MAX_RANK */
    int64_t dims[SHOAL_MAX_RANK];
} shoal_type;

/* A user's connection to a pool, and a value in it; see shoal.h. */
typedef struct shoal_session shoal_session;
typedef struct shoal_tensor shoal_tensor;

#ifdef __cplusplus
}
#endif
#endif
