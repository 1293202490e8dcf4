/* What the files of tslab._core share: the domain, and its arrays. */
#ifndef TSLAB_PYTHON_CORE_H
#define TSLAB_PYTHON_CORE_H

#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030B0000
#include <Python.h>

#include <tslab/tslab.h>

#include <stdbool.h>

typedef struct Domain {
    PyObject ob_base;         /* what PyObject_HEAD is */
    EpochDomain *domain;      /* NULL: it has ended */
    SlabAllocator *allocator; /* the domain's */
    EpochId arrays;           /* of its child, where NumPy's arrays lie; EPOCH_NONE: it has none */
    uint64_t generation;      /* how often it was emptied */
    Py_ssize_t exports;       /* views of its buffers, and arrays */
    bool ending;
    bool left;
    PyObject *label; /* a text or NULL */
} Domain;

/* Sets StaleError. Always NULL. */
void *ts_domain_is_stale(const char *why);
/* One view or array less; the last one ends a domain that waits for it. */
void ts_domain_release(Domain *self);

/* domain._numpy_block(table): a handler. _numpy_enter(table, handler) installs it in this context, _numpy_leave() takes
   it away. */
PyObject *ts_arrays_block_new(PyObject *domain, PyObject *table);
PyObject *ts_arrays_enter(PyObject *domain, PyObject *args);
PyObject *ts_arrays_leave(PyObject *domain, PyObject *args);

#endif
