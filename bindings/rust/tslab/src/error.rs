//! Errors of the library.

use core::fmt;

/// Why a call was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Error {
    /// There is no memory, or a limit or the budget was met.
    NoMemory,
    /// The epoch or domain is closed: another part of the program has ended it.
    Closed,
    /// The domain belongs to another thread.
    OtherThread,
    /// Something else, by its `errno`.
    Other(i32),
}

impl Error {
    /// The error of the C call that has just failed in this thread.
    pub(crate) fn last() -> Error {
        // Values of errno that are the same on every system the library runs on.
        match std::io::Error::last_os_error().raw_os_error().unwrap_or(0) {
            12 => Error::NoMemory,
            1 => Error::OtherThread,
            22 => Error::Closed,
            code if code == estale() => Error::Closed,
            code => Error::Other(code),
        }
    }
}

const fn estale() -> i32 {
    if cfg!(any(target_arch = "mips", target_arch = "mips64")) {
        151
    } else if cfg!(target_os = "linux") {
        116
    } else {
        70
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::NoMemory => f.write_str("no memory, or a limit was met"),
            Error::Closed => f.write_str("the epoch or domain is closed"),
            Error::OtherThread => f.write_str("the domain belongs to another thread"),
            Error::Other(code) => write!(f, "tslab: {}", std::io::Error::from_raw_os_error(*code)),
        }
    }
}

impl std::error::Error for Error {}
