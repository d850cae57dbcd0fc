/* The hunt for wrong numbers: random programs over the whole table of operations, each run in ways
 * that must agree.
 *
 * Reading order: make.c with make_*.c (programs from a seed), truth.c (the reference's values),
 * noise.c (how far rounding may move them), compare.c, then the ways to run: run_cpu.c, run_fuse.c
 * with run_render.c, run_api.c, run_batch.c, run_gradient.c, run_python.c with ways.py; shrink.c
 * and file.c for what failed; hunt.c is the command. */
#ifndef HUNT_HUNT_H
#define HUNT_HUNT_H

#include "base/vec.h"
#include "graph/graph.h"

#include <stdio.h>

/* ---- numbers that look random and follow from a seed ---- */

typedef struct hunt_random {
    uint64_t state;
} hunt_random;

uint64_t hunt_next(hunt_random *random);
/* 0 to n - 1. */
uint32_t hunt_below(hunt_random *random, uint32_t n);
bool hunt_chance(hunt_random *random, uint32_t percent);
/* From -1 to 1. */
double hunt_uniform(hunt_random *random);

/* Ends the program with the message: for what can only be a mistake of the hunt's own. */
void hunt_must(shoal_status status);
void *hunt_alloc(size_t bytes);

/* ---- programs ---- */

/* A graph and what its inputs hold. */
typedef struct hunt_program {
    uint64_t seed;
    uint32_t tries; /* more variants of a way to run, where it has any, than one */
    graph *graph;
    uint32_t n_inputs, n_outputs;
    void **inputs; /* each aligned to 64 */
} hunt_program;

typedef enum hunt_style {
    HUNT_ALL,    /* every operation and element type */
    HUNT_NARROW, /* the same, no value having many elements, or all axes that can be */
    HUNT_CHAINS, /* mostly products, what is computed from them, and parts of both */
    HUNT_SMOOTH, /* float64, and operations that gradients pass through */
    HUNT_SLOPE,  /* the same, in float32 or float64 */
} hunt_style;

typedef struct hunt_shape {
    hunt_style style;
    uint32_t most; /* nodes that are asked for; operands add some */
} hunt_shape;

void hunt_make(uint64_t seed, const hunt_shape *shape, hunt_program *out);
void hunt_program_fini(hunt_program *program);
hunt_program hunt_copy(const hunt_program *program);
/* A copy in which these values, as the reference computes them, are inputs, behind those there are.
 */
hunt_program hunt_cut(const hunt_program *program, const uint32_t *values, uint32_t n);

/* ---- the truth ---- */

/* Memory for the results of a graph, one after the other. */
typedef struct hunt_results {
    uint32_t n;
    void **data;
    size_t *bytes;
} hunt_results;

hunt_results hunt_results_new(const shoal_graph *g);
void hunt_results_fini(hunt_results *results);

/* Memory for all values of a program, what its inputs hold being there. */
void **hunt_values_new(const hunt_program *program);
void hunt_values_free(const hunt_program *program, void ***values);

enum { HUNT_ANY = 9 }; /* numbers that stand for what may be anything */

/* Where rounding may differ: NULL is the reference as it is. Every result of a node is moved at
 * random, by as much as kernels may differ there; zeros lose their sign, NaN its bits. */
typedef struct hunt_noise {
    hunt_random random;
    uint32_t any;         /* what takes the place of what may be anything */
    bool alike;           /* that, everywhere: a sum over many has no NaN unless all are */
    uint32_t vanishing;   /* percent of what noise may take to zero that becomes zero */
    bool composite;       /* inside a composite, where every step may be made in another way */
    bool signs;           /* zeros keep theirs where IEEE 754 says it */
    bool sums_alone;      /* nothing else is moved */
    bool composites_stay; /* so that what is as large as another stays so, and sums of it cancel */
    bool sums_stay;       /* outside of composites: those of equal operands are equal */
} hunt_noise;

