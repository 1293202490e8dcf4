//! Where objects come from, and how values are put into them: what domains and epochs have in common.

#![allow(clippy::mut_from_ref)] // each object is new

use crate::{sys, Error};
use core::alloc::Layout;
use core::mem;
use core::ptr::{self, NonNull};
use std::alloc::handle_alloc_error;

/// Every object is aligned to this without asking.
pub(crate) const NATURAL: usize = 16;

/// A place that allocates.
///
/// # Safety
///
/// A block stays valid until it is freed, or the `&self` that it came from ends.
pub(crate) unsafe trait Source {
    fn allocator(&self) -> *mut sys::SlabAllocator;
    fn epoch(&self) -> sys::EpochId;
    /// From how many bytes on a block that a collection gives back is freed before the lifetime ends.
    fn free_from(&self) -> usize;

    fn take(&self, layout: Layout) -> Option<NonNull<u8>> {
        // SAFETY: any arguments are allowed; an alignment is a power of two.
        let p = unsafe {
            if layout.align() <= NATURAL {
                sys::slab_malloc_epoch(self.allocator(), layout.size(), self.epoch())
            } else {
                sys::slab_aligned_epoch(self.allocator(), layout.align(), layout.size(), self.epoch())
            }
        };
        NonNull::new(p.cast())
    }

    fn take_zeroed(&self, layout: Layout) -> Option<NonNull<u8>> {
        if layout.align() <= NATURAL {
            // SAFETY: as in take.
            let p = unsafe { sys::slab_calloc_epoch(self.allocator(), 1, layout.size(), self.epoch()) };
            return NonNull::new(p.cast());
        }
        let p = self.take(layout)?;
        // SAFETY: the block has that many bytes.
        unsafe { ptr::write_bytes(p.as_ptr(), 0, layout.size()) };
        Some(p)
    }

    /// # Safety
    /// The block is of this source, and nobody uses it any more.
    unsafe fn give(&self, p: NonNull<u8>, bytes: usize) {
        if bytes >= self.free_from() {
            // SAFETY: a live object of this allocator.
            unsafe { sys::slab_free(self.allocator(), p.as_ptr().cast()) };
        }
    }

    /// # Safety
    /// The block is of this source with `old`; on success only the new one is used.
    unsafe fn resize(&self, p: NonNull<u8>, old: Layout, new: Layout) -> Option<NonNull<u8>> {
        // Without an alignment that the old block has, the library would not move one that could stay.
        let aligned = (p.as_ptr() as usize) & (new.align() - 1) == 0;
        if old.size() != 0 && aligned {
            // SAFETY: a live object of this allocator; an alignment is a power of two.
            let q = unsafe { sys::slab_realloc_aligned(self.allocator(), p.as_ptr().cast(), new.align(), new.size()) };
            return NonNull::new(q.cast());
        }
        let q = self.take(new)?;
        // SAFETY: both blocks have that many bytes, and they are two.
        unsafe {
            ptr::copy_nonoverlapping(p.as_ptr(), q.as_ptr(), old.size().min(new.size()));
            if old.size() != 0 {
                self.give(p, old.size());
            }
        }
        Some(q)
    }
}

/// A type whose values have nothing to drop, so that a domain may forget them: every `Copy` type, and each type that
/// says so.
///
/// ```
/// struct Node<'d> {
///     next: std::cell::Cell<Option<&'d Node<'d>>>,
/// }
/// impl tslab::NoDrop for Node<'_> {}
/// let domain = tslab::Domain::new();
/// let first = &*domain.alloc(Node { next: None.into() });
/// first.next.set(Some(domain.alloc(Node { next: None.into() })));
/// ```
///
/// No promise of memory safety hangs on it. A type that says so and needs dropping is refused when the program is built.
/// `alloc_with_drop` takes types of other crates that are not `Copy`, such as `Cell`, and costs the same for them.
#[diagnostic::on_unimplemented(
    message = "a domain forgets its values, and `{Self}` may need dropping: use `alloc_with_drop`, or make it `Copy` or `tslab::NoDrop`",
    label = "neither `Copy` nor `tslab::NoDrop`",
    note = "`alloc_with_drop` drops the value when the domain ends; where there is nothing to drop, it costs no more than `alloc`"
)]
pub trait NoDrop {}
impl<T: Copy> NoDrop for T {}

struct WithoutDrop<T>(core::marker::PhantomData<T>);

