//! Domains: values, drops, children, marks, limits, threads.

use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use tslab::{Domain, Error, Mark, NoDrop, SharedDomain};

/// Notes its number when it is dropped.
struct Noted(Arc<Mutex<Vec<usize>>>, usize);
impl Drop for Noted {
    fn drop(&mut self) {
        self.0.lock().unwrap().push(self.1);
    }
}

#[test]
fn values_of_every_size_and_alignment() {
    #[repr(align(64))]
    struct Line([u8; 64]);
    impl NoDrop for Line {}
    #[repr(align(4096))]
    struct Page([u8; 4096]);
    impl NoDrop for Page {}
    let domain = Domain::new();
    let mut places = Vec::new();
    for i in 0..1000u64 {
        let n = domain.alloc(i);
        let line = domain.alloc(Line([i as u8; 64]));
        assert_eq!(line as *const Line as usize % 64, 0);
        places.push((n, line));
    }
    let page = domain.alloc(Page([7; 4096]));
    assert_eq!(page as *const Page as usize % 4096, 0);
    let large = domain.alloc([3u8; 100_000]);
    for (i, (n, line)) in places.iter().enumerate() {
        assert_eq!((**n, line.0), (i as u64, [i as u8; 64]));
    }
    assert!(page.0.iter().all(|b| *b == 7) && large.iter().all(|b| *b == 3));
    domain.alloc(());
    assert!(domain.held() > 100_000);
}

#[test]
fn texts_and_slices() {
    let domain = Domain::with_label("texts");
    let text = domain.alloc_str("grüße");
    text.make_ascii_uppercase();
    assert_eq!(text, "GRüßE");
    assert_eq!(domain.alloc_str(""), "");
    assert_eq!(domain.alloc_slice(&[1, 2, 3]), [1, 2, 3]);
    assert_eq!(domain.alloc_slice_with(4, |i| i * i), [0, 1, 4, 9]);
    assert!(tslab::stats_json().contains("\"texts\""));
    domain.set_label("renamed\0rest");
    assert!(tslab::stats_json().contains("\"renamed\""));
    assert!(!tslab::version().is_empty());
}

#[test]
fn drops_run_at_the_end_newest_first() {
    let dropped = Arc::new(Mutex::new(Vec::new()));
    let mut domain = Domain::new();
    for i in 0..3 {
        domain.alloc_with_drop(Noted(dropped.clone(), i));
    }
    assert!(dropped.lock().unwrap().is_empty());
    domain.reset();
    assert_eq!(*dropped.lock().unwrap(), [2, 1, 0]);
    domain.alloc_with_drop(Noted(dropped.clone(), 3));
    domain.reset();
    domain.alloc_with_drop(Noted(dropped.clone(), 4));
    drop(domain);
    assert_eq!(*dropped.lock().unwrap(), [2, 1, 0, 3, 4]);
    assert_eq!(Arc::strong_count(&dropped), 1);
}

#[test]
fn children_end_first() {
    let dropped = Arc::new(Mutex::new(Vec::new()));
    let parent = Domain::new();
    parent.alloc_with_drop(Noted(dropped.clone(), 0));
    let name = parent.alloc_with_drop(Cell::new(1));
    let name: &Cell<i32> = name;
    {
        let child = parent.child();
        let grandchild = child.child();
        let refers = grandchild.alloc(name); // to what is older
        refers.set(2);
        grandchild.alloc_with_drop(Noted(dropped.clone(), 2));
        child.alloc_with_drop(Noted(dropped.clone(), 1));
    }
    assert_eq!(*dropped.lock().unwrap(), [2, 1]);
    parent.child().alloc_with_drop(Noted(dropped.clone(), 3));
    let leaked = parent.child();
    leaked.alloc_with_drop(Noted(dropped.clone(), 4));
    std::mem::forget(leaked); // its memory ends with its parent, its value is leaked: it could refer to what is gone by then
    assert_eq!(name.get(), 2);
    drop(parent);
    assert_eq!(*dropped.lock().unwrap(), [2, 1, 3, 0]);
}

