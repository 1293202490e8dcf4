//! Requests in Rust: strings and maps of a request die with it, one in fifty leaves a row in a log.
use std::collections::HashMap;

#[inline(never)]
fn parse_query(number: u32) -> HashMap<String, String> {
    (0..12).map(|i| (format!("key{i}"), format!("value {}", number * i))).collect()
}

#[inline(never)]
fn answer(query: &HashMap<String, String>) -> Vec<String> {
    let mut lines: Vec<String> = query.iter().map(|(k, v)| format!("{k} = {v}")).collect();
    lines.sort();
    lines
}

#[inline(never)]
fn handle_query(number: u32, log: &mut Vec<String>) -> usize {
    let query = parse_query(number);
    let lines = answer(&query);
    if number % 50 == 0 {
        log.push(lines.join("\n"));
    }
    lines.iter().map(String::len).sum()
}

fn main() {
    let mut log = Vec::new();
    let sum: usize = (0..4000).map(|i| handle_query(i, &mut log)).sum();
    println!("{sum} {}", log.len());
}
