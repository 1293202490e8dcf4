/*
 * tslab._core: domains and their buffers. The arrays of NumPy are in arrays.c.
 *
 * A buffer's memory is its domain's. Each view of it that Python hands out (buffer protocol) counts in `exports` of the
 * domain, and so does each array.
 *
 * Invariants
 *  1. A domain with exports does not end and is not reset: those calls raise BufferError. So no view or array sees
 *     freed memory.
 *  2. A buffer of an older generation than its domain's is stale: nothing but StaleError comes of it.
 *  3. A domain whose end waits for its exports (`ending`) ends with the last of them. One that was left by `with` takes
 *     no new buffers meanwhile (`left`). Arrays of a task that was started inside may still come to it.
 *
 * The interpreter's lock guards every field. The C domain is a shared one, so any thread may allocate in it and end it.
 */
#include "core.h"

#include <tslab/stats.h>

#include <errno.h>

typedef struct Buffer {
    PyObject ob_base; /* what PyObject_HEAD is */
    Domain *owner;
    void *bytes;
    Py_ssize_t size;
    uint64_t generation; /* the owner's when it was made */
} Buffer;

static PyObject *stale_error;
static PyTypeObject *buffer_type;

/* ---- domains ------------------------------------------------------------------------------------------------------ */

static void end_now(Domain *self) {
    EpochDomain *domain = self->domain;
    self->domain = NULL;
    self->generation++;
    self->ending = false;
    if (!domain) return;
    PyThreadState *thread = PyEval_SaveThread(); /* the end may take long; nobody else has the domain any more */
    (void)epoch_domain_end(domain);
    PyEval_RestoreThread(thread);
}

void *ts_domain_is_stale(const char *why) {
    PyErr_SetString(stale_error, why);
    return NULL;
}

void ts_domain_release(Domain *self) {
    if (--self->exports == 0 && self->ending) end_now(self);
}

static bool is_open(const Domain *self) { return self->domain || ts_domain_is_stale("the domain has ended"); }

static bool is_unseen(const Domain *self) {
    if (self->exports == 0) return true;
    PyErr_Format(PyExc_BufferError, "views or arrays of the domain are alive: %zd", self->exports);
    return false;
}

static int domain_init(PyObject *object, PyObject *args, PyObject *keywords) {
    static char *names[] = {"label", "limit", NULL};
    Domain *self = (Domain *)object;
    const char *label = NULL;
    Py_ssize_t limit = 0;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "|zn:Domain", names, &label, &limit)) return -1;
    if (limit < 0) {
        PyErr_SetString(PyExc_ValueError, "limit: bytes, or 0 for none");
        return -1;
    }
    if (self->domain || self->generation > 0) { /* one that has ended does not come back */
        PyErr_SetString(PyExc_TypeError, "a domain is made once");
        return -1;
    }
    Py_XDECREF(self->label); /* of a call that failed */
    self->label = label ? PyUnicode_FromString(label) : NULL;
    if (label && !self->label) return -1;
    self->domain = epoch_domain_create_ex(NULL, label, EPOCH_DOMAIN_SHARED);
    if (self->domain && limit > 0 && !epoch_domain_set_limit(self->domain, (size_t)limit)) end_now(self);
    if (self->domain) {
        self->allocator = epoch_domain_allocator(self->domain);
        return 0;
    }
    PyErr_SetString(PyExc_MemoryError, "no memory for a domain");
    return -1;
}

static void domain_dealloc(PyObject *object) {
    PyTypeObject *type = Py_TYPE(object);
    end_now((Domain *)object); /* an export would keep its buffer, and that the domain */
    Py_XDECREF(((Domain *)object)->label);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(object);
    Py_DECREF(type);
}

/* Of a request for so many bytes; what the limit is, if there is one. */
static PyObject *no_memory(Domain *self, Py_ssize_t size) {
    SlabEpochStats stats;
    EpochId epoch = epoch_domain_epoch(self->domain);
    size_t limit = 0;
    if (slab_stats_epoch(epoch_domain_allocator(self->domain), SLAB_ALL_CLASSES, epoch, &stats))
        limit = stats.limit_bytes;
    if (limit == 0) return PyErr_Format(PyExc_MemoryError, "no memory for %zd bytes", size);
    return PyErr_Format(PyExc_MemoryError, "no memory for %zd bytes in a domain that holds %zu of at most %zu", size,
                        epoch_domain_held(self->domain), limit);
}