/// Counts its drops in a local variable: neither Send nor 'static.
struct Counts<'a>(&'a Cell<usize>);
impl Drop for Counts<'_> {
    fn drop(&mut self) {
        self.0.set(self.0.get() + 1);
    }
}

#[test]
fn dropped_values_borrow_and_stay_on_their_thread() {
    let count = Cell::new(0);
    let shared = std::rc::Rc::new(5);
    let mut domain = Domain::new();
    domain.alloc_with_drop(Counts(&count));
    domain.alloc_with_drop(shared.clone());
    {
        let mut mark = domain.mark();
        mark.alloc_with_drop(Counts(&count));
        mark.mark().alloc_with_drop(Counts(&count));
        assert_eq!(count.get(), 1);
        std::mem::forget(mark); // of what a leaked mark covers nothing is dropped
    }
    assert_eq!(count.get(), 1);
    domain.reset();
    assert_eq!((count.get(), std::rc::Rc::strong_count(&shared)), (2, 1));
    {
        let local = Cell::new(0); // dies before the domain
        domain.child().alloc_with_drop(Counts(&local));
        let child = domain.child();
        child.alloc_with_drop(Counts(&local));
        std::mem::forget(child);
        assert_eq!(local.get(), 1);
    }
    domain.alloc_with_drop([Counts(&count), Counts(&count)]);
    drop(domain);
    assert_eq!(count.get(), 4);
}

#[test]
fn a_drop_that_costs_nothing_where_nothing_is_dropped() {
    let (plain, dropping) = (Domain::new(), Domain::new());
    for i in 0..10_000u64 {
        plain.alloc(i);
        dropping.alloc_with_drop(Cell::new(i));
    }
    assert_eq!(plain.held(), dropping.held());
    let zero = dropping.alloc_with_drop(());
    assert_eq!(*zero, ());
    let aligned = dropping.alloc_with_drop(Aligned(vec![1]));
    assert_eq!(aligned as *const Aligned as usize % 128, 0);
    assert_eq!(aligned.0, [1]);
    #[repr(align(128))]
    struct Aligned(Vec<u8>);
}

#[test]
fn texts_that_grow() {
    use std::fmt::Write;
    let domain = Domain::new();
    let mut text = domain.string();
    assert_eq!(text, "");
    for i in 0..2000 {
        write!(text, "{i},").unwrap();
    }
    text.push('ß');
    text.extend(["a", "b"]);
    let expected = (0..2000).map(|i| format!("{i},")).collect::<String>() + "ßab";
    assert_eq!(text, expected);
    assert_eq!(text.to_string(), expected);
    text.make_ascii_uppercase();
    let kept: &str = text.into_str();
    let formatted = tslab::format!(in domain, "{} {:>5} {kept:.2}", 1, "x");
    assert_eq!(formatted, "1     x 0,");
    formatted.make_ascii_uppercase();
    assert_eq!(&*tslab::format!(in domain, "nothing"), "nothing");
    assert_eq!(domain.string().into_str(), "");
    assert!(kept.ends_with("ßAB"));
    let shared = SharedDomain::new();
    assert_eq!(&*tslab::format!(in shared, "{kept}"), kept);
    let mut mark_of = Domain::new();
    assert_eq!(&*tslab::format!(in mark_of.mark(), "{}", 3), "3");
}

#[test]
fn texts_meet_the_limit() {
    let domain = Domain::new();
    domain.set_limit(64 * 1024).unwrap();
    assert_eq!(domain.try_alloc_fmt(format_args!("{:>65000}{:>65000}", 1, 2)), Err(Error::NoMemory));
    assert_eq!(domain.try_alloc_fmt(format_args!("{}", 1)).unwrap(), "1");
    let mut text = domain.string();
    assert_eq!(text.try_reserve(usize::MAX), Err(Error::NoMemory));
    let part = "x".repeat(1000);
    let error = loop {
        if let Err(error) = text.try_push_str(&part) {
            break error;
        }
        assert!(text.len() < 64 * 1024);
    };
    assert!(error == Error::NoMemory && text.len() % 1000 == 0 && !text.is_empty());
    assert!(text.bytes().all(|b| b == b'x'));
}

