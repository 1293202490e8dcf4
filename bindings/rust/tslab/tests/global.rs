//! temporal-slab as the allocator of the program.

use std::alloc::{GlobalAlloc, Layout};
use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap, VecDeque};

#[global_allocator]
static A: tslab::TslabAlloc = tslab::TslabAlloc;

#[test]
fn it_is_the_programs() {
    let text = String::from("a text on the heap");
    let owns = unsafe { tslab::sys::slab_owns(tslab::sys::slab_allocator_default(), text.as_ptr().cast()) };
    assert!(owns);
}

#[test]
fn resizes_keep_alignment_and_contents() {
    for align in [1, 8, 16, 32, 64, 256, 4096, 65536] {
        for (from, to) in
            [(1, 100), (100, 5000), (5000, 300_000), (300_000, 3_000_000), (3_000_000, 10), (70_000, 90_000)]
        {
            let layout = Layout::from_size_align(from, align).unwrap();
            unsafe {
                let p = A.alloc(layout);
                assert!(!p.is_null() && p as usize % align == 0);
                for i in 0..from {
                    p.add(i).write((i % 251) as u8);
                }
                let q = A.realloc(p, layout, to);
                assert!(!q.is_null() && q as usize % align == 0, "{align} {from} {to}");
                assert!((0..from.min(to)).all(|i| q.add(i).read() == (i % 251) as u8));
                A.dealloc(q, Layout::from_size_align(to, align).unwrap());
                let z = A.alloc_zeroed(layout);
                assert!((0..from).all(|i| z.add(i).read() == 0) && z as usize % align == 0);
                A.dealloc(z, layout);
            }
        }
    }
    unsafe {
        assert!(A.alloc(Layout::from_size_align(isize::MAX as usize - 4095, 16).unwrap()).is_null());
    }
}

#[test]
fn collections_of_std() {
    let mut map = HashMap::new();
    let mut tree = BTreeMap::new();
    let mut queue = VecDeque::new();
    for i in 0..50_000u32 {
        map.insert(i, i.to_string());
        tree.insert(i.wrapping_mul(2_654_435_761), vec![i; (i % 50) as usize]);
        queue.push_back(Box::new(i));
        if i % 3 == 0 {
            queue.pop_front();
            map.remove(&(i / 2));
        }
    }
    assert!(map.iter().all(|(k, v)| k.to_string() == *v));
    assert!(tree.values().all(|v| v.iter().all(|i| v.len() == (*i % 50) as usize)));
    let mut words: Vec<String> = queue.iter().map(|i| format!("{i:08}")).collect();
    words.sort();
    words.dedup();
    assert_eq!(words.len(), queue.len());
}

fn advance() {
    unsafe { assert_ne!(tslab::sys::epoch_advance(tslab::sys::slab_allocator_default()), 0) };
}

/// Blocks of an epoch that is closed grow and shrink: in the next one.
#[test]
fn blocks_outlive_their_epoch() {
    for n in [3usize, 100, 700, 5_000, 100_000, 5_000_000] {
        let mut bytes = vec![7u8; n];
        let mut words = vec![1u64; n];
        advance();
        bytes.extend_from_slice(&vec![8u8; n * 3]);
        words.resize(n * 3, 2);
        assert!(bytes[..n].iter().all(|b| *b == 7) && bytes[n..].iter().all(|b| *b == 8));
        assert!(words[..n].iter().all(|w| *w == 1) && words[n..].iter().all(|w| *w == 2));
        advance();
        bytes.truncate(1);
        bytes.shrink_to_fit();
        assert_eq!(bytes, [7]);
    }
    for align in [64, 4096] {
        let layout = Layout::from_size_align(300, align).unwrap();
        unsafe {
            let p = A.alloc(layout);
            p.write_bytes(9, 300);
            advance();
            let q = A.realloc(p, layout, 30_000);
            assert!(!q.is_null() && q as usize % align == 0 && q.add(299).read() == 9);
            A.dealloc(q, Layout::from_size_align(30_000, align).unwrap());
        }
    }
}

#[repr(align(256))]
struct Wide([u8; 256]);

/// No allocation fails while other threads advance; nor where the program has closed the current epoch.
#[test]
fn epochs_come_and_go_meanwhile() {
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
    static DONE: AtomicBool = AtomicBool::new(false);
    static ADVANCED: AtomicUsize = AtomicUsize::new(0);
    let thread = std::thread::spawn(|| {
        while !DONE.load(Ordering::Relaxed) {
            let i = ADVANCED.fetch_add(1, Ordering::Relaxed);
            unsafe {
                let a = tslab::sys::slab_allocator_default();
                if i % 2 == 0 {
                    tslab::sys::epoch_close(a, tslab::sys::epoch_current(a));
                } else {
                    tslab::sys::epoch_advance(a);
                }
            }
        }
    });
    let mut rounds = 0;
    while rounds < 1000 || ADVANCED.load(Ordering::Relaxed) < 1000 {
        let zero = vec![0u8; 100_000];
        let some = vec![0u64; 700];
        let wide = Box::new(Wide([rounds as u8; 256]));
        let mut grows = Vec::new();
        for i in 0..2000u32 {
            grows.push(i);
        }
        assert!(zero[99_999] == 0 && some[699] == 0 && wide.0[255] == rounds as u8 && grows[1999] == 1999);
        rounds += 1;
    }
    DONE.store(true, Ordering::Relaxed);
    thread.join().unwrap();
    advance();
}

/// Allocates and frees when its thread is over.
struct Late(Vec<String>);
impl Drop for Late {
    fn drop(&mut self) {
        let copy: Vec<String> = self.0.iter().map(|s| s.repeat(2)).collect();
        assert_eq!(copy[0], "latelate");
        LATER.with(|l| l.borrow_mut().push(Box::new(copy.len()))); // which has a destructor of its own
    }
}
thread_local! {
    static LATE: RefCell<Option<Late>> = const { RefCell::new(None) };
    #[allow(clippy::vec_box)] // an allocation for each value
    static LATER: RefCell<Vec<Box<usize>>> = const { RefCell::new(Vec::new()) };
}

#[test]
fn ten_thousand_threads_whose_destructors_allocate() {
    for _ in 0..1250 {
        let threads: Vec<_> = (0..8)
            .map(|i| {
                std::thread::Builder::new()
                    .stack_size(64 * 1024)
                    .spawn(move || {
                        LATE.set(Some(Late(vec![String::from("late"); 3])));
                        vec![i; 100]
                    })
                    .unwrap()
            })
            .collect();
        for (i, thread) in threads.into_iter().enumerate() {
            assert_eq!(thread.join().unwrap(), vec![i; 100]); // freed by this thread
        }
    }
}

#[test]
fn panics_free_what_they_unwind() {
    for i in 0..1000 {
        let caught = std::panic::catch_unwind(|| {
            let kept = vec![i.to_string(); 10];
            std::panic::resume_unwind(Box::new(kept[3].len()));
        });
        assert_eq!(*caught.unwrap_err().downcast::<usize>().unwrap(), i.to_string().len());
    }
}

#[test]
fn a_panic_ends_a_thread_whose_destructors_allocate() {
    for i in 0..100 {
        let ended = std::thread::spawn(move || {
            LATE.set(Some(Late(vec![String::from("late"); 3])));
            panic!("thread {i}");
        });
        assert_eq!(*ended.join().unwrap_err().downcast::<String>().unwrap(), format!("thread {i}"));
    }
}
