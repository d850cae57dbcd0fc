/* The cuda backend: NVIDIA's devices, by the driver that the system has (device.h). */
#ifndef CUDA_CUDA_H
#define CUDA_CUDA_H

#include "shoal/backend.h"

extern const shoal_backend backend_cuda;

#endif