#[test]
fn slices_of_iterators() {
    struct Wrong(u32, (usize, Option<usize>));
    impl Iterator for Wrong {
        type Item = u32;
        fn next(&mut self) -> Option<u32> {
            self.0 = self.0.checked_sub(1)?;
            Some(self.0)
        }
        fn size_hint(&self) -> (usize, Option<usize>) {
            self.1
        }
    }
    let domain = Domain::new();
    assert_eq!(domain.alloc_slice_fill_iter(0..5), [0, 1, 2, 3, 4]);
    assert_eq!(domain.alloc_slice_fill_iter((0..100).filter(|n| n % 40 == 0)), [0, 40, 80]);
    assert_eq!(domain.alloc_slice_fill_iter(vec!["a", "b"]), ["a", "b"]);
    assert_eq!(domain.alloc_slice_fill_iter(std::iter::empty::<u64>()), []);
    assert_eq!(domain.alloc_slice_fill_iter(Wrong(3, (5, Some(5)))), [2, 1, 0]); // fewer than it has promised
    assert_eq!(domain.alloc_slice_fill_iter(Wrong(3, (2, Some(2)))), [2, 1]); // more: these it has promised
    assert_eq!(domain.alloc_slice_fill_iter([(); 3]).len(), 3);
}

#[test]
fn marks_are_scopes() {
    let dropped = Arc::new(Mutex::new(Vec::new()));
    let mut domain = Domain::new();
    let old = domain.insert(1u64);
    let newer;
    {
        let mut outer = domain.mark();
        newer = outer.insert(2u64);
        outer.alloc_with_drop(Noted(dropped.clone(), 0));
        {
            let inner: Mark<'_> = outer.mark();
            inner.alloc_with_drop(Noted(dropped.clone(), 1));
            assert_eq!((inner.get(old), inner.get(newer)), (Some(&1), Some(&2)));
        }
        assert_eq!(*dropped.lock().unwrap(), [1]);
        assert_eq!(outer.get(newer), Some(&2));
    }
    assert_eq!(*dropped.lock().unwrap(), [1, 0]);
    assert_eq!((domain.get(old), domain.get(newer)), (Some(&1), None));
    let before = domain.held();
    for _ in 0..10_000 {
        let mark = domain.mark();
        mark.alloc([0u8; 1000]);
    }
    assert!(domain.held() <= before + 64 * 1024); // or all that was allocated is still there
}

#[test]
fn a_handle_of_a_mark_that_has_ended_names_nothing() {
    let mut domain = Domain::new();
    let mut gone = Vec::new();
    for round in 0..200u64 {
        let mark = domain.mark();
        let handles: Vec<_> = (0..50).map(|i| mark.insert([round, i])).collect(); // at the places of those before
        assert!(handles.iter().enumerate().all(|(i, h)| mark.get(*h) == Some(&[round, i as u64])));
        assert!(gone.iter().all(|h| mark.get(*h).is_none()));
        gone.extend(handles.into_iter().step_by(7));
    }
    assert!(gone.iter().all(|h| domain.get(*h).is_none()));
}

#[test]
fn limits_are_answers() {
    let domain = Domain::new();
    domain.set_limit(256 * 1024).unwrap();
    let mut n = 0;
    let error = loop {
        match domain.try_alloc([0u8; 4096]) {
            Ok(_) => n += 1,
            Err(error) => break error,
        }
        assert!(n < 1000);
    };
    assert_eq!(error, Error::NoMemory);
    assert!(n > 10 && domain.held() <= 256 * 1024);
    assert!(error.to_string().contains("no memory"));
}

