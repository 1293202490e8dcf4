//! Domains, epochs and handles beside bumpalo, bump-scope, typed-arena, slotmap and Box: nanoseconds an object.
//!
//! The sides of a row take turns in one run; a figure is the median of the rounds, and the ratio is to the best other.
//! `--smoke`: a moment, to see that it works. `--csv FILE`: `work,side,ns` too.

use std::hint::black_box;
use std::time::Instant;

/// An object as requests have them.
#[derive(Clone, Copy)]
struct Node([u64; 5]);

fn node(i: usize) -> Node {
    Node([i as u64; 5])
}

type Side = (&'static str, Box<dyn FnMut(usize)>);

/// `work(n)` handles n objects.
fn row(csv: &mut String, name: &str, n: usize, times: usize, rounds: usize, mut sides: Vec<Side>) {
    let mut figures = vec![Vec::new(); sides.len()];
    for round in 0..rounds + 1 {
        for (side, (_, work)) in sides.iter_mut().enumerate() {
            let start = Instant::now();
            for _ in 0..times {
                work(n);
            }
            if round > 0 {
                figures[side].push(start.elapsed().as_nanos() as f64 / (n * times) as f64);
            }
        }
    }
    let medians: Vec<f64> = figures
        .iter_mut()
        .map(|f| {
            f.sort_by(f64::total_cmp);
            f[f.len() / 2]
        })
        .collect();
    let best = medians[1..].iter().copied().fold(f64::INFINITY, f64::min);
    print!("{name:34}");
    for ((side, _), median) in sides.iter().zip(&medians) {
        print!("  {side} {median:.2}");
        csv.push_str(&format!("\"{name}\",{side},{median:.4}\n"));
    }
    println!("  ratio to the best other {:.2}", medians[0] / best);
}

fn scopes(csv: &mut String, n: usize, times: usize, rounds: usize) {
    let mut domain = tslab::Domain::new();
    let mut bump = bumpalo::Bump::new();
    let mut scope: bump_scope::Bump = bump_scope::Bump::new();
    row(
        csv,
        &format!("scope of {n} objects of 40 bytes"),
        n,
        times,
        rounds,
        vec![
            (
                "tslab",
                Box::new(move |n| {
                    for i in 0..n {
                        black_box(domain.alloc(node(i)));
                    }
                    domain.reset();
                }),
            ),
            (
                "bumpalo",
                Box::new(move |n| {
                    for i in 0..n {
                        black_box(bump.alloc(node(i)));
                    }
                    bump.reset();
                }),
            ),
            (
                "bump-scope",
                Box::new(move |n| {
                    for i in 0..n {
                        black_box(scope.alloc(node(i)));
                    }
                    scope.reset();
                }),
            ),
            (
                "typed-arena",
                Box::new(|n| {
                    let arena = typed_arena::Arena::with_capacity(n);
                    for i in 0..n {
                        black_box(arena.alloc(node(i)));
                    }
                }),
            ),
            (
                "Box",
                Box::new(|n| {
                    let all: Vec<_> = (0..n).map(|i| Box::new(node(i))).collect();
                    black_box(all);
                }),
            ),
        ],
    );
}

fn handles(csv: &mut String, n: usize, times: usize, rounds: usize) {
    let mut epoch = tslab::Epoch::new("handles");
    let mut map = slotmap::SlotMap::new();
    let mut ours = Vec::with_capacity(n);
    let mut theirs = Vec::with_capacity(n);
    row(
        csv,
        &format!("{n} handles: insert, get, remove"),
        n,
        times,
        rounds,
        vec![
            (
                "tslab",
                Box::new(move |n| {
                    ours.extend((0..n).map(|i| epoch.insert(node(i))));
                    black_box(ours.iter().map(|h| epoch.get(*h).unwrap().0[0]).sum::<u64>());
                    for handle in ours.drain(..) {
                        black_box(epoch.remove(handle));
                    }
                }),
            ),
            (
                "slotmap",
                Box::new(move |n| {
                    theirs.extend((0..n).map(|i| map.insert(node(i))));
                    black_box(theirs.iter().map(|k| map.get(*k).unwrap().0[0]).sum::<u64>());
                    for key in theirs.drain(..) {
                        black_box(map.remove(key));
                    }
                }),
            ),
        ],
    );
}

fn vectors(csv: &mut String, n: usize, times: usize, rounds: usize) {
    use tslab::allocator_api2::vec::Vec as V;
    let mut domain = tslab::Domain::new();
    let mut bump = bumpalo::Bump::new();
    row(
        csv,
        &format!("a vector that grows to {n}"),
        n,
        times,
        rounds,
        vec![
            (
                "tslab",
                Box::new(move |n| {
                    let mut v = V::new_in(&domain);
                    (0..n).for_each(|i| v.push(i));
                    black_box(&v);
                    drop(v);
                    domain.reset();
                }),
            ),
            (
                "bumpalo",
                Box::new(move |n| {
                    let mut v = bumpalo_vec(&bump, n);
                    black_box(&mut v);
                    bump.reset();
                }),
            ),
            (
                "Vec",
                Box::new(|n| {
                    let mut v = Vec::new();
                    (0..n).for_each(|i| v.push(i));
                    black_box(v);
                }),
            ),
        ],
    );
}

/// bumpalo has no vector of this trait's version: one that doubles, as they do.
fn bumpalo_vec(bump: &bumpalo::Bump, n: usize) -> &mut [usize] {
    let mut room = 4;
    let mut all = bump.alloc_slice_fill_copy(room, 0usize);
    for i in 0..n {
        if i == room {
            room *= 2;
            let next = bump.alloc_slice_fill_copy(room, 0usize);
            next[..i].copy_from_slice(&all[..i]);
            all = next;
        }
        all[i] = i;
    }
    all
}

fn main() {
    let mut smoke = false;
    let mut file = None;
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        match (word.as_str(), word == "--csv" && file.is_none()) {
            ("--smoke", _) => smoke = true,
            ("--csv", true) => file = words.next(),
            _ => {
                eprintln!("bench: unknown argument '{word}': --smoke, --csv FILE");
                std::process::exit(2);
            }
        }
    }
    if let Some(path) = file.as_ref().filter(|path| std::path::Path::new(path).exists()) {
        eprintln!("'{path}' is there, and is replaced at the end");
    }
    let mut csv = String::from("work,side,ns\n");
    let rounds = if smoke { 1 } else { 9 };
    let objects = if smoke { 2_000 } else { 2_000_000 };
    for n in [10, 100, 1000, 10_000] {
        scopes(&mut csv, n, (objects / n).max(1), rounds);
    }
    for n in [100, 10_000] {
        handles(&mut csv, n, (objects / 4 / n).max(1), rounds);
    }
    vectors(&mut csv, 10_000, (objects / 10_000).max(1), rounds);
    if let Some(path) = file {
        if let Err(error) = std::fs::write(&path, csv) {
            eprintln!("bench: {path}: {error}");
            std::process::exit(2);
        }
    }
}