/* Moves the results of a node, or of a composite whose steps were moved already. */
struct ref_call;
shoal_status hunt_add_noise(const struct ref_call *call, hunt_noise *noise) SHOAL_CHECK_RESULT;
void hunt_add_composite_noise(const struct ref_call *call, hunt_noise *noise);

/* Runs a node by the reference's kernels. values: per value of `g` its memory. */
shoal_status hunt_run_node(const shoal_graph *g, const shoal_node *node, void *const *values,
                           hunt_noise *noise) SHOAL_CHECK_RESULT;
/* Runs a graph; results as hunt_results_new makes them. */
shoal_status hunt_run_graph(const shoal_graph *g, const void *const *inputs, hunt_noise *noise,
                            hunt_results *results) SHOAL_CHECK_RESULT;

double hunt_number(uint8_t dtype, const void *data, int64_t at);
void hunt_put(uint8_t dtype, void *data, int64_t at, double value);

/* ---- comparing ---- */

enum { HUNT_SAMPLES = 1024 };

/* What a program gives, and how exactly that is known: from runs with noise, made when they are
 * first needed. */
typedef struct hunt_truth {
    const hunt_program *program;
    bool free;  /* whoever is compared may take every step in another way */
    bool signs; /* it does what was written and nothing else: zeros have the sign they must have */
    hunt_results must;
    uint32_t n_samples;
    hunt_results samples[HUNT_SAMPLES];
} hunt_truth;

shoal_status hunt_truth_init(hunt_truth *truth, const hunt_program *program) SHOAL_CHECK_RESULT;
void hunt_truth_fini(hunt_truth *truth);

/* NULL, or what differs: output, element and both numbers. In memory that the next call reuses. */
const char *hunt_compare(hunt_truth *truth, const hunt_results *is);
/* For one output: how far each element may lie from what it must be; infinity: anywhere. */
void hunt_tolerance(hunt_truth *truth, uint32_t output, double *out);

/* ---- ways to run ---- */

/* A way to run programs: NULL, or what was wrong. The message lives until the next call. */
typedef struct hunt_way hunt_way;
struct hunt_way {
    const char *name;
    const char *(*run)(void *context, const hunt_program *program);
    void *context;
};

/* `cpu` against the reference: threads, values in place and garbage in fresh memory follow from the
 * program's seed. */
void *hunt_cpu_new(void);
void hunt_cpu_free(void *context);
const char *hunt_cpu_run(void *context, const hunt_program *program);

/* Kernels (src/backend/fuse), formed under limits that follow from the seed and interpreted; or
 * rendered as C, which ends the program with exit code 77 where there is no compiler. */
void *hunt_fuse_new(void);
void *hunt_render_new(void);
void hunt_fuse_free(void *context);
const char *hunt_fuse_run(void *context, const hunt_program *program);

/* The API, in pools of one to five workers, or in the one that SHOAL_HUB names: layouts, and when
 * values are read, follow from the seed. In the pools for panels all that can be is done in them.
 */
void *hunt_api_new(void);
void *hunt_panels_new(void);
void *hunt_pool_new(void);
void hunt_api_free(void *context);
const char *hunt_api_run(void *context, const hunt_program *program);

/* Programs in Python (ways.py), in a process of its own: evaluated by NumPy or PyTorch, or written
 * as users of the package write them; with gradients by PyTorch's tape and by the package's. Ends
 * the program with exit code 77 where Python lacks what the way needs. */
void *hunt_numpy_new(void);
void *hunt_torch_new(void);
void *hunt_torch_gradient_new(void);
void *hunt_python_new(void);
void *hunt_python_gradient_new(void);
void hunt_python_free(void *context);
const char *hunt_python_run(void *context, const hunt_program *program);
/* What ways.py is told of a program: a line of JSON (the graph, the seed), then the bytes of all
 * values. */
void hunt_tell(const hunt_program *program, FILE *to);

