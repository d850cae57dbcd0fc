/* From the tree of a text to a graph: what the files of this folder share. */
#ifndef GRAPH_STABLEHLO_IMPORT_H
#define GRAPH_STABLEHLO_IMPORT_H

#include "graph/stablehlo/stablehlo.h"
#include "graph/stablehlo/tree.h"

#include "base/map.h"

typedef struct hlo_function {
    struct hlo_function *next;
    hlo_text name;
    const hlo_op *op;
    bool active; /* it is being inlined: calling it now is a recursion */
} hlo_function;

typedef struct hlo_import {
    hlo_reader r;
    const hlo_import_options *options;
    hlo_function *functions; /* the last one first */
    base_map named;          /* hash of a name -> the last function of it */
    base_map of_qr;          /* key of a graph and a value: that a QR made (linear.c) */
    uint32_t steps, calls;   /* operations read so far; functions inside each other */
} hlo_import;

/* A function or region while it is read. */
typedef struct hlo_scope {
    hlo_import *in;
    graph *g;
    base_map names; /* hash of a name -> its entry */
    uint32_t depth; /* regions around it */
} hlo_scope;

/* An operation whose operands are values of the graph. */
typedef struct hlo_call {
    hlo_scope *s;
    const hlo_op *op;
    uint32_t n_in, n_out;
    const uint32_t *in;
    uint32_t *out;         /* to be set */
    const hlo_type *types; /* of the results, as stated; NULL: they are not */
} hlo_call;

typedef shoal_status hlo_rule(hlo_call *c);

/* A failure of the operation: its place and name before the message. Returns FORMAT. */
shoal_status hlo_fail(const hlo_call *c, const char *format, ...) SHOAL_PRINTF(2, 3);
/* The same at a place of the text. */
shoal_status hlo_fail_at(const hlo_call *c, const char *at, const char *format, ...)
    SHOAL_PRINTF(3, 4);

/* ---- of values.c ---- */

const shoal_type *hlo_type_of(const hlo_call *c, uint32_t input);
/* Fails where there are others than so many operands and results. */
shoal_status hlo_need(const hlo_call *c, uint32_t inputs, uint32_t outputs) SHOAL_CHECK_RESULT;
/* The attribute of a name, or of what the pretty form calls it (may be NULL); NULL: there is none.
 */
const hlo_attr *hlo_attr_of(const hlo_call *c, const char *name, const char *pretty);
/* Whole numbers of a list, dense<...> or single number; an empty list where attr is NULL. */
shoal_status hlo_ints(const hlo_call *c, const hlo_attr *attr,
                      parse_numbers *out) SHOAL_CHECK_RESULT;
shoal_status hlo_int(const hlo_call *c, const hlo_attr *attr, int64_t otherwise,
                     int64_t *out) SHOAL_CHECK_RESULT;
/* The elements of dense<...> and the like: row-major, or one for all. */
shoal_status hlo_elements(const hlo_call *c, const hlo_attr *attr, const shoal_type *type,
                          const void **data, size_t *bytes) SHOAL_CHECK_RESULT;
/* The numbers that an operand consists of, computed from constants. */
shoal_status hlo_known(const hlo_call *c, uint32_t input, parse_numbers *out) SHOAL_CHECK_RESULT;
/* Fails for a type that is none of Shoal's, for the reason that there is. */
shoal_status hlo_refuse_type(const hlo_call *c, const char *at, const hlo_type *type);
/* The stated type of a result; fails where it is none of Shoal's. Dimensions may be -1. */
shoal_status hlo_stated(const hlo_call *c, uint32_t output, shoal_type *out) SHOAL_CHECK_RESULT;
/* The shape of the first result: as stated or, where that is not known, the numbers of an operand.
 */
shoal_status hlo_shape(const hlo_call *c, uint32_t input, shoal_type *out) SHOAL_CHECK_RESULT;

/* ---- of import.c ---- */

/* Calls a function of the module: its body becomes nodes. */
shoal_status hlo_inline(hlo_call *c, hlo_text name) SHOAL_CHECK_RESULT;

