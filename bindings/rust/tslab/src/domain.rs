//! A domain of one thread: all that is allocated in it ends with it.

use crate::dropping::Drops;
use crate::memory::{self, NoDrop, Source};
use crate::{sys, Error, Handle};
use core::alloc::Layout;
use core::fmt;
use core::marker::PhantomData;
use core::mem::ManuallyDrop;
use core::ops::Deref;
use core::ptr::{self, NonNull};

/// A lifetime on one thread. Objects are allocated by a pointer that rises; the end frees all of them in one step.
///
/// What is allocated borrows the domain, so it cannot outlive it, and [`reset`](Domain::reset) waits for all borrows to
/// end. `'d` outlives the domain: it is the borrow of the parent of a [`child`](Domain::child), and what the values of
/// [`alloc_with_drop`](Domain::alloc_with_drop) may refer to. A struct that keeps a borrow of a domain has two lifetimes:
///
/// ```
/// struct Parser<'a, 'd> {
///     domain: &'a tslab::Domain<'d>,
/// }
/// let domain = tslab::Domain::new();
/// let parser = Parser { domain: &domain };
/// parser.domain.alloc(1);
/// ```
///
/// A domain stays on its thread: it is not `Send`. [`hand_over`](Domain::hand_over) gives it to another one by value.
/// A domain that is leaked (`mem::forget`) keeps its memory until the process ends, or its parent; its values are not
/// dropped.
///
/// Cost: some 0.1 us for a domain that is empty; an allocation takes a few nanoseconds.
pub struct Domain<'d> {
    raw: NonNull<sys::EpochDomain>,
    drops: Drops,
    /// Exactly 'd: by a longer one a borrow would let in values that die before the domain, which drops them.
    outlives: PhantomData<fn(&'d ()) -> &'d ()>,
}

#[diagnostic::on_unimplemented(
    message = "a `tslab::Domain` stays on its thread: `hand_over` moves it to another, a `tslab::SharedDomain` serves several",
    label = "a `Domain`, or a borrow of one, goes to another thread here",
    note = "`domain.hand_over()` gives a domain to another thread by value, which calls `take()`",
    note = "several threads, or a task that moves between threads at an `.await`, allocate in a `tslab::SharedDomain`"
)]
trait MayLeaveItsThread {}

// SAFETY: no domain is Send or Sync: nothing implements the trait, whose message the compiler shows.
unsafe impl<'d> Send for Domain<'d> where PhantomData<&'d ()>: MayLeaveItsThread {}
// SAFETY: as above.
unsafe impl<'d> Sync for Domain<'d> where PhantomData<&'d ()>: MayLeaveItsThread {}

// SAFETY: blocks live until the epoch ends or is emptied, for which Drop and reset need the domain alone.
unsafe impl Source for Domain<'_> {
    fn allocator(&self) -> *mut sys::SlabAllocator {
        // SAFETY: a live domain.
        unsafe { sys::epoch_domain_allocator(self.raw.as_ptr()) }
    }
    fn epoch(&self) -> sys::EpochId {
        // SAFETY: a live domain.
        unsafe { sys::epoch_domain_epoch(self.raw.as_ptr()) }
    }
    fn free_from(&self) -> usize {
        4096 // a quarter of a slab, or pages of their own, so the free gives memory back; smaller ones end with the domain
    }
    fn take(&self, layout: Layout) -> Option<NonNull<u8>> {
        let p = if layout.align() <= memory::NATURAL {
            // SAFETY: a live domain.
            unsafe { sys::epoch_domain_alloc(self.raw.as_ptr(), layout.size()) }
        } else {
            // SAFETY: any arguments are allowed.
            unsafe { sys::slab_aligned_epoch(self.allocator(), layout.align(), layout.size(), self.epoch()) }
        };
        NonNull::new(p.cast())
    }
}

