/* Files of tensors: read where they lie, whatever their format, and written in parts. Included by
 * shoal.h. */
#ifndef SHOAL_FILE_H
#define SHOAL_FILE_H

#include "shoal/types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* An open file of tensors, mapped into memory: .npy, .safetensors, .gguf, .pt of torch 1.6 and
 * newer (read as data: nothing in it is executed), or .bin of a matrix. */
typedef struct shoal_file shoal_file;
typedef struct shoal_file_tensor {
    const char *name;     /* "" in a .npy or .bin; in a .pt the keys and positions that lead to the
                             tensor: "model.layers.0.weight", and "" when it is all there is */
    shoal_type type;      /* of the values once decoded */
    const char *encoding; /* "float32", "q8_0", … : as stored */
    shoal_type stored;    /* `type`, or of blocks uint8: their bytes along the last axis */
    uint64_t offset;      /* in the file */
    uint64_t bytes;       /* as stored, from the first element to the last */
    bool direct;          /* it lies there as in memory: rows without gaps, aligned, in this
                             machine's order of bytes */
} shoal_file_tensor;

/* Fails with NOT_FOUND, IO, or FORMAT, naming the place in the file. */
SHOAL_API SHOAL_CHECK_RESULT shoal_status shoal_file_open(const char *path, shoal_file **out);
SHOAL_API void shoal_file_close(shoal_file **file);
/* "npy", "safetensors", "gguf", "pt" or "bin". */
SHOAL_API const char *shoal_file_format(const shoal_file *file);
SHOAL_API uint64_t shoal_file_count(const shoal_file *file);
/* The strings live as long as the file is open. */
SHOAL_API SHOAL_CHECK_RESULT shoal_status shoal_file_tensor_at(const shoal_file *file,
                                                               uint64_t index,
                                                               shoal_file_tensor *out);
/* The number of a tensor of a name; NULL or "": of the only one. Fails with NOT_FOUND. */
SHOAL_API SHOAL_CHECK_RESULT shoal_status shoal_file_find(const shoal_file *file, const char *name,
                                                          uint64_t *index);
/* Elements [first, first + count) of a tensor, decoded to its type, in row-major order. Fails with
 * IO when the file was written to after it was opened. */
SHOAL_API SHOAL_CHECK_RESULT shoal_status shoal_file_read(const shoal_file *file, uint64_t index,
                                                          uint64_t first, uint64_t count,
                                                          void *data);
/* A metadata entry of a .gguf or .safetensors, by number: its key, the type of its value or of an
 * array's elements
 * ("uint32", "string", …), and how many there are. Strings live as long as the file is open. */
typedef struct shoal_file_fact {
    const char *key, *type;
    bool array;
    uint64_t count; /* elements; 1 when it is no array */
} shoal_file_fact;
SHOAL_API uint64_t shoal_file_fact_count(const shoal_file *file);
SHOAL_API SHOAL_CHECK_RESULT shoal_status shoal_file_fact_at(const shoal_file *file, uint64_t index,
                                                             shoal_file_fact *out);
/* A metadata value of a .gguf or .safetensors as text: for an array the element `index`. The caller
 * frees it with free(). Fails with NOT_FOUND. */
SHOAL_API SHOAL_CHECK_RESULT shoal_status shoal_file_meta(const shoal_file *file, const char *key,
                                                          uint64_t index, char **out);
/* The whole tensor in a session. Nothing is read now: each program that uses the tensor reads it
 * from the mapped file, on the machines that need it; blocks are dequantised to float32 there. So
 * it takes no memory, and the file must not change: once it has been written to, programs fail with
 * IO (replacing it by another file of its name is allowed). In a pool the file is identified by its
 * digest (shoal_file_digest, which reads it once), and a worker without it fetches it from a member
 * that has it. The file may be closed afterwards. */
SHOAL_API SHOAL_CHECK_RESULT shoal_status shoal_file_load(shoal_file *file, uint64_t index,
                                                          shoal_session *session,
                                                          shoal_tensor **out);
/* The elements of a tensor from start to limit, excluded, along each of its axes, as
 * shoal_file_load: nothing else of the file is read or moved for them. Fails with INVALID for what
 * lies outside, and for quantised blocks. */
SHOAL_API SHOAL_CHECK_RESULT shoal_status shoal_file_load_box(shoal_file *file, uint64_t index,
                                                              const int64_t *start,
                                                              const int64_t *limit,
                                                              shoal_session *session,
                                                              shoal_tensor **out);
/* The whole tensor as data of this process, where the file is mapped: workers are sent the parts
 * that they need, as of any tensor from memory. For files that are used once. It fails with IO, and
 * so do programs, once the file has been written to. */
SHOAL_API SHOAL_CHECK_RESULT shoal_status shoal_file_borrow(shoal_file *file, uint64_t index,
                                                            shoal_session *session,
                                                            shoal_tensor **out);
/* As shoal_file_load, but as stored: quantised blocks as bytes, for shoal_dequantize. */
SHOAL_API SHOAL_CHECK_RESULT shoal_status shoal_file_load_stored(shoal_file *file, uint64_t index,
                                                                 shoal_session *session,
                                                                 shoal_tensor **out);
/* Identifies a file by its contents: BLAKE2b of its bytes, 256 bits. The digest is cached in the
 * user's cache folder with the file's size and times, so that a file is read once. progress (may be
 * NULL) is called repeatedly with bytes done and in all; returning false stops with INTERRUPTED.
 * Fails with IO, and with BUSY when the file changes meanwhile. */
enum shoal_digest_size { SHOAL_DIGEST = 32 };
SHOAL_API SHOAL_CHECK_RESULT shoal_status
shoal_file_digest(const char *path, bool (*progress)(void *context, uint64_t done, uint64_t all),
                  void *context, uint8_t out[SHOAL_DIGEST]);

/* Writes one tensor, piece by piece, to a file that gets its name when it is complete, and vanishes
 * with the process until then: a .safetensors, with the name "value", or a .bin, if the path ends
 * so, else a .npy. An existing file is replaced. For one thread at a time. Fails with IO. */
typedef struct shoal_writer shoal_writer;
SHOAL_API SHOAL_CHECK_RESULT shoal_status shoal_writer_open(const char *path,
                                                            const shoal_type *type,
                                                            shoal_writer **out);
/* The next elements in row-major order. Fails with INVALID for more bytes than the tensor has. */
SHOAL_API SHOAL_CHECK_RESULT shoal_status shoal_writer_append(shoal_writer *writer,
                                                              const void *data, uint64_t bytes);
/* The elements of a box, dense and row-major: size[i] from start[i] on along axis i. Boxes may come
 * in any order, and must not overlap each other or what is appended. Fails with INVALID. */
SHOAL_API SHOAL_CHECK_RESULT shoal_status shoal_writer_box(shoal_writer *writer,
                                                           const int64_t *start,
                                                           const int64_t *size, const void *data);
/* Gives the file its name; closes the writer, also on failure. Fails with INVALID when bytes
 * are missing, and with IO. */
SHOAL_API SHOAL_CHECK_RESULT shoal_status shoal_writer_commit(shoal_writer **writer);
/* Discards what has not been committed. NULL inside is allowed. */
SHOAL_API void shoal_writer_close(shoal_writer **writer);
/* Writes a whole tensor by one call, as a writer does. */
SHOAL_API SHOAL_CHECK_RESULT shoal_status shoal_npy_write(const char *path, shoal_dtype dtype,
                                                          uint32_t rank, const int64_t *dims,
                                                          const void *data);

#ifdef __cplusplus
}
#endif
#endif
