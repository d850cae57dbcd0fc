/* Files of tensors, behind the shoal_file functions of shoal.h: mapped read-only, told by their
 * first bytes. Everything in a file is from outside: sizes are checked before anything is trusted.
 * A file that somebody shortens while it is open raises SIGBUS, as with any mapped file; writers
 * that rename (as shoal_npy_write does) never do that.
 *
 * Any thread may read an open file. */
#ifndef MODEL_FILE_H
#define MODEL_FILE_H

#include "base/arena.h"
#include "base/str.h"
#include "shoal/shoal.h"

#include <stdatomic.h>

/* How elements are stored. `decode` makes `blocks` blocks of values of the type's element type;
 * NULL: they are stored as they are. */
typedef struct model_encoding {
    const char *name;
    uint32_t gguf;     /* its number there */
    shoal_dtype dtype; /* of the values */
    uint32_t block;    /* values per block; 0: known by name only */
    uint32_t bytes;    /* per block */
    void (*decode)(const uint8_t *from, void *to, size_t blocks);
} model_encoding;

const model_encoding *model_encoding_gguf(uint32_t number); /* NULL: unknown */
const model_encoding *model_encoding_plain(shoal_dtype dtype);

typedef struct model_tensor {
    const char *name;
    shoal_type type;
    const model_encoding *encoding;
    uint64_t offset; /* in the file */
    uint64_t bytes;
    bool swapped; /* the other byte order */
    bool fortran; /* the first axis varies fastest */
} model_tensor;

struct shoal_file {
    atomic_int refs; /* the opener's, and one per tensor that uses the mapping */
    char *path;
    const uint8_t *data; /* mapped */
    uint64_t bytes;
    base_arena arena;
    uint64_t n_tensors;
    model_tensor *tensors;
    /* Metadata of a .gguf: in the order of the file. */
    uint64_t n_meta;
    struct model_meta {
        const char *key;
        uint32_t type; /* of the value, or of an array's elements */
        bool array;
        uint64_t count;   /* elements; 1 for a scalar */
        uint64_t offset;  /* of the first */
        uint64_t *starts; /* of each element, for strings */
    } * meta;
};

shoal_status model_npy_open(shoal_file *file);
shoal_status model_gguf_open(shoal_file *file);
shoal_status model_safetensors_open(shoal_file *file);
shoal_status model_gguf_meta(const shoal_file *file, const char *key, uint64_t index, char **out);
bool model_is_npy(const shoal_file *file);
bool model_is_gguf(const shoal_file *file);
bool model_is_safetensors(const shoal_file *file);
/* What stands before the elements of a file with one tensor, which a .safetensors names. */
shoal_status model_npy_header(const shoal_type *type, base_str *out);
shoal_status model_safetensors_header(const shoal_type *type, const char *name, base_str *out);

/* The bytes of a tensor that is stored just as its type says, dense and row-major; else NULL. They
 * stay as long as the file is open. */
const void *model_file_direct(const shoal_file *file, uint64_t index);
/* Keeps the mapping beyond shoal_file_close; model_file_release, with the same pointer, gives it
 * back. Any thread. */
shoal_file *model_file_retain(shoal_file *file);
void model_file_release(void *file);

#endif
