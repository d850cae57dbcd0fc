/* Backends that are written in Python (shoal/backend.h says how a process finds them). */
#ifndef BACKEND_PYTHON_H
#define BACKEND_PYTHON_H

#include "base/status.h"

/* Adds the backends of a Python module ("shoal.hosted.torch") or file ("…/mine.py"). The
 * interpreter is this process's own, or is opened, once, and stays. Fails with NOT_FOUND where
 * there is none, or with what the module raised. Any thread, holding no lock that a Python
 * program's thread may wait for. */
shoal_status backend_python_load(const char *module) SHOAL_CHECK_RESULT;

#endif
