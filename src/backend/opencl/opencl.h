/* The opencl backend: any vendor's devices, by the ICD loader that the system has (device.h). */
#ifndef OPENCL_OPENCL_H
#define OPENCL_OPENCL_H

#include "shoal/backend.h"

extern const shoal_backend backend_opencl;

#endif
