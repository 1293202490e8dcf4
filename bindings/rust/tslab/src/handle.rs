//! Handles: values that name one object for ever.
//!
//! This room is pure: it reads no memory. `insert`, `get` and `remove` of domains and epochs do.

use crate::sys;
use core::any::TypeId;
use core::fmt;
use core::hash::{Hash, Hasher};
use core::marker::PhantomData;

/// Names one object of a domain or an epoch. It is a value: copy it, store it, send it, keep it for ever.
///
/// [`Domain::get`](crate::Domain::get) and [`Epoch::get`](crate::Epoch::get) give the object, or `None` once it is
/// gone. No later object ever has the same handle, whatever lies at its place. A handle of another domain gives `None`.
///
/// A handle is no secret and no permission: do not use it as a session key.
pub struct Handle<T> {
    pub(crate) raw: sys::SlabHandle,
    pub(crate) epoch: sys::EpochId,
    what: PhantomData<fn(T) -> T>, // exactly T: with a T of a longer or shorter life, get_mut could write what dies early
}

impl<T> Handle<T> {
    pub(crate) fn new(raw: sys::SlabHandle, epoch: sys::EpochId) -> Self {
        Handle { raw, epoch, what: PhantomData }
    }

    /// The handle without its type, for collections of handles of several types.
    pub fn erase(self) -> AnyHandle
    where
        T: 'static,
    {
        AnyHandle { raw: self.raw, epoch: self.epoch, what: TypeId::of::<T>() }
    }
}

// By hand: a derive would ask the same of T.
impl<T> Clone for Handle<T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for Handle<T> {}
impl<T> PartialEq for Handle<T> {
    fn eq(&self, other: &Self) -> bool {
        self.raw == other.raw && self.epoch == other.epoch
    }
}
impl<T> Eq for Handle<T> {}
impl<T> Hash for Handle<T> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.raw.hash(state);
    }
}
impl<T> fmt::Debug for Handle<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Handle({:#018x})", self.raw)
    }
}

/// A [`Handle`] that remembers its type.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct AnyHandle {
    raw: sys::SlabHandle,
    epoch: sys::EpochId,
    what: TypeId,
}

impl AnyHandle {
    /// The handle with its type. `None`: it is of another type.
    pub fn downcast<T: 'static>(self) -> Option<Handle<T>> {
        (self.what == TypeId::of::<T>()).then(|| Handle::new(self.raw, self.epoch))
    }
}

impl fmt::Debug for AnyHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AnyHandle({:#018x})", self.raw)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn pure_downcast_checks_the_type() {
        let handle = Handle::<u32>::new(7, 9);
        let any = handle.erase();
        assert_eq!(any.downcast::<u32>(), Some(handle));
        assert_eq!(any.downcast::<i32>(), None);
        assert_eq!(any.downcast::<[u32; 1]>(), None);
    }

    #[test]
    fn pure_handles_are_values() {
        struct NotClone;
        let a = Handle::<NotClone>::new(1, 2);
        let b = a;
        assert!(a == b && a != Handle::new(1, 3) && a != Handle::new(2, 2));
        let set: HashSet<Handle<NotClone>> = [a, b, Handle::new(2, 2)].into_iter().collect();
        assert_eq!(set.len(), 2);
        assert_eq!(format!("{a:?}"), "Handle(0x0000000000000001)");
    }

    #[test]
    fn pure_handles_are_sent_whatever_they_name() {
        fn is_send<T: Send + Sync>() {}
        is_send::<Handle<std::rc::Rc<u8>>>();
        is_send::<AnyHandle>();
    }
}
