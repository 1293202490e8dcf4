#!/usr/bin/env python3
"""Apache httpd and Subversion under libtslab-apr: the same answers as without it, and a leak that the doctor names.

usage: test.py LIBRARY BUILD    LIBRARY: libtslab-apr.so, BUILD: the folder with the program tslab
"""

import pathlib
import subprocess
import sys
import tempfile
import urllib.request

sys.dont_write_bytecode = True
sys.path[:0] = [str(pathlib.Path(__file__).resolve().parent), str(pathlib.Path(__file__).resolve().parent.parent)]
import programs  # noqa: E402
from shared import MISUSE_ENDS, SHOWN, arguments_of, descendants, differences, doctor_names, expect, failures  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent



def same_answers(root, library):
    with programs.httpd(root / "plain", None) as (port, _):
        plain = programs.conversation(port)
    with programs.httpd(root / "ours", library, MISUSE_ENDS) as (port, server):
        ours = programs.conversation(port)
        expect("httpd has libtslab-apr", "libtslab-apr" in pathlib.Path("/proc/%d/maps" % server.pid).read_text())
        load = subprocess.run(["wrk", "-t2", "-c40", "-d2", "http://127.0.0.1:%d/small.html" % port], capture_output=True, text=True, check=True)
        expect("httpd: two seconds of load without an error", "Requests/sec" in load.stdout and "Non-2xx" not in load.stdout, load.stdout)
        expect("httpd: the same after load", programs.conversation(port) == plain)
    expect("httpd: %d answers are the same" % len(plain), ours == plain, differences(plain, ours))


def same_repository(root, library):
    plain = programs.svn(root / "svn", None, 60)
    ours = programs.svn(root / "svn", library, 60, MISUSE_ENDS)
    expect("svn: %d commands say the same" % len(plain), ours == plain and all(said.startswith("0 ") for said in plain),
           differences(plain, ours) or plain)


def module(root):
    """Built against httpd's headers, or None."""
    apr = subprocess.run(["pkg-config", "--cflags", "apr-1"], capture_output=True, text=True, check=True).stdout.split()
    built = root / "mod_leak.so"
    done = subprocess.run(["gcc", "-shared", "-fPIC", "-o", built, HERE / "mod_leak.c", "-I/usr/include/apache2", *apr], check=False,
                          capture_output=True, text=True)
    return built if done.returncode == 0 else None


def leak_is_named(root, library, build):
    built = module(root)
    if not built:
        print("left out: a module that leaks: apache2-dev is not installed")
        return
    with programs.httpd(root / "leak", library, SHOWN, "LoadModule leak_module %s\n" % built) as (port, server):
        def work():
            for _ in range(200):
                urllib.request.urlopen("http://127.0.0.1:%d/leak" % port).read()

        expect("tslab doctor names the pool that grows: process", *doctor_names(build / "tools/tslab", "process", lambda: descendants(server.pid), work))


def main(library, build):
    if programs.missing():
        print("apr: left out: not installed: " + " ".join(programs.missing()))
        return 77
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        root.chmod(0o755)
        same_answers(root, str(library))
        same_repository(root, str(library))
        leak_is_named(root, str(library), build)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(*arguments_of(__doc__)))