/* The API again: the program for all indices of a batch at once, with the program for each. */
void *hunt_batch_new(void);
void hunt_batch_free(void *context);
const char *hunt_batch_run(void *context, const hunt_program *program);

/* Gradients, once and twice differentiated, with differences, and on cpu. */
void *hunt_gradient_new(void);
void hunt_gradient_free(void *context);
const char *hunt_gradient_run(void *context, const hunt_program *program);
/* The program of the gradients of all floating-point results, each times a seed (inputs behind
 * those of the program), with respect to floating-point inputs: result i is for input of[i]. Fails
 * with UNSUPPORTED where there are none. of: room for 64. */
shoal_status hunt_differentiate(const hunt_program *program, hunt_program *out,
                                uint32_t *of) SHOAL_CHECK_RESULT;

/* ---- failures ---- */

/* Cuts a failing program down, for at most so long: what remains fails as well. */
void hunt_shrink(const hunt_way *way, hunt_program *program, double seconds);
/* A program as text: graph and inputs. */
void hunt_write(const hunt_program *program, const char *way, const char *why, FILE *to);
/* Reads what hunt_write wrote; way: room for 32 characters. */
void hunt_read(const char *path, hunt_program *out, char *way);

/* ---- what was seen ---- */

/* How an operand lies, by the operations on the way from the value that was computed. */
typedef enum hunt_view {
    HUNT_TURNED = 1,
    HUNT_CUT_OUT = 2,
    HUNT_STEPPED = 4,
    HUNT_REVERSED = 8,
    HUNT_REPEATED = 16,
    HUNT_RESHAPED = 32,
    HUNT_VIEWS = 64
} hunt_view;

typedef struct hunt_coverage {
    uint64_t programs, nodes;
    uint64_t op[GRAPH_OP_BUILT_IN];
    uint64_t pair[GRAPH_OP_BUILT_IN][GRAPH_OP_BUILT_IN]; /* [maker][reader] */
    /* Numbers of axes, a bit each, that results and operands had, by element types. */
    uint16_t gives[GRAPH_OP_BUILT_IN][SHOAL_DTYPE_COUNT];
    uint16_t takes[GRAPH_OP_BUILT_IN][SHOAL_DTYPE_COUNT];
    uint64_t rank[SHOAL_MAX_RANK + 1];            /* operands of so many axes */
    uint64_t view[HUNT_VIEWS][GRAPH_OP_BUILT_IN]; /* [how an operand lies][reader] */
} hunt_coverage;

/* Counts what was compared of a program: all but what hunt_not_computed told of. */
void hunt_cover(hunt_coverage *coverage, const hunt_program *program);
/* These values of the program that runs were taken as the reference computes them. */
void hunt_not_computed(const uint32_t *values, uint32_t n);
/* Of the program that runs there is nothing to compare; and of how many there was nothing. */
void hunt_not_compared(void);
uint64_t hunt_uncompared(void);
void hunt_report(const hunt_coverage *coverage, FILE *to);
/* The same as members of a JSON object. */
void hunt_report_json(const hunt_coverage *coverage, FILE *to);

/* How a user placed a value: whole, or cut along an axis or two, by what, on how many slots;
 * whether parts are empty, or on several slots each. Counted for all programs of this process. */
typedef enum hunt_form { HUNT_WHOLE, HUNT_AXIS, HUNT_GRID, HUNT_FORMS } hunt_form;
typedef enum hunt_parts { HUNT_EQUAL, HUNT_SHARES, HUNT_CUTS, HUNT_CUT_BY } hunt_parts;
typedef enum hunt_more { HUNT_PLAIN, HUNT_EMPTY, HUNT_COPIES, HUNT_MORE } hunt_more;
enum { HUNT_MOST_SLOTS = 5 };
void hunt_count_layout(hunt_form form, hunt_parts by, hunt_more more, uint32_t n_slots);

#endif
