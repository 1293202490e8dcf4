//! Many requests at once are answered, and leave nothing behind.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

#[global_allocator]
static A: tslab::TslabAlloc = tslab::TslabAlloc;

async fn ask(port: u16, head: &str, body: &str) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    let request = format!(
        "{head} HTTP/1.1\r\nhost: localhost\r\ncontent-type: text/plain\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    answer.split_once("\r\n\r\n").unwrap().1.to_string()
}

/// Live objects of all epochs with the label of the requests.
fn live() -> usize {
    let json = tslab::stats_json();
    json.split("\"label\":\"POST /words\"")
        .skip(1)
        .filter_map(|part| part.split_once("\"live_objects\":").map(|(_, n)| n))
        .map(|n| n.chars().take_while(char::is_ascii_digit).collect::<String>().parse::<usize>().unwrap())
        .sum()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn many_requests_at_once() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move { axum::serve(listener, server::routes()).await });
    for _ in 0..10 {
        let tasks: Vec<_> = (1..=20)
            .map(|n| {
                tokio::spawn(async move { (n, ask(port, "POST /words", &"the Cat and the dog. ".repeat(n)).await) })
            })
            .collect();
        for task in tasks {
            let (n, answer) = task.await.unwrap();
            assert_eq!(answer, format!("{} the\n{n} and\n{n} cat\n{n} dog\n", 2 * n));
        }
    }
    assert!(ask(port, "GET /statistics", "").await.contains("POST /words"));
    assert_eq!(live(), 0);
}
