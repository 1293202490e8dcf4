//! Programs that must not compile, each beside one that differs in a line and does. They are tests of the types.
//!
//! An object does not outlive its domain:
//!
//! ```compile_fail,E0505
//! let domain = tslab::Domain::new();
//! let x = domain.alloc(1);
//! drop(domain);
//! *x = 2;
//! ```
//! ```
//! let domain = tslab::Domain::new();
//! let x = domain.alloc(1);
//! *x = 2;
//! drop(domain);
//! ```
//!
//! ```compile_fail,E0515
//! fn f() -> &'static mut i32 {
//!     let domain = tslab::Domain::new();
//!     domain.alloc(1)
//! }
//! ```
//!
//! No reset under a borrow:
//!
//! ```compile_fail,E0502
//! let mut domain = tslab::Domain::new();
//! let x = domain.alloc(1);
//! domain.reset();
//! *x = 2;
//! ```
//! ```
//! let mut domain = tslab::Domain::new();
//! let x = domain.alloc(1);
//! *x = 2;
//! domain.reset();
//! ```
//!
//! A collection borrows its domain, too:
//!
//! ```compile_fail,E0502
//! let mut domain = tslab::Domain::new();
//! let mut v = allocator_api2_02::vec::Vec::new_in(&domain);
//! v.push(1);
//! domain.reset();
//! v.push(2);
//! ```
//!
//! A domain stays on its thread, and so does a borrow of it:
//!
//! ```compile_fail,E0277
//! let domain = tslab::Domain::new();
//! std::thread::spawn(move || drop(domain));
//! ```
//! ```compile_fail,E0277
//! let domain = tslab::Domain::new();
//! std::thread::scope(|s| { s.spawn(|| { domain.alloc(1); }); });
//! ```
//! ```
//! let domain = tslab::SharedDomain::new();
//! std::thread::scope(|s| { s.spawn(|| { domain.alloc(1); }); });
//! ```
//!
//! A child ends before its parent:
//!
//! ```compile_fail,E0505
//! let parent = tslab::Domain::new();
//! let child = parent.child();
//! drop(parent);
//! child.alloc(1);
//! ```
//! ```compile_fail,E0502
//! let mut parent = tslab::Domain::new();
//! let child = parent.child();
//! parent.reset();
//! child.alloc(1);
//! ```
//!
//! What a mark covers ends with it, and the domain is the mark's meanwhile:
//!
//! ```compile_fail,E0597
//! let mut domain = tslab::Domain::new();
//! let x;
//! {
//!     let mark = domain.mark();
//!     x = mark.alloc(1);
//! }
//! *x = 2;
//! ```
//! ```compile_fail,E0502
//! let mut domain = tslab::Domain::new();
//! let mark = domain.mark();
//! domain.alloc(1);
//! mark.alloc(2);
//! ```
//!
//! `alloc` refuses a type that may need dropping, and a lie is refused when the program is built:
//!
//! ```compile_fail,E0277
//! let domain = tslab::Domain::new();
//! domain.alloc(String::from("text"));
//! ```
//! ```
//! let domain = tslab::Domain::new();
//! domain.alloc_with_drop(String::from("text"));
//! ```
//! ```compile_fail,E0080
//! struct Lies(String);
//! impl tslab::NoDrop for Lies {}
//! let domain = tslab::Domain::new();
//! domain.alloc(Lies(String::from("text")));
//! ```
//!
//! A value that is dropped may borrow what outlives its domain, not what dies before it, nor the domain itself:
//!
//! ```compile_fail,E0597
//! struct Shows<'a>(&'a String);
//! impl Drop for Shows<'_> { fn drop(&mut self) { println!("{}", self.0); } }
//! let domain = tslab::Domain::new();
//! let text = String::from("gone");
//! domain.alloc_with_drop(Shows(&text));
//! ```
//! ```
//! struct Shows<'a>(&'a String);
//! impl Drop for Shows<'_> { fn drop(&mut self) { println!("{}", self.0); } }
//! let text = String::from("there");
//! let domain = tslab::Domain::new();
//! domain.alloc_with_drop(Shows(&text));
//! ```
//! ```compile_fail,E0597
//! struct Shows<'a>(&'a i32);
//! impl Drop for Shows<'_> { fn drop(&mut self) { println!("{}", self.0); } }
//! let domain = tslab::Domain::new();
//! domain.alloc_with_drop(Shows(domain.alloc(1)));
//! ```
//! ```
//! struct Shows<'a>(&'a i32);
//! impl Drop for Shows<'_> { fn drop(&mut self) { println!("{}", self.0); } }
//! let domain = tslab::Domain::new();
//! domain.child().alloc_with_drop(Shows(domain.alloc(1)));
//! ```
//!
//! Nor by a borrow of the domain that lives shorter than it:
//!
//! ```compile_fail,E0597
//! struct Shows<'a>(&'a String);
//! impl Drop for Shows<'_> { fn drop(&mut self) { println!("{}", self.0); } }
//! fn short<'a>(domain: &tslab::Domain<'a>, text: &'a String) { domain.alloc_with_drop(Shows(text)); }
//! let domain: tslab::Domain<'static> = tslab::Domain::new();
//! {
//!     let text = String::from("gone");
//!     short(&domain, &text);
//! }
//! ```
//! ```compile_fail,E0505
//! let count = std::cell::Cell::new(0);
//! let domain = tslab::Domain::new();
//! domain.alloc_with_drop(vec![&count]);
//! drop(count);
//! ```
//!
//! A text ends with its domain:
//!
//! ```compile_fail,E0505
//! let domain = tslab::Domain::new();
//! let text = tslab::format!(in domain, "{}", 1);
//! drop(domain);
//! text.make_ascii_uppercase();
//! ```
//!
//! A value of a shared domain may be dropped by any thread:
//!
//! ```compile_fail,E0277
//! let domain = tslab::SharedDomain::new();
//! domain.alloc_with_drop(std::rc::Rc::new(1));
//! ```
//!
//! A value of an epoch does not outlive it, and one that is borrowed by handle is not removed:
//!
//! ```compile_fail,E0505
//! let epoch = tslab::Epoch::new("e");
//! let x = epoch.alloc(1);
//! drop(epoch);
//! println!("{x}");
//! ```
//! ```compile_fail,E0502
//! let mut epoch = tslab::Epoch::new("e");
//! let handle = epoch.insert(1);
//! let x = epoch.get(handle);
//! epoch.remove(handle);
//! println!("{x:?}");
//! ```
//! ```compile_fail,E0277
//! let epoch = tslab::Epoch::new("e");
//! epoch.insert(std::cell::Cell::new(1)); // another thread may get it at the same time
//! ```
//!
//! A handle names a value of exactly its type, so no value that dies early is written over one that lives for ever:
//!
//! ```compile_fail,E0597
//! let mut epoch = tslab::Epoch::new("e");
//! let handle = epoch.insert("for ever");
//! {
//!     let text = String::from("gone");
//!     *epoch.get_mut(handle).unwrap() = text.as_str();
//! }
//! println!("{:?}", epoch.get(handle));
//! ```
//! ```
//! let mut epoch = tslab::Epoch::new("e");
//! let handle = epoch.insert("for ever");
//! *epoch.get_mut(handle).unwrap() = "as long";
//! println!("{:?}", epoch.get(handle));
//! ```
