//! Texts that grow in a domain.

use crate::memory::Source;
use crate::{memory, Error};
use core::alloc::Layout;
use core::fmt;
use core::ops::{Deref, DerefMut};
use core::ptr::NonNull;

/// A text that grows in a domain, as `std::string::String` does in the heap. It derefs to `str`, and `write!` writes to it.
///
/// ```
/// use std::fmt::Write;
/// let domain = tslab::Domain::new();
/// let mut text: tslab::String = domain.string();
/// text.push_str("request ");
/// write!(text, "{}", 42).unwrap();
/// let text: &str = text.into_str(); // as long as the domain
/// assert_eq!(text, "request 42");
/// ```
///
/// Where there is no memory, it ends the program as `std`'s does.
pub struct String<'a> {
    domain: &'a dyn Source,
    bytes: NonNull<u8>,
    length: usize,
    room: usize,
}

impl<'a> String<'a> {
    pub(crate) fn new(domain: &'a dyn Source) -> Self {
        String { domain, bytes: NonNull::dangling(), length: 0, room: 0 }
    }

    /// Room for so many more bytes.
    pub fn try_reserve(&mut self, more: usize) -> Result<(), Error> {
        let needed = self.length.checked_add(more).ok_or(Error::NoMemory)?;
        if needed > self.room {
            let room = needed.max(self.room.saturating_mul(2)).max(32);
            let layout = |bytes| Layout::array::<u8>(bytes).map_err(|_| Error::NoMemory);
            let (old, new) = (layout(self.room)?, layout(room)?);
            // SAFETY: the text's block, which has `room` bytes and is not used again on success.
            let grown = unsafe { self.domain.resize(self.bytes, old, new) };
            self.bytes = grown.ok_or_else(Error::last)?;
            self.room = room;
        }
        Ok(())
    }

    /// Appends a text.
    #[track_caller]
    pub fn push_str(&mut self, text: &str) {
        let layout = Layout::for_value(text);
        memory::or_end(self.try_push_str(text), layout)
    }

    /// [`push_str`](String::push_str) with an answer. On failure nothing is appended.
    pub fn try_push_str(&mut self, text: &str) -> Result<(), Error> {
        self.try_reserve(text.len())?;
        // SAFETY: there is room behind `length`, and a text outside cannot lie in it.
        unsafe { self.bytes.as_ptr().add(self.length).copy_from_nonoverlapping(text.as_ptr(), text.len()) };
        self.length += text.len();
        Ok(())
    }

    /// Appends a character.
    #[track_caller]
    pub fn push(&mut self, c: char) {
        self.push_str(c.encode_utf8(&mut [0; 4]));
    }

    /// Empties the text, which keeps its room.
    pub fn clear(&mut self) {
        self.length = 0;
    }

    /// The text for as long as the domain.
    pub fn into_str(self) -> &'a mut str {
        // SAFETY: as in deref_mut. Nobody frees the block before the borrow of the domain ends.
        unsafe {
            let bytes = core::slice::from_raw_parts_mut(self.bytes.as_ptr(), self.length);
            core::str::from_utf8_unchecked_mut(bytes)
        }
    }
}

impl Deref for String<'_> {
    type Target = str;
    fn deref(&self) -> &str {
        // SAFETY: `length` bytes of whole texts are written.
        unsafe { core::str::from_utf8_unchecked(core::slice::from_raw_parts(self.bytes.as_ptr(), self.length)) }
    }
}
impl DerefMut for String<'_> {
    fn deref_mut(&mut self) -> &mut str {
        // SAFETY: as above, and borrowed alone.
        unsafe { core::str::from_utf8_unchecked_mut(core::slice::from_raw_parts_mut(self.bytes.as_ptr(), self.length)) }
    }
}
impl fmt::Write for String<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.push_str(text);
        Ok(())
    }
}
impl fmt::Debug for String<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}
impl fmt::Display for String<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}
impl AsRef<str> for String<'_> {
    fn as_ref(&self) -> &str {
        self
    }
}
impl<'a> Extend<&'a str> for String<'_> {
    fn extend<I: IntoIterator<Item = &'a str>>(&mut self, texts: I) {
        texts.into_iter().for_each(|text| self.push_str(text));
    }
}
impl<T: AsRef<str> + ?Sized> PartialEq<T> for String<'_> {
    fn eq(&self, other: &T) -> bool {
        **self == *other.as_ref()
    }
}

/// A text that notes the error for which it did not grow.
pub(crate) struct Fallible<'a>(pub(crate) String<'a>, pub(crate) Option<Error>);
impl fmt::Write for Fallible<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.try_push_str(text).map_err(|error| {
            self.1 = Some(error);
            fmt::Error
        })
    }
}

/// A text in a domain, by the rules of `std::format!`: a `&mut str` that lives as long as the borrow of the domain.
///
/// ```
/// let domain = tslab::Domain::new();
/// let n = 42;
/// assert_eq!(tslab::format!(in domain, "request {n}: {:?}", "ok"), "request 42: \"ok\"");
/// ```
#[macro_export]
macro_rules! format {
    (in $domain:expr, $($text:tt)+) => {
        $domain.alloc_fmt(::core::format_args!($($text)+))
    };
}