/// What allocates in a domain of either kind.
macro_rules! allocations {
    () => {
        /// Moves a value into the domain. A type that may need dropping does not compile: see [`NoDrop`], and
        /// [`alloc_with_drop`](Self::alloc_with_drop), which takes any type.
        ///
        /// Ends the program where there is no memory.
        ///
        /// ```
        /// let domain = tslab::Domain::new();
        /// let point = domain.alloc((3, 4));
        /// point.0 += 1;
        /// assert_eq!(*point, (4, 4));
        /// ```
        #[track_caller]
        #[allow(clippy::mut_from_ref)] // each object is new
        pub fn alloc<T: NoDrop>(&self, value: T) -> &mut T {
            memory::or_end(self.try_alloc(value), Layout::new::<T>())
        }

        /// [`alloc`](Self::alloc) with an answer where there is no memory, or the domain's limit is met.
        #[allow(clippy::mut_from_ref)]
        pub fn try_alloc<T: NoDrop>(&self, value: T) -> Result<&mut T, Error> {
            memory::without_drop::<T>();
            memory::put(self, value)
        }

        /// A copy of a text.
        #[track_caller]
        #[allow(clippy::mut_from_ref)]
        pub fn alloc_str(&self, text: &str) -> &mut str {
            memory::or_end(memory::put_str(self, text), Layout::for_value(text))
        }

        /// A copy of a slice.
        #[track_caller]
        #[allow(clippy::mut_from_ref)]
        pub fn alloc_slice<T: Copy>(&self, from: &[T]) -> &mut [T] {
            memory::or_end(memory::put_copy(self, from), Layout::for_value(from))
        }

        /// A slice of `n` values: `make(0)`, `make(1)`, ...
        #[track_caller]
        #[allow(clippy::mut_from_ref)]
        pub fn alloc_slice_with<T: NoDrop>(&self, n: usize, make: impl FnMut(usize) -> T) -> &mut [T] {
            memory::without_drop::<T>();
            memory::or_end(memory::put_slice(self, n, make), Layout::new::<T>())
        }

        /// A slice of all that an iterator gives. An iterator that does not know its length is collected first.
        ///
        /// ```
        /// let domain = tslab::Domain::new();
        /// let lengths = domain.alloc_slice_fill_iter("a bc def".split(' ').map(str::len));
        /// assert_eq!(lengths, [1, 2, 3]);
        /// ```
        #[track_caller]
        #[allow(clippy::mut_from_ref)]
        pub fn alloc_slice_fill_iter<T: NoDrop>(&self, values: impl IntoIterator<Item = T>) -> &mut [T] {
            memory::without_drop::<T>();
            memory::or_end(memory::put_iter(self, values.into_iter()), Layout::new::<T>())
        }

        /// A text that grows in the domain.
        pub fn string(&self) -> crate::String<'_> {
            crate::String::new(self)
        }

        /// A text by `format_args!`, written in the domain. [`format!`](crate::format) is shorter.
        #[track_caller]
        #[allow(clippy::mut_from_ref)]
        pub fn alloc_fmt(&self, text: fmt::Arguments<'_>) -> &mut str {
            let mut to = self.string();
            if let Err(error) = fmt::write(&mut to, text) {
                panic!("a value to format: {error}"); // as std's format!; the text itself ends the program without memory
            }
            to.into_str()
        }

        /// The same with an answer where there is no memory, or the domain's limit is met.
        #[allow(clippy::mut_from_ref)]
        pub fn try_alloc_fmt(&self, text: fmt::Arguments<'_>) -> Result<&mut str, Error> {
            let mut to = crate::string::Fallible(self.string(), None);
            match (fmt::write(&mut to, text), to.1) {
                (Ok(()), None) => Ok(to.0.into_str()),
                (_, Some(error)) => Err(error),
                (Err(error), None) => panic!("a value to format: {error}"),
            }
        }

        /// Bytes that count against the domain's limit: its slabs, and those of its children.
        pub fn held(&self) -> usize {
            // SAFETY: a live domain.
            unsafe { sys::epoch_domain_held(self.raw.as_ptr()) }
        }

        /// A hard limit on the memory that the domain and its children hold; 0: none. Beyond it allocations fail with
        /// [`Error::NoMemory`], so use those that begin with `try_`.
        pub fn set_limit(&self, bytes: usize) -> Result<(), Error> {
            // SAFETY: a live domain.
            unsafe { sys::epoch_domain_set_limit(self.raw.as_ptr(), bytes) }.then_some(()).ok_or_else(Error::last)
        }

        /// Replaces the label, under which statistics and tools show the domain: 31 bytes of it.
        pub fn set_label(&self, label: &str) {
            let label = memory::label(label);
            // SAFETY: a text with a terminating zero.
            unsafe { sys::slab_epoch_set_label(self.allocator(), self.epoch(), label.as_ptr()) };
        }

        /// The id of the domain's epoch, for the C interface and the statistics.
        pub fn epoch_id(&self) -> sys::EpochId {
            self.epoch()
        }

        /// The domain for the C interface. It stays this value's: do not end it.
        pub fn as_ptr(&self) -> *mut sys::EpochDomain {
            self.raw.as_ptr()
        }

        /// Runs `f` inside the domain: `slab_alloc` of C code that it calls allocates here.
        pub fn inside<R>(&self, f: impl FnOnce() -> R) -> Result<R, Error> {
            struct Leave(NonNull<sys::EpochDomain>);
            impl Drop for Leave {
                fn drop(&mut self) {
                    // SAFETY: a live domain, which this thread has entered below.
                    unsafe { sys::epoch_domain_exit(self.0.as_ptr()) };
                }
            }
            // SAFETY: a live domain.
            if !unsafe { sys::epoch_domain_enter(self.raw.as_ptr()) } {
                return Err(Error::last());
            }
            let _leave = Leave(self.raw);
            Ok(f())
        }
    };
}
pub(crate) use allocations;

