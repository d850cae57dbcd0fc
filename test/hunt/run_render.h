/* Kernels rendered as C, compiled by the system's compiler and called. */
#ifndef HUNT_RUN_RENDER_H
#define HUNT_RUN_RENDER_H

#include "hunt.h"

#include "backend/fuse/render.h"

typedef struct hunt_rendered hunt_rendered;

/* Ends the program with exit code 77 where there is no compiler. */
void hunt_need_compiler(void);
/* All kernels of these plans, which stay where they are; opencl: clang reads them as such, too.
 * NULL, or what was wrong. */
const char *hunt_compile(const fuse_plan *plans, uint32_t n, bool opencl, hunt_rendered **out);
void hunt_rendered_free(hunt_rendered **rendered);
/* memory: per value. */
void hunt_call(const hunt_rendered *rendered, const fuse_plan *plan, const fuse_step *step,
               void *const *memory);

#endif
