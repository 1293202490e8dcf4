/*
 * NumPy's arrays in domains: the handler of NEP 49.
 *
 * NumPy asks the handler of the context (contextvars) for the memory of each array. An array keeps its handler and
 * gives its memory back to that one, in any thread and context. The handler keeps its domain.
 *
 * Arrays are freed one by one, so they lie in a child of the domain that churns: freed places are used again.
 *
 * Invariants
 *  1. Each array in a domain counts in `exports`. So the domain neither ends nor is reset under one.
 *  2. Memory from a handler is the domain's while `domain` is not NULL, and malloc's from then on. By 1 nothing of the
 *     domain is left when it becomes NULL, and a domain does not come back: so `domain` alone says to whom a pointer
 *     goes back.
 *  3. A handler that was left is never installed again by the end of an inner block.
 *
 * A context that was copied inside of a block (a task of asyncio) has the handler for as long as it lives. Hence the
 * second half of 2: the task goes on when the domain has ended.
 *
 * NumPy calls with the interpreter's lock held. No header of NumPy is needed: the table of its functions has fixed
 * places, and the handler a version.
 */
#include "core.h"

#include <stdlib.h>
#include <string.h>

#define HANDLER_NAME "mem_handler" /* of the capsule: NumPy looks for it */

/* NumPy's PyDataMem_Handler, version 1. */
typedef struct ts_numpy_handler {
    char name[127];
    uint8_t version;
    void *ctx;
    void *(*malloc)(void *ctx, size_t size);
    void *(*calloc)(void *ctx, size_t n, size_t size);
    void *(*realloc)(void *ctx, void *pointer, size_t size);
    void (*free)(void *ctx, void *pointer, size_t size);
} ts_numpy_handler;

/* Of one block. The capsule that NumPy has owns it. */
typedef struct ts_arrays_block {
    ts_numpy_handler numpy; /* first: NumPy sees nothing else */
    Domain *owner;
    PyObject *before; /* the capsule that was NumPy's handler */
    bool left;
} ts_arrays_block;

/* ---- memory ------------------------------------------------------------------------------------------------------ */

/* The child, made when it is needed: a reset ends it. EPOCH_NONE: no memory. */
static EpochId open_arrays(Domain *self) {
    const char *label = self->label ? PyUnicode_AsUTF8AndSize(self->label, NULL) : NULL;
    EpochDomain *child = epoch_domain_create_child(self->domain, label, EPOCH_DOMAIN_SHARED | EPOCH_CHURN);
    self->arrays = child ? epoch_domain_epoch(child) : EPOCH_NONE;
    return self->arrays;
}

/* Memory of the domain, which is there. Its epoch and allocator are at hand: most arrays are small. */
static void *take(Domain *self, size_t n, size_t size, bool zero) {
    EpochId epoch = self->arrays != EPOCH_NONE ? self->arrays : open_arrays(self);
    if (epoch == EPOCH_NONE) return NULL;
    void *pointer =
        zero ? slab_calloc_epoch(self->allocator, n, size, epoch) : slab_malloc_epoch(self->allocator, n * size, epoch);
    if (pointer) self->exports++;
    return pointer;
}

static void *arrays_malloc(void *ctx, size_t size) {
    Domain *self = ctx;
    return self->domain ? take(self, 1, size, false) : malloc(size);
}

static void *arrays_calloc(void *ctx, size_t n, size_t size) {
    Domain *self = ctx;
    return self->domain ? take(self, n, size, true) : calloc(n, size);
}

static void *arrays_realloc(void *ctx, void *pointer, size_t size) {
    Domain *self = ctx;
    if (!pointer) return arrays_malloc(ctx, size);
    if (!self->domain) return realloc(pointer, size);
    return slab_realloc(self->allocator, pointer, size);
}

static void arrays_free(void *ctx, void *pointer, size_t size) {
    Domain *self = ctx;
    (void)size;
    if (!pointer) return;
    if (!self->domain) {
        free(pointer);
        return;
    }
    if (slab_free(self->allocator, pointer)) ts_domain_release(self);
}

/* ---- the handler of a context ------------------------------------------------------------------------------------ */

/* NULL: another library's, or NumPy's own; with an error if it is no handler at all. */
static ts_arrays_block *block_of(PyObject *capsule) {
    ts_arrays_block *block = PyCapsule_GetPointer(capsule, HANDLER_NAME);
    return block && block->numpy.malloc == arrays_malloc ? block : NULL;
}

