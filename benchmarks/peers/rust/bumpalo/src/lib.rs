//! bumpalo behind C calls, one call per object like every other peer of scope_bench. The Bump lives in the caller's
//! memory.

use bumpalo::Bump;
use std::alloc::Layout;
use std::ffi::{c_char, CString};
use std::sync::OnceLock;

const ALIGNMENT: usize = 16;

/// The version of bumpalo that Cargo.lock names, which is the one this was built with.
#[no_mangle]
pub extern "C" fn scope_bumpalo_version() -> *const c_char {
    static VERSION: OnceLock<CString> = OnceLock::new();
    VERSION
        .get_or_init(|| {
            let mut lines = include_str!("../Cargo.lock").lines();
            lines.find(|line| *line == "name = \"bumpalo\"");
            let version = lines.next().and_then(|line| line.split('"').nth(1));
            CString::new(version.unwrap_or("unknown")).unwrap_or_default()
        })
        .as_ptr()
}

#[no_mangle]
pub extern "C" fn scope_bumpalo_fits(bytes: usize, alignment: usize) -> bool {
    size_of::<Bump>() <= bytes && align_of::<Bump>() <= alignment
}

/// # Safety
/// place: room for a Bump, see scope_bumpalo_fits.
#[no_mangle]
pub unsafe extern "C" fn scope_bumpalo_open(place: *mut Bump) {
    place.write(Bump::new());
}

/// # Safety
/// place: opened and not dropped.
#[no_mangle]
pub unsafe extern "C" fn scope_bumpalo_alloc(place: *mut Bump, size: usize) -> *mut u8 {
    let layout = Layout::from_size_align_unchecked(size, ALIGNMENT);
    match (*place).try_alloc_layout(layout) {
        Ok(object) => object.as_ptr(),
        Err(_) => std::ptr::null_mut(),
    }
}

/// # Safety
/// place: opened and not dropped.
#[no_mangle]
pub unsafe extern "C" fn scope_bumpalo_reset(place: *mut Bump) {
    (*place).reset();
}

/// # Safety
/// place: opened and not dropped.
#[no_mangle]
pub unsafe extern "C" fn scope_bumpalo_drop(place: *mut Bump) {
    place.drop_in_place();
}