/// Moves in, looks up and takes out by handle; `$bound` is what a value must be for `get` from every thread that may.
macro_rules! handles {
    ($($bound:path),*) => {
        /// Moves a value in, and gives the handle that names it. A type that may need dropping does not compile.
        #[track_caller]
        pub fn insert<T: NoDrop $(+ $bound)*>(&self, value: T) -> Handle<T> {
            memory::or_end(self.try_insert(value), Layout::new::<T>())
        }

        /// [`insert`](Self::insert) with an answer where there is no memory.
        pub fn try_insert<T: NoDrop $(+ $bound)*>(&self, value: T) -> Result<Handle<T>, Error> {
            memory::without_drop::<T>();
            $crate::epoch::insert(self, value)
        }

        /// The value that the handle names. `None`: it is gone, or it is of another domain or epoch.
        pub fn get<T: $($bound +)*>(&self, handle: Handle<T>) -> Option<&T> {
            // SAFETY: a value of this source lives until the source is borrowed alone, and `insert` has put a T there.
            unsafe { $crate::epoch::find(self, handle).map(|p| &*p.as_ptr()) }
        }

        /// The same to write to.
        pub fn get_mut<T: $($bound +)*>(&mut self, handle: Handle<T>) -> Option<&mut T> {
            // SAFETY: as in get, and nobody else can have borrowed it.
            unsafe { $crate::epoch::find(self, handle).map(|p| &mut *p.as_ptr()) }
        }

        /// Takes the value out, and frees its place. The handle is stale from then on.
        pub fn remove<T: $($bound +)*>(&mut self, handle: Handle<T>) -> Option<T> {
            $crate::epoch::remove(self, handle)
        }
    };
}
pub(crate) use handles;

impl<'d> Domain<'d> {
    /// A domain in the default allocator. Ends the program where there is no memory.
    #[track_caller]
    #[allow(clippy::new_without_default)] // a domain of nobody is of no use
    pub fn new() -> Self {
        memory::or_end(Domain::try_new(), Layout::new::<usize>())
    }

    /// [`new`](Domain::new) with an answer.
    pub fn try_new() -> Result<Self, Error> {
        Domain::make(None, ptr::null_mut(), 0)
    }

    /// A domain with a label, under which statistics and tools show it.
    #[track_caller]
    pub fn with_label(label: &str) -> Self {
        memory::or_end(Domain::make(Some(label), ptr::null_mut(), 0), Layout::new::<usize>())
    }

