/* Files of tensors, behind the shoal_file functions of shoal.h: mapped read-only, told by their
 * first bytes. Everything in a file is from outside: sizes are checked before anything is trusted.
 * Whoever reads from the map looks first whether the file was written to since it was opened, which
 * is an error. Who shortens it at the very moment in which it is read still raises SIGBUS, as with
 * any mapped file; writers that rename (as shoal_npy_write does) never do that.
 *
 * Any thread may read an open file. */
#ifndef MODEL_FILE_H
#define MODEL_FILE_H

#include "base/arena.h"
#include "base/block.h"
#include "base/box.h"
#include "base/str.h"
#include "model/map.h"
#include "shoal/shoal.h"

#include <stdatomic.h>

/* How values are stored: as they are, in a block format (base/block.h), or in a way that is known
 * by name and size alone. */
enum { MODEL_PLAIN = -1, MODEL_UNREAD = -2 };
typedef struct model_encoding {
    const char *name;
    uint32_t gguf;     /* its number there */
    shoal_dtype dtype; /* of the values */
    uint32_t values;   /* per block */
    uint32_t bytes;    /* per block */
    int format;        /* of blocks; or MODEL_PLAIN, MODEL_UNREAD */
} model_encoding;

const model_encoding *model_encoding_gguf(uint32_t number); /* NULL: unknown */
const model_encoding *model_encoding_plain(shoal_dtype dtype);

typedef struct model_tensor {
    const char *name;
    shoal_type type;
    const model_encoding *encoding;
    uint64_t offset;                 /* in the file */
    uint64_t bytes;                  /* from the first element to the last */
    bool swapped;                    /* the other byte order */
    bool strided;                    /* it does not lie row by row without gaps, but */
    int64_t strides[SHOAL_MAX_RANK]; /* so many bytes are from an element to the next of an axis */
} model_tensor;

struct shoal_file {
    atomic_int refs; /* the opener's, and one per tensor that uses the mapping */
    char *path;
    const char *format;
    model_map *map;
    const uint8_t *data; /* of the map */
    uint64_t bytes;
    base_arena arena;
    uint64_t n_tensors;
    model_tensor *tensors;
    /* Metadata of a .gguf or .safetensors: in the order of the file. */
    uint64_t n_meta;
    struct model_meta {
        const char *key;
        const char *kind; /* of the value, or of an array's elements: "uint32", "string", … */
        const char *text; /* of a .safetensors; NULL: it is read where it lies, as of `type` */
        uint32_t type;
        bool array;
        uint64_t count;   /* elements; 1 for a scalar */
        uint64_t offset;  /* of the first */
        uint64_t *starts; /* of each element, for strings */
    } * meta;
};

/* What a file's name ends in, as ".npy"; "": nothing. */
const char *model_ending(const char *path);
shoal_status model_npy_open(shoal_file *file);
shoal_status model_matrix_open(shoal_file *file);
shoal_status model_pt_open(shoal_file *file);
shoal_status model_gguf_open(shoal_file *file);
shoal_status model_safetensors_open(shoal_file *file);
/* NULL: there is none of that name. */
const struct model_meta *model_meta_find(const shoal_file *file, const char *key);
/* An element of a value, as text. */
shoal_status model_gguf_meta(const shoal_file *file, const struct model_meta *meta, uint64_t index,
                             base_str *out);
bool model_is_npy(const shoal_file *file);
bool model_is_matrix(const shoal_file *file);
bool model_is_pt(const shoal_file *file);
bool model_is_gguf(const shoal_file *file);
bool model_is_safetensors(const shoal_file *file);
/* What stands before the elements of a file with one tensor, which a .safetensors names. */
shoal_status model_npy_header(const shoal_type *type, base_str *out);
shoal_status model_matrix_header(const shoal_type *type, base_str *out);
shoal_status model_safetensors_header(const shoal_type *type, const char *name, base_str *out);

/* What lies in the file: the type itself, or the bytes of blocks, uint8, along the last axis. */
shoal_type model_stored_type(const model_tensor *tensor);
/* The bytes of a tensor that lies there just as its stored type says, dense, row-major and aligned
 * to its elements; else NULL. They stay as long as the file is open. */
const void *model_file_direct(const shoal_file *file, uint64_t index);

/* Elements [first, first + count) of a tensor without blocks, in this machine's byte order. */
void model_read_plain(const shoal_file *file, const model_tensor *tensor, uint64_t first,
                      uint64_t count, void *to);

/* Where a box of what is stored lies: element (i, j, ...) of the box at offset + i * strides[0] +
 * j * strides[1] + ..., in bytes of the file. */
typedef struct model_region {
    uint64_t offset;
    int64_t strides[SHOAL_MAX_RANK];
    bool swapped;       /* elements have the other byte order */
    bool dense;         /* row-major without gaps: it may be used where it lies, if it is aligned */
    uint32_t alignment; /* of the offset in the file: a power of two, at most a page's 4096 */
    uint64_t bytes;     /* of its elements */
} model_region;
/* Fails with INVALID for a box that is not inside. */
shoal_status model_file_region(const shoal_file *file, uint64_t index, const base_box *box,
                               model_region *out) SHOAL_CHECK_RESULT;
/* Copies a box of what is stored, dense and row-major, in this machine's byte order. */
shoal_status model_file_copy(const shoal_file *file, uint64_t index, const base_box *box,
                             void *to) SHOAL_CHECK_RESULT;
/* Keeps the mapping beyond shoal_file_close; model_file_release, with the same pointer, gives it
 * back. Any thread. */
shoal_file *model_file_retain(shoal_file *file);
void model_file_release(void *file);

#endif
