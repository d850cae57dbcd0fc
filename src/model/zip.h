/* The entries of a zip archive that is mapped: where their bytes lie, which libzip does not tell
 * (https://pkware.cachefly.net/webdocs/casestudies/APPNOTE.TXT). Nothing is unpacked: checkpoints
 * of torch keep everything as it is. */
#ifndef MODEL_ZIP_H
#define MODEL_ZIP_H

#include "model/file.h"

typedef struct model_entry {
    const char *name; /* in the map, without a final zero */
    uint32_t length;  /* of the name */
    bool packed;      /* compressed or encrypted: its bytes are not the contents */
    uint64_t header;  /* where it begins in the file, before its bytes */
    uint64_t offset;  /* of its bytes in the file */
    uint64_t bytes;
} model_entry;

typedef struct model_zip {
    model_entry *entries; /* by name, which are unique */
    uint64_t count;
} model_zip;

bool model_is_zip(const shoal_file *file);
/* The entries are allocated in the arena. Fails with FORMAT: also when two entries have the same
 * name, or the same bytes. */
shoal_status model_zip_open(const shoal_file *file, base_arena *arena,
                            model_zip *out) SHOAL_CHECK_RESULT;
/* NULL: there is none of this name. */
const model_entry *model_zip_find(const model_zip *zip, const char *name, size_t length);

#endif
