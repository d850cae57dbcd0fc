/* Steps that only move elements. All are one strided copy; it is cut along its first axis over the
 * threads, and where reading and writing run along different axes it goes in square blocks. */
#include "backend/cpu/cpu.h"

enum {
    BLOCK = 32,
    GRAIN_BYTES = 1 << 17,
    PIECE_BYTES = 1 << 15,
    MOST_PIECED = 16, /* operands: each piece goes through all of them */
};

bool cpu_is_move(uint16_t op) {
    return op == GRAPH_TRANSPOSE || op == GRAPH_SLICE || op == GRAPH_BROADCAST_IN_DIM ||
           op == GRAPH_REVERSE || op == GRAPH_CONCATENATE || op == GRAPH_PAD;
}

void cpu_merge_view(ref_view *v) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < v->rank; i++) {
        if (v->dims[i] == 1) continue;
        bool joins = n > 0 && v->to[n - 1] == v->to[i] * v->dims[i] &&
                     v->from[n - 1] == v->from[i] * v->dims[i];
        uint32_t at = joins ? n - 1 : n++;
        v->dims[at] = joins ? v->dims[at] * v->dims[i] : v->dims[i];
        v->to[at] = v->to[i];
        v->from[at] = v->from[i];
    }
    v->rank = n;
}

#define COPY_BLOCK(type)                                                                           \
    for (int64_t r = 0; r < rows; r++) {                                                           \
        type *to = (type *)to_bytes + r * to_row;                                                  \
        const type *from = (const type *)from_bytes + r * from_row;                                \
        for (int64_t c = 0; c < columns; c++) to[c * to_column] = from[c * from_column];           \
    }                                                                                              \
    break

void cpu_copy_block(char *to_bytes, const char *from_bytes, int64_t rows, int64_t columns,
                    int64_t to_row, int64_t to_column, int64_t from_row, int64_t from_column,
                    size_t bytes) {
    if (to_column == 1 && from_column == 1) {
        for (int64_t r = 0; r < rows; r++)
            memcpy(to_bytes + (size_t)(r * to_row) * bytes,
                   from_bytes + (size_t)(r * from_row) * bytes, (size_t)columns * bytes);
        return;
    }
    switch (bytes) {
    case 1: COPY_BLOCK(uint8_t);
    case 2: COPY_BLOCK(uint16_t);
    case 4: COPY_BLOCK(uint32_t);
    default: COPY_BLOCK(uint64_t);
    }
}

/* A copy as it is done: addresses are those of its first elements. */
typedef struct job {
    ref_view view;
    char *to;
    const char *from;
    size_t bytes;
    void (*pick)(int64_t n, const void *from, int64_t step, void *to);
} job;

/* Whether rows are read as they come: whole ones, rather than in blocks. */
static bool reads_rows(const ref_view *v) {
    int64_t step = v->from[v->rank - 1];
    return v->to[v->rank - 1] == 1 && step >= -2 && step <= 2;
}

/* The two last axes. */
static void copy_plane(const job *j, char *to, const char *from) {
    const ref_view *v = &j->view;
    uint32_t row = v->rank - 2, column = v->rank - 1;
    if (reads_rows(v) && v->from[column] != 1) {
        for (int64_t r = 0; r < v->dims[row]; r++)
            j->pick(v->dims[column], from + r * v->from[row] * (int64_t)j->bytes, v->from[column],
                    to + r * v->to[row] * (int64_t)j->bytes);
        return;
    }
    int64_t step = reads_rows(v) || !v->from[column] ? INT64_MAX : BLOCK;
    for (int64_t r = 0, rows; r < v->dims[row]; r += rows) {
        rows = v->dims[row] - r < step ? v->dims[row] - r : step;
        for (int64_t c = 0, columns; c < v->dims[column]; c += columns) {
            columns = v->dims[column] - c < step ? v->dims[column] - c : step;
            cpu_copy_block(to + (r * v->to[row] + c * v->to[column]) * (int64_t)j->bytes,
                           from + (r * v->from[row] + c * v->from[column]) * (int64_t)j->bytes,
                           rows, columns, v->to[row], v->to[column], v->from[row], v->from[column],
                           j->bytes);
        }
    }
}

static void copy_axes(const job *j, uint32_t axis, char *to, const char *from) {
    const ref_view *v = &j->view;
    if (axis + 2 == v->rank) {
        copy_plane(j, to, from);
        return;
    }
    for (int64_t i = 0; i < v->dims[axis]; i++)
        copy_axes(j, axis + 1, to + i * v->to[axis] * (int64_t)j->bytes,
                  from + i * v->from[axis] * (int64_t)j->bytes);
}

