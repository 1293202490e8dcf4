//! Collections of the standard library in a domain: nightly compilers only.
#![cfg(feature = "nightly")]
#![feature(allocator_api, btreemap_alloc)]

use std::collections::{BTreeMap, VecDeque};

#[test]
fn collections_of_std_in_a_domain() {
    let mut domain = tslab::Domain::new();
    for _ in 0..3 {
        let mut v = Vec::new_in(&domain);
        let mut queue = VecDeque::new_in(&domain);
        let mut tree = BTreeMap::new_in(&domain);
        for i in 0..10_000u32 {
            v.push(i);
            queue.push_front(Box::new_in(i, &domain));
            tree.insert(i ^ 0x5555, i);
            if i % 3 == 0 {
                queue.pop_back();
                tree.remove(&(i / 2));
            }
        }
        assert!(v.iter().copied().eq(0..10_000));
        assert!(tree.iter().all(|(k, i)| *k == i ^ 0x5555) && queue.len() == 6666);
        drop((v, queue, tree));
        domain.reset();
    }
}