    fn make(label: Option<&str>, parent: *mut sys::EpochDomain, flags: u32) -> Result<Self, Error> {
        let label = label.map(memory::label);
        let text = label.as_ref().map_or(ptr::null(), |l| l.as_ptr());
        // SAFETY: any arguments are allowed; the label is a text.
        let raw = unsafe {
            if parent.is_null() {
                sys::epoch_domain_create_ex(memory::default_allocator(), text, flags)
            } else {
                sys::epoch_domain_create_child(parent, text, flags)
            }
        };
        NonNull::new(raw).map(Domain::of).ok_or_else(Error::last)
    }

    /// One more value for a domain of this thread, with nothing to drop yet.
    fn of(raw: NonNull<sys::EpochDomain>) -> Self {
        Domain { raw, drops: Drops::new(), outlives: PhantomData }
    }
}

impl Domain<'static> {
    /// Gives the domain to whichever thread takes it: with all that is in it, but for the values of
    /// [`alloc_with_drop`](Domain::alloc_with_drop), which are dropped here. On failure the domain is ended.
    ///
    /// ```
    /// let domain = tslab::Domain::new();
    /// let handle = domain.insert(7);
    /// let sent = domain.hand_over().unwrap();
    /// std::thread::spawn(move || {
    ///     let domain = sent.take().unwrap();
    ///     assert_eq!(domain.get(handle), Some(&7));
    /// }).join().unwrap();
    /// ```
    pub fn hand_over(self) -> Result<HandedOver, Error> {
        self.drops.run(); // nothing can refer to them any more, and they need not be Send
                          // SAFETY: a live domain of this thread.
        if unsafe { sys::epoch_domain_hand_over(self.raw.as_ptr()) } {
            Ok(HandedOver { raw: ManuallyDrop::new(self).raw })
        } else {
            Err(Error::last())
        }
    }
}

impl<'d> Domain<'d> {
    /// A domain that ends before this one. Ends the program where there is no memory.
    ///
    /// ```
    /// let request = tslab::Domain::new();
    /// let name = request.alloc_str("whole request");
    /// {
    ///     let query = request.child();
    ///     let row = query.alloc((1, &*name)); // may refer to what is older
    ///     assert_eq!(row.1, "whole request");
    /// } // the query's memory goes back
    /// ```
    #[track_caller]
    pub fn child(&self) -> Domain<'_> {
        memory::or_end(self.try_child(None), Layout::new::<usize>())
    }

    /// [`child`](Domain::child) with an answer, and a label if one is given.
    pub fn try_child(&self, label: Option<&str>) -> Result<Domain<'_>, Error> {
        Domain::make(label, self.raw.as_ptr(), 0)
    }

    /// Empties the domain: values of `alloc_with_drop` are dropped, newest first, and all else is gone. The memory stays
    /// with the domain for what comes next.
    pub fn reset(&mut self) {
        // A domain that C code has closed takes no objects; those that follow say so.
        let _ = self.try_reset(usize::MAX);
    }

    /// The same; at most `keep_bytes` of its memory stay, the rest goes back to the system now.
    pub fn try_reset(&mut self, keep_bytes: usize) -> Result<(), Error> {
        self.drops.run();
        // SAFETY: a live domain, which nobody has borrowed.
        unsafe { sys::epoch_domain_reset(self.raw.as_ptr(), keep_bytes) }.then_some(()).ok_or_else(Error::last)
    }

    /// Marks where the domain is now. All that is allocated by the mark ends when the mark does.
    ///
    /// ```
    /// let mut frame = tslab::Domain::new();
    /// {
    ///     let pass = frame.mark();
    ///     pass.alloc([0u8; 1000]);
    /// } // the 1,000 bytes are free again
    /// frame.alloc([0u8; 1000]);
    /// ```
    ///
    /// The newest 32 marks are good. What an older one covers stays until the domain ends.
    #[track_caller]
    pub fn mark(&mut self) -> Mark<'_> {
        memory::or_end(self.try_mark(), Layout::new::<usize>())
    }

    /// [`mark`](Domain::mark) with an answer.
    pub fn try_mark(&mut self) -> Result<Mark<'_>, Error> {
        Mark::new(self.raw)
    }

    /// Moves a value into the domain, and drops it when the domain ends, is reset, is handed over, or goes back to an
    /// older mark: newest first, and before any cleanup of C code. It may refer to what outlives the domain. It need not
    /// be `Send`: its thread drops it. A `drop` that panics there ends the program.
    ///
    /// Cost: [`alloc`](Self::alloc), and 16 bytes; nothing more for a type that does not need dropping.
    ///
    /// ```
    /// let mut domain = tslab::Domain::new();
    /// let words = domain.alloc_with_drop(vec![String::from("dropped"), String::from("later")]);
    /// words.push(String::from("too"));
    /// domain.reset();
    /// ```
    #[track_caller]
    #[allow(clippy::mut_from_ref)]
    pub fn alloc_with_drop<T: 'd>(&self, value: T) -> &mut T {
        memory::or_end(self.try_alloc_with_drop(value), Layout::new::<T>())
    }

    /// [`alloc_with_drop`](Self::alloc_with_drop) with an answer. On failure the value is dropped.
    #[allow(clippy::mut_from_ref)]
    pub fn try_alloc_with_drop<T: 'd>(&self, value: T) -> Result<&mut T, Error> {
        // SAFETY: the list is run before this domain's memory ends, and T outlives 'd, which outlives the domain.
        unsafe { self.drops.put(self, value) }
    }

    allocations!();
    handles!(Send); // a domain that is handed over takes its values to another thread
}