static void copy_range(void *context, uint32_t part, int64_t begin, int64_t end) {
    const job *all = context;
    job j = *all;
    j.view.dims[0] = end - begin;
    copy_axes(&j, 0, j.to + begin * j.view.to[0] * (int64_t)j.bytes,
              j.from + begin * j.view.from[0] * (int64_t)j.bytes);
}

static void swap_axes(ref_view *v, uint32_t a, uint32_t b) {
    ref_view old = *v;
    v->dims[a] = old.dims[b], v->dims[b] = old.dims[a];
    v->to[a] = old.to[b], v->to[b] = old.to[a];
    v->from[a] = old.from[b], v->from[b] = old.from[a];
}

/* Sets the axes of a copy as copy_axes wants them; false: there is nothing to copy. */
static bool arrange(job *j, const shoal_device *device, const ref_view *view, void *to,
                    const void *from, size_t bytes) {
    *j = (job){.view = *view, .bytes = bytes, .pick = device->kernels->pools->pick[bytes]};
    ref_view *v = &j->view;
    for (uint32_t i = 0; i < v->rank; i++)
        if (!v->dims[i]) return false;
    j->to = (char *)to + v->to_start * (int64_t)bytes;
    j->from = (const char *)from + v->from_start * (int64_t)bytes;
    cpu_merge_view(v);
    /* Blocks want the axis along which reading is dense beside the one for writing. */
    for (uint32_t i = 0; i + 2 < v->rank; i++)
        if (v->from[i] == 1 || v->from[i] == -1) swap_axes(v, i, v->rank - 2);
    while (v->rank < 2) { /* axes of size 1 in front */
        memmove(&v->dims[1], &v->dims[0], v->rank * sizeof v->dims[0]);
        memmove(&v->to[1], &v->to[0], v->rank * sizeof v->to[0]);
        memmove(&v->from[1], &v->from[0], v->rank * sizeof v->from[0]);
        v->dims[0] = 1, v->to[0] = 1, v->from[0] = 1;
        v->rank++;
    }
    return true;
}

/* One line is cut into rows, so that threads share it; what is left over is copied. */
static void cut_line(job *j) {
    ref_view *v = &j->view;
    int64_t rows = v->dims[1] * (int64_t)j->bytes / GRAIN_BYTES;
    if (v->rank > 2 || v->dims[0] > 1 || rows < 2) return;
    int64_t row = v->dims[1] / rows, to = v->to[1], from = v->from[1];
    job rest = *j;
    rest.view.dims[1] %= rows;
    copy_axes(&rest, 0, j->to + rows * row * to * (int64_t)j->bytes,
              j->from + rows * row * from * (int64_t)j->bytes);
    *v = (ref_view){
        .rank = 2, .dims = {rows, row}, .to = {row * to, to}, .from = {row * from, from}};
}

void cpu_copy_view(shoal_device *device, const ref_view *view, void *to, const void *from,
                   size_t element_bytes) {
    job j;
    if (!arrange(&j, device, view, to, from, element_bytes)) return;
    cut_line(&j);
    int64_t per_item = (int64_t)element_bytes;
    for (uint32_t i = 1; i < j.view.rank; i++) per_item *= j.view.dims[i];
    cpu_parallel(device, j.view.dims[0], 1 + GRAIN_BYTES / per_item, copy_range, &j);
}

ref_view cpu_view_of(const cpu_program *p, uint32_t value) {
    const shoal_type *type = &p->g->values[value].type;
    const fuse_index index = fuse_index_of(&p->plan, value);
    ref_view view = {.rank = type->rank};
    memcpy(view.dims, type->dims, sizeof view.dims);
    ref_strides(type, view.to);
    memcpy(view.from, index.strides, sizeof view.from);
    return view;
}

ref_view cpu_moved_view(const cpu_program *p, const shoal_node *node, uint32_t input) {
    ref_view view = ref_view_of(p->g, node, input);
    fuse_index in = fuse_index_of(&p->plan, node->inputs[input]), index;
    in.start = 0; /* the address is that of the first element */
    if (!fuse_moved_index(p->g, node, &in, &index)) index = in;
    view.from_start = index.start;
    memcpy(view.from, index.strides, sizeof view.from);
    return view;
}

