//! Lifetimes as values: what a request, a frame, a transaction or a batch allocates ends with it, in one step.
//!
//! ```
//! let mut request = tslab::Domain::new();
//! let numbers = request.alloc([1, 2, 3]);
//! numbers[0] = 7;
//! let name = request.alloc_str("request 42");
//! assert_eq!((numbers[0], &*name), (7, "request 42"));
//! request.reset(); // both are gone, and the memory serves the next request
//! ```
//!
//! | the objects | take | they end |
//! |---|---|---|
//! | of a request, on one thread | [`Domain`] | all at once |
//! | of a part of a request | [`Domain::child`], or a [`Mark`] to go back to | with the part |
//! | of a job that several threads work on | [`SharedDomain`] | all at once |
//! | of a connection or a cache | [`Epoch`] and [`Owned`] | one by one, and the rest with the epoch |
//! | that are looked up by a value, also when they are gone | [`Handle`] | as their domain or epoch says |
//! | of the whole program | [`TslabAlloc`] as `#[global_allocator]` | one by one |
//!
//! # Values that implement `Drop`
//!
//! The end of a lifetime does not look at each object, so [`Domain::alloc`] takes types that are [`NoDrop`]: every `Copy`
//! type, and those that say so. [`Domain::alloc_with_drop`] takes any type: its `drop` runs at the end, newest first.
//! [`Owned`] runs `drop` as a `Box` does.
//!
//! # Texts
//!
//! [`Domain::alloc_str`] copies one, [`format!`](crate::format) writes one, and a [`String`] grows in its domain.
//!
//! # Collections
//!
//! `&Domain`, `&SharedDomain` and `&Epoch` are allocators of [allocator-api2](https://docs.rs/allocator-api2) (features
//! `allocator-api2-02`, `-03`, `-04`) and, with the feature `nightly`, of the standard library. A collection in a domain
//! drops its elements itself, and gives back only large blocks before the domain ends.
//!
//! # Tasks
//!
//! A [`Domain`] does not live across an `.await` of a task that may move between threads; a [`SharedDomain`] does. The
//! page docs/async.md says what else does.
//!
//! # Errors
//!
//! A function whose name begins with `try_` returns an [`Error`]. The one without ends the program where there is no
//! memory, as `Box::new` does. A domain with a limit ([`Domain::set_limit`]) is the place for `try_`.
#![cfg_attr(feature = "nightly", feature(allocator_api))]
#![warn(missing_docs)]
#![deny(unsafe_op_in_unsafe_fn, clippy::undocumented_unsafe_blocks)]

/// The version of the trait that is there by default.
#[cfg(feature = "allocator-api2-02")]
pub use allocator_api2_02 as allocator_api2;
pub use tslab_sys as sys;

mod allocator;
mod domain;
mod dropping;
mod epoch;
mod error;
mod global;
mod handle;
mod memory;
// Their programs are tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
#[cfg(doctest)]
#[doc = include_str!("../docs/async.md")]
struct Async;
#[cfg(doctest)]
mod refused;
mod shared;
mod string;

pub use domain::{Domain, HandedOver, Mark};
pub use epoch::{Epoch, Owned};
pub use error::Error;
pub use global::TslabAlloc;
pub use handle::{AnyHandle, Handle};
pub use memory::NoDrop;
pub use shared::SharedDomain;
pub use string::String;

/// The version of the C library that is linked.
pub fn version() -> &'static str {
    // SAFETY: a constant text of the library, in ASCII, with a terminating zero.
    unsafe { core::ffi::CStr::from_ptr(sys::slab_version()) }.to_str().unwrap_or("")
}

/// The statistics of the default allocator as JSON: every open epoch with its label, age, objects and bytes.
///
/// Returns an empty text if there is no memory for the allocator. Cost: proportional to what is shown.
pub fn stats_json() -> std::string::String {
    // SAFETY: the call writes at most `capacity` bytes, and returns how many there are, as snprintf does.
    unsafe {
        let allocator = sys::slab_allocator_default();
        let mut text: Vec<u8> = Vec::with_capacity(16 * 1024);
        loop {
            let bytes = sys::slab_stats_json(allocator, text.as_mut_ptr().cast(), text.capacity());
            if bytes < text.capacity() {
                text.set_len(bytes);
                return std::string::String::from_utf8(text).unwrap_or_default();
            }
            text.reserve(bytes + 4096); // more may have come meanwhile
        }
    }
}
