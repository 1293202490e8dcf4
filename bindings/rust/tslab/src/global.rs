//! The program's allocator.

use crate::sys;
use core::alloc::{GlobalAlloc, Layout};
use core::sync::atomic::{AtomicPtr, Ordering};

/// temporal-slab as the allocator of the program: every free is checked, and memory goes back to the system.
///
/// ```
/// #[global_allocator]
/// static A: tslab::TslabAlloc = tslab::TslabAlloc;
/// fn main() {
///     assert_eq!(vec![1; 1000].len(), 1000);
/// }
/// ```
///
/// Objects are those of the default allocator's current epoch. A domain that the thread is inside of does not matter.
#[derive(Clone, Copy, Debug, Default)]
pub struct TslabAlloc;

/// The default allocator, once it is known: it is never freed.
static DEFAULT: AtomicPtr<sys::SlabAllocator> = AtomicPtr::new(core::ptr::null_mut());

#[inline]
fn default() -> *mut sys::SlabAllocator {
    // Relaxed: the pointer is compared only, and the library makes the same allocator for every thread.
    let known = DEFAULT.load(Ordering::Relaxed);
    if !known.is_null() {
        return known;
    }
    make_default()
}

#[cold]
fn make_default() -> *mut sys::SlabAllocator {
    let made = crate::memory::default_allocator();
    DEFAULT.store(made, Ordering::Relaxed);
    made
}

// SAFETY: blocks are live objects of an allocator that is never freed, as large and aligned as asked. No call unwinds.
unsafe impl GlobalAlloc for TslabAlloc {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: any arguments are allowed.
        unsafe {
            if layout.align() <= crate::memory::NATURAL {
                sys::slab_malloc(default(), layout.size()).cast()
            } else {
                sys::slab_realloc_aligned(default(), core::ptr::null_mut(), layout.align(), layout.size()).cast()
            }
        }
    }

    #[inline]
    unsafe fn dealloc(&self, p: *mut u8, _: Layout) {
        // SAFETY: any pointer is allowed.
        unsafe { sys::slab_free(default(), p.cast()) };
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        let allocator = default();
        if layout.align() <= crate::memory::NATURAL {
            // SAFETY: any arguments are allowed.
            return unsafe { sys::slab_calloc_epoch(allocator, 1, layout.size(), sys::epoch_current(allocator)) }
                .cast();
        }
        // SAFETY: the block is new, and has that many bytes.
        unsafe {
            let p = self.alloc(layout);
            if !p.is_null() {
                core::ptr::write_bytes(p, 0, layout.size());
            }
            p
        }
    }

    #[inline]
    unsafe fn realloc(&self, p: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: a live block of ours; what is no power of two is refused.
        unsafe { sys::slab_realloc_aligned(default(), p.cast(), layout.align(), size).cast() }
    }
}
