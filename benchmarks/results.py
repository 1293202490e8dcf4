#!/usr/bin/env python3
"""Measures every figure that README.md and docs/ quote, on one commit, and writes them there: `make results`.

It takes some 45 minutes on two quiet processors, or fifteen with --quick, whose figures say that they are of a quick run. CSV files,
charts and pages are made in build/results, and build/results/csv/times.log says what each step took. They take the place of the old ones
in the last step, so a run that is killed leaves the old ones whole. The same command then goes on with what is missing, as long as the
tree is of the same commit; what was measured to the end is not measured again.
"""

import fcntl
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

from harness import ending, run  # noqa: E402
from harness.ending import Refusal  # noqa: E402
from harness.peers import BUILT, NEWEST, SYSTEM  # noqa: E402
from harness.run import BENCHMARKS, ROOT, supervised  # noqa: E402
from report import make_results  # noqa: E402
from suite.run_all import EXIT_JUDGED  # noqa: E402

SHOWN = 10  # so many files of a dirty tree are named
SIGNALS = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP}


def say(text):
    run.say(f"results: {text}")


def parse_arguments(arguments):
    parser = run.Parser("make results", __doc__, "quick smoke build")
    parser.add_argument("--anew", action="store_true", help="measure all of it, also what was measured on this commit already")
    parser.add_argument("--root", metavar="DIR", type=pathlib.Path, help="write there, and ask its git, instead of the project's own")
    parser.add_argument("--steps", metavar="A,B", help="only these steps of benchmarks/run_all.sh; needs --root")
    options = parser.parse_args(arguments)
    if (options.smoke or options.steps) and not options.root:
        parser.error("--smoke and --steps do not measure everything that the pages quote: they need --root")
    return options


# ---- the tree -----------------------------------------------------------------------------------


def git(root, *words):
    """The lines that git prints, or a refusal."""
    try:
        done = subprocess.run(["git", "-C", str(root), *words], capture_output=True, text=True, check=False)
    except OSError as error:
        raise Refusal(f"git: {error.strerror}: figures need a commit to be of") from error
    if done.returncode != 0:
        raise Refusal(f"{root} has no git history: figures need a commit to be of")
    return done.stdout.splitlines()


def commit_of_clean_tree(root):
    changed = [line[3:] for line in git(root, "status", "--porcelain", "--untracked-files=normal")]
    if changed:
        more = f" and {len(changed) - SHOWN} more" if len(changed) > SHOWN else ""
        raise Refusal(f"the tree differs from its commit: {', '.join(changed[:SHOWN])}{more}. Commit it, or take it out")
    return git(root, "rev-parse", "HEAD")[0]


