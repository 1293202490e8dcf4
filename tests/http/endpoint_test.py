"""libtslab-http: the clients that may ask it, the waits among them, and the server after a fork. Arguments: HTTP_TARGET LIBRARY."""

import contextlib
import errno
import http.client
import json
import os
import signal
import socket
import sys
import time
import unittest

from target import Target

TARGET, LIBRARY = sys.argv[1:3]
SLOW = 300
HALF = b"GET /metrics HTTP/1.1\r\nHost: loc"


class Program(Target):
    def __init__(self, **environment):
        super().__init__(TARGET, **environment)

    def get(self, path, host=None, at="127.0.0.1"):
        c = http.client.HTTPConnection(at, self.port, timeout=60)
        try:
            c.request("GET", path, headers={"Host": host} if host else {})
            answer = c.getresponse()
            return answer.status, answer.read().decode()
        finally:
            c.close()

    def pid_that_serves(self):
        return json.loads(self.get("/stats.json")[1])["pid"]

    def wait_for(self, pid):
        """Until that process serves."""
        for _ in range(600):
            with contextlib.suppress(OSError, http.client.HTTPException):
                if self.pid_that_serves() == pid:
                    return
            time.sleep(0.05)
        raise AssertionError(f"{pid} does not serve")

    def __exit__(self, *_):
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        self.said = self.process.stderr.read()  # ends when the last child has ended
        self.process.stdout.close()
        self.process.stderr.close()
        self.process.wait(timeout=30)


class Hosts(unittest.TestCase):
    def check(self, program, good, bad):
        for host in good:
            self.assertEqual(program.get("/healthz", host=host), (200, "ok\n"), host)
        for host in bad:
            for path in ("/healthz", "/stats.json", "/", "/nothing"):
                status, said = program.get(path, host=host)
                self.assertEqual(status, 403, host)
                self.assertIn("it answers to localhost, 127.0.0.1 and [::1]", said)
                self.assertIn("TSLAB_HTTP_HOSTS=NAME,...", said)

    def test_on_the_loopback_only_its_names_are_answered(self):
        with Program() as p:
            port = p.start()
            good = ["localhost", f"localhost:{port}", "LocalHost", "localhost.", "127.0.0.1", f"127.0.0.1:{port}", "127.9.8.7",
                    "[::1]", f"[::1]:{port}", "127.0.0.1:1"]  # of a tunnel
            bad = ["evil.example", f"evil.example:{port}", "localhost.evil.example", "127.0.0.1.evil.example", "10.0.0.1", "[::2]",
                   "[::1", "[::1]x", "::1", "localhost:x", "localhost@evil.example", "127.0.0.1:80:80", "xlocalhost", "*", "a" * 300]
            self.check(p, good, bad)
            # Without any, as of HTTP/1.0.
            with socket.create_connection(("127.0.0.1", port)) as s:
                s.sendall(b"GET /healthz HTTP/1.0\r\n\r\n")
                self.assertIn(b" 200 ", s.recv(1000))

    def test_names_are_allowed_by_the_program_and_by_the_environment(self):
        with Program(TSLAB_HTTP_HOSTS=" three.example,,FOUR.example ") as p:
            p.start("with one.example,two.example.")
            self.check(p, ["one.example", "one.example:80", "two.example", "three.example", "four.example", "localhost"],
                       ["five.example", "one.example.com"])
            self.assertEqual(p.tell("stop"), "true")
            p.start()  # the program allows none; the environment goes on
            self.check(p, ["three.example"], ["one.example"])
        for name in ("*", "one.example,*"):
            with Program() as p:
                p.start("with " + name)
                self.check(p, ["any.example", "localhost", "1.2.3.4"], [])

    def test_the_name_that_it_was_started_with(self):
        name = socket.gethostname()
        try:
            own = socket.gethostbyname(name)
        except OSError:
            own = ""
        if not own.startswith("127.") or name == "localhost":
            self.skipTest("the name of this machine is not of the loopback")
        with Program() as p:
            p.start(name + ":0")
            self.assertEqual(p.get("/healthz", host=name, at=own)[0], 200)

    def test_on_another_address_names_count_if_there_are_any(self):
        with Program() as p:
            p.start("0.0.0.0:0")
            self.check(p, ["any.example", "10.0.0.1", "localhost"], [])
        with Program(TSLAB_HTTP_HOSTS="one.example") as p:
            p.start("0.0.0.0:0")
            self.check(p, ["one.example", "10.0.0.1", "[2001:db8::1]", "localhost"], [])
            self.assertEqual(p.get("/healthz", host="evil.example")[0], 403)

    def test_what_is_refused(self):
        with Program() as p:
            self.assertEqual(p.tell("start refused"), "ok")
            self.assertEqual(p.tell("port"), "0")
        with Program(TSLAB_HTTP_HOSTS="a" * 300) as p:
            p.start()
            self.check(p, ["localhost"], ["evil.example"])
        self.assertIn("TSLAB_HTTP_HOSTS=\"aaaa", p.said)
        self.assertIn("more than 32 names, or one is too long", p.said)