static void drop_block(PyObject *capsule) {
    ts_arrays_block *block = PyCapsule_GetPointer(capsule, HANDLER_NAME);
    Py_XDECREF(block->before);
    Py_XDECREF((PyObject *)block->owner);
    PyMem_Free(block);
}

/* A new capsule; no array has it yet. */
static PyObject *new_block(Domain *owner) {
    ts_arrays_block *block = PyMem_Calloc(1, sizeof *block);
    if (!block) return PyErr_NoMemory();
    block->numpy = (ts_numpy_handler){"tslab", 1, owner, arrays_malloc, arrays_calloc, arrays_realloc, arrays_free};
    PyObject *capsule = PyCapsule_New(block, HANDLER_NAME, drop_block);
    if (!capsule) {
        PyMem_Free(block);
        return NULL;
    }
    block->owner = (Domain *)Py_NewRef((PyObject *)owner);
    return capsule;
}

/* Places in NumPy's table, the same since NumPy 1.22. */
enum { ABI_VERSION = 0, API_VERSION = 211, SET_HANDLER = 304, GET_HANDLER = 305 };

/* The table of a NumPy that has handlers; else NULL with ImportError. */
static void **table_of(PyObject *capsule) {
    unsigned (*abi)(void), (*api)(void);
    void **table = PyCapsule_GetPointer(capsule, NULL);
    if (!table) return NULL;
    memcpy(&abi, &table[ABI_VERSION], sizeof abi);
    memcpy(&api, &table[API_VERSION], sizeof api);
    unsigned major = abi() >> 24;
    if ((major == 1 || major == 2) && api() >= 0x0f) return table;
    PyErr_Format(PyExc_ImportError, "Domain.numpy() knows NumPy 1.22 to 2, not one of ABI %u, API %u", abi(), api());
    return NULL;
}

/* The handler that was installed. */
static PyObject *set_handler(void *const *table, PyObject *capsule) {
    PyObject *(*set)(PyObject *);
    memcpy(&set, &table[SET_HANDLER], sizeof set);
    return set(capsule);
}

static PyObject *get_handler(void *const *table) {
    PyObject *(*get)(void);
    memcpy(&get, &table[GET_HANDLER], sizeof get);
    return get();
}

static bool takes_arrays(const Domain *self) {
    if (!self->domain) return ts_domain_is_stale("the domain has ended");
    return !self->left || ts_domain_is_stale("the domain takes no new arrays: its block has ended");
}

PyObject *ts_arrays_block_new(PyObject *object, PyObject *table_capsule) {
    Domain *self = (Domain *)object;
    return takes_arrays(self) && table_of(table_capsule) ? new_block(self) : NULL;
}

/* The arguments of the next two. NULL with an error. */
static ts_arrays_block *parse(PyObject *args, void ***table, PyObject **capsule) {
    PyObject *table_capsule;
    if (!PyArg_ParseTuple(args, "OO", &table_capsule, capsule)) return NULL;
    *table = table_of(table_capsule);
    ts_arrays_block *block = *table ? block_of(*capsule) : NULL;
    if (!block && !PyErr_Occurred()) PyErr_SetString(PyExc_TypeError, "not a handler of this module");
    return block;
}

PyObject *ts_arrays_enter(PyObject *object, PyObject *args) {
    void **table;
    PyObject *capsule;
    ts_arrays_block *block = parse(args, &table, &capsule);
    if (!block || !takes_arrays((Domain *)object)) return NULL;
    if (block->before) {
        PyErr_SetString(PyExc_RuntimeError, "this block was entered before: each needs a numpy() of its own");
        return NULL;
    }
    block->before = set_handler(table, capsule);
    return block->before ? Py_NewRef(Py_None) : NULL;
}

/* In a context where another handler is installed by now, that one stays. */
PyObject *ts_arrays_leave(PyObject *object, PyObject *args) {
    void **table;
    PyObject *capsule;
    (void)object;
    ts_arrays_block *block = parse(args, &table, &capsule);
    if (!block) return NULL;
    if (!block->before) {
        PyErr_SetString(PyExc_RuntimeError, "this block was never entered");
        return NULL;
    }
    PyObject *current = get_handler(table);
    if (!current) return NULL;
    block->left = true;
    Py_DECREF(current); /* the context has it */
    if (current != capsule) Py_RETURN_NONE;
    PyObject *before = block->before;
    for (ts_arrays_block *outer = block_of(before); outer && outer->left; outer = block_of(before))
        before = outer->before;
    PyObject *left = set_handler(table, before);
    if (!left) return NULL;
    Py_DECREF(left);
    Py_RETURN_NONE;
}
