/* Kernels as source for a compiler that runs them: C, OpenCL C, CUDA, and what else has C's
 * expressions.
 *
 * A dialect is its prelude: types by the names i8 … u64, f32, f64, casts of bits, and macros for
 * what languages say differently (how a kernel is declared, which iterations it makes). All that
 * follows is the same text for all of them. Operations are rounded one by one, as ref does it, so a
 * compiler must not contract them (-ffp-contract=off, --fmad=false).
 *
 * A program is fuse_render_prelude, then any number of kernels. A kernel's parameters are pointers
 * to the first element of each load from memory (kinds FUSE_MEMORY and FUSE_RESULT: of its value's
 * root), in order, then of each store, then what the dialect adds. OpenCL has no pointers into
 * buffers on the host: there each is two parameters, a buffer and an `i64` number of elements. It
 * runs fuse_items iterations of the loops that are not reduced; each runs its reduced loops from
 * LANE in steps of LANES, and JOIN(operation, type, x) joins what the lanes have found. They are 0,
 * 1 and x; a backend that gives iterations to work-groups defines all three, how a kernel and its
 * iterations begin (FORMED, GROUP_BEGIN), and whether the work-item's iteration is one that there
 * is (MINE). For kernels of its own the dialects of devices also name a work-item's place in its
 * group and the group's (LOCAL_0, GROUP_1), memory that a group shares (SHARED, SHARED_POINTER,
 * BARRIER), CONSTANT arrays and kernels of groups of one size (KERNEL_OF). */
#ifndef FUSE_RENDER_H
#define FUSE_RENDER_H

#include "backend/fuse/fuse.h"

typedef struct fuse_dialect {
    const char *name, *prelude;
    bool has_f64;
} fuse_dialect;

/* PARAMETERS are `i64 begin, i64 end`: which iterations a call makes. */
extern const fuse_dialect fuse_dialect_c;
/* `i64 items`: how many iterations there are, one for each work-item. */
extern const fuse_dialect fuse_dialect_opencl, fuse_dialect_cuda;

/* The role that kernels of this dialect can give a node, or FUSE_OWN. Composites are to be
 * decomposed first. */
fuse_role fuse_renders(const fuse_dialect *dialect, const shoal_graph *g, const shoal_node *node);

void fuse_render_prelude(const fuse_dialect *dialect, base_str *out);

/* How a kernel's iterations are given to work-items. */
typedef enum fuse_stage {
    FUSE_WHOLE,
    /* Of one pass: its reduced loops are cut in slices, whose sums go to memory, one pointer more
     * for each reduction, as [slices, items]; SLICE is the number of one. Inner results are written
     * here, and others by a kernel that joins what there is. */
    FUSE_PARTS,
    FUSE_JOINED,
} fuse_stage;
typedef struct fuse_work {
    /* Iterations, of the reduced loops where there are such, of a work-item that read memory before
     * any of them computes, so that all reads are under way together. */
    uint32_t each;
    fuse_stage stage;
    uint32_t slices;
    /* These are all that a lane has of the reduced loops: what several passes read is read once. */
    bool keeps;
} fuse_work;
void fuse_render(const fuse_kernel *k, const fuse_work *work, const char *name, base_str *out);
/* Iterations of the loops that are not reduced, and of those that are. */
int64_t fuse_items(const fuse_kernel *k);
int64_t fuse_reduced_count(const fuse_kernel *k);

/* What a number is in: "f32"; halves are computed in f32 and rounded. */
const char *fuse_register_type(uint8_t dtype);
/* How elements lie in memory: "u16" for halves. */
const char *fuse_memory_type(uint8_t dtype);

/* ---- between render.c and render_op.c ---- */

/* Whether there is an expression for the operation, whose operands are of type `from`. */
bool fuse_has_expression(uint16_t op, uint8_t from, uint8_t dtype);
/* An operation's expression, its operands being named args[0], …. */
void fuse_render_operation(const fuse_operation *op, const char *const *args, base_str *out);
/* The operation that joins two elements of a reduction. */
void fuse_render_join(const fuse_operation *op, const char *x, const char *y, base_str *out);
/* An element type's number from another's. */
void fuse_render_convert(uint8_t from, uint8_t to, const char *x, base_str *out);
void fuse_render_literal(uint8_t dtype, const void *element, base_str *out);
/* The identity of a reduction, from which each lane starts. */
void fuse_render_identity(const fuse_operation *op, base_str *out);

#endif
