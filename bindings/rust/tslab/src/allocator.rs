//! `&Domain`, `&SharedDomain` and `&Epoch` as allocators of collections, for each version of the trait.

#![allow(unused)] // without a version of the trait nothing here is used

use crate::memory::Source;
use crate::{Domain, Epoch, SharedDomain};
use core::alloc::Layout;
use core::ptr::NonNull;

fn slice(p: NonNull<u8>, layout: Layout) -> NonNull<[u8]> {
    NonNull::slice_from_raw_parts(p, layout.size())
}

fn allocate(source: &impl Source, layout: Layout, zeroed: bool) -> Option<NonNull<[u8]>> {
    if layout.size() == 0 {
        // SAFETY: an alignment is not 0.
        return Some(slice(unsafe { NonNull::new_unchecked(layout.align() as *mut u8) }, layout));
    }
    let p = if zeroed { source.take_zeroed(layout) } else { source.take(layout) };
    p.map(|p| slice(p, layout))
}

unsafe fn deallocate(source: &impl Source, p: NonNull<u8>, layout: Layout) {
    if layout.size() != 0 {
        // SAFETY: the caller's block.
        unsafe { source.give(p, layout.size()) };
    }
}

unsafe fn resize(
    source: &impl Source,
    p: NonNull<u8>,
    old: Layout,
    new: Layout,
    zeroed: bool,
) -> Option<NonNull<[u8]>> {
    if new.size() == 0 {
        // SAFETY: the caller's block.
        unsafe { deallocate(source, p, old) };
        return allocate(source, new, false);
    }
    // SAFETY: the caller's block, which is not used again on success.
    let q = unsafe { source.resize(p, old, new)? };
    if zeroed && new.size() > old.size() {
        // SAFETY: within the new block.
        unsafe { core::ptr::write_bytes(q.as_ptr().add(old.size()), 0, new.size() - old.size()) };
    }
    Some(slice(q, new))
}

macro_rules! implement {
    ($version:ident, $feature:literal, $($path:ident)::+, $($of:ty),+) => {
        #[cfg(feature = $feature)]
        mod $version {
            use super::*;
            use $($path)::+::{AllocError, Allocator};

            $(
                // SAFETY: blocks live until they are freed or the borrow ends (Source), and a copy of it is as good.
                unsafe impl Allocator for &$of {
                    fn allocate(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
                        allocate(*self, layout, false).ok_or(AllocError)
                    }
                    fn allocate_zeroed(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
                        allocate(*self, layout, true).ok_or(AllocError)
                    }
                    unsafe fn deallocate(&self, p: NonNull<u8>, layout: Layout) {
                        // SAFETY: the caller's block.
                        unsafe { deallocate(*self, p, layout) }
                    }
                    unsafe fn grow(&self, p: NonNull<u8>, old: Layout, new: Layout) -> Result<NonNull<[u8]>, AllocError> {
                        // SAFETY: the caller's block.
                        unsafe { resize(*self, p, old, new, false) }.ok_or(AllocError)
                    }
                    unsafe fn grow_zeroed(
                        &self, p: NonNull<u8>, old: Layout, new: Layout,
                    ) -> Result<NonNull<[u8]>, AllocError> {
                        // SAFETY: the caller's block.
                        unsafe { resize(*self, p, old, new, true) }.ok_or(AllocError)
                    }
                    unsafe fn shrink(&self, p: NonNull<u8>, old: Layout, new: Layout) -> Result<NonNull<[u8]>, AllocError> {
                        // SAFETY: the caller's block.
                        unsafe { resize(*self, p, old, new, false) }.ok_or(AllocError)
                    }
                }
            )+
        }
    };
}

implement!(v02, "allocator-api2-02", allocator_api2_02::alloc, Domain<'_>, SharedDomain, Epoch);
implement!(v03, "allocator-api2-03", allocator_api2_03::alloc, Domain<'_>, SharedDomain, Epoch);
implement!(v04, "allocator-api2-04", allocator_api2_04::alloc, Domain<'_>, SharedDomain, Epoch);
implement!(nightly, "nightly", core::alloc, Domain<'_>, SharedDomain, Epoch);
