"""nginx as test.py and bench.py run it: started in a folder of its own, with a site and a second server behind it."""

import contextlib
import hashlib
import http.client
import http.server
import os
import pathlib
import resource
import signal
import socket
import struct
import subprocess
import threading
import time

from shared import children, free_port

CONNECTIONS = 10000
CONFIGURATION = """
daemon {daemon};
{user}
worker_processes {workers};
pid {root}/pid;
error_log {root}/error.log notice;
thread_pool default threads=2;
{lines}
events {{ worker_connections 12000; }}
http {{
    access_log {root}/access.log;
    client_body_temp_path {root}/body;
    proxy_temp_path {root}/proxy;
    fastcgi_temp_path {root}/fastcgi;
    uwsgi_temp_path {root}/uwsgi;
    scgi_temp_path {root}/scgi;
    types {{ text/html html; }}
    keepalive_requests 1000000;
    keepalive_timeout 300s;
    client_max_body_size 64m;
    large_client_header_buffers 4 8k;
    upstream second {{ server 127.0.0.1:{second}; keepalive 4; }}
    server {{
        listen 127.0.0.1:{port} backlog=4096;
        root {root}/site;
        location /threads/ {{ alias {root}/site/; aio threads; output_buffers 2 64k; sendfile off; }}
        location /gzip/ {{ alias {root}/site/; gzip on; gzip_min_length 1; }}
        location /ssi/ {{ alias {root}/site/; ssi on; }}
        absolute_redirect off;
        proxy_http_version 1.1;
        proxy_set_header Connection "";
        location /moved {{ rewrite ^/moved/(.*)$ /$1 permanent; }}
        location /list/ {{ alias {root}/site/; autoindex on; }}
        location /proxy/ {{ proxy_pass http://second/; }}
        location /memory/ {{ proxy_pass http://second/; client_body_buffer_size 4m; }}
        location /file/ {{ proxy_pass http://second/; client_body_in_file_only clean; client_body_buffer_size 8k; }}
        location /direct/ {{ proxy_pass http://second/; proxy_request_buffering off; proxy_buffering off; }}
        location /nobody/ {{ proxy_pass http://127.0.0.1:1/; }}
        {location}
    }}
}}
"""


