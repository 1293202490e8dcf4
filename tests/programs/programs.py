#!/usr/bin/env python3
"""Real programs, each with libtslab-malloc preloaded and without it: same output, same status.

usage: programs.py LIBRARY quick|all [--hard] [--jobs N] [NAME...]

A case is a shell script that runs in a directory of its own. With the library every process of it has TSLAB_ON_MISUSE=abort, so a
free of what is no live object, by any of them, ends it; with --hard they have TSLAB_HARDEN=1. A program that is not installed is skipped by name. What is compared is
standard output and the exit status; the cases leave out what differs from run to run.
"""
import argparse
import concurrent.futures
import os
import shutil
import signal
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import big
import more
import quick

TIMEOUT = 600


def environment(library, hard=False):
    kept = {k: v for k, v in os.environ.items() if not k.startswith("TSLAB_") and k != "LD_PRELOAD"}
    kept.update(LC_ALL="C", TZ="UTC", PYTHONHASHSEED="0", PERL_HASH_SEED="0", GIT_CONFIG_NOSYSTEM="1",
                GIT_AUTHOR_NAME="a", GIT_AUTHOR_EMAIL="a@b", GIT_COMMITTER_NAME="a", GIT_COMMITTER_EMAIL="a@b",
                GIT_AUTHOR_DATE="2020-01-01T00:00:00Z", GIT_COMMITTER_DATE="2020-01-01T00:00:00Z")
    kept["PATH"] += ":/usr/sbin:/sbin"
    kept["SOURCE_DIR"] = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    if library:
        kept.update(LD_PRELOAD=library)
        kept.update({"TSLAB_HARDEN": "1"} if hard else {"TSLAB_ON_MISUSE": "abort"})
    return kept


def run(script, library, hard=False):
    with tempfile.TemporaryDirectory(prefix="programs.") as directory:
        os.chmod(directory, 0o777)
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            # A home that does not exist; a program that makes it makes it here.
            home = {"HOME": os.path.join(directory, "no home")}
            process = subprocess.Popen(["sh", "-ec", script], cwd=directory, env=environment(library, hard) | home, stdout=out, stderr=err,
                                       stdin=subprocess.DEVNULL, start_new_session=True)
            try:
                status = process.wait(TIMEOUT)
            except subprocess.TimeoutExpired:
                status = "timeout"
            try:  # servers that a case has left
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            process.wait()
            out.seek(0)
            err.seek(0)
            return status, out.read().replace(directory.encode(), b"DIRECTORY"), err.read()


def tail(text):
    return b"\n".join(text.splitlines()[-12:]).decode(errors="replace")


def check(case, library, hard):
    """None: right. Else the fault; a text that begins with "skipped"."""
    name, needs, script = case
    path = environment(None)["PATH"]
    missing = [n for n in needs if not (shutil.which(n, path=path) if "/" not in n else os.path.exists(n))]
    if missing:
        return "skipped: there is no " + ", ".join(missing)
    without, with_it = run(script, None), run(script, library, hard)
    if without[0] != 0:
        return f"skipped: it does not work without the library either: status {without[0]}\n{tail(without[2])}"
    if with_it[0] != without[0]:
        return f"status {with_it[0]}, not {without[0]}\n{tail(with_it[2])}"
    if with_it[1] != without[1]:
        return f"another output:\n{tail(with_it[1])}\ninstead of\n{tail(without[1])}"
    if b"tslab:" in with_it[2]:
        return f"misuse told:\n{tail(with_it[2])}"
    if not without[1]:
        return "no output to compare"
    return None


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("library")
    parser.add_argument("which", choices=["quick", "all"])
    parser.add_argument("names", nargs="*")
    parser.add_argument("--hard", action="store_true")
    parser.add_argument("--jobs", type=int, default=2)
    arguments = parser.parse_intermixed_args()
    if not os.path.exists(arguments.library):
        parser.error(f"{arguments.library}: no such file")
    library = os.path.abspath(arguments.library)
    # The preload takes place at all.
    maps = subprocess.run(["cat", "/proc/self/maps"], env=environment(library), capture_output=True, check=True).stdout
    if library.encode() not in maps and os.path.realpath(library).encode() not in maps:
        sys.exit(f"programs.py: {library} is not preloaded")
    cases = quick.CASES + (more.CASES + big.CASES if arguments.which == "all" else [])
    if arguments.names:
        cases = [c for c in cases if c[0] in arguments.names]
    failed = ran = 0
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        for case, answer in zip(cases, pool.map(lambda c: check(c, library, arguments.hard), cases)):
            ran += not (answer or "").startswith("skipped")
            failed += bool(answer) and not answer.startswith("skipped")
            print(f"{case[0]}: {answer or 'the same'}", flush=True)
    print(f"{ran} programs, {failed} differ, {len(cases) - ran} skipped")
    sys.exit(1 if failed or not ran else 0)


if __name__ == "__main__":
    main()
