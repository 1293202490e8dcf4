//! The installed libraries, by the features that link them.

#[cfg(feature = "malloc")]
#[test]
fn malloc_is_replaced() {
    // SAFETY: any time, any thread.
    assert!(unsafe { tslab::sys::slab_malloc_active() });
    let text = String::from("by the system's allocator, which is this library's malloc");
    // SAFETY: any pointer is allowed.
    assert!(unsafe { tslab::sys::slab_owns(tslab::sys::slab_malloc_allocator(), text.as_ptr().cast()) });
}

#[cfg(feature = "http")]
#[test]
fn statistics_are_served() {
    use std::io::{Read, Write};
    let domain = tslab::Domain::with_label("served");
    domain.alloc(1);
    let allocator = unsafe { tslab::sys::slab_allocator_default() };
    // SAFETY: a live allocator, and a text with a terminating zero.
    assert!(unsafe { tslab::sys::slab_http_start(allocator, c"127.0.0.1:0".as_ptr()) });
    let port = u16::try_from(unsafe { tslab::sys::slab_http_port() }).unwrap();
    let mut stream = std::net::TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.write_all(b"GET /stats.json HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200") && answer.contains("\"served\""), "{answer}");
    assert!(unsafe { tslab::sys::slab_http_stop() });
}
