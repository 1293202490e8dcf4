//! A web server with a domain a request: `POST /words` counts the words of its text.
//!
//! A domain stays on its thread, and a task of tokio may not, so the domain lives between two awaits: in the part of the
//! request that computes. What is sent is copied out of it once.

use allocator_api2::vec::Vec as DomainVec;
use axum::{routing, Router};
use std::sync::Mutex;
use tslab::Domain;

// The version of the trait that `tslab` has by default.
use tslab::allocator_api2;

/// Domains that wait for the next request: one that was reset has its memory still.
#[derive(Default)]
struct Pool(Mutex<Vec<tslab::HandedOver>>);

impl Pool {
    fn with<R>(&self, f: impl FnOnce(&Domain) -> R) -> R {
        let waiting = self.0.lock().unwrap().pop();
        let mut domain = waiting.and_then(|d| d.take().ok()).unwrap_or_else(|| Domain::with_label("POST /words"));
        let result = f(&domain);
        domain.reset();
        if let Ok(domain) = domain.hand_over() {
            self.0.lock().unwrap().push(domain);
        }
        result
    }
}

static POOL: Pool = Pool(Mutex::new(Vec::new()));

/// Counts each word, most frequent first. All that it needs on the way is the domain's.
fn count(domain: &Domain, text: &str) -> String {
    let mut words: DomainVec<&str, &Domain> = DomainVec::new_in(domain);
    for word in text.split(|c: char| !c.is_alphanumeric()).filter(|w| !w.is_empty()) {
        let lower = domain.alloc_str(word);
        lower.make_ascii_lowercase();
        words.push(lower);
    }
    words.sort_unstable();
    let mut counts: DomainVec<(usize, &str), &Domain> = DomainVec::new_in(domain);
    for word in words.iter() {
        match counts.last_mut() {
            Some((n, last)) if last == word => *n += 1,
            _ => counts.push((1, word)),
        }
    }
    counts.sort_by(|a, b| b.0.cmp(&a.0).then(a.1.cmp(b.1)));
    counts.iter().map(|(n, word)| format!("{n} {word}\n")).collect()
}

/// The routes: `POST /words`, and `GET /statistics`, which shows the allocator's.
pub fn routes() -> Router {
    Router::new()
        .route("/words", routing::post(|text: String| async move { POOL.with(|domain| count(domain, &text)) }))
        .route("/statistics", routing::get(|| async { tslab::stats_json() }))
}

// The program of the crates' common README is a test.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct Readme;
