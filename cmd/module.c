/* `shoal run`: runs a program of StableHLO on a pool, and `shoal grad`: writes one that gives its
 * gradients, too. */
#include "args.h"
#include "operand.h"
#include "output.h"
#include "pool.h"
#include "python.h"
#include "text.h"

#include "shoal/stablehlo.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_FILES = 4096, MOST_SHOWN = 32, TYPE_ROOM = 320 };
enum { KEY_FUNCTION = 0x400, KEY_FILL, KEY_WORKERS, KEY_RESULT, KEY_WRT };

typedef struct input {
    const char *model, *function, *hub, *fill, *wrt;
    const char *given[MOST_FILES]; /* what inputs are */
    const char *out[MOST_FILES];
    uint32_t n_given, n_out, workers, result;
    bool force;
} input;

/* ---- the model ---- */

/* Opens the model. MLIR's bytecode is turned into text first, by Python. */
static int open_model(const cmd_command *self, const input *in, shoal_module **out) {
    static const char magic[] = {'M', 'L', (char)0xef, 'R'};
    char begins[sizeof magic] = {0}, *text;
    size_t length;
    FILE *file = fopen(in->model, "rb");
    bool bytecode = file != NULL && fread(begins, sizeof begins, 1, file) == 1 &&
                    memcmp(begins, magic, sizeof magic) == 0;
    if (file != NULL) fclose(file);
    if (!bytecode) return cmd_try(shoal_module_open(in->model, in->function, out));
    int code = cmd_python_output(self, "shoal.stablehlo", in->model, &text, &length);
    if (code != CMD_OK) return code;
    const char *slash = strrchr(in->model, '/');
    if (shoal_module_parse(text, length, slash != NULL ? slash + 1 : in->model, in->function, out))
        code = cmd_fail("%s: %s", in->model, shoal_error_message());
    free(text);
    return code;
}

/* ---- types and elements as text ---- */

static char *type_text(const shoal_type *type, char out[TYPE_ROOM]) {
    int n = snprintf(out, TYPE_ROOM, "%s[", shoal_dtype_name((shoal_dtype)type->dtype));
    for (int i = 0; i < type->rank; i++)
        n += snprintf(out + n, TYPE_ROOM - (size_t)n, "%s%lld", i > 0 ? ", " : "",
                      (long long)type->dims[i]);
    snprintf(out + n, TYPE_ROOM - (size_t)n, "]");
    return out;
}

/* The graph's types are in memory, so their sizes fit. */
static size_t count_of(const shoal_type *type) {
    size_t count = 1;
    for (int i = 0; i < type->rank; i++) count *= (size_t)type->dims[i];
    return count;
}

/* An integer or bool; little endian, as this machine is. */
static int64_t whole_element(shoal_dtype dtype, const void *data, size_t index) {
    size_t size = shoal_dtype_size(dtype);
    uint64_t bits = 0;
    memcpy(&bits, (const char *)data + index * size, size);
    int unused = 64 - 8 * (int)size;
    return shoal_dtype_kind(dtype) == 'i' ? (int64_t)(bits << unused) >> unused : (int64_t)bits;
}

static cJSON *element_json(shoal_dtype dtype, const void *data, size_t index) {
    char text[32];
    if (shoal_dtype_kind(dtype) == 'b') return cJSON_CreateBool(whole_element(dtype, data, index));
    if (shoal_dtype_kind(dtype) != 'f') {
        int64_t value = whole_element(dtype, data, index);
        snprintf(text, sizeof text, dtype == SHOAL_U64 ? "%llu" : "%lld", (long long)value);
        return cJSON_CreateRaw(text);
    }
    double value = operand_element(dtype, data, (int64_t)index);
    if (!isfinite(value))
        return cJSON_CreateString(isnan(value) ? "nan" : value > 0 ? "inf" : "-inf");
    snprintf(text, sizeof text, dtype == SHOAL_F64 ? "%.17g" : "%.9g", value);
    return cJSON_CreateRaw(text);
}

/* ---- inputs ---- */

