//! A domain that lives across an await of a task that may move.

use std::future::Future;

fn spawn(_: impl Future + Send) {}

async fn task() {
    let domain = tslab::Domain::new();
    let value = domain.alloc(1);
    std::future::ready(()).await;
    *value = 2;
}

fn main() {
    spawn(task()); //~ `domain.hand_over()` gives a domain to another thread
    spawn(task()); //~ allocate in a `tslab::SharedDomain`
}
