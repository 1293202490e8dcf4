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
/// No call fails because an epoch was closed: an object of one that is closed moves to the current epoch when it grows,
/// and where the program has closed the current epoch itself, the next one begins.
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

/// Another try in whichever epoch is current, for a call that was refused.
#[cold]
unsafe fn again(layout: Layout, zeroed: bool) -> *mut u8 {
    let allocator = default();
    loop {
        // SAFETY: any arguments are allowed; an alignment is a power of two.
        unsafe {
            let epoch = sys::epoch_current(allocator);
            let p = if zeroed {
                sys::slab_calloc_epoch(allocator, 1, layout.size(), epoch)
            } else {
                sys::slab_aligned_epoch(allocator, layout.align(), layout.size(), epoch)
            };
            if !p.is_null() {
                return p.cast();
            }
            // Another thread has advanced, or it was no epoch's fault, or the next epoch has to begin.
            if epoch == sys::epoch_current(allocator)
                && (sys::epoch_state(allocator, epoch) == sys::EPOCH_ACTIVE as _
                    || sys::epoch_advance(allocator) == EPOCH_NONE)
            {
                return core::ptr::null_mut();
            }
        }
    }
}

const EPOCH_NONE: sys::EpochId = 0;

// SAFETY: blocks are live objects of an allocator that is never freed, as large and aligned as asked. No call unwinds.
unsafe impl GlobalAlloc for TslabAlloc {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: any arguments are allowed.
        unsafe {
            let p: *mut u8 = if layout.align() <= crate::memory::NATURAL {
                sys::slab_malloc(default(), layout.size()).cast()
            } else {
                sys::slab_realloc_aligned(default(), core::ptr::null_mut(), layout.align(), layout.size()).cast()
            };
            if p.is_null() {
                return again(layout, false);
            }
            p
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
            return unsafe {
                let p = sys::slab_calloc_epoch(allocator, 1, layout.size(), sys::epoch_current(allocator));
                if p.is_null() {
                    return again(layout, true);
                }
                p.cast()
            };
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
        unsafe {
            let q: *mut u8 = sys::slab_realloc_aligned(default(), p.cast(), layout.align(), size).cast();
            if q.is_null() {
                return self.moved(p, layout, size);
            }
            q
        }
    }
}

impl TslabAlloc {
    /// Its own epoch has no place for the resized block: the current one has, unless memory is short.
    #[cold]
    unsafe fn moved(&self, p: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: the caller's block and size. What is no live object was refused, and is not read.
        unsafe {
            if sys::slab_usable_size(default(), p.cast()) < layout.size() {
                return core::ptr::null_mut();
            }
            let q = self.alloc(Layout::from_size_align_unchecked(size, layout.align()));
            if !q.is_null() {
                core::ptr::copy_nonoverlapping(p, q, layout.size().min(size));
                self.dealloc(p, layout);
            }
            q
        }
    }
}
