/* The null backend: a skeleton to copy. See null.c. */
#ifndef NULL_NULL_H
#define NULL_NULL_H

#include "shoal/backend.h"

extern const shoal_backend backend_null;

#endif
