//! A domain a task: tasks that stay on their thread have a `Domain`, tasks that move have a `SharedDomain`.
//!
//! The page is bindings/rust/tslab/docs/async.md.

use tslab::{Domain, SharedDomain};

/// What the task waits for: a lookup in a database, say.
async fn lookup(key: u64) -> u64 {
    tokio::task::yield_now().await;
    key * key
}

/// On one thread: the domain, its values and its texts live across the await.
async fn on_one_thread(n: u64) -> usize {
    let domain = Domain::with_label("task of one thread");
    let mut text = domain.string();
    for key in 0..n {
        let found = lookup(key).await;
        text.push_str(tslab::format!(in domain, "{key}: {found}\n"));
    }
    text.len()
} // the end, also where the task is cancelled

/// On any thread: the same with a domain that several threads may use.
async fn on_any_thread(n: u64) -> u64 {
    let domain = SharedDomain::try_new(Some("task that moves")).expect("memory for a domain");
    let squares = domain.alloc_slice_fill_iter(0..n);
    for square in squares.iter_mut() {
        *square = lookup(*square).await;
    }
    squares.iter().sum()
}

/// A `Domain` in a task that moves: it is handed over across the await.
async fn handed_over(n: u64) -> u64 {
    let (sent, handle) = {
        let domain = Domain::with_label("handed over");
        let handle = domain.insert(n);
        (domain.hand_over().expect("a domain that nobody is in"), handle)
    };
    let found = lookup(n).await;
    let domain = sent.take().expect("a domain that nobody has");
    found + *domain.get(handle).expect("what was put in")
}

fn main() {
    let one = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    let local = tokio::task::LocalSet::new();
    let tasks: Vec<_> = (0..10).map(|n| local.spawn_local(on_one_thread(n))).collect();
    let lengths = one.block_on(local.run_until(async {
        let mut lengths = Vec::new();
        for task in tasks {
            lengths.push(task.await.expect("a task that ends"));
        }
        lengths
    }));
    assert_eq!(lengths[..4], [0, 5, 10, 15]);

    let many = tokio::runtime::Builder::new_multi_thread().worker_threads(4).build().expect("a runtime");
    let (moving, handed): (Vec<_>, Vec<_>) =
        (0..100).map(|n| (many.spawn(on_any_thread(n)), many.spawn(handed_over(n)))).unzip();
    for (n, (moving, handed)) in (0u64..).zip(moving.into_iter().zip(handed)) {
        let sum = many.block_on(moving).expect("a task that ends");
        assert_eq!(sum, (0..n).map(|k| k * k).sum::<u64>());
        assert_eq!(many.block_on(handed).expect("a task that ends"), n * n + n);
    }
    println!("210 tasks, each with a domain");
}
