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
