//! A program of strings, maps and threads on the global allocator that its feature names: milliseconds of each part.

use std::collections::{BTreeMap, HashMap};
use std::hint::black_box;
use std::time::Instant;

#[cfg(feature = "tslab")]
#[global_allocator]
static A: tslab::TslabAlloc = tslab::TslabAlloc;
#[cfg(feature = "mimalloc")]
#[global_allocator]
static A: mimalloc::MiMalloc = mimalloc::MiMalloc;
#[cfg(feature = "jemalloc")]
#[global_allocator]
static A: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;
#[cfg(feature = "snmalloc")]
#[global_allocator]
static A: snmalloc_rs::SnMalloc = snmalloc_rs::SnMalloc;

fn strings(n: usize) {
    let mut words: Vec<String> = (0..n).map(|i| format!("word {}", i.wrapping_mul(2_654_435_761) % 100_003)).collect();
    words.sort();
    words.dedup();
    black_box(words);
}

fn maps(n: usize) {
    let mut map: HashMap<usize, Vec<u32>> = HashMap::new();
    for i in 0..n {
        map.entry(i % 5000).or_default().push(i as u32);
        if i % 7 == 0 {
            map.remove(&(i.wrapping_mul(31) % 5000));
        }
    }
    let tree: BTreeMap<usize, Box<usize>> = map.iter().map(|(k, v)| (*k, Box::new(v.len()))).collect();
    black_box((map, tree));
}

fn threads(n: usize) {
    let (send, receive) = std::sync::mpsc::channel::<Vec<Box<[u8; 100]>>>();
    let freeing = std::thread::spawn(move || receive.iter().map(|v| v.len()).sum::<usize>());
    for _ in 0..n / 100 {
        send.send((0..100).map(|i| Box::new([i; 100])).collect()).unwrap();
    }
    drop(send);
    black_box(freeing.join().unwrap());
}

fn main() {
    let n = if std::env::args().any(|a| a == "--smoke") { 1000 } else { 2_000_000 };
    for (name, part) in [("strings", strings as fn(usize)), ("maps", maps), ("threads", threads)] {
        let start = Instant::now();
        part(n);
        println!("{name} {:.1}", start.elapsed().as_secs_f64() * 1000.0);
    }
}
