#!/usr/bin/env python3
"""Checks the figures that stand in README.md and docs/.

    check_figures.py blocks    the generated pages and blocks are what benchmarks/results gives, and every chart is there
    check_figures.py commit    all files there are of one commit, which is at most 200 back. Exit code 77: git cannot tell
    check_figures.py stray     outside of generated blocks no page has a figure that looks measured

A measured figure stands in a generated block, in a generated page, or in docs/decisions.md with its date.
"""

import pathlib
import re
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

from harness import ending, run  # noqa: E402
from harness.run import ROOT  # noqa: E402
from report import make_results  # noqa: E402
from report.data import read_utf8  # noqa: E402

OLDEST = 200  # commits
SKIPPED = 77

# Numbers with a unit of short times, and ratios of times, as a benchmark gives them.
NUMBER = r"(?<![\w.,-])[0-9][0-9.,]*"
MEASURED = re.compile(rf"{NUMBER} ?(?:ns|us|µs|ms)\b|{NUMBER} (?:times|x) (?:as|of)\b|{NUMBER} of the (?:time|best)\b|"
                      rf"{NUMBER} instructions\b")
# Pages that are generated or dated as a whole.
FREE = {"docs/decisions.md", "docs/results.md", "docs/study.md"}
# Numbers that look like measured figures and are none: page, words of its line, and why.
NOT_MEASURED = [
    ("docs/numa.md", "90 ns from the own node's memory", "what the simulation assumes"),
    ("docs/porting.md", "it looks again every 50 us", "a constant of the code"),
    ("docs/stats.md", "where a view takes longer than 10 ms", "a limit of the thread"),
    ("docs/stats.md", "200 ns and more than 10 us", "the bounds of two counters"),
    ("docs/stats.md", "Above 100 us", "what the reader should look for"),
]


def check_blocks():
    if make_results.main(["--check"]):
        return ["a page is stale: benchmarks/report/make_results.py writes them anew"]
    missing = []
    for page in make_results.pages(ROOT) + [ROOT / "docs" / "results.md"]:
        for target in re.findall(r"\]\(((?:docs/)?images/[^)]+)\)", read_utf8(page)):
            if not (page.parent / target).is_file():
                missing.append(f"{page.relative_to(ROOT)}: {target} is not there")
    return missing


def git(root, *words):
    """What git prints, or None if it fails or is not there."""
    try:
        done = subprocess.run(["git", "-C", str(root), *words], capture_output=True, text=True, check=False)
    except OSError:
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def skip(why):
    print(f"skipped: {why}")
    sys.exit(SKIPPED)


def commits_of(results):
    """{commit: files} of what the files say."""
    found = {}
    for path in sorted(results.glob("*.csv")):
        head = run.header_of(path)
        said = head.get("commit", "no commit") if {"date", "mode"} <= head.keys() else "no commit, date or mode"
        found.setdefault(said, []).append(path.name)
    return found


def newest_of_same_programs(root, commits):
    """The newest of the commits ("A; B": of both), if only scripts and pages differ between them: the programs measured are the same. Else None."""
    commits = {commit for several in commits for commit in several.split("; ")}
    if any(git(root, "rev-parse", "--verify", "-q", f"{commit}^{{commit}}") is None for commit in commits):
        return None
    newest = max(commits, key=lambda commit: int(git(root, "rev-list", "--count", commit)))
    differ = "\n".join(git(root, "diff", "--name-only", commit, newest) for commit in commits).split("\n")
    return newest if all(not name or name.endswith((".py", ".sh", ".md")) for name in differ) else None


def check_commit(root=ROOT):
    results = root / "benchmarks" / "results"
    if (results / "mixed").is_file():
        skip((results / "mixed").read_text(encoding="utf-8").strip())
    found = commits_of(results)
    commit = next(iter(found)) if len(found) == 1 else newest_of_same_programs(root, found)
    if not commit:
        return [f"the figures are of several commits: {'; '.join(f'{commit}: {files[0]} and {len(files) - 1} more' for commit, files in found.items())}."
                " `make results` measures all of them on one"]
    if not (root / ".git").exists() or git(root, "rev-parse", "--git-dir") is None:
        skip("there is no git history here")
    if git(root, "rev-parse", "--is-shallow-repository") == "true":
        skip("this is a shallow clone")
    back = git(root, "rev-list", "--count", f"{commit}..HEAD")
    if back is None or git(root, "merge-base", "--is-ancestor", commit, "HEAD") is None:
        return [f"the figures are of {commit}, which is no commit of this history: run `make results`"]
    if int(back) > OLDEST:
        return [f"the figures are of {commit}, which is {back} commits back, more than {OLDEST}: run `make results`"]
    return []


def prose(text):
    """(number, line) of the lines that are no code and in no generated block."""
    fenced = generated = False
    for number, line in enumerate(text.split("\n"), 1):
        if line.lstrip().startswith("```"):
            fenced = not fenced
        elif re.match(r"<!-- figures: \S+ (begin|end)", line):
            generated = " begin" in line
        elif not fenced and not generated and not line.startswith("    "):
            yield number, line


def stray(pages, allowed):
    """What is said of each stray figure, and of each permission that nothing needs."""
    used, said = set(), []
    for name, text in pages.items():
        for number, line in prose(text):
            for match in MEASURED.finditer(line):
                reason = next((entry for entry in allowed if entry[0] == name and entry[1] in line), None)
                if reason:
                    used.add(reason)
                else:
                    said.append(f"{name}:{number}: '{match[0]}' looks measured: it belongs in a generated block, or with its date in "
                                "docs/decisions.md")
    return said + [f"NOT_MEASURED: {page} has no such line any more: '{words}'" for page, words, _ in allowed
                   if (page, words, _) not in used]


def check_stray():
    pages = {str(path.relative_to(ROOT)): read_utf8(path) for path in make_results.pages(ROOT)}
    return stray({name: text for name, text in pages.items() if name not in FREE}, NOT_MEASURED)


CHECKS = {"blocks": check_blocks, "commit": check_commit, "stray": check_stray}


def main(arguments):
    parser = run.Parser("check_figures.py", __doc__)
    parser.add_argument("check", choices=sorted(CHECKS))
    wrong = CHECKS[parser.parse_args(arguments).check]()
    for what in wrong:
        run.say(what)
    return 1 if wrong else 0


if __name__ == "__main__":
    ending.run("check_figures", main)
