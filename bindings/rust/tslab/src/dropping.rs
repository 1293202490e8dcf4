//! Values that are dropped when their domain ends.

#![allow(clippy::mut_from_ref)] // each object is new

use crate::memory::{self, Source};
use crate::Error;
use core::cell::Cell;
use core::ffi::c_void;
use core::mem;
use core::ptr::{self, NonNull};

/// What stands before a value in the domain.
#[repr(C)]
struct Head {
    older: Option<NonNull<Head>>,
    drop: unsafe fn(NonNull<Head>),
}

#[repr(C)]
struct Node<T> {
    head: Head,
    value: T,
}

/// The values that a domain drops, newest first. The list belongs to the Rust value: one that is leaked drops nothing.
pub(crate) struct Drops(Cell<Option<NonNull<Head>>>);

// The list is whole at any time: a panic leaves nothing half done.
impl core::panic::RefUnwindSafe for Drops {}

impl Drops {
    pub(crate) const fn new() -> Self {
        Drops(Cell::new(None))
    }

    /// Moves a value into the source, to be dropped by `run`.
    ///
    /// # Safety
    /// `run` is called before the memory of the source ends, while all that T refers to is alive.
    pub(crate) unsafe fn put<'a, T>(&self, source: &'a impl Source, value: T) -> Result<&'a mut T, Error> {
        if !mem::needs_drop::<T>() {
            return memory::put(source, value);
        }
        let head = Head { older: self.0.get(), drop: drop_value::<T> };
        let node = memory::put(source, Node { head, value })?;
        let place: *mut Node<T> = node;
        self.0.set(NonNull::new(place.cast()));
        // SAFETY: the node is new. The list writes nothing to the value before it drops it.
        Ok(unsafe { &mut (*place).value })
    }

    /// Drops all values.
    pub(crate) fn run(&self) {
        while let Some(newest) = self.0.get() {
            // SAFETY: a node of `put`, which leaves the list before its value is dropped, once.
            unsafe {
                self.0.set(newest.as_ref().older);
                (newest.as_ref().drop)(newest);
            }
        }
    }
}

unsafe fn drop_value<T>(head: NonNull<Head>) {
    // SAFETY: `put` has put a Node<T> there.
    unsafe { end::<T>(ptr::addr_of_mut!((*head.cast::<Node<T>>().as_ptr()).value).cast()) };
}

/// Drops a value; a panic ends the program: of those behind it some would be lost, and it may not cross C code that calls.
pub(crate) unsafe extern "C" fn end<T>(value: *mut c_void) {
    struct Stop;
    impl Drop for Stop {
        fn drop(&mut self) {
            std::process::abort();
        }
    }
    let stop = Stop;
    // SAFETY: the caller's value, which is dropped once.
    unsafe { ptr::drop_in_place(value.cast::<T>()) };
    mem::forget(stop);
}
