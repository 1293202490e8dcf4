//! The C library of libmimalloc-sys as an archive: scope_bench_mimalloc3 calls its mi_* functions itself.

extern crate libmimalloc_sys;