static int random_input(shoal_session *session, const shoal_type *type, uint64_t seed,
                        uint32_t number, shoal_tensor **out) {
    shoal_tensor *keys[2] = {0}, *drawn = NULL, *ten = NULL, *scaled = NULL;
    shoal_dtype dtype = (shoal_dtype)type->dtype;
    bool floats = shoal_dtype_kind(dtype) == 'f';
    float most = shoal_dtype_kind(dtype) == 'b' ? 2 : 10;
    int code = cmd_try(shoal_tensor_new(session, SHOAL_U64, 0, NULL, &seed, &keys[0]));
    if (code == CMD_OK)
        code = cmd_try(shoal_tensor_new(session, SHOAL_U32, 0, NULL, &number, &keys[1]));
    if (code == CMD_OK)
        code = cmd_try(shoal_random(keys[0], keys[1], floats ? "NORMAL" : "UNIFORM",
                                    floats ? dtype : SHOAL_F32, type->rank, type->dims, &drawn));
    if (code == CMD_OK && !floats) {
        code = cmd_try(shoal_full(session, SHOAL_F32, 0, NULL, &most, &ten));
        if (code == CMD_OK) code = cmd_try(shoal_multiply(drawn, ten, &scaled));
        shoal_tensor_free(&drawn);
        /* Whole first: bool is what is not 0. */
        if (code == CMD_OK) code = cmd_try(shoal_convert(scaled, SHOAL_I32, &drawn));
        shoal_tensor_free(&scaled);
        if (code == CMD_OK) code = cmd_try(shoal_convert(drawn, dtype, &scaled));
        shoal_tensor_free(&drawn);
        drawn = scaled;
    }
    shoal_tensor_free(&ten);
    shoal_tensor_free(&keys[0]);
    shoal_tensor_free(&keys[1]);
    if (code == CMD_OK) *out = drawn;
    return code;
}

static int number_input(shoal_session *session, const shoal_type *type, double value,
                        const char *text, uint32_t number, shoal_tensor **out) {
    shoal_dtype dtype = (shoal_dtype)type->dtype;
    char kind = shoal_dtype_kind(dtype);
    shoal_tensor *wide = NULL;
    int bits = kind == 'b' ? 1 : 8 * (int)shoal_dtype_size(dtype) - (kind == 'i');
    double end = ldexp(1, bits), least = kind == 'i' ? -end : 0;
    if (kind != 'f' &&
        (value != trunc(value) || fabs(value) > 0x1p53 || value < least || value >= end))
        return cmd_fail("input %u is %s; '%s' is no such number", number, shoal_dtype_name(dtype),
                        text);
    int code = cmd_try(shoal_full(session, SHOAL_F64, type->rank, type->dims, &value, &wide));
    if (code == CMD_OK) code = cmd_try(shoal_convert(wide, dtype, out));
    shoal_tensor_free(&wide);
    return code;
}

static int file_input(shoal_session *session, const shoal_type *type, const char *text,
                      uint32_t number, shoal_tensor **out) {
    char is[TYPE_ROOM], must[TYPE_ROOM];
    shoal_file *file = NULL;
    uint64_t index;
    int code = operand_file(text, &file, &index);
    if (code == CMD_OK) code = cmd_try(shoal_file_borrow(file, index, session, out));
    if (file != NULL) shoal_file_close(&file);
    if (code != CMD_OK) return code;
    const shoal_type *found = shoal_tensor_type(*out);
    if (found->dtype == type->dtype && found->rank == type->rank &&
        !memcmp(found->dims, type->dims, type->rank * sizeof *type->dims))
        return CMD_OK;
    return cmd_fail("%s: is %s; input %u must be %s", text, type_text(found, is), number,
                    type_text(type, must));
}

static int make_input(shoal_session *session, const shoal_type *type, const char *text,
                      uint32_t number, shoal_tensor **out) {
    char *end;
    if (!strcmp(text, "zeros")) return number_input(session, type, 0, text, number, out);
    if (!strcmp(text, "ones")) return number_input(session, type, 1, text, number, out);
    if (!strcmp(text, "random")) return random_input(session, type, 0, number, out);
    if (!strncmp(text, "random:", 7))
        return random_input(session, type, (uint64_t)args_count("random", text + 7, 0, INT64_MAX),
                            number, out);
    double value = strtod(text, &end);
    if (end != text && *end == 0) return number_input(session, type, value, text, number, out);
    return file_input(session, type, text, number, out);
}

