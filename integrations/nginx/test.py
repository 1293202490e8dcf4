#!/usr/bin/env python3
"""nginx with the pools of temporal-slab: the same answers as with its own, through load, aborts, reloads, an upgrade and no memory;
nothing is left of a connection; and a leak that the doctor names.

usage: test.py FOLDER BUILD    FOLDER: with plain/nginx and tslab/nginx, BUILD: the folder with the program tslab
"""

import concurrent.futures
import http.client
import json
import os
import pathlib
import resource
import signal
import socket
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True
sys.path[:0] = [str(pathlib.Path(__file__).resolve().parent), str(pathlib.Path(__file__).resolve().parent.parent)]
import programs  # noqa: E402
from shared import MISUSE_ENDS, SHOWN, arguments_of, differences, doctor_names, expect, failures  # noqa: E402




class Test:
    def __init__(self, folder, build, root, behind):
        self.folder, self.tool, self.root, self.behind = folder, build / "tools/tslab", root, behind
        self.plain = []

    def nginx(self, name, kind="tslab", extra=None, **more):
        return programs.nginx([self.folder / kind / "nginx"], self.root / name, self.behind, extra, **more)

    def epochs(self, pid):
        """Live objects and bytes by label."""
        said = subprocess.run([self.tool, "stats", "--json", str(pid)], capture_output=True, text=True, check=True).stdout
        found = {}
        for epoch in json.loads(said)["epochs"]:
            objects, bytes_ = found.get(epoch["label"], (0, 0))
            found[epoch["label"]] = objects + epoch["live_objects"], bytes_ + epoch["live_bytes"]
        return found

    def same(self, what, server):
        ours = programs.conversation(server.port)
        expect(what, ours == self.plain, differences(self.plain, ours))

    # ---- the tests -------------------------------------------------------------------------------------------

    def answers(self):
        with self.nginx("plain", "plain") as server:
            self.plain = programs.conversation(server.port)
        statuses = {one[2] for one in self.plain if isinstance(one[2], int)}
        expect("plain nginx: %d answers, %s" % (len(self.plain), sorted(statuses)), statuses == {200, 206, 301, 304, 404, 405, 416, 502})
        with self.nginx("ours", extra={**MISUSE_ENDS, **SHOWN}, workers=2) as server:
            self.same("the same answers", server)
            for path in ("/small.html", "/threads/large.bin", "/ssi/ssi.html", "/gzip/small.html"):
                load = subprocess.run(["wrk", "-t1", "-c40", "-d1", "-H", "Accept-Encoding: gzip", "http://127.0.0.1:%d%s" % (server.port, path)],
                                      capture_output=True, text=True, check=True).stdout
                expect("load without an error: " + path, "Requests/sec" in load and "Non-2xx" not in load and "Socket errors" not in load, load)
            programs.aborts(server.port, 40)
            self.same("the same answers after load and aborts", server)
            self.nothing_left(server)

        with self.nginx("small", extra=MISUSE_ENDS, location="connection_pool_size 128; request_pool_size 128;") as server:
            self.same("the same answers with the smallest pools", server)

    def nothing_left(self, server):
        left = {}

        def drained():
            kept = ("cycle", "connecting to upstream")  # connections to the second server are kept
            left.update({pid: {label: live for label, live in self.epochs(pid).items() if label not in kept and live[0]}
                         for pid in server.workers()})
            return not any(left.values())

        try:
            programs.until(drained, "", 20)
        except RuntimeError:
            pass
        expect("nothing is left of connections and requests", len(left) == 2 and not any(left.values()), left)

    def reload(self):
        with self.nginx("reload", extra=MISUSE_ENDS, workers=2) as server:
            old = server.workers()
            with socket.create_connection(("127.0.0.1", server.port), 30) as slow:
                slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
                slow.sendall(b"GET /large.bin HTTP/1.0\r\n\r\n")
                got = len(slow.recv(100))
                for _ in range(5):
                    before = set(server.workers())
                    os.kill(server.pid, signal.SIGHUP)
                    programs.until(lambda: len(set(server.workers()) - before) >= 2, "no new workers")  # pylint: disable=cell-var-from-loop
                while part := slow.recv(1 << 16):
                    got += len(part)
            expect("reload: what was under way is finished", got > 1 << 21, got)
            programs.until(lambda: len(server.workers()) == 2, "old workers stay: %s" % server.workers())
            expect("reload: the old workers have ended", not set(old) & set(server.workers()))
            self.same("reload: the same answers", server)
            (server.root / "nginx.conf").write_text((server.root / "nginx.conf").read_text() + "nonsense;\n")
            os.kill(server.pid, signal.SIGHUP)
            programs.until(lambda: "nonsense" in server.log(), "a bad configuration is not told")
            self.same("reload: a bad configuration changes nothing", server)

    def upgrade(self):
        with self.nginx("upgrade", extra=MISUSE_ENDS, daemon=True) as server:
            old = server.pid
            os.kill(old, signal.SIGUSR2)
            programs.until(lambda: (server.root / "pid.oldbin").exists() and (server.root / "pid").exists(), "no new program")
            programs.until(lambda: (server.root / "pid").read_text().strip() not in ("", str(old)), "no new program")
            server.pid = int((server.root / "pid").read_text())
            os.kill(old, signal.SIGQUIT)
            programs.until(lambda: programs.gone(old), "the old program stays")
            self.same("upgrade: the same answers by the new program", server)

    def idle(self):
        count = programs.room_for(programs.CONNECTIONS)
        if count < programs.CONNECTIONS:
            print("left out: 10,000 idle connections: ulimit -n allows %d" % count)
        bytes_ = {}
        for kind in ("plain", "tslab"):
            with self.nginx("idle", kind, SHOWN) as server:
                worker = server.workers()[0]
                first = programs.idle(server.port, count // 10)
                before = programs.memory(worker)
                more = programs.idle(server.port, count - len(first))
                bytes_[kind] = (programs.memory(worker) - before) / len(more)
                if kind == "tslab":
                    programs.until(lambda: self.epochs(worker).get("connection", (0,))[0] >= count, "too few objects")  # pylint: disable=cell-var-from-loop
                    objects, live = self.epochs(worker)["connection"]
                    expect("%d idle connections have an object each" % count, objects == count, (objects, live))
                for one in first[::100] + more[::100]:
                    one.sendall(b"GET /none HTTP/1.1\r\nHost: x\r\n\r\n")
                    if not one.recv(100).startswith(b"HTTP/1.1 404"):
                        expect("an idle connection goes on", False)
                for one in first + more:
                    one.close()
        shown = ", ".join("%s %.0f" % pair for pair in bytes_.items())
        expect("idle connections: bytes each: " + shown, bytes_["tslab"] < 1.1 * bytes_["plain"])

    def uploads(self, port):
        """The status of each of 32 large uploads at once, which nginx holds in memory; 0: it closed the connection."""

        def one(_):
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
            try:
                connection.request("POST", "/memory/", programs.UPLOAD[:1] * 3900000)
                return connection.getresponse().status
            except (OSError, http.client.HTTPException):
                return 0

        with concurrent.futures.ThreadPoolExecutor(32) as threads:
            return list(threads.map(one, range(32)))

    def no_memory(self):
        messages = self.root / "messages"
        for name, extra, limits in (("budget", {"TSLAB_BUDGET": "32m"}, ()), ("log", {"TSLAB_LOG": str(messages), "TSLAB_BUDGET": "32m"}, ()),
                                    ("address_space", {}, ((resource.RLIMIT_AS, 120 << 20),))):
            with self.nginx("no_memory_" + name, extra=extra, limits=limits) as server:
                workers, began = server.workers(), time.monotonic()
                seen = [self.uploads(server.port) for _ in range(3)]
                statuses = {status for round_ in seen for status in round_}
                expect("no memory (%s): some are refused, no other answer" % name,
                       statuses <= {0, 200, 500} and 200 in statuses and statuses & {0, 500}, seen)
                expect("no memory (%s): the worker lives" % name, server.workers() == workers)
                self.same("no memory (%s): the same answers afterwards" % name, server)
                log, seconds = server.log(), time.monotonic() - began
                expect("no memory (%s): nginx says so" % name, "in a pool failed (12: " in log, log[-2000:])
                if "TSLAB_BUDGET" in extra:
                    said = messages.read_text() if name == "log" else log
                    expect("no memory (%s): a line a second at most" % name,
                           1 <= said.count("tslab: budget of 33554432 bytes reached") <= seconds + 2, said[-2000:])

    def leak(self):
        lines = "load_module %s;" % (self.folder / "tslab/ngx_http_leak_module.so")
        with self.nginx("leak", extra=SHOWN, lines=lines, location="location /leak { leak; }") as server:
            connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)

            def work():
                for _ in range(200):
                    programs.request(connection, "GET", "/leak")

            expect("tslab doctor names the pool that grows: cycle", *doctor_names(self.tool, "cycle", server.workers, work, 90))
            connection.close()

    def wrong_input(self):
        for arguments in (["tslab"], ["other", "x"], ["plain", "x", "y", "z"]):
            done = subprocess.run([pathlib.Path(__file__).parent / "build.sh", *arguments], capture_output=True, text=True, check=False)
            expect("build.sh %s: refused in one line" % " ".join(arguments), done.returncode == 2 and done.stderr.count("\n") == 1, done)


def main(folder, build):
    with tempfile.TemporaryDirectory() as root, programs.second() as behind:
        test = Test(folder, build, pathlib.Path(root), behind)
        pathlib.Path(root).chmod(0o755)
        for one in (test.answers, test.reload, test.upgrade, test.idle, test.no_memory, test.leak, test.wrong_input):
            one()
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(*arguments_of(__doc__)))
