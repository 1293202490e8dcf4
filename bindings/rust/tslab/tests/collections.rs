//! Collections in domains and epochs, by each version of the trait.
#![cfg(feature = "allocator-api2-02")]

use allocator_api2_02::boxed::Box;
use allocator_api2_02::vec::Vec;
use hashbrown::HashMap;
use tslab::{Domain, Epoch, SharedDomain};

#[test]
fn vectors_grow_and_shrink() {
    let domain = Domain::new();
    let epoch = Epoch::new("vectors");
    let mut a = Vec::new_in(&domain);
    let mut b = Vec::new_in(&epoch);
    for i in 0..200_000u64 {
        a.push(i);
        b.push(i);
    }
    assert!(a.iter().eq(b.iter()) && a.iter().sum::<u64>() == 199_999 * 100_000);
    a.truncate(10);
    a.shrink_to_fit();
    b.truncate(10);
    b.shrink_to_fit();
    assert_eq!(a.as_slice(), b.as_slice());
    b.clear();
    b.shrink_to_fit();
    b.push(1);
    assert_eq!(b.as_slice(), [1]);
}

#[test]
fn alignment_is_kept_when_a_vector_moves() {
    #[repr(align(128))]
    #[derive(Clone, Copy, PartialEq, Debug)]
    struct Line(u64);
    let domain = Domain::new();
    let epoch = Epoch::new("lines");
    let (mut a, mut b) = (Vec::new_in(&domain), Vec::new_in(&epoch));
    for i in 0..5000 {
        a.push(Line(i));
        b.push(Line(i));
        assert_eq!((a.as_ptr() as usize % 128, b.as_ptr() as usize % 128), (0, 0));
    }
    assert_eq!(a.as_slice(), b.as_slice());
}

#[test]
fn maps_and_boxes() {
    let mut domain = Domain::new();
    for round in 0..3 {
        let mut map = HashMap::new_in(&domain);
        for i in 0..10_000u32 {
            map.insert(i, Box::new_in([i; 4], &domain));
        }
        for i in (0..10_000).step_by(3) {
            map.remove(&i);
        }
        assert_eq!(map.get(&(round + 1)).map(|b| b[3]), ((round + 1) % 3 != 0).then_some(round + 1));
        assert_eq!(map.len(), 10_000 - 3334);
        drop(map);
        domain.reset();
    }
}

#[test]
fn elements_are_dropped_by_their_collection() {
    let domain = SharedDomain::new();
    let one = std::sync::Arc::new(1);
    let mut v = Vec::new_in(&domain);
    for _ in 0..100 {
        v.push(one.clone());
    }
    assert_eq!(std::sync::Arc::strong_count(&one), 101);
    drop(v);
    assert_eq!(std::sync::Arc::strong_count(&one), 1);
}

#[test]
fn no_memory_is_an_answer() {
    let domain = Domain::new();
    domain.set_limit(1 << 20).unwrap();
    let mut v: Vec<u8, _> = Vec::new_in(&domain);
    assert!(v.try_reserve(100_000).is_ok());
    v.push(7);
    assert!(v.try_reserve(10 << 20).is_err());
    assert_eq!(v.as_slice(), [7]);
    assert!(v.try_reserve(usize::MAX / 4).is_err());
}

#[cfg(all(feature = "allocator-api2-03", feature = "allocator-api2-04"))]
#[test]
fn newer_versions_of_the_trait() {
    let domain = Domain::new();
    let mut a = allocator_api2_03::vec::Vec::new_in(&domain);
    let mut b = allocator_api2_04::vec::Vec::new_in(&domain);
    a.extend(0..1000);
    b.extend(0..1000);
    assert_eq!(a.as_slice(), b.as_slice());
}
