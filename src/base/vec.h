/* A growing array: `struct { T *data; size_t count, room; }`, zero-initialised, freed with
 * free(v.data). */
#ifndef BASE_VEC_H
#define BASE_VEC_H

#include "base/status.h"

#define BASE_VEC(T)                                                                                \
    struct {                                                                                       \
        T *data;                                                                                   \
        size_t count, room;                                                                        \
    }

/* Makes room for one more; false with a message when there is no memory. */
#define base_vec_reserve(v)                                                                        \
    ((v)->count < (v)->room || base_vec_grow((void **)&(v)->data, &(v)->room, sizeof *(v)->data))
/* Appends; false with a message when there is no memory. */
#define base_vec_push(v, item) (base_vec_reserve(v) && ((v)->data[(v)->count++] = (item), true))

bool base_vec_grow(void **data, size_t *room, size_t item_bytes);

#endif
