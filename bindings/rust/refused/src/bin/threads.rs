//! Domains that go to another thread.

use tslab::Domain;

fn main() {
    let domain = Domain::new();
    std::thread::spawn(move || drop(domain)); //~ a `tslab::Domain` stays on its thread: `hand_over` moves it to another, a `tslab::SharedDomain`
    let domain = Domain::new();
    std::thread::scope(|s| {
        s.spawn(|| *domain.alloc(1)); //~ stays on its thread: `hand_over` moves it to another, a `tslab::SharedDomain` serves
    });
}
