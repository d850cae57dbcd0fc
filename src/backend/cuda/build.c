/* Kernels by NVRTC: machine code where it knows the device, else PTX of the newest kind that it
 * and the device know, which the driver translates. */
#include "backend/cuda/device.h"

#include <stdlib.h>
#include <string.h>

void cuda_choose_architecture(cuda_device *device, int major, int minor) {
    const cuda_library *cuda = device->cuda;
    int own = 10 * major + minor, best = 0, n = 0;
    int *known =
        cuda->nvrtc.n_architectures(&n) || n <= 0 ? NULL : calloc((size_t)n, sizeof *known);
    if (known && !cuda->nvrtc.architectures(known))
        for (int i = 0; i < n; i++)
            if (known[i] <= own && known[i] > best) best = known[i];
    free(known);
    device->is_exact = best == own;
    snprintf(device->architecture, sizeof device->architecture, "--gpu-architecture=%s_%d",
             device->is_exact ? "sm" : "compute", best ? best : own);
}

/* ---- compiling ---- */

/* The compiler's own words, from the first error on. */
static shoal_status fail_build(const cuda_device *d, nvrtc_program *program, int code) {
    size_t size = 0;
    char *log = NULL;
    if (program && !d->cuda->nvrtc.log_size(program, &size) && (log = calloc(1, size + 1)))
        d->cuda->nvrtc.log(program, log);
    const char *first = log ? strstr(log, "error") : NULL;
    while (first && first > log && first[-1] != '\n') first--;
    shoal_status status =
        base_fail(SHOAL_UNSUPPORTED, "cuda: %s: a kernel could not be built: %.400s (NVRTC: %d)",
                  d->shared.name,
                  first         ? first
                  : log && *log ? log
                                : "?",
                  code);
    free(log);
    return status;
}

static char *image_of(const cuda_device *d, nvrtc_program *program, size_t *size) {
    int (*size_of)(nvrtc_program *, size_t *) =
        d->is_exact ? d->cuda->nvrtc.cubin_size : d->cuda->nvrtc.ptx_size;
    int (*get)(nvrtc_program *, char *) = d->is_exact ? d->cuda->nvrtc.cubin : d->cuda->nvrtc.ptx;
    char *image = size_of(program, size) || !*size ? NULL : malloc(*size);
    if (!image || !get(program, image)) return image;
    free(image);
    return NULL;
}

/* What the compiler makes of a source, to be freed. */
static shoal_status compile(const cuda_device *d, const base_str *source, char **image,
                            size_t *size) {
    const char *const options[] = {d->architecture, "--fmad=false", "-w"};
    nvrtc_program *program = NULL;
    int code = d->cuda->nvrtc.create(&program, source->data, "kernels.cu", 0, NULL, NULL);
    if (!code) code = d->cuda->nvrtc.compile(program, sizeof options / sizeof *options, options);
    shoal_status status = code ? fail_build(d, program, code) : SHOAL_OK;
    if (!status && !(*image = image_of(d, program, size)))
        status = base_fail(SHOAL_NO_MEMORY, "cuda: %s: NVRTC gives no image", d->shared.name);
    if (program) d->cuda->nvrtc.destroy(&program);
    return status;
}

/* ---- programs: a module, and the image that it is of, as it is kept on disk ---- */

typedef struct program {
    cuda_module *module;
    char *image;
    size_t size;
} program;

/* Takes the image. */
static shoal_status load_image(shoal_device *device, char *image, size_t size, void **out) {
    program *p = calloc(1, sizeof *p);
    cuda_code code = CUDA_SUCCESS;
    if (p) {
        cuda_device *d = cuda_enter(device);
        code = cuda_leave(d, d->cuda->module_load(&p->module, image));
    }
    if (p && !code) {
        p->image = image;
        p->size = size;
        *out = p;
        return SHOAL_OK;
    }
    free(image);
    free(p);
    return code ? cuda_fail(device, "cuModuleLoadData", code)
                : gpu_fail_memory(device, "a program");
}

shoal_status cuda_build(shoal_device *device, const base_str *source, void **out) {
    char *image = NULL;
    size_t size = 0;
    SHOAL_TRY(compile((const cuda_device *)device, source, &image, &size));
    return load_image(device, image, size, out);
}

void *cuda_load(shoal_device *device, const void *binary, size_t size) {
    void *out = NULL;
    char *image = malloc(size);
    if (!image) return NULL;
    memcpy(image, binary, size);
    return load_image(device, image, size, &out) == SHOAL_OK ? out : NULL;
}

void *cuda_binary(shoal_device *device, void *kept, size_t *size) {
    program *p = kept;
    char *image = p->image;
    p->image = NULL;
    *size = p->size;
    return image;
}

void cuda_unload(shoal_device *device, void *kept) {
    program *p = kept;
    cuda_device *d = cuda_enter(device);
    cuda_leave(d, d->cuda->module_free(p->module));
    free(p->image);
    free(p);
}

shoal_status cuda_kernel(shoal_device *device, void *kept, const char *name, void **kernel) {
    cuda_function *function = NULL;
    cuda_device *d = cuda_enter(device);
    cuda_code code =
        cuda_leave(d, d->cuda->module_function(&function, ((program *)kept)->module, name));
    *kernel = code ? NULL : function;
    return code ? cuda_fail(device, "cuModuleGetFunction", code) : SHOAL_OK;
}
