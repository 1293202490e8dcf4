//! The C interface of [temporal-slab](https://docs.rs/tslab), as it is. The crate `tslab` is the interface for Rust.
//!
//! The declarations are those of `tslab/tslab.h`, `tslab/stats.h`, `tslab/malloc.h` and `tslab/http.h`, whose comments
//! say what each function does, costs and returns.
//!
//! | feature | what is linked |
//! |---|---|
//! | none | the C sources of the crate, built by `cc` |
//! | `system` | the installed library, found by `pkg-config` |
//! | `malloc` | and `libtslab-malloc`, which replaces the process's `malloc` |
//! | `http` | and `libtslab-http`, which serves the statistics |
#![no_std]
#![allow(non_camel_case_types, non_snake_case, non_upper_case_globals)]

mod bindings;
pub use bindings::*;
