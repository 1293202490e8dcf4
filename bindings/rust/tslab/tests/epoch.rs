//! Epochs: values that end one by one, from any thread.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;
use tslab::{Epoch, Owned};

struct Counts(Arc<AtomicUsize>);
impl Drop for Counts {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn owned_is_a_box() {
    let drops = Arc::new(AtomicUsize::new(0));
    let epoch = Epoch::new("owned");
    let mut text = epoch.alloc(String::from("text"));
    text.push_str(" more");
    assert_eq!((text.len(), format!("{text}"), format!("{text:?}")), (9, "text more".into(), "\"text more\"".into()));
    assert_eq!(Owned::into_inner(text), "text more");
    for _ in 0..1000 {
        epoch.alloc(Counts(drops.clone()));
    }
    assert_eq!(drops.load(Ordering::Relaxed), 1000);
    std::mem::forget(epoch.alloc(Counts(drops.clone())));
    let leaked: &mut Counts = Owned::leak(epoch.alloc(Counts(drops.clone())));
    assert_eq!(leaked.0.load(Ordering::Relaxed), 1000);
    drop(epoch);
    assert_eq!(drops.load(Ordering::Relaxed), 1000); // as what a Box leaks
}

#[test]
fn a_drop_that_panics_frees_all_the_same() {
    struct Panics;
    impl Drop for Panics {
        fn drop(&mut self) {
            panic!("in drop");
        }
    }
    let epoch = Epoch::new("panics");
    for _ in 0..100 {
        let owned = epoch.alloc((Panics, [0u8; 1000]));
        assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| drop(owned))).is_err());
    }
}

#[test]
fn freed_by_other_threads() {
    let epoch = Epoch::new("threads");
    std::thread::scope(|s| {
        let (send, receive) = std::sync::mpsc::channel::<Owned<'_, Vec<u64>>>();
        for w in 0..3 {
            let (epoch, send) = (&epoch, send.clone());
            s.spawn(move || {
                for i in 0..2000 {
                    send.send(epoch.alloc(vec![w, i])).unwrap();
                }
            });
        }
        drop(send);
        assert_eq!(receive.iter().map(|v| v.len()).sum::<usize>(), 12_000);
    });
}

#[test]
fn handles_of_what_is_removed() {
    let mut epoch = Epoch::new("handles");
    let handles: Vec<_> = (0..1000u64).map(|i| epoch.insert(i)).collect();
    for handle in handles.iter().step_by(2) {
        assert!(epoch.remove(*handle).is_some());
    }
    let later: Vec<_> = (0..1000u64).map(|i| epoch.insert(i + 5000)).collect(); // at the places of those
    for (i, handle) in handles.iter().enumerate() {
        assert_eq!(epoch.get(*handle).copied(), (i % 2 == 1).then_some(i as u64));
    }
    assert!(later.iter().enumerate().all(|(i, h)| epoch.get(*h) == Some(&(i as u64 + 5000))));
    let any = later[0].erase();
    assert!(any.downcast::<u32>().is_none() && any.downcast::<u64>() == Some(later[0]));
}