/* Where the elements of a padded operand go that are not cut off by negative padding. */
static ref_view inside_of(const cpu_program *p, const shoal_node *node) {
    const shoal_type *in = &p->g->values[node->inputs[0]].type;
    const int64_t *low = shoal_node_attr(node, SHOAL_ATTR_EDGE_PADDING_LOW)->u.ints;
    const int64_t *gaps = shoal_node_attr(node, SHOAL_ATTR_INTERIOR_PADDING)->u.ints;
    ref_view out = cpu_view_of(p, node->first_output), view = cpu_view_of(p, node->inputs[0]);
    for (uint32_t i = 0; i < in->rank; i++) {
        int64_t step = gaps[i] + 1, last = out.dims[i] - 1 - low[i];
        int64_t begin = low[i] < 0 ? (-low[i] + step - 1) / step : 0;
        int64_t end = last < 0 ? 0 : last / step + 1;
        if (end > in->dims[i]) end = in->dims[i];
        view.dims[i] = end > begin ? end - begin : 0;
        view.to[i] = out.to[i] * step;
        view.to_start += (low[i] + begin * step) * out.to[i];
        view.from_start += begin * view.from[i];
    }
    return view;
}

static void run_pad(const cpu_run *run, const shoal_node *node, size_t bytes) {
    const cpu_program *p = run->program;
    ref_view inside = inside_of(p, node), all = cpu_view_of(p, node->first_output);
    int64_t left = 1, in = 1;
    for (uint32_t i = 0; i < all.rank; i++) {
        all.from[i] = 0;
        left *= all.dims[i];
        in *= inside.dims[i];
    }
    char *to = run->at[node->first_output];
    if (left > in) cpu_copy_view(run->device, &all, to, run->at[node->inputs[1]], bytes);
    cpu_copy_view(run->device, &inside, to, run->at[node->inputs[0]], bytes);
}

/* Operands of a concatenation that are joined along a later axis than the first one that has more
 * than one element: what that axis says goes piece by piece, as the parts of a line of memory had
 * better be written together. */
typedef struct pieces {
    const cpu_run *run;
    const shoal_node *node;
    uint32_t axis;
    int64_t size, rows; /* of the axis, of a piece */
    size_t bytes;
} pieces;

static void copy_pieces(void *context, uint32_t part, int64_t begin, int64_t end) {
    const pieces *x = context;
    for (int64_t piece = begin; piece < end; piece++)
        for (uint32_t i = 0; i < x->node->n_inputs; i++) {
            ref_view view = cpu_moved_view(x->run->program, x->node, i);
            int64_t at = piece * x->rows;
            view.dims[x->axis] = x->size - at < x->rows ? x->size - at : x->rows;
            view.to_start += at * view.to[x->axis];
            view.from_start += at * view.from[x->axis];
            job j;
            if (arrange(&j, x->run->device, &view, x->run->at[x->node->first_output],
                        x->run->at[x->node->inputs[i]], x->bytes))
                copy_axes(&j, 0, j.to, j.from);
        }
}

/* Returns whether it has. */
static bool copy_by_pieces(const cpu_run *run, const shoal_node *node, size_t bytes) {
    const shoal_type *type = &run->program->g->values[node->first_output].type;
    pieces x = {run, node, 0, 0, 0, bytes};
    if (node->op != GRAPH_CONCATENATE || node->n_inputs > MOST_PIECED) return false;
    while (x.axis < type->rank && type->dims[x.axis] == 1) x.axis++;
    if (x.axis >= shoal_node_attr(node, SHOAL_ATTR_DIMENSION)->u.i) return false;
    x.size = type->dims[x.axis];
    int64_t row = x.size ? base_type_bytes(type) / x.size : 0;
    if (!row || row > GRAIN_BYTES) return false;
    x.rows = (PIECE_BYTES + row - 1) / row;
    cpu_parallel(run->device, (x.size + x.rows - 1) / x.rows, GRAIN_BYTES / PIECE_BYTES,
                 copy_pieces, &x);
    return true;
}

shoal_status cpu_move_run(const cpu_run *run, const cpu_step *step) {
    const shoal_node *node = step->node;
    size_t bytes =
        shoal_dtype_size((shoal_dtype)run->program->g->values[node->first_output].type.dtype);
    if (node->op == GRAPH_PAD) {
        run_pad(run, node, bytes);
        return SHOAL_OK;
    }
    if (copy_by_pieces(run, node, bytes)) return SHOAL_OK;
    for (uint32_t i = 0; i < node->n_inputs; i++) {
        ref_view view = cpu_moved_view(run->program, node, i);
        cpu_copy_view(run->device, &view, run->at[node->first_output], run->at[node->inputs[i]],
                      bytes);
    }
    return SHOAL_OK;
}