static PyObject *domain_buffer(PyObject *object, PyObject *arg) {
    Domain *self = (Domain *)object;
    Py_ssize_t size = PyNumber_AsSsize_t(arg, PyExc_OverflowError);
    if (size == -1 && PyErr_Occurred()) return NULL;
    if (size < 0) return PyErr_Format(PyExc_ValueError, "a buffer of %zd bytes", size);
    if (!is_open(self)) return NULL;
    if (self->left) return ts_domain_is_stale("the domain takes no new buffers: its block has ended");
    Buffer *buffer = PyObject_GC_New(Buffer, buffer_type);
    if (!buffer) return NULL;
    buffer->owner = NULL;
    SlabAllocator *allocator = epoch_domain_allocator(self->domain);
    buffer->bytes = slab_calloc_epoch(allocator, 1, (size_t)size, epoch_domain_epoch(self->domain));
    if (!buffer->bytes) {
        int error = errno;
        Py_DECREF(buffer);
        if (error == ENOMEM) return no_memory(self, size);
        return ts_domain_is_stale("the domain's epoch is closed");
    }
    buffer->size = size;
    buffer->generation = self->generation;
    buffer->owner = (Domain *)Py_NewRef(object);
    PyObject_GC_Track(buffer);
    return (PyObject *)buffer;
}

static PyObject *domain_end(PyObject *object, PyObject *none) {
    Domain *self = (Domain *)object;
    (void)none;
    if (!self->domain) Py_RETURN_NONE;
    if (!is_unseen(self)) {
        self->ending = true;
        return NULL;
    }
    end_now(self);
    Py_RETURN_NONE;
}

static PyObject *domain_reset(PyObject *object, PyObject *none) {
    Domain *self = (Domain *)object;
    (void)none;
    if (!is_open(self) || !is_unseen(self)) return NULL; /* one that was left has views, or has ended */
    self->generation++;
    self->arrays = EPOCH_NONE; /* ends with the reset */
    if (epoch_domain_reset(self->domain, SIZE_MAX)) Py_RETURN_NONE;
    return ts_domain_is_stale("the domain's epoch is closed");
}

static PyObject *domain_enter(PyObject *object, PyObject *none) {
    Domain *self = (Domain *)object;
    (void)none;
    if (!is_open(self)) return NULL;
    return self->left ? ts_domain_is_stale("the domain's block has ended") : Py_NewRef(object);
}

static PyObject *domain_exit(PyObject *object, PyObject *args) {
    Domain *self = (Domain *)object;
    (void)args;
    self->left = true;
    self->ending = self->exports > 0;
    if (!self->ending) end_now(self);
    Py_RETURN_NONE;
}

static PyObject *domain_repr(PyObject *object) {
    Domain *self = (Domain *)object;
    const char *state = !self->domain ? "ended" : self->ending ? "ending" : "open";
    size_t held = self->domain ? epoch_domain_held(self->domain) : 0;
    PyObject *label = self->label ? self->label : Py_None;
    return PyUnicode_FromFormat("<tslab.Domain %R: %zu bytes, %s>", label, held, state);
}

static PyObject *domain_held(PyObject *object, void *none) {
    Domain *self = (Domain *)object;
    (void)none;
    return PyLong_FromSize_t(self->domain ? epoch_domain_held(self->domain) : 0);
}

static PyObject *domain_epoch_id(PyObject *object, void *none) {
    Domain *self = (Domain *)object;
    (void)none;
    return is_open(self) ? PyLong_FromUnsignedLongLong(epoch_domain_epoch(self->domain)) : NULL;
}

static PyObject *domain_ended(PyObject *object, void *none) {
    (void)none;
    return PyBool_FromLong(((Domain *)object)->domain == NULL);
}