class Second(http.server.BaseHTTPRequestHandler):
    """Says what it was sent."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def body(self):
        if "chunked" not in self.headers.get("Transfer-Encoding", ""):
            return self.rfile.read(int(self.headers.get("Content-Length", 0)))
        parts = []
        while size := int(self.rfile.readline(), 16):
            parts.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(parts)

    def answer(self):
        try:
            got = self.body()
        except (OSError, ValueError):  # the client has gone
            return
        said = b"%s %s %d %s\n" % (self.command.encode(), self.path.encode(), len(got), hashlib.sha256(got).hexdigest().encode())
        if self.path.startswith("/large"):
            said *= 20000
        self.send_response(200)
        self.send_header("Content-Length", str(len(said)))
        self.end_headers()
        with contextlib.suppress(OSError):
            self.wfile.write(said)

    do_GET = do_POST = do_PUT = answer

    def log_message(self, *_):
        pass


class Threads(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 512

    def handle_error(self, *_):
        """A client that has gone is none."""


@contextlib.contextmanager
def second():
    """The port of a second server."""
    server = Threads(("127.0.0.1", 0), Second)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()


def environment(extra=None):
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("TSLAB_", "LD_")) and k != "NGINX"}
    return {**clean, **(extra or {})}


def make_site(folder):
    folder.mkdir(parents=True)
    (folder / "small.html").write_text("<p>hello</p>\n" * 40)
    (folder / "ssi.html").write_text("<p>one</p>\n" + '<!--#include virtual="/small.html" -->\n' * 20)
    (folder / "large.bin").write_bytes(bytes(range(256)) * 8192)
    for file in folder.iterdir():
        os.utime(file, (1600000000, 1600000000))


class Nginx:
    """A running nginx: its port, its folder, and the process of the master."""

    def __init__(self, root, port, pid):
        self.root, self.port, self.pid = root, port, pid

    def log(self):
        return (self.root / "error.log").read_text(errors="replace")

    def workers(self):
        return [child for child in children(self.pid) if not gone(child)]


@contextlib.contextmanager
def nginx(command, root, behind, extra=None, daemon=False, workers=1, lines="", location="", limits=()):
    """Ended by a graceful stop; a worker that ends by a signal is an error."""
    root.mkdir(parents=True, exist_ok=True)
    if not (root / "site").exists():
        make_site(root / "site")
    port = free_port()
    configuration = root / "nginx.conf"
    configuration.write_text(CONFIGURATION.format(
        root=root, port=port, second=behind, daemon="on" if daemon else "off", user="user root;" if os.getuid() == 0 else "", workers=workers,
        lines=lines, location=location))

    def before():
        for which, bytes_ in limits:
            resource.setrlimit(which, (bytes_, bytes_))

    with open(root / "output.log", "ab") as output:
        started = subprocess.Popen([*command, "-c", configuration, "-p", root], env=environment(extra), stdout=output, stderr=output,
                                   start_new_session=True, preexec_fn=before)
    server = Nginx(root, port, started.pid)
    try:
        wait_for(server, started, daemon)
        yield server
        stop(server, started, daemon)
        bad = [line for line in server.log().splitlines() if "exited on signal" in line or "exited with code" in line and "code 0" not in line]
        if bad or started.poll() != 0:
            raise RuntimeError("nginx ended with %s: %s" % (started.poll(), bad))
    finally:
        for pid in [server.pid, *children(server.pid)]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        started.wait()


def stop(server, started, daemon):
    """nginx can miss a signal that comes just before it waits for events: again."""
    for _ in range(30):
        with contextlib.suppress(ProcessLookupError):
            os.kill(server.pid, signal.SIGQUIT)
        with contextlib.suppress(RuntimeError):
            return until(lambda: gone(server.pid) if daemon else started.poll() is not None, "", 2)
    raise RuntimeError("nginx does not stop")


def until(done, what, seconds=30.0):
    end = time.monotonic() + seconds
    while not done():
        if time.monotonic() > end:
            raise RuntimeError(what)
        time.sleep(0.02)


def gone(pid):
    try:
        return pathlib.Path("/proc/%d/stat" % pid).read_text().rsplit(")", 1)[1].split()[0] == "Z"
    except OSError:
        return True


def wait_for(server, started, daemon):
    def listens():
        if started.poll() not in (None, 0 if daemon else None):
            raise RuntimeError("nginx did not start: %s" % (server.root / "output.log").read_text())
        with contextlib.suppress(OSError):
            answered = raw(server.port, b"GET /none HTTP/1.0\r\n\r\n", 1).startswith(b"HTTP/1.1 404")
            return answered and (server.root / "pid").exists() and (server.root / "pid").read_text().strip() != ""
        return False

    until(listens, "nginx does not answer")
    if daemon:
        server.pid = int((server.root / "pid").read_text())


def memory(pid):
    """Bytes of the worker's own: private, and not of a file."""
    text = pathlib.Path("/proc/%d/smaps_rollup" % pid).read_text()
    return next(int(line.split()[1]) for line in text.splitlines() if line.startswith("Pss_Anon:")) * 1024


# ---- what a client does -------------------------------------------------------------------------------------


def request(connection, method, path, body=None, headers=None, chunked=False):
    connection.request(method, path, body, headers or {}, encode_chunked=chunked)
    answer = connection.getresponse()
    seen = answer.status, hashlib.sha256(answer.read()).hexdigest()
    return (*seen, *(answer.getheader(h) for h in ("ETag", "Content-Range", "Content-Encoding", "Location")))


def raw(port, data, seconds=20):
    """All that the server says to these bytes until it closes."""
    with socket.create_connection(("127.0.0.1", port), seconds) as s:
        s.sendall(data)
        said = b""
        while part := s.recv(65536):
            said += part
        return said


def without_dates(said):
    return b"\r\n".join(line for line in said.split(b"\r\n") if not line.startswith(b"Date:"))


def abort(port, data):
    """Sends these bytes, then ends the connection by a reset."""
    with socket.create_connection(("127.0.0.1", port), 20) as s:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        s.sendall(data)
        if data.startswith(b"GET") and data.endswith(b"\r\n\r\n"):
            s.recv(1000)


UPLOAD = b"0123456789abcdef" * (1 << 16)
LONG = "x" * 6000


def requests():
    """Each kind of request that has one answer: method, path, body, headers."""
    tag = '"5f5e1000-208"'
    yield from (("GET", path, None, {}) for path in (
        "/small.html", "/large.bin", "/threads/large.bin", "/gzip/small.html", "/ssi/ssi.html", "/moved/small.html", "/list/", "/none",
        "/proxy/a?b=c", "/proxy/large", "/direct/large", "/nobody/"))
    yield from (("POST", path, body, {}) for path in ("/memory/", "/file/", "/proxy/", "/direct/", "/small.html")
                for body in (b"short", UPLOAD))
    yield from (("GET", "/large.bin", None, {"Range": ranges}) for ranges in ("bytes=100-299", "bytes=-5", "bytes=9999999-"))
    yield from (
        ("HEAD", "/large.bin", None, {}), ("GET", "/small.html", None, {"If-None-Match": tag}),
        ("GET", "/small.html", None, {"If-Modified-Since": "Sun, 13 Sep 2020 12:26:40 GMT"}),
        ("GET", "/gzip/small.html", None, {"Accept-Encoding": "gzip"}), ("GET", "/gzip/large.bin", None, {"Accept-Encoding": "gzip"}),
        ("GET", "/small.html", None, {"X-Long-%d" % i: LONG for i in range(3)}), ("GET", "/small.html?" + LONG, None, {}),
        ("PUT", "/proxy/put", UPLOAD[:5000], {}))