def is_open(s):
    """Whether the server has not closed it."""
    s.setblocking(False)
    try:
        return s.recv(1) != b""
    except OSError as e:
        return e.errno == errno.EAGAIN


def is_cut_off(s):
    """Whether the server has reset it; bytes that it has sent are not taken."""
    return s.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) != 0 or state_of(s) != 1


def state_of(s):
    """1: established; 8: the other side has closed it."""
    return s.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0]


class Places(unittest.TestCase):
    def half_requests(self, program):
        """That many clients which send half a request and stop."""
        slow = []
        for _ in range(SLOW):
            slow.append(socket.create_connection(("127.0.0.1", program.port), timeout=60))
            slow[-1].sendall(HALF)
        return slow

    def test_who_sends_half_a_request_keeps_nobody_waiting(self):
        for attempt in range(5):
            started = time.monotonic()
            try:
                return self.half_requests_keep_nobody_waiting()
            except (AssertionError, OSError, http.client.HTTPException):
                # On a machine so busy that they were cut off for being still, it says nothing.
                if attempt == 4 or time.monotonic() - started < 4:
                    raise

    def half_requests_keep_nobody_waiting(self):
        with Program() as p:
            p.start()
            self.assertEqual(p.tell("fill 400"), "ok")
            with contextlib.ExitStack() as stack:
                used = http.client.HTTPConnection("127.0.0.1", p.port, timeout=60)  # as a scraper keeps it
                stack.callback(used.close)
                used.request("GET", "/healthz")
                self.assertEqual(used.getresponse().read(), b"ok\n")
                before = used.sock
                slow = self.half_requests(p)
                for s in slow:
                    stack.callback(s.close)
                self.assertEqual(p.get("/healthz"), (200, "ok\n"))
                self.assertEqual(p.get("/metrics")[0], 200)
                # They were not waited for: the last clients are still there, and the first are not.
                still = [is_open(s) for s in slow]
                self.assertGreater(sum(still), 100)
                self.assertFalse(any(still[:SLOW // 3]), still)
                # Nor did they take the place of one that has asked before.
                used.request("GET", "/healthz")
                self.assertEqual(used.getresponse().read(), b"ok\n")
                self.assertIs(used.sock, before)

    def test_who_takes_no_answer_keeps_nobody_waiting(self):
        with Program() as p:
            p.start()
            self.assertEqual(p.tell("fill 4000"), "ok")
            with contextlib.ExitStack() as stack:
                takers = []
                for _ in range(450):
                    s = stack.enter_context(socket.socket())
                    takers.append(s)
                    s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                    s.connect(("127.0.0.1", p.port))
                    s.sendall(b"GET /epochs.json?limit=400 HTTP/1.1\r\nHost: localhost\r\n\r\n")
                self.assertEqual(p.get("/healthz"), (200, "ok\n"))
                self.assertEqual(p.get("/metrics")[0], 200)
                self.assertGreater(sum(not is_cut_off(s) for s in takers), 100)

    def test_who_is_slow_is_served_where_there_is_room(self):
        with Program() as p:
            p.start()
            with socket.create_connection(("127.0.0.1", p.port), timeout=60) as s:
                for byte in b"GET /healthz HTTP/1.0\r\n\r\n":
                    s.sendall(bytes([byte]))
                    time.sleep(0.02)
                self.assertIn(b" 200 ", s.recv(1000))


class Forks(unittest.TestCase):
    def test_after_daemon(self):
        for how in ("daemon", "daemon twice"):
            for start in ("127.0.0.1:0", "with one.example"):
                with self.subTest(how=how, start=start), Program() as p:
                    p.start(start)
                    before = p.pid_that_serves()
                    self.assertEqual(before, p.process.pid)
                    self.assertEqual(p.tell(how), "ok")
                    p.process.wait(timeout=30)
                    for _ in range(600):
                        if p.tell("port") == str(p.port):
                            break
                        time.sleep(0.05)
                    self.assertNotEqual(p.pid_that_serves(), before)
                    self.assertEqual(p.get("/healthz", host="one.example")[0], 200 if "one" in start else 403)
                    # It is a server as any other: it stops, starts again, and has children.
                    self.assertEqual(p.tell("stop"), "true")
                    self.assertEqual(p.tell(f"start 127.0.0.1:{p.port}"), f"ok {p.port}")
                    self.assertEqual(p.get("/healthz")[0], 200)
                self.assertEqual(p.said, "")

    def test_by_environment(self):
        with Program(TSLAB_HTTP="127.0.0.1:0") as p:
            p.port = int(p.tell("port"))
            self.assertEqual(p.tell("daemon"), "ok")
            p.process.wait(timeout=30)
            for _ in range(600):
                if p.tell("port") != "0":
                    break
                time.sleep(0.05)
            self.assertEqual(p.tell("port"), str(p.port))
            self.assertNotEqual(p.pid_that_serves(), p.process.pid)

    def test_a_child_whose_parent_lives_takes_nothing(self):
        for how in ("fork", "fork twice"):
            with self.subTest(how=how), Program() as p:
                p.start()
                child = int(p.tell(how))
                time.sleep(0.5)
                try:
                    for _ in range(20):
                        self.assertEqual(p.pid_that_serves(), p.process.pid)
                    p.process.kill()  # and is not waited for: it has ended, but is there
                    p.wait_for(child)
                finally:
                    os.kill(child, signal.SIGKILL)
            self.assertEqual(p.said, "")

    def test_a_child_has_no_copy_of_a_connection(self):
        with Program() as p:
            p.start()
            with socket.create_connection(("127.0.0.1", p.port), timeout=60) as s:
                s.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
                self.assertIn(b" 200 ", s.recv(1000))
                child = int(p.tell("fork"))
                try:
                    self.assertEqual(p.tell("stop"), "true")
                    self.assertEqual(s.recv(1000), b"")
                finally:
                    os.kill(child, signal.SIGKILL)

    def test_a_child_that_cannot_have_the_port_says_so(self):
        with Program() as p, Program() as other:
            port = p.start()
            child = int(p.tell("fork"))
            self.assertEqual(p.tell("stop"), "true")
            # The child has a copy of the socket until its own thread has run.
            until = time.monotonic() + 30
            while (said := other.tell(f"start 127.0.0.1:{port}")) == "EADDRINUSE" and time.monotonic() < until:
                time.sleep(0.01)
            self.assertEqual(said, f"ok {port}")
            p.process.kill()
            self.assertEqual(p.process.stderr.readline(),
                             f"tslab: process {child} does not go on with the statistics of process {p.process.pid} on port {port}: "
                             "Address already in use\n")
            os.kill(child, signal.SIGKILL)

    def test_a_child_that_is_not_to_go_on(self):
        with Program() as p:
            p.start("here")
            child = int(p.tell("fork"))
            p.process.kill()
            time.sleep(0.5)
            with self.assertRaises(ConnectionError):
                p.get("/healthz")
            os.kill(child, signal.SIGKILL)
        self.assertEqual(p.said, "")


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0]])