def lock(work):
    """Held by this process and by all that it starts, as long as any of them runs."""
    descriptor = os.open(work / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    os.set_inheritable(descriptor, True)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        owner = os.pread(descriptor, 20, 0).decode("ascii", "replace").strip()
        raise Refusal(f"another make results is at work here (process {owner}, or what it left running)") from error
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
    return descriptor


# ---- measuring ----------------------------------------------------------------------------------


def build(options, held):
    if options.build:
        return pathlib.Path(options.build).resolve()
    if supervised(["make", "-s", "build-bench"], held) != 0:
        raise Refusal("the build failed")
    return run.RELEASE


def newest_peers(held):
    """The newest allocators of crates.io. Where one cannot be built the figures are beside Debian's."""
    if not all((NEWEST / f"{name}.log").is_file() for name in BUILT) and supervised([BENCHMARKS / "peers" / "newest.sh", NEWEST], held) != 0:
        say("not built: the newest allocators (cargo, cmake, a C++ compiler and crates.io are needed)")
    for name in BUILT:
        if not any(NEWEST.glob(f"{name}-*.so")):
            say(f"{name}: the newest was not built; {'that of the system takes part' if name in SYSTEM else 'left out'}")


def measure(options, work, held, commit):
    """Leaves the CSV files in work/csv, and the commit in work/measured when they are complete."""
    size = ["--quick"] if options.quick else ["--smoke"] if options.smoke else []
    steps = ["--steps", options.steps] if options.steps else []
    what = " ".join([commit, *size, *steps])
    begun, measured = work / "begun", work / "measured"
    same = begun.is_file() and begun.read_text(encoding="utf-8") == what and not options.anew
    if same and measured.is_file():
        say(f"measured on this commit already: the pages of it are written (--anew measures again; {work}/csv/times.log)")
        return json.loads(measured.read_text(encoding="utf-8"))
    programs = build(options, held)
    if not options.smoke and not options.build:
        newest_peers(held)
    going = same and (work / "csv" / ".parts" / "run.csv").is_file()
    if going:
        say("goes on with the interrupted run of this commit (--anew begins again)")
    else:
        measured.unlink(missing_ok=True)
        shutil.rmtree(work / "csv", ignore_errors=True)
        begun.write_text(what, encoding="utf-8")
    code = supervised([BENCHMARKS / "run_all.sh", *size, "--build", programs, "--out", work / "csv", *steps, *(["--resume"] if going else [])], held)
    if code not in (0, EXIT_JUDGED):
        goes_on = "--anew measures all of it again" if going and code == 2 else "The same command goes on with what is missing"
        raise Refusal(f"the measuring ended with exit code {code}; nothing is written. {goes_on}")
    judged = ["a program says that its figures are not as they should be: see above, and run.log"] if code else []
    measured.write_text(json.dumps(judged), encoding="utf-8")
    return judged


# ---- pages and charts ---------------------------------------------------------------------------


def prepare(root, work, held):
    """The files that take the place of the old ones, in work/new, as paths from the root; and what is missing among them."""
    new = work / "new"
    shutil.rmtree(new, ignore_errors=True)
    measured, images = new / "benchmarks" / "results", new / "docs" / "images"
    images.mkdir(parents=True)
    shutil.copytree(work / "csv", measured, ignore=shutil.ignore_patterns("*.log", ".*"))
    for page in make_results.pages(root):
        copy = new / page.relative_to(root)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(page, copy)
    missing = make_results.write(new, measured)[1]
    for what, command in (("a chart", [BENCHMARKS / "report" / "plot_bench.py", "--results", measured, "--out", images]),
                          ("the picture of make run", ["python3", "-B", BENCHMARKS / "workloads" / "picture.py", measured / "make_run.csv", images / "run.png"])):
        if supervised(command, held) != 0:
            missing.append(f"{what}: see above")
    return [path.relative_to(new) for path in sorted(new.rglob("*")) if path.is_file()], missing


def install(root, work, paths):
    """Puts the new files in the place of the old ones; CSV files that are not among the new ones go."""
    signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    results = root / "benchmarks" / "results"
    results.mkdir(parents=True, exist_ok=True)
    for path in paths:
        target = root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        beside = target.with_name(f".{target.name}.new")
        shutil.copyfile(work / "new" / path, beside)
        beside.replace(target)
    for old in results.iterdir():
        if (old.suffix == ".csv" or old.name == "mixed") and pathlib.Path("benchmarks/results") / old.name not in paths:
            old.unlink()


def write(root, work, held, commit):
    paths, missing = prepare(root, work, held)
    if commit_of_clean_tree(root) != commit:
        raise Refusal("the tree went on to another commit meanwhile: go back to that one, and say `make results` again")
    install(root, work, paths)
    return missing


def main(arguments):
    begin = time.monotonic()
    options = parse_arguments(arguments)
    root = options.root.resolve() if options.root else ROOT
    commit = commit_of_clean_tree(root)
    work = root / "build" / "results"
    work.mkdir(parents=True, exist_ok=True)
    held = lock(work)
    judged = measure(options, work, held, commit)
    missing = write(root, work, held, commit)
    for what in missing:
        say(f"NOT written, the old one stays: {what}")
    for what in judged:
        say(what)
    header = run.header_of(root / "benchmarks" / "results" / "run.csv")
    say(f"{(time.monotonic() - begin) / 60:.0f} minutes; mode {header['mode']}, commit {header['commit']}. Written: benchmarks/results, "
        "docs/results.md, docs/images, the blocks of README.md and docs/. Look at `git diff`, and commit it")
    return 1 if missing else 0


if __name__ == "__main__":
    ending.run("results", main)