def conversation(port):
    """What a client sees: each request on one kept connection, and again on new ones; then what no library would send."""
    seen = []
    for kept in (True, False):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        for method, path, body, headers in requests():
            seen.append((method, path, *request(connection, method, path, body, headers)))
            if not kept:
                connection.close()
        chunks = iter([b"one", b"two" * 5000, b"three"])
        seen.append(("chunks", *request(connection, "POST", "/proxy/chunks", chunks, {"Transfer-Encoding": "chunked"}, chunked=True)))
        connection.close()
    one = b"GET /small.html HTTP/1.1\r\nHost: x\r\n\r\n"
    last = b"GET /none HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
    for name, data in (
            ("pipelined", one * 200 + last), ("pipelined uploads", b"POST /memory/ HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc" * 20 + last),
            ("multi range", b"GET /large.bin HTTP/1.1\r\nHost: x\r\nRange: bytes=0-1,5-6\r\nConnection: close\r\n\r\n"),
            ("large header", b"GET / HTTP/1.1\r\nHost: x\r\nX: " + b"x" * 9000 + b"\r\n\r\n"), ("large line", b"GET /" + b"x" * 9000 + b" HTTP/1.1\r\n\r\n"),
            ("many headers", b"GET / HTTP/1.1\r\nHost: x\r\n" + b"".join(b"X%d: %s\r\n" % (i, b"y" * 5000) for i in range(9)) + b"\r\n"),
            ("no request", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" * 4 + b"\r\n"), ("bad method", b"brew / HTTP/1.1\r\n\r\n"),
            ("old", b"GET /small.html\r\n"), ("zero", b"GET /%00 HTTP/1.0\r\n\r\n"), ("length", b"POST /memory/ HTTP/1.0\r\nContent-Length: -1\r\n\r\n")):
        said = without_dates(raw(port, data))
        if name == "multi range":  # the boundary is a number that counts up
            said = b"%d %s" % (len(said), said.split(b"\r\n")[0])
        seen.append((name, said[:120], hashlib.sha256(said).hexdigest()))
    return seen


def aborts(port, times):
    """Requests whose client goes in the middle."""
    for _ in range(times):
        for data in (b"GET /la", b"GET /large.bin HTTP/1.1\r\nHost: x\r\n\r\n", b"GET /threads/large.bin HTTP/1.1\r\nHost: x\r\n\r\n",
                     b"GET /proxy/large HTTP/1.1\r\nHost: x\r\n\r\n", b"GET /gzip/large.bin HTTP/1.1\r\nHost: x\r\nAccept-Encoding: gzip\r\n\r\n",
                     b"POST /memory/ HTTP/1.1\r\nHost: x\r\nContent-Length: 2000000\r\n\r\n" + UPLOAD[:100000],
                     b"POST /file/ HTTP/1.1\r\nHost: x\r\nContent-Length: 2000000\r\n\r\n" + UPLOAD[:100000],
                     b"POST /direct/ HTTP/1.1\r\nHost: x\r\nContent-Length: 2000000\r\n\r\n" + UPLOAD[:100000]):
            abort(port, data)


def idle(port, count):
    """So many connections that have had one answer and are kept."""
    open_ones = []
    for _ in range(count):
        s = socket.create_connection(("127.0.0.1", port), 30)
        s.sendall(b"GET /small.html HTTP/1.1\r\nHost: x\r\n\r\n")
        said = s.recv(4096)
        while not said.endswith(b"</p>\n") and (part := s.recv(4096)):
            said += part
        if not said.startswith(b"HTTP/1.1 200"):
            raise RuntimeError("connection %d: %r" % (len(open_ones), said[:100]))
        open_ones.append(s)
    return open_ones


def room_for(count):
    """How many connections this process may open, up to count."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    wanted = count + 2100  # those of the server: listening sockets, logs, files
    hard = wanted if hard == resource.RLIM_INFINITY else min(hard, wanted)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    return min(count, hard - 200)
