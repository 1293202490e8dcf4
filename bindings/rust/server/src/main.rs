#[global_allocator]
static A: tslab::TslabAlloc = tslab::TslabAlloc;

#[tokio::main]
async fn main() -> std::io::Result<()> {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:8080").await?;
    println!(
        "listening on http://{}: curl -d 'the cat and the dog' http://127.0.0.1:8080/words",
        listener.local_addr()?
    );
    axum::serve(listener, server::routes()).await
}
