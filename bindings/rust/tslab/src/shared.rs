//! A domain that several threads allocate in.

use crate::domain::{allocations, handles};
use crate::dropping;
use crate::memory::{self, NoDrop, Source};
use crate::{sys, Error, Handle};
use core::alloc::Layout;
use core::fmt;
use core::ptr::NonNull;

/// A lifetime that several threads allocate in, at the same time: of a job that is spread over workers.
///
/// ```
/// let job = tslab::SharedDomain::new();
/// let parts: Vec<&mut u64> = std::thread::scope(|s| {
///     let workers: Vec<_> = (0..4).map(|i| s.spawn({ let job = &job; move || job.alloc(i) })).collect();
///     workers.into_iter().map(|w| w.join().unwrap()).collect()
/// });
/// assert_eq!(parts.iter().map(|p| **p).sum::<u64>(), 6);
/// ```
pub struct SharedDomain {
    raw: NonNull<sys::EpochDomain>,
}

// SAFETY: any thread may call on a shared domain at any time; an end needs the value itself, and what it drops is Send.
unsafe impl Send for SharedDomain {}
// SAFETY: as above.
unsafe impl Sync for SharedDomain {}

// SAFETY: blocks live until the epoch ends or is emptied, for which Drop and reset need the domain alone.
unsafe impl Source for SharedDomain {
    fn allocator(&self) -> *mut sys::SlabAllocator {
        // SAFETY: a live domain.
        unsafe { sys::epoch_domain_allocator(self.raw.as_ptr()) }
    }
    fn epoch(&self) -> sys::EpochId {
        // SAFETY: a live domain.
        unsafe { sys::epoch_domain_epoch(self.raw.as_ptr()) }
    }
    fn free_from(&self) -> usize {
        4096 // as Domain
    }
}

impl SharedDomain {
    /// A shared domain in the default allocator. Ends the program where there is no memory.
    #[track_caller]
    #[allow(clippy::new_without_default)] // a domain of nobody is of no use
    pub fn new() -> Self {
        memory::or_end(SharedDomain::try_new(None), Layout::new::<usize>())
    }

    /// [`new`](SharedDomain::new) with an answer, and a label if one is given.
    pub fn try_new(label: Option<&str>) -> Result<Self, Error> {
        let label = label.map(memory::label);
        let text = label.as_ref().map_or(core::ptr::null(), |l| l.as_ptr());
        // SAFETY: any arguments are allowed; the label is a text.
        let raw = unsafe { sys::epoch_domain_create_ex(memory::default_allocator(), text, sys::EPOCH_DOMAIN_SHARED) };
        NonNull::new(raw).map(|raw| SharedDomain { raw }).ok_or_else(Error::last)
    }

    /// Empties the domain, as [`Domain::reset`](crate::Domain::reset).
    pub fn reset(&mut self) {
        // SAFETY: a live domain, which nobody has borrowed.
        unsafe { sys::epoch_domain_reset(self.raw.as_ptr(), usize::MAX) };
    }

    /// Moves a value into the domain, and drops it when the domain ends or is reset: newest first, in the thread that
    /// does so. So it is `Send`, and owns what it refers to. A `drop` that panics there ends the program.
    ///
    /// Cost: [`alloc`](Self::alloc), and some 20 ns; nothing more for a type that does not need dropping.
    #[track_caller]
    #[allow(clippy::mut_from_ref)]
    pub fn alloc_with_drop<T: Send + 'static>(&self, value: T) -> &mut T {
        memory::or_end(self.try_alloc_with_drop(value), Layout::new::<T>())
    }

    /// [`alloc_with_drop`](Self::alloc_with_drop) with an answer. On failure the value is dropped.
    #[allow(clippy::mut_from_ref)]
    pub fn try_alloc_with_drop<T: Send + 'static>(&self, value: T) -> Result<&mut T, Error> {
        if !core::mem::needs_drop::<T>() {
            return memory::put(self, value);
        }
        let p = memory::place::<T>(self)?;
        // SAFETY: the function gets the place of a T, which is written below and not dropped by anybody else.
        let noted =
            unsafe { sys::epoch_domain_on_destroy(self.raw.as_ptr(), Some(dropping::end::<T>), p.as_ptr().cast()) };
        if !noted {
            return Err(Error::last());
        }
        // SAFETY: the place is new, large and aligned enough, and lives as long as the borrow.
        unsafe {
            p.as_ptr().write(value);
            Ok(&mut *p.as_ptr())
        }
    }

    allocations!();
    handles!(Send, Sync);
}

impl Drop for SharedDomain {
    fn drop(&mut self) {
        // SAFETY: a live domain, of which all borrows have ended.
        unsafe { sys::epoch_domain_end(self.raw.as_ptr()) };
    }
}

impl fmt::Debug for SharedDomain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SharedDomain({})", self.epoch())
    }
}
