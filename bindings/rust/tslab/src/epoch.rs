//! An epoch whose objects end one by one, and what handles do in every source.

use crate::domain::handles;
use crate::memory::{self, NoDrop, Source};
use crate::{sys, Error, Handle};
use core::alloc::Layout;
use core::fmt;
use core::marker::PhantomData;
use core::mem::{self, ManuallyDrop};
use core::ops::{Deref, DerefMut};
use core::ptr::{self, NonNull};

/// A lifetime whose objects may end earlier, each by itself: of a connection, a session, a cache.
///
/// Any thread may allocate in it and free. Its end frees what is left in one step.
///
/// ```
/// let connection = tslab::Epoch::new("connection");
/// let buffer = connection.alloc(vec![1, 2, 3]);
/// assert_eq!(buffer.len(), 3);
/// drop(buffer); // goes back here, and the vector's own memory with it
/// ```
pub struct Epoch {
    allocator: *mut sys::SlabAllocator,
    id: sys::EpochId,
}

// SAFETY: every call on an epoch may be made by any thread at any time; an end needs the value itself.
unsafe impl Send for Epoch {}
// SAFETY: as above.
unsafe impl Sync for Epoch {}

// SAFETY: blocks live until they are freed or the epoch is destroyed, for which Drop needs the epoch alone.
unsafe impl Source for Epoch {
    fn allocator(&self) -> *mut sys::SlabAllocator {
        self.allocator
    }
    fn epoch(&self) -> sys::EpochId {
        self.id
    }
    fn free_from(&self) -> usize {
        0
    }
}

impl Epoch {
    /// An epoch in the default allocator, with a label for statistics and tools. Ends the program without memory.
    #[track_caller]
    pub fn new(label: &str) -> Self {
        memory::or_end(Epoch::try_new(label), Layout::new::<usize>())
    }

    /// [`new`](Epoch::new) with an answer.
    pub fn try_new(label: &str) -> Result<Self, Error> {
        let (allocator, label) = (memory::default_allocator(), memory::label(label));
        // SAFETY: any arguments are allowed; the label is a text.
        let id = unsafe { sys::epoch_open(allocator, label.as_ptr(), sys::EPOCH_CHURN) };
        if id == 0 {
            return Err(Error::last());
        }
        Ok(Epoch { allocator, id })
    }

    /// Moves a value into the epoch: a `Box` that cannot outlive it.
    #[track_caller]
    pub fn alloc<T>(&self, value: T) -> Owned<'_, T> {
        memory::or_end(self.try_alloc(value), Layout::new::<T>())
    }

    /// [`alloc`](Epoch::alloc) with an answer. On failure the value is dropped.
    pub fn try_alloc<T>(&self, value: T) -> Result<Owned<'_, T>, Error> {
        let p = NonNull::from(memory::put(self, value)?);
        Ok(Owned { value: p, epoch: self, owns: PhantomData })
    }

    /// A hard limit on the memory that the epoch holds; 0: none.
    pub fn set_limit(&self, bytes: usize) -> Result<(), Error> {
        // SAFETY: any arguments are allowed.
        unsafe { sys::epoch_set_limit(self.allocator, self.id, bytes) }.then_some(()).ok_or_else(Error::last)
    }

    /// The id, for the C interface and the statistics.
    pub fn id(&self) -> sys::EpochId {
        self.id
    }

    handles!(Send, Sync);
}

impl Drop for Epoch {
    fn drop(&mut self) {
        // SAFETY: all borrows have ended.
        unsafe { sys::epoch_destroy(self.allocator, self.id) };
    }
}

impl fmt::Debug for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Epoch({})", self.id)
    }
}

/// A value of an [`Epoch`], dropped and freed as a `Box` is. One that is leaked ends with the epoch, undropped.
pub struct Owned<'epoch, T> {
    value: NonNull<T>,
    epoch: &'epoch Epoch,
    owns: PhantomData<T>,
}

