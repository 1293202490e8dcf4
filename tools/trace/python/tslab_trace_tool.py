#!/usr/bin/env python3
"""tslab trace: the contents of a trace, and other formats.

    tslab trace info FILE                                   its events, threads and processes
    tslab trace export --to FORMAT [-o OUT] FILE            folded, pprof, dhat or parquet; to standard output or OUT
    tslab trace import --from FORMAT [-o OUT] FILE          heaptrack or dhat, to OUT (FILE.trace)

Exit code: 1 the file cannot be read or is damaged, 2 wrong usage.
"""
import argparse
import collections
import os
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import exporting  # noqa: E402
import importing  # noqa: E402
import tslab_trace  # noqa: E402

COMMAND_SHOWN = 120  # characters
FORMATS = {"folded": (exporting.folded, "w"), "pprof": (exporting.pprof, "wb"), "dhat": (exporting.dhat, "w")}


def say(*words):
    print("tslab trace:", *words, file=sys.stderr)


def info(trace, _):
    command = trace.about.get("command", "?")
    print("command: %s" % (command if len(command) <= COMMAND_SHOWN else command[:COMMAND_SHOWN] + "..."))
    for key in ("recorder", "sample", "synthetic", "status"):
        if key in trace.about:
            print("%s: %s" % (key, trace.about[key]))
    kinds, threads, end = collections.Counter(), set(), 0
    for event in trace.events():
        kinds[event.kind] += 1
        threads.add(event.thread)
        end = event.time_ns
    print("time: %.3f s" % (end / 1e9))
    print("processes: %d, threads: %d, stacks: %d" % (len(trace.processes), len(threads - {1}), len(trace.stack_caller) - 1))
    for kind, count in kinds.most_common():
        print("%s: %d" % (kind, count))


def export(trace, options):
    if options.to == "parquet":
        if not options.output:
            say("parquet is written to a file: -o FILE")
            return 2
        name = os.path.basename(options.file)
        exporting.parquet(trace, options.output, name)
        return 0
    function, mode = FORMATS[options.to]
    if options.output:
        with open(options.output, mode) as out:
            function(trace, out)
    else:
        function(trace, sys.stdout if mode == "w" else sys.stdout.buffer)
    return 0


def arguments(argv):
    parser = argparse.ArgumentParser(prog="tslab trace", description=__doc__, allow_abbrev=False,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("info").add_argument("file")
    to = commands.add_parser("export")
    to.add_argument("--to", required=True, choices=[*FORMATS, "parquet"])
    of = commands.add_parser("import")
    of.add_argument("--from", dest="of", required=True, choices=["heaptrack", "dhat"])
    for each in (to, of):
        each.add_argument("-o", "--output")
        each.add_argument("file")
    return parser.parse_args(argv)


def run(options):
    if options.command == "import":
        getattr(importing, options.of)(options.file, options.output or options.file + ".trace")
        return 0
    with tslab_trace.open(options.file) as trace:
        code = (info if options.command == "info" else export)(trace, options)
        if trace.damage:
            say("%s is not whole: %s" % (options.file, trace.damage))
        return code or (1 if trace.damage else 0)


def main():
    options = arguments(sys.argv[1:])
    try:
        return run(options)
    except ImportError as error:
        say("%s; install it: pip install %s" % (error, {"google": "protobuf"}.get((error.name or "").split(".")[0], error.name)))
    except (tslab_trace.Unreadable, ValueError, KeyError, IndexError) as error:
        say("%s: %s" % (options.file, error))
    except OSError as error:
        say("%s: %s" % (error.filename or options.file, error.strerror))
    return 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        sys.exit(1)
