/* The calls of fault_calls_test.c that name no allocator, or a domain. */
static bool c_epoch_domain_alloc(void) {
    for (size_t size = 1; size < MIB; size *= 3)
        if (epoch_domain_alloc(domain, size) == NULL) return false;
    return true;
}
static bool c_epoch_domain_off_destroy(void) {
    if (!epoch_domain_on_destroy(domain, nothing, a)) return false;
    must(epoch_domain_off_destroy(domain, nothing, a), "epoch_domain_off_destroy");
    return true;
}
static bool in_domain(bool (*run)(void)) {
    if (!epoch_domain_enter(domain)) return false;
    bool done = run();
    int error = errno;
    must(epoch_domain_exit(domain), "epoch_domain_exit");
    errno = error;
    return done;
}
static bool aligned(void) {
    return slab_alloc_aligned(64, 100) && slab_alloc_aligned(4096, 5000) && slab_alloc_aligned(MIB, 1);
}
static bool c_slab_alloc_aligned(void) { return in_domain(aligned); }
static bool zeroed(void) {
    for (size_t size = 1; size < MIB; size *= 3) {
        void *p = slab_alloc_zero(1, size);
        if (p == NULL) return false;
        SUP_CHECK(sup_zero_check(p, size), "not zero");
    }
    return true;
}
static bool c_slab_alloc_zero(void) { return in_domain(zeroed); }
static bool resized(void) {
    void *p = NULL;
    for (size_t size = 1; size < MIB; size *= 3) {
        void *q = slab_alloc_resize(p, size);
        if (q == NULL) return false;
        p = q;
    }
    return true;
}
static bool c_slab_alloc_resize(void) { return in_domain(resized); }
static bool texts(void) {
    return slab_alloc_strdup("text") && slab_alloc_strndup("text", 2) && slab_alloc_memdup(text, sizeof text) &&
           slab_alloc_printf("%0300d", 1);
}
static bool c_slab_alloc_memdup(void) { return in_domain(texts); }
static bool c_slab_alloc_printf(void) { return in_domain(texts); }
static bool c_slab_alloc_strdup(void) { return in_domain(texts); }
static bool c_slab_alloc_strndup(void) { return in_domain(texts); }
static bool formatted(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    char *p = slab_alloc_vprintf(format, arguments);
    va_end(arguments);
    return p != NULL;
}
static bool c_slab_alloc_vprintf(void) { return formatted("%d", 7); }
static bool c_slab_realloc_epoch(void) {
    void *p = slab_realloc_epoch(a, NULL, 60 * KIB, churn);
    void *q = p ? slab_realloc_epoch(a, p, 600 * KIB, EPOCH_NONE) : NULL;
    SUP_CHECK(p == NULL || slab_owns(a, q ? q : p), "the object is gone");
    return q != NULL;
}
static bool c_slab_realloc_aligned(void) {
    void *p = slab_realloc_aligned(a, NULL, 64, 60 * KIB);
    void *q = p ? slab_realloc_aligned(a, p, 64, 600 * KIB) : NULL;
    SUP_CHECK(p == NULL || slab_owns(a, q ? q : p), "the object is gone");
    return q != NULL;
}
static bool c_slab_release(void) {
    void *p = slab_malloc_epoch(guarded, 100000, epoch_current(guarded));
    return p != NULL && slab_release(p);
}
static bool count_one(void *p, size_t bytes, void *arg) {
    (void)arg;
    return p != NULL && bytes != 0;
}
static bool c_slab_walk(void) { return slab_walk(a, churn, count_one, NULL) >= 3; }
static bool c_slab_maintain(void) {
    (void)slab_maintain(a, 1000000);
    return true;
}
static bool c_slab_set_sample_stacks(void) {
    return slab_set_sample_stacks(a, 1000) && slab_malloc(a, 100) && slab_set_sample_stacks(a, 0);
}
static bool c_slab_stats_global_sized(void) {
    SlabGlobalStats stats;
    return slab_stats_global_sized(a, &stats, sizeof stats);
}
static bool c_slab_stats_class_sized(void) {
    SlabClassStats stats;
    return slab_stats_class_sized(a, SLAB_ALL_CLASSES, &stats, sizeof stats);
}
static bool c_slab_stats_epoch_sized(void) {
    SlabEpochStats stats;
    return slab_stats_epoch_sized(a, SLAB_ALL_CLASSES, churn, &stats, sizeof stats);
}
static bool c_get_perf_counters_sized(void) {
    PerfCounters counters;
    return get_perf_counters_sized(a, 0, &counters, sizeof counters);
}
static bool c_slab_stats_thread_sized(void) {
    SlabThreadStats stats;
    return slab_stats_thread_sized(&stats, sizeof stats);
}
static bool c_epoch_domain_create_child(void) {
    for (int i = 0; i < MANY; i++)
        if (epoch_domain_create_child(domain, NULL, i % 2 ? EPOCH_CHURN : 0) == NULL) return false;
    return true;
}
static bool c_epoch_domain_parent(void) { return epoch_domain_parent(domain) == NULL; }
static bool c_epoch_domain_move(void) {
    EpochDomain *d = epoch_domain_create_ex(a, NULL, EPOCH_DOMAIN_SHARED);
    return d && epoch_domain_move(d, domain) && epoch_domain_move(d, NULL);
}
static bool c_epoch_domain_end(void) {
    if (epoch_domain_epoch(domain) == EPOCH_NONE) return true;
    return epoch_domain_end(domain);
}
static bool c_epoch_domain_set_limit(void) {
    return epoch_domain_set_limit(domain, 64 * MIB) && epoch_domain_alloc(domain, 100000) != NULL;
}
static bool c_epoch_set_limit(void) { return epoch_set_limit(a, churn, 64 * MIB) && epoch_set_limit(a, churn, 0); }
static bool c_epoch_bind(void) {
    return epoch_bind(a, churn, 1) && slab_malloc_epoch(a, 5000, churn) != NULL &&
           slab_malloc_epoch(a, 500000, churn) != NULL && epoch_bind(a, churn, -1);
}
static bool c_slab_stats_node(void) {
    SlabNodeStats s;
    return (slab_stats_node)(a, 1, &s) && s.node == 1;
}
static bool c_slab_stats_node_sized(void) {
    SlabNodeStats s;
    return slab_stats_node_sized(a, 0, &s, sizeof s) && s.node == 0;
}
static bool c_epoch_domain_held(void) { return epoch_domain_held(domain) == 0; }
static bool c_epoch_domain_mark(void) {
    EpochDomain *d = epoch_domain_create(a);
    SlabMark m;
    bool done = d && epoch_domain_mark(d, &m) && epoch_domain_mark(d, &m);
    int error = errno;
    epoch_domain_destroy(d);
    errno = error;
    return done;
}
static bool c_epoch_domain_rewind(void) {
    EpochDomain *d = epoch_domain_create(a);
    SlabMark m;
    if (!d) return false;
    bool done = epoch_domain_mark(d, &m) && epoch_domain_alloc(d, 100) && epoch_domain_alloc(d, 100000);
    int error = errno;
    SUP_CHECK(!done || epoch_domain_rewind(d, m), "epoch_domain_rewind");
    epoch_domain_destroy(d);
    errno = error;
    return done;
}