// SAFETY: as a Box: it owns its value. The epoch is Sync, and any thread may free in it.
unsafe impl<T: Send> Send for Owned<'_, T> {}
// SAFETY: as a Box.
unsafe impl<T: Sync> Sync for Owned<'_, T> {}

impl<'epoch, T> Owned<'epoch, T> {
    /// The value, moved out; its place is freed.
    pub fn into_inner(owned: Self) -> T {
        let owned = ManuallyDrop::new(owned);
        // SAFETY: it is read once, and not dropped at its old place.
        let value = unsafe { owned.value.as_ptr().read() };
        owned.free();
        value
    }

    /// The value for as long as the epoch lives. It is not dropped.
    pub fn leak(owned: Self) -> &'epoch mut T {
        // SAFETY: nobody frees it before the epoch ends.
        unsafe { &mut *ManuallyDrop::new(owned).value.as_ptr() }
    }

    fn free(&self) {
        if mem::size_of::<T>() != 0 {
            // SAFETY: an object of the epoch's allocator, which is freed once.
            unsafe { sys::slab_free(self.epoch.allocator, self.value.as_ptr().cast()) };
        }
    }
}

impl<T> Deref for Owned<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        // SAFETY: the value is live until this is dropped.
        unsafe { self.value.as_ref() }
    }
}
impl<T> DerefMut for Owned<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as above, and borrowed alone.
        unsafe { self.value.as_mut() }
    }
}
impl<T> Drop for Owned<'_, T> {
    fn drop(&mut self) {
        struct Free<'a, 'b, T>(&'a Owned<'b, T>);
        impl<T> Drop for Free<'_, '_, T> {
            fn drop(&mut self) {
                self.0.free(); // also if the value's drop panics
            }
        }
        let p = self.value.as_ptr();
        let _free = Free(self);
        // SAFETY: the value is live, and dropped here only.
        unsafe { ptr::drop_in_place(p) };
    }
}
impl<T: fmt::Debug> fmt::Debug for Owned<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}
impl<T: fmt::Display> fmt::Display for Owned<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}
impl<T> AsRef<T> for Owned<'_, T> {
    fn as_ref(&self) -> &T {
        self
    }
}

// ---- handles ------------------------------------------------------------------------------------------------------

pub(crate) fn insert<T>(source: &impl Source, value: T) -> Result<Handle<T>, Error> {
    let layout = Layout::new::<T>();
    let (allocator, epoch) = (source.allocator(), source.epoch());
    let mut raw = 0;
    // SAFETY: any arguments are allowed, and there is a place for the handle.
    let p: *mut T = unsafe {
        if layout.align() <= memory::NATURAL {
            sys::alloc_obj_epoch(allocator, layout.size(), epoch, &mut raw).cast()
        } else {
            let p = sys::slab_aligned_epoch(allocator, layout.align(), layout.size(), epoch);
            if !p.is_null() {
                raw = sys::slab_handle_of(allocator, p);
            }
            p.cast()
        }
    };
    if p.is_null() {
        return Err(Error::last());
    }
    // SAFETY: the place is new, large and aligned enough.
    unsafe { p.write(value) };
    Ok(Handle::new(raw, epoch))
}

/// Where the value of a handle is, if it is a live one of this source.
pub(crate) fn find<T>(source: &impl Source, handle: Handle<T>) -> Option<NonNull<T>> {
    if handle.epoch != source.epoch() {
        return None;
    }
    // SAFETY: any handle is allowed; a stale one is NULL.
    NonNull::new(unsafe { sys::slab_handle_get(source.allocator(), handle.raw) }.cast())
}

pub(crate) fn remove<T>(source: &impl Source, handle: Handle<T>) -> Option<T> {
    let p = find(source, handle)?;
    // SAFETY: `insert` has put a T there, and the caller has the source alone: nobody else takes or borrows it.
    unsafe {
        let value = p.as_ptr().read();
        sys::free_obj(source.allocator(), handle.raw);
        Some(value)
    }
}
