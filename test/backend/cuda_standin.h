/* A stand-in for NVIDIA's driver, NVRTC and cuBLAS, for tests on machines without a GPU: it has the
 * entry points that src/backend/cuda/library.h names, and does on the host what they are for.
 *
 * Device addresses are the host's and OFFSET more, so that who takes one for the other crashes.
 * Streams are threads that do in order, and later, what was enqueued. Kernels are compiled by the
 * C++ compiler of the system (CXX, c++), and their threads are run one after the other, those that
 * meet barriers in turns. A cublasGemmStridedBatchedEx is three loops.
 *
 * faults_tell("fail=N,how=now|late|lost|stuck"): which call fails (0: none), and how: it returns
 * that there is no memory; what it has enqueued fails; it returns that the device is gone; what it
 * has enqueued never ends. STANDIN_DEVICES: how many there are (1). STANDIN_CAPABILITY: of which
 * compute capability (80). STANDIN_THREADS: of a block at most (1024). STANDIN_COUNT names a file
 * to which the numbers of launches and of products by cuBLAS are written at the end of the process.
 */
#ifndef CUDA_STANDIN_H
#define CUDA_STANDIN_H

#include "backend/cuda/library.h"
#include "shoal/types.h"

#include <stdbool.h>
#include <stdlib.h>

#define STANDIN_OFFSET (UINT64_C(1) << 56)
enum { STANDIN_MOST_THREADS = 1024 };

/* Errors that only this returns. */
enum {
    STANDIN_INVALID_VALUE = 1,
    STANDIN_INVALID_CONTEXT = 201,
    STANDIN_ECC = 214,
    STANDIN_NOT_FOUND = 500,
    STANDIN_LAUNCH_FAILED = 719
};

/* Whether this call fails; if so, *code is what it returns, SUCCESS where what it enqueues is to
 * fail. */
bool standin_fails(cuda_code *code);
/* What was made (1) and freed (-1). */
void standin_count(int by);
void standin_count_launch(bool is_product);
int standin_capability(void);
int standin_threads(void);

/* Where a device address lies on the host: ends the process if so many bytes do not lie in one
 * block of memory. */
void *standin_host(cuda_address address, size_t bytes);
/* Enqueues work, which `free` gives back; false: there is no memory. */
cuda_code standin_enqueue(cuda_stream *stream, void (*work)(void *context), void *context);

/* What is behind a function of a module. */
typedef struct standin_kernel {
    void (*call)(void **arguments);
    unsigned n_arguments;
    struct {
        unsigned x, y, z;
    } * thread, *block, *block_size, *grid;
    void (**barrier)(void);
} standin_kernel;
/* Runs all threads of a launch. */
void standin_run(const standin_kernel *kernel, const unsigned *grid, const unsigned *block,
                 void **arguments);

#endif