/* ---- running ---- */

typedef struct job {
    const input *in;
    shoal_module *module;
    const shoal_graph *graph;
    cmd_pool pool;
    cmd_progress progress;
    shoal_function *function;
    shoal_tensor **inputs, **outputs;
    cJSON *results;
    double seconds;
} job;

static const shoal_type *input_type(const job *j, uint32_t i) {
    return &j->graph->values[j->graph->inputs[i]].type;
}

static int check_counts(const job *j) {
    const input *in = j->in;
    const shoal_graph *g = j->graph;
    char type[TYPE_ROOM];
    if (in->n_given > g->n_inputs)
        return cmd_fail("%s: takes %u input%s; %u are given", in->model, g->n_inputs,
                        g->n_inputs == 1 ? "" : "s", in->n_given);
    if (in->n_given < g->n_inputs && in->fill == NULL)
        return cmd_fail("%s: takes %u inputs; %u %s given, and input %u is %s; --fill says what "
                        "the others are",
                        in->model, g->n_inputs, in->n_given, in->n_given == 1 ? "is" : "are",
                        in->n_given, type_text(input_type(j, in->n_given), type));
    if (in->n_out > g->n_outputs)
        return cmd_fail("%s: has %u result%s; %u files are named", in->model, g->n_outputs,
                        g->n_outputs == 1 ? "" : "s", in->n_out);
    return CMD_OK;
}

static int compute(job *j) {
    const input *in = j->in;
    const shoal_graph *g = j->graph;
    int code = CMD_OK;
    j->inputs = calloc((size_t)g->n_inputs + 1, sizeof *j->inputs);
    j->outputs = calloc((size_t)g->n_outputs + 1, sizeof *j->outputs);
    if (j->inputs == NULL || j->outputs == NULL) return cmd_fail("not enough memory");
    for (uint32_t i = 0; i < g->n_inputs && code == CMD_OK; i++)
        code = make_input(j->pool.session, input_type(j, i),
                          i < in->n_given ? in->given[i] : in->fill, i, &j->inputs[i]);
    if (code == CMD_OK)
        code = cmd_try(shoal_module_function(j->module, j->pool.session, &j->function));
    progress_phase(&j->progress, "running");
    double from = cmd_now();
    if (code == CMD_OK) code = cmd_try(shoal_function_run(j->function, j->inputs, j->outputs));
    if (code == CMD_OK) code = cmd_try(shoal_sync(j->pool.session));
    j->seconds = cmd_now() - from;
    progress_end(&j->progress);
    return code;
}

/* ---- results ---- */

static int write_result(const char *path, const shoal_type *type, const void *data, size_t bytes) {
    shoal_writer *writer = NULL;
    int code = cmd_try(shoal_writer_open(path, type, &writer));
    if (code == CMD_OK) code = cmd_try(shoal_writer_append(writer, data, bytes));
    if (code == CMD_OK) code = cmd_try(shoal_writer_commit(&writer));
    shoal_writer_close(&writer);
    return code;
}

/* NumPy has no bfloat16. */
static int widen(const char *path, shoal_tensor **tensor) {
    shoal_tensor *wide = NULL;
    if (path == NULL || strcmp(output_ending(path), ".npy") != 0 ||
        shoal_tensor_type(*tensor)->dtype != SHOAL_BF16)
        return CMD_OK;
    int code = cmd_try(shoal_convert(*tensor, SHOAL_F32, &wide));
    if (code != CMD_OK) return code;
    shoal_tensor_free(tensor);
    *tensor = wide;
    return CMD_OK;
}

