#!/usr/bin/env python3
"""Requests that unmodified libraries serve: by plain malloc of each allocator, and each in a domain that captures.

    capture_bench.py LIBRARY DIRECTORY [--rounds N] [--requests N] [--smoke] [--csv FILE] [LIBRARY_NAME...]

LIBRARY: libtslab-malloc.so; DIRECTORY: where the programs are built. Of each row: requests a second, the 99.9th percentile of a request in us, and
MB that are resident after the requests; medians of rounds in which every way runs once, in an order that turns. "drained": the library frees, and
what it keeps lives on; "dropped": nothing is freed, the end of the domain frees all. A library or an allocator that is not there is left out, by
name.
"""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

from harness import ending, peers, run  # noqa: E402

LIBRARIES = {"libxml2": 4000, "jansson": 8000, "containers": 8000, "sqlite3": 2500, "lua": 1500, "openssl": 800}  # requests
SMOKE = 20
NOT_SO = 77  # the exit code of a library that cannot be used in a way


def ways(library):
    """{name: (program's suffix, mode, settings)}"""
    found, absent = peers.find()
    for name in absent:
        print(f"{name}: not installed")
    plain = {"glibc": {}, **{name: peers.settings(name, path) for name, path in found.items()}, "tslab": {"LD_PRELOAD": library}}
    return {**{name: ("", "plain", settings) for name, settings in plain.items()}, "tslab, drained": ("_linked", "drain", {}),
            "tslab, dropped": ("_linked", "drop", {})}


def main(arguments):
    parser = run.Parser("capture_bench.py", __doc__, "rounds=5 smoke csv")
    parser.add_argument("library", type=pathlib.Path)
    parser.add_argument("directory", type=pathlib.Path)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--requests", type=run.whole(1, 10**9), metavar="N")
    options = parser.parse_intermixed_args(arguments)
    if not options.library.is_file():
        parser.error(f"{options.library}: no such file")
    found, lines = ways(str(options.library.resolve())), []
    for name, requests in LIBRARIES.items():
        program = options.directory / f"capture_{name}"
        if options.names and name not in options.names:
            continue
        if not program.is_file():
            print(f"{name}: left out, it is not installed")
            continue

        def once(way, _round, program=program, requests=SMOKE if options.smoke else options.requests or requests):
            suffix, mode, settings = found[way]
            done = run.call([f"{program}{suffix}", mode, requests], **settings)
            if done.returncode not in (0, NOT_SO):
                raise run.Missing(f"{program.name}, {way}: status {done.returncode}: {run.last(done.stderr)}")
            return None if done.returncode else tuple(map(float, done.stdout.split()))

        rows = [[name, "requests/s", "p99.9 us", "MB after"]]
        for way, figures in run.in_turns(found, 1 if options.smoke else options.rounds, once).items():
            if None in figures:
                rows.append([way, "not so: it would meet again what is gone", "", ""])
                continue
            rate, tail, kib = map(run.median, zip(*figures))
            rows.append([way, f"{rate:.0f}", f"{tail:.1f}", f"{kib / 1024:.1f}"])
            lines.append([name, way, f"{rate:.0f}", f"{tail:.2f}", int(kib)])
        print("\n".join(["", *run.aligned(rows)]), flush=True)
    if not lines:
        raise run.Missing("no library is there")
    if options.csv:
        run.write_csv(options.csv, [], ["library", "way", "requests_per_s", "p999_us", "kib_after"], lines)
    return 0


if __name__ == "__main__":
    ending.run("capture_bench", main)
