/* The list of operations that users have added to this process. */
#include "backend/custom.h"

#include "base/status.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>

enum { MAX_OPERATIONS = 1024 };

/* Entries are only ever appended, so that readers need no lock. */
static const shoal_operation *operations[MAX_OPERATIONS];
static atomic_size_t n_operations;
static pthread_mutex_t adding = PTHREAD_MUTEX_INITIALIZER;

const shoal_operation *backend_custom_find(const char *name) {
    size_t count = atomic_load(&n_operations);
    for (size_t i = 0; i < count; i++)
        if (!strcmp(operations[i]->name, name)) return operations[i];
    return NULL;
}

static shoal_status append(const shoal_operation *operation) {
    size_t count = atomic_load(&n_operations);
    if (backend_custom_find(operation->name))
        return base_fail(SHOAL_INVALID, "operation '%.64s' exists already", operation->name);
    if (count == MAX_OPERATIONS)
        return base_fail(SHOAL_NO_MEMORY, "operation '%.64s' is over the limit of %d",
                         operation->name, MAX_OPERATIONS);
    operations[count] = operation;
    atomic_store(&n_operations, count + 1);
    return SHOAL_OK;
}

enum { LEAST = offsetof(shoal_operation, cuda) };

shoal_status shoal_operation_add(const shoal_operation *operation) {
    if (operation->size < LEAST || !operation->name || !*operation->name || !operation->run)
        return base_fail(SHOAL_INVALID,
                         "operation '%.64s' lacks a name or a function: fill its "
                         "whole table",
                         operation->size >= LEAST && operation->name ? operation->name : "?");
    pthread_mutex_lock(&adding);
    shoal_status status = append(operation);
    pthread_mutex_unlock(&adding);
    return status;
}