static int take_result(job *j, uint32_t i) {
    const char *path = i < j->in->n_out ? j->in->out[i] : NULL;
    char text[TYPE_ROOM];
    int code = widen(path, &j->outputs[i]);
    if (code != CMD_OK) return code;
    const shoal_type *type = shoal_tensor_type(j->outputs[i]);
    shoal_dtype dtype = (shoal_dtype)type->dtype;
    size_t count = count_of(type), bytes = count * shoal_dtype_size(dtype);
    void *data = malloc(bytes + 1);
    if (data == NULL) return cmd_fail("result %u: not enough memory for %zu bytes", i, bytes);
    code = cmd_try(shoal_read(j->outputs[i], data, bytes));
    if (code == CMD_OK && path != NULL) code = write_result(path, type, data, bytes);
    cJSON *row = cJSON_CreateObject();
    cJSON_AddNumberToObject(row, "result", i);
    cJSON_AddStringToObject(row, "type", type_text(type, text));
    if (path != NULL) {
        cJSON_AddStringToObject(row, "file", path);
        cJSON_AddNumberToObject(row, "bytes", (double)bytes);
    } else {
        cJSON *values = cJSON_AddArrayToObject(row, "values");
        for (size_t k = 0; code == CMD_OK && k < count && k < MOST_SHOWN; k++)
            cJSON_AddItemToArray(values, element_json(dtype, data, k));
        cJSON_AddBoolToObject(row, "all", count <= MOST_SHOWN);
    }
    cJSON_AddItemToArray(j->results, row);
    free(data);
    return code;
}

static void print_result(const cJSON *row) {
    const cJSON *file = cJSON_GetObjectItem(row, "file"), *value;
    char bytes[TEXT_ROOM];
    printf("result %d: %s", cJSON_GetObjectItem(row, "result")->valueint,
           cJSON_GetObjectItem(row, "type")->valuestring);
    if (file != NULL) {
        printf(", %s: %s\n", file->valuestring,
               text_bytes((uint64_t)cJSON_GetObjectItem(row, "bytes")->valuedouble, bytes));
        return;
    }
    cJSON_ArrayForEach(value, cJSON_GetObjectItem(row, "values")) {
        char *text =
            cJSON_IsString(value) ? strdup(value->valuestring) : cJSON_PrintUnformatted(value);
        printf(" %s", text != NULL ? text : "?");
        free(text);
    }
    puts(cJSON_IsTrue(cJSON_GetObjectItem(row, "all")) ? "" : " ...");
}

static int report(job *j) {
    char time[TEXT_ROOM];
    const cJSON *row;
    if (cmd_json) {
        cJSON *root = cJSON_CreateObject();
        cJSON_AddNumberToObject(root, "seconds", j->seconds);
        cJSON_AddItemToObject(root, "results", j->results);
        j->results = NULL;
        return text_json(root);
    }
    cJSON_ArrayForEach(row, j->results) print_result(row);
    printf("it took %s\n", text_seconds(j->seconds, time));
    return CMD_OK;
}

/* ---- run ---- */

static const struct argp_option run_options[] = {
    {"output", 'o', "FILE", 0,
     "The .npy, .safetensors or .bin file for a result; again for the next one (default: the first "
     "elements are printed)",
     0},
    OUTPUT_OPTION_FORCE,
    {"fill", KEY_FILL, "INPUT", 0, "What the inputs are that are not given", 0},
    {"function", KEY_FUNCTION, "NAME", 0, "The function to run (default: @main, or the only one)",
     0},
    {"hub", 'H', "ADDRESS", 0,
     "The pool's hub (default: SHOAL_HUB, else shm:hub if it runs, else a pool in this process)",
     0},
    {"workers", KEY_WORKERS, "N", 0, "Use a pool of N workers in this process", 0},
    CMD_OPTIONS_END};

static void add_file(const char **list, uint32_t *n, const char *what, const char *text) {
    if (*n == MOST_FILES) cmd_usage("over %d %s", MOST_FILES, what);
    list[(*n)++] = text;
}

static void take(void *to, int key, char *arg) {
    input *in = to;
    switch (key) {
    case 'o': add_file(in->out, &in->n_out, "outputs", arg); break;
    case KEY_FILL: in->fill = arg; break;
    case 'H': in->hub = arg; break;
    case OUTPUT_KEY_FORCE: in->force = true; break;
    case KEY_FUNCTION: in->function = *arg == '@' ? arg + 1 : arg; break;
    case KEY_WORKERS: in->workers = (uint32_t)args_count("--workers", arg, 1, 256); break;
    case KEY_RESULT: in->result = (uint32_t)args_count("--result", arg, 0, UINT32_MAX); break;
    case KEY_WRT: in->wrt = arg; break;
    case ARGP_KEY_ARG:
        if (in->model == NULL)
            in->model = arg;
        else
            add_file(in->given, &in->n_given, "inputs", arg);
        break;
    default: break;
    }
}