impl Drop for Domain<'_> {
    fn drop(&mut self) {
        self.drops.run();
        // Also in a destructor of thread-local storage, when the thread's part of the library has ended.
        // SAFETY: a live domain, of which all borrows have ended.
        unsafe { sys::epoch_domain_end(self.raw.as_ptr()) };
    }
}

impl fmt::Debug for Domain<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Domain({})", self.epoch())
    }
}

/// A place in a domain. What is allocated by it ends with it: a scope within a scope.
///
/// A mark gives all that a `&Domain` gives. While it lives, the domain itself is borrowed. What a leaked mark covers stays
/// until the domain ends, and is not dropped.
pub struct Mark<'domain> {
    domain: ManuallyDrop<Domain<'domain>>,
    place: sys::SlabMark,
}

impl Mark<'_> {
    fn new<'a>(raw: NonNull<sys::EpochDomain>) -> Result<Mark<'a>, Error> {
        let mut place = sys::SlabMark { place: 0, use_: 0 };
        // SAFETY: a live domain, and a place to write to.
        if !unsafe { sys::epoch_domain_mark(raw.as_ptr(), &mut place) } {
            return Err(Error::last());
        }
        Ok(Mark { domain: ManuallyDrop::new(Domain::of(raw)), place })
    }

    /// A mark behind this one.
    #[track_caller]
    pub fn mark(&mut self) -> Mark<'_> {
        memory::or_end(Mark::new(self.domain.raw), Layout::new::<usize>())
    }
}

impl<'domain> Deref for Mark<'domain> {
    type Target = Domain<'domain>;
    fn deref(&self) -> &Domain<'domain> {
        &self.domain
    }
}

impl Drop for Mark<'_> {
    fn drop(&mut self) {
        self.domain.drops.run();
        // A mark that has become too old is refused: then the objects stay until the domain ends.
        // SAFETY: a live domain, which is borrowed by this mark alone.
        unsafe { sys::epoch_domain_rewind(self.domain.raw.as_ptr(), self.place) };
    }
}

/// A domain on its way to another thread.
#[must_use = "a domain that nobody takes ends here"]
#[derive(Debug)]
pub struct HandedOver {
    raw: NonNull<sys::EpochDomain>,
}

// SAFETY: no thread owns the domain, nothing of it is borrowed, and it has no values to drop.
unsafe impl Send for HandedOver {}

impl HandedOver {
    /// Makes the domain this thread's. On failure the domain is ended.
    pub fn take(self) -> Result<Domain<'static>, Error> {
        let raw = ManuallyDrop::new(self).raw;
        let domain = Domain::of(raw);
        domain.inside(|| ())?; // who enters it owns it
        Ok(domain)
    }
}

impl Drop for HandedOver {
    fn drop(&mut self) {
        drop(HandedOver { raw: self.raw }.take());
    }
}