impl<T: NoDrop> WithoutDrop<T> {
    const CHECKED: () =
        assert!(!mem::needs_drop::<T>(), "this type says that it is `tslab::NoDrop`, and needs dropping");
}

/// Stops the build of a program for a type that is [`NoDrop`] wrongly.
pub(crate) const fn without_drop<T: NoDrop>() {
    WithoutDrop::<T>::CHECKED // evaluated for each T that a program uses
}

/// A place for a value; of a type without bytes any aligned address.
pub(crate) fn place<T>(source: &impl Source) -> Result<NonNull<T>, Error> {
    let layout = Layout::new::<T>();
    if layout.size() == 0 {
        return Ok(NonNull::dangling());
    }
    source.take(layout).map(NonNull::cast).ok_or_else(Error::last)
}

/// Moves the value to its place.
pub(crate) fn put<T>(source: &impl Source, value: T) -> Result<&mut T, Error> {
    let p = place::<T>(source)?;
    // SAFETY: the place is new, large and aligned enough, and lives as long as the borrow of the source (Source).
    unsafe {
        p.as_ptr().write(value);
        Ok(&mut *p.as_ptr())
    }
}

/// A slice of `n` values, each made by `next`. If that panics, what it made so far is not dropped.
pub(crate) fn put_slice<T>(
    source: &impl Source,
    n: usize,
    mut next: impl FnMut(usize) -> T,
) -> Result<&mut [T], Error> {
    let layout = Layout::array::<T>(n).map_err(|_| Error::NoMemory)?;
    let p: NonNull<T> =
        if layout.size() == 0 { NonNull::dangling() } else { source.take(layout).ok_or_else(Error::last)?.cast() };
    for i in 0..n {
        // SAFETY: within the block.
        unsafe { p.as_ptr().add(i).write(next(i)) };
    }
    // SAFETY: all n are written; the rest as in put.
    Ok(unsafe { core::slice::from_raw_parts_mut(p.as_ptr(), n) })
}

/// A slice of all that an iterator gives.
pub(crate) fn put_iter<T>(source: &impl Source, mut values: impl Iterator<Item = T>) -> Result<&mut [T], Error> {
    let (least, most) = values.size_hint();
    if most != Some(least) {
        let all: Vec<T> = values.collect();
        return put_iter(source, all.into_iter());
    }
    let layout = Layout::array::<T>(least).map_err(|_| Error::NoMemory)?;
    let p: NonNull<T> =
        if layout.size() == 0 { NonNull::dangling() } else { source.take(layout).ok_or_else(Error::last)?.cast() };
    let mut n = 0;
    while n < least {
        let Some(value) = values.next() else { break }; // it has promised more than it has
                                                        // SAFETY: within the block.
        unsafe { p.as_ptr().add(n).write(value) };
        n += 1;
    }
    // SAFETY: n are written; the rest as in put.
    Ok(unsafe { core::slice::from_raw_parts_mut(p.as_ptr(), n) })
}

/// A copy of a slice.
pub(crate) fn put_copy<'a, T: Copy>(source: &'a impl Source, from: &[T]) -> Result<&'a mut [T], Error> {
    put_slice(source, from.len(), |i| from[i])
}

/// A copy of a text.
pub(crate) fn put_str<'a>(source: &'a impl Source, text: &str) -> Result<&'a mut str, Error> {
    let bytes = put_copy(source, text.as_bytes())?;
    // SAFETY: the bytes of a text.
    Ok(unsafe { core::str::from_utf8_unchecked_mut(bytes) })
}

/// The value, or the end of the program as `Box::new` ends it.
#[track_caller]
pub(crate) fn or_end<T>(result: Result<T, Error>, layout: Layout) -> T {
    match result {
        Ok(value) => value,
        Err(Error::NoMemory) => handle_alloc_error(layout),
        Err(error) => panic!("tslab: {error}"),
    }
}

/// The default allocator of the process. NULL where there is no memory for it: every call on it fails then.
pub(crate) fn default_allocator() -> *mut sys::SlabAllocator {
    // SAFETY: any time, any thread.
    unsafe { sys::slab_allocator_default() }
}

/// A label for the C calls. A text with a zero byte ends there.
pub(crate) fn label(text: &str) -> std::ffi::CString {
    let end = text.bytes().position(|b| b == 0).unwrap_or(text.len());
    std::ffi::CString::new(&text.as_bytes()[..end]).unwrap_or_default()
}