static int check_outputs(const input *in) {
    if (in->force && in->n_out == 0) cmd_usage("--force: there is no --output to overwrite");
    for (uint32_t i = 0; i < in->n_out; i++) {
        const char *ending = output_ending(in->out[i]);
        if (strcmp(ending, ".npy") != 0 && strcmp(ending, ".safetensors") != 0 &&
            strcmp(ending, ".bin") != 0)
            return cmd_fail("%s: a result is written as .npy, .safetensors or .bin; name it so",
                            in->out[i]);
        for (uint32_t k = 0; k < i; k++)
            if (strcmp(in->out[k], in->out[i]) == 0)
                return cmd_fail("%s: is named for results %u and %u; name another for one of them",
                                in->out[i], k, i);
        if (output_check(in->out[i], in->force) != CMD_OK) return CMD_FAILED;
    }
    return CMD_OK;
}

static void job_fini(job *j) {
    for (uint32_t i = 0; j->inputs != NULL && i < j->graph->n_inputs; i++)
        shoal_tensor_free(&j->inputs[i]);
    for (uint32_t i = 0; j->outputs != NULL && i < j->graph->n_outputs; i++)
        shoal_tensor_free(&j->outputs[i]);
    free(j->inputs);
    free(j->outputs);
    cJSON_Delete(j->results);
    shoal_function_free(&j->function);
    pool_close(&j->pool);
    shoal_module_free(&j->module);
}

static int run_module(const cmd_command *self, int argc, char **argv) {
    static input in;
    job j = {.in = &in};
    cmd_parse(self, argc, argv, &in);
    if (in.model == NULL) cmd_usage("run needs a model: run MODEL.mlir [INPUT...]");
    if (in.hub != NULL && in.workers > 0)
        cmd_usage("--hub and --workers: a pool elsewhere, or one in this process; give one");
    if (check_outputs(&in) != CMD_OK) return CMD_FAILED;
    cmd_catch_signals();
    int code = open_model(self, &in, &j.module);
    if (code != CMD_OK) return cmd_stop != 0 ? cmd_end_by_signal() : code;
    j.graph = shoal_module_graph(j.module);
    j.results = cJSON_CreateArray();
    progress_begin(&j.progress, false);
    code = check_counts(&j);
    if (code == CMD_OK) code = pool_join(in.hub, in.workers, &j.pool);
    j.pool.progress = &j.progress;
    if (code == CMD_OK) code = compute(&j);
    for (uint32_t i = 0; i < j.graph->n_outputs && code == CMD_OK; i++) code = take_result(&j, i);
    progress_end(&j.progress);
    if (code == CMD_OK) code = report(&j);
    job_fini(&j);
    return cmd_stop != 0 && code != CMD_OK ? cmd_end_by_signal() : code;
}

const cmd_command cmd_run = {
    .name = "run",
    .group = CMD_COMPUTE,
    .args = "MODEL.mlir [INPUT...]",
    .summary = "Run a StableHLO program on a pool",
    .doc = "The model is StableHLO's text, as JAX and torch-mlir write it, or MLIR's bytecode "
           "where the interpreter that SHOAL_PYTHON names (default: python3) has JAX or IREE. An "
           "INPUT is a file (.npy, .safetensors:name, .gguf:name, .pt:key, .bin) of just the type "
           "that the model states; or a number, zeros, ones or random[:SEED] for all of its "
           "elements: normally distributed floats, integers from 0 to 9. Behind -- numbers may be "
           "negative.",
    .options = run_options,
    .take = take,
    .run = run_module};

/* ---- grad ---- */

static const struct argp_option grad_options[] = {
    {"output", 'o', "FILE", 0, "The file to write (default: standard output)", 0},
    OUTPUT_OPTION_FORCE,
    {"function", KEY_FUNCTION, "NAME", 0,
     "The function to differentiate (default: @main, or the only one)", 0},
    {"result", KEY_RESULT, "N", 0, "The number of the result to differentiate (default: 0)", 0},
    {"wrt", KEY_WRT, "LIST", 0, "The inputs by number, as 0,2,5 (default: all of floating types)",
     0},
    CMD_OPTIONS_END};

