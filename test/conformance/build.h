/* How cases are built: inputs with special values among their elements, and short ways to write
 * types, attributes and nodes. Whatever cannot be built ends the program with a message. */
#ifndef CONFORMANCE_BUILD_H
#define CONFORMANCE_BUILD_H

#include "cases.h"

typedef enum fill { FILL_SPECIAL, FILL_TAME, FILL_INDEX } fill;

/* Begins again with the numbers that look random; each case goes to `visit`. */
void build_begin(case_visitor visit, void *context);
uint64_t build_random(void);
/* Elements for an input, to be freed. `turn` spreads the special values of operand 1 against those
 * of operand 0. */
/* For backends that take subnormal numbers for zeros: inputs have none. */
extern bool build_flushes;
bool build_is_subnormal(uint8_t dtype, double value);
void *build_input(const shoal_type *type, fill how, uint64_t turn);
void build_put_float(uint8_t dtype, void *to, int64_t at, double value);
void build_visit_and_free(test_case *c);
void build_name(test_case *c, const char *op, const shoal_type *types, uint32_t n);
void build_must(shoal_status status);
/* One node; a combination that the operation does not take is left out: false. */
bool build_node(uint16_t op, const shoal_type *types, uint32_t n_inputs, const shoal_attr *attrs,
                uint16_t n_attrs, closeness close, int64_t terms, fill how);

shoal_type build_type(uint8_t dtype, const int64_t *dims, int rank);
shoal_attr build_ints(shoal_attr_key key, const int64_t *values, int count);

#define SHAPE(...)                                                                                 \
    (const int64_t[]){0, __VA_ARGS__} + 1,                                                         \
        (int)(sizeof((int64_t[]){0, __VA_ARGS__}) / sizeof(int64_t)) - 1
#define TYPE(dtype, ...) build_type(dtype, SHAPE(__VA_ARGS__))
#define INTS(key, ...) build_ints(SHOAL_ATTR_##key, SHAPE(__VA_ARGS__))
#define INT(key, value) graph_int(SHOAL_ATTR_##key, value)

/* The lists of cases; they use what build_begin set. */
void cases_basic(void);
void cases_composite(void);
void cases_index(void);
void cases_window(void);
void cases_large(void);

#endif