static PyMethodDef domain_methods[] = {
    {"buffer", domain_buffer, METH_O,
     "buffer($self, size, /)\n--\n\nA writable buffer of size bytes, all zero. MemoryError: no memory, or the limit is "
     "met."},
    {"reset", domain_reset, METH_NOARGS,
     "reset($self, /)\n--\n\nEmpties the domain, which goes on. Its buffers are stale. BufferError while a view of one "
     "or an array is alive."},
    {"end", domain_end, METH_NOARGS,
     "end($self, /)\n--\n\nEnds the domain: its memory goes back, its buffers are stale. BufferError while a view of "
     "one or an array is alive;\n"
     "then it ends with the last view, or when it is called again. A second end does nothing."},
    {"_numpy_block", ts_arrays_block_new, METH_O, NULL},
    {"_numpy_enter", ts_arrays_enter, METH_VARARGS, NULL},
    {"_numpy_leave", ts_arrays_leave, METH_VARARGS, NULL},
    {"__enter__", domain_enter, METH_NOARGS, NULL},
    {"__exit__", domain_exit, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};
static PyGetSetDef domain_fields[] = {
    {"held", domain_held, NULL, "Bytes of memory that the domain holds.", NULL},
    {"epoch_id", domain_epoch_id, NULL, "The id of its epoch, as the statistics have it.", NULL},
    {"ended", domain_ended, NULL, "Whether it has ended.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};
static PyType_Slot domain_slots[] = {
    {Py_tp_doc, "Domain(label=None, limit=0)\n--\n\nA lifetime: its buffers die with it. A context manager."},
    {Py_tp_repr, (void *)domain_repr},
    {Py_tp_init, (void *)domain_init},
    {Py_tp_dealloc, (void *)domain_dealloc},
    {Py_tp_methods, domain_methods},
    {Py_tp_getset, domain_fields},
    {0, NULL},
};
static PyType_Spec domain_spec = {"tslab._core.Domain", sizeof(Domain), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
                                  domain_slots};

/* ---- buffers ------------------------------------------------------------------------------------------------------ */

static bool is_live(const Buffer *self) {
    if (self->owner->domain && self->generation == self->owner->generation) return true;
    return ts_domain_is_stale("the buffer's domain has ended or was reset");
}

static void buffer_dealloc(PyObject *object) {
    PyTypeObject *type = Py_TYPE(object);
    PyObject_GC_UnTrack(object);
    Py_XDECREF((PyObject *)((Buffer *)object)->owner);
    PyObject_GC_Del(object);
    Py_DECREF(type);
}

/*
 * A domain may hold its own buffer as an attribute. There is no tp_clear: a cycle leads through the domain's
 * attributes, which the collector clears, and a view needs the owner until it is released.
 */
static int buffer_traverse(PyObject *object, visitproc visit, void *arg) {
    Py_VISIT(Py_TYPE(object));
    Py_VISIT(((Buffer *)object)->owner);
    return 0;
}

static int buffer_get(PyObject *object, Py_buffer *view, int flags) {
    Buffer *self = (Buffer *)object;
    view->obj = NULL;
    if (!is_live(self) || PyBuffer_FillInfo(view, object, self->bytes, self->size, 0, flags) != 0) return -1;
    self->owner->exports++;
    return 0;
}

static void buffer_release(PyObject *object, Py_buffer *view) {
    (void)view;
    ts_domain_release(((Buffer *)object)->owner);
}

static Py_ssize_t buffer_length(PyObject *object) {
    const Buffer *self = (const Buffer *)object;
    return is_live(self) ? self->size : -1;
}

/* By a view of the moment, which knows indices and slices. */
static PyObject *buffer_item(PyObject *object, PyObject *key) {
    PyObject *view = PyMemoryView_FromObject(object);
    PyObject *item = view ? PyObject_GetItem(view, key) : NULL;
    Py_XDECREF(view);
    return item;
}

static int buffer_set_item(PyObject *object, PyObject *key, PyObject *value) {
    if (!value) {
        PyErr_SetString(PyExc_TypeError, "a buffer keeps its size");
        return -1;
    }
    PyObject *view = PyMemoryView_FromObject(object);
    int result = view ? PyObject_SetItem(view, key, value) : -1;
    Py_XDECREF(view);
    return result;
}

static PyType_Slot buffer_slots[] = {
    {Py_tp_doc, "Memory of a domain. It has the buffer protocol: memoryview(b), bytes(b), numpy.frombuffer(b)."},
    {Py_tp_dealloc, (void *)buffer_dealloc},
    {Py_tp_traverse, (void *)buffer_traverse},
    {Py_bf_getbuffer, (void *)buffer_get},
    {Py_bf_releasebuffer, (void *)buffer_release},
    {Py_mp_length, (void *)buffer_length},
    {Py_mp_subscript, (void *)buffer_item},
    {Py_mp_ass_subscript, (void *)buffer_set_item},
    {0, NULL},
};
static PyType_Spec buffer_spec = {"tslab.Buffer", sizeof(Buffer), 0,
                                  Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                                  buffer_slots};

/* ---- module ------------------------------------------------------------------------------------------------------- */

static PyObject *version(PyObject *module, PyObject *none) {
    (void)module;
    (void)none;
    return PyUnicode_FromString(slab_version());
}

static PyMethodDef functions[] = {
    {"version", version, METH_NOARGS, "version($module, /)\n--\n\nThe version of the C library."},
    {NULL, NULL, 0, NULL},
};
static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "tslab._core", NULL, -1, functions, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__core(void) {
    PyObject *module = PyModule_Create(&definition);
    PyObject *domain = PyType_FromSpec(&domain_spec);
    buffer_type = (PyTypeObject *)PyType_FromSpec(&buffer_spec);
    stale_error = PyErr_NewExceptionWithDoc("tslab.StaleError", "A buffer or domain was used after its end.",
                                            PyExc_ValueError, NULL);
    if (module && domain && buffer_type && stale_error && PyModule_AddObjectRef(module, "Domain", domain) == 0 &&
        PyModule_AddObjectRef(module, "Buffer", (PyObject *)buffer_type) == 0 &&
        PyModule_AddObjectRef(module, "StaleError", stale_error) == 0) {
        Py_DECREF(domain);
        return module;
    }
    Py_XDECREF(domain);
    Py_XDECREF(module);
    return NULL;
}
