/* Backends that are written in Python: how graphs and memory become objects. Every function is
 * called with the interpreter's lock held. */
#ifndef SHOAL_PYTHON_HOSTED_H
#define SHOAL_PYTHON_HOSTED_H

#include "module.h"

#include "shoal/backend.h"

/* A block of memory, which lives while its owner or a Python object has it. Any thread, with the
 * interpreter's lock or without it. */
void hosted_memory_retain(shoal_memory *memory);
void hosted_memory_release(shoal_memory *memory);

/* (values, inputs, outputs, nodes) of a graph: values are (element type, shape); nodes are
 * (operation, operands, results, attributes, bodies, line of the program or None). NULL with an
 * exception. */
PyObject *hosted_graph_object(const shoal_host *host, const shoal_graph *g);
/* The name under which a backend lists an operation: with that of its body, where it has one:
 * "reduce.add", "sort.LT". False where there is no such name. */
bool hosted_operation(const shoal_host *host, const shoal_node *node, char *out, size_t room);

/* The interpreter's lock, for a while; `leave` in the same thread. */
typedef struct hosted_entry {
    PyGILState_STATE state;
    PyObject *type, *value, *trace;
} hosted_entry;
hosted_entry hosted_enter(void);
void hosted_leave(hosted_entry entry);
/* Takes the exception off this thread: its text, and the status that it stands for. */
shoal_status hosted_take_exception(char *out, size_t room);

/* Adds an operation, of a name and a function. */
PyObject *hosted_add_operation(PyObject *module, PyObject *pair);
/* Adds those that a module has registered to the host, if that is another library than ours. Fails
 * with an exception on the way, or with the host's message. */
shoal_status hosted_load_operations(const shoal_host *host, PyObject *package);

/* Bytes of a block as an object that has the buffer protocol. NULL with an exception. */
PyObject *hosted_buffer_object(shoal_memory *memory, void *data, size_t bytes, bool read_only);
extern PyTypeObject *hosted_buffer_type;
extern PyType_Spec hosted_buffer_spec;
extern PyMethodDef hosted_functions[];
extern PyMethodDef artifact_functions[];
/* Of the device that has this thread compile; NULL: none does. */
const shoal_host *hosted_compiling(void);
/* What a process that is no Python program calls (shoal_python, in shoal/backend.h), as a capsule.
 */
PyObject *hosted_capsule(void);

#endif