static int choose_inputs(const input *in, const shoal_graph *g, uint32_t *wrt, uint32_t *n) {
    const char *at = in->wrt;
    *n = 0;
    for (uint32_t i = 0; at == NULL && i < g->n_inputs; i++)
        if (shoal_dtype_kind((shoal_dtype)g->values[g->inputs[i]].type.dtype) == 'f')
            wrt[(*n)++] = i;
    while (at != NULL) {
        char *end;
        errno = 0;
        unsigned long number = strtoul(at, &end, 10);
        if (end == at || errno != 0 || (*end != 0 && *end != ',') || *at == '-')
            return cmd_fail("--wrt '%s': must be numbers of inputs, as 0,2,5", in->wrt);
        bool twice = false;
        for (uint32_t i = 0; i < *n; i++) twice |= wrt[i] == number;
        if (number >= g->n_inputs || twice)
            return cmd_fail("--wrt '%s': there are %u inputs, from 0 on, each named once", in->wrt,
                            g->n_inputs);
        wrt[(*n)++] = (uint32_t)number;
        at = *end == ',' ? end + 1 : NULL;
    }
    if (*n == 0) return cmd_fail("%s: no input is of a floating type", in->model);
    return CMD_OK;
}

static int write_text(const input *in, const char *text, uint32_t n_results, uint32_t n_wrt) {
    char *beside = NULL;
    if (in->n_out == 0) {
        if (cmd_json) return text_json_pair("text", text);
        return fputs(text, stdout) < 0 ? cmd_fail("writing: %s", strerror(errno)) : CMD_OK;
    }
    FILE *file = output_open(in->out[0], &beside);
    if (file == NULL) return CMD_FAILED;
    fputs(text, file);
    int code = output_commit(file, beside, in->out[0]);
    if (code == CMD_OK && cmd_json) return text_json_pair("file", in->out[0]);
    if (code == CMD_OK)
        printf("%s: %u result%s, then %u gradient%s\n", in->out[0], n_results,
               n_results == 1 ? "" : "s", n_wrt, n_wrt == 1 ? "" : "s");
    return code;
}

static int run_grad(const cmd_command *self, int argc, char **argv) {
    static input in;
    shoal_module *module = NULL, *gradient = NULL;
    char *text = NULL;
    uint32_t n = 0;
    cmd_parse(self, argc, argv, &in);
    if (in.model == NULL || in.n_given > 0) cmd_usage("grad needs one model: grad MODEL.mlir");
    if (in.n_out > 1) cmd_usage("--output: one file is written");
    if (in.force && in.n_out == 0) cmd_usage("--force: there is no --output to overwrite");
    if (in.n_out > 0 && output_check(in.out[0], in.force) != CMD_OK) return CMD_FAILED;
    int code = open_model(self, &in, &module);
    if (code != CMD_OK) return code;
    const shoal_graph *g = shoal_module_graph(module);
    uint32_t *wrt = calloc((size_t)g->n_inputs + 1, sizeof *wrt);
    if (wrt == NULL) code = cmd_fail("not enough memory");
    if (code == CMD_OK) code = choose_inputs(&in, g, wrt, &n);
    if (code == CMD_OK) code = cmd_try(shoal_module_gradient(module, in.result, wrt, n, &gradient));
    if (code == CMD_OK) code = cmd_try(shoal_module_text(gradient, &text));
    if (code == CMD_OK) code = write_text(&in, text, g->n_outputs, n);
    free(text);
    free(wrt);
    shoal_module_free(&gradient);
    shoal_module_free(&module);
    return code;
}

const cmd_command cmd_grad = {
    .name = "grad",
    .group = CMD_COMPUTE,
    .args = "MODEL.mlir",
    .summary = "Write a StableHLO program with its gradients",
    .doc = "The results of the program that is written are those of the model and, behind them, "
           "the gradients of one of them, which must have one element of a floating type.",
    .options = grad_options,
    .take = take,
    .run = run_grad};