#[test]
fn handles_know_what_is_gone() {
    let mut domain = Domain::new();
    let mut other = Domain::new();
    let a = domain.insert([1u32; 10]);
    let b = domain.insert([2u32; 10]);
    assert_eq!(domain.get(a), Some(&[1; 10]));
    domain.get_mut(a).unwrap()[0] = 9;
    assert_eq!(other.get(a), None); // another domain's
    assert_eq!(other.remove(a), None);
    assert_eq!(domain.remove(a).unwrap()[0], 9);
    assert_eq!(domain.get(a), None);
    assert_eq!(domain.remove(a), None);
    domain.reset();
    assert_eq!(domain.get(b), None);
    for _ in 0..10_000 {
        let c = domain.insert([3u32; 10]);
        assert!(c != a && c != b);
        assert_eq!((domain.get(a), domain.get(b)), (None, None));
        domain.reset();
    }
    #[repr(align(256))]
    struct Aligned(u8);
    impl NoDrop for Aligned {}
    let aligned = domain.insert(Aligned(5));
    assert_eq!(domain.get(aligned).map(|a| (a.0, a as *const Aligned as usize % 256)), Some((5, 0)));
}

#[test]
fn handed_over_by_value() {
    let dropped = Arc::new(Mutex::new(Vec::new()));
    let domain = Domain::new();
    let handle = domain.insert(7u64);
    domain.alloc_with_drop(Noted(dropped.clone(), 1));
    domain.alloc_with_drop(std::rc::Rc::new(1)); // need not be Send
    let sent = domain.hand_over().unwrap();
    assert_eq!(*dropped.lock().unwrap(), [1]); // dropped by its thread
    let back = std::thread::spawn(move || {
        let domain = sent.take().unwrap();
        domain.alloc([1u8; 5000]);
        domain.hand_over().unwrap()
    })
    .join()
    .unwrap();
    let mut domain = back.take().unwrap();
    assert_eq!(domain.get(handle), Some(&7));
    domain.reset();
    assert_eq!(*dropped.lock().unwrap(), [1]);
    domain.alloc_with_drop(Noted(dropped.clone(), 2));
    drop(domain.hand_over().unwrap()); // nobody takes it
    assert_eq!(*dropped.lock().unwrap(), [1, 2]);
}

#[test]
fn shared_by_threads() {
    let drops = Arc::new(AtomicUsize::new(0));
    struct Counts(Arc<AtomicUsize>);
    impl Drop for Counts {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
    let mut domain = SharedDomain::new();
    for _ in 0..10 {
        let lists = std::thread::scope(|s| {
            let workers: Vec<_> = (0..4)
                .map(|w| {
                    let (domain, drops) = (&domain, &drops);
                    s.spawn(move || {
                        domain.alloc_with_drop(Counts(drops.clone()));
                        (0..1000).map(|i| &*domain.alloc(w * 1000 + i)).collect::<Vec<&i32>>()
                    })
                })
                .collect();
            workers.into_iter().map(|w| w.join().unwrap()).collect::<Vec<_>>()
        });
        assert!(lists.iter().flatten().enumerate().all(|(i, n)| i as i32 == **n));
        domain.reset();
    }
    assert_eq!(drops.load(Ordering::Relaxed), 40);
}

#[test]
fn inside_for_code_in_c() {
    let domain = Domain::new();
    let held = domain
        .inside(|| unsafe {
            assert_eq!(tslab::sys::epoch_domain_current(), domain.as_ptr());
            assert!(!tslab::sys::slab_alloc(100_000).is_null());
            domain.held()
        })
        .unwrap();
    assert!(held > 100_000);
    assert!(unsafe { tslab::sys::epoch_domain_current() }.is_null());
    let caught = std::panic::catch_unwind(|| domain.inside(|| panic!("left by a panic")));
    assert!(caught.is_err() && unsafe { tslab::sys::epoch_domain_current() }.is_null());
}

#[test]
fn a_domain_of_a_thread_that_ends() {
    thread_local!(static KEPT: std::cell::RefCell<Option<Domain<'static>>> = const { std::cell::RefCell::new(None) });
    let dropped = Arc::new(Mutex::new(Vec::new()));
    let noted = dropped.clone();
    std::thread::spawn(move || {
        let domain = Domain::new();
        domain.alloc_with_drop(Noted(noted, 1));
        KEPT.set(Some(domain)); // ended by the thread's own destructors
    })
    .join()
    .unwrap();
    assert_eq!(*dropped.lock().unwrap(), [1]);
}
