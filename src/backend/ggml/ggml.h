/* The ggml backend: the devices that libggml has drivers for (device.h). */
#ifndef GGML_GGML_H
#define GGML_GGML_H

#include "shoal/backend.h"

extern const shoal_backend backend_ggml;

#endif