/* What regions use that is defined around them. */
typedef struct hlo_captures {
    HLO_LIST_OF(hlo_text) names;
    uint32_t *values;  /* in the graph around */
    bool *is_constant; /* made again inside, instead of being handed over */
    uint32_t count, handed;
} hlo_captures;
shoal_status hlo_capture(const hlo_call *c, const hlo_region *regions,
                         hlo_captures *out) SHOAL_CHECK_RESULT;
/* A region as a body: its arguments, of the given types (NULL: as stated), then what is handed over
 * to it, which it returns behind its results where `carries`. */
shoal_status hlo_body(const hlo_call *c, const hlo_region *region, const shoal_type *types,
                      const hlo_captures *captures, bool carries,
                      const shoal_graph **out) SHOAL_CHECK_RESULT;
/* A function of the module as such a body. */
shoal_status hlo_comparator(const hlo_call *c, hlo_text name,
                            const shoal_graph **out) SHOAL_CHECK_RESULT;
/* A body for a reduction and the like, which is handed nothing. */
shoal_status hlo_reducer(const hlo_call *c, const hlo_region *region,
                         const shoal_graph **out) SHOAL_CHECK_RESULT;
/* Lowers a region whose arguments are values of the scope's own graph. */
shoal_status hlo_splice(const hlo_call *c, const hlo_region *region, const uint32_t *arguments,
                        uint32_t *outputs, uint32_t n_outputs) SHOAL_CHECK_RESULT;

/* ---- of ops.c: rules by the names of operations ---- */

/* Fails for an operation that has no rule. */
shoal_status hlo_refuse(const hlo_call *c);
/* NULL: there is none. */
hlo_rule *hlo_rule_of(const char *name);
/* A row of ops.def, its attributes taken from those of the text, with others in their place. */
shoal_status hlo_row(hlo_call *c, uint16_t op, const shoal_attr *others, uint16_t n_others,
                     const shoal_graph *const *regions, uint16_t n_regions) SHOAL_CHECK_RESULT;
/* The same with other operands. */
shoal_status hlo_row_of(hlo_call *c, uint16_t op, const uint32_t *inputs, uint32_t n_inputs,
                        const shoal_attr *others, uint16_t n_others,
                        const shoal_graph *const *regions, uint16_t n_regions) SHOAL_CHECK_RESULT;

/* dot_general and convolution: the operands in the element type of the result. */
shoal_status hlo_product(hlo_call *c, uint16_t op, const shoal_attr *attrs,
                         uint16_t n) SHOAL_CHECK_RESULT;

hlo_rule *hlo_control_rule(const char *name); /* control.c */
hlo_rule *hlo_window_rule(const char *name);  /* windows.c */
hlo_rule *hlo_dynamic_rule(const char *name); /* dynamic.c */
hlo_rule *hlo_random_rule(const char *name);  /* random.c */
hlo_rule *hlo_linear_rule(const char *name);  /* linear.c */
hlo_rule *hlo_norm_rule(const char *name);    /* norm.c */
hlo_rule *hlo_chlo_rule(const char *name);    /* chlo.c */
hlo_rule *hlo_idiom_rule(const char *name);   /* idioms.c */

typedef struct hlo_named_rule {
    const char *name;
    hlo_rule *rule;
} hlo_named_rule;
/* Looks a rule up in a table that ends with NULL. */
hlo_rule *hlo_look_up(const hlo_named_rule *table, const char *name);

/* ---- of called.c and linear.c: functions that are only named ---- */

shoal_status hlo_custom_call(hlo_call *c) SHOAL_CHECK_RESULT;
/* What is called; empty where it is not said. */
hlo_text hlo_target(const hlo_call *c);
/* An attribute for the function that is called, of its own list of them. */
const hlo_attr *hlo_setting(const hlo_call *c, const char *name);
/* NULL: it is none of a library of linear algebra that is known. */
hlo_rule *hlo_library_rule(const char *target);

#endif
