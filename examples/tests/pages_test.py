"""Pages and programs cannot differ: a block of C in a page is a part of the file that the comment before it names, line by line.

    <!-- examples/tutorial/step1.c -->
    ```c
    ...

Lines `/* ... */` alone stand for lines that the page leaves out. Every program of examples/ is shown in some page. Relative links of
all pages lead to files and headings that are there, and tests that docs/ names are there. Argument: the source directory.
"""

import os
import re
import subprocess
import sys

SOURCE = os.path.abspath(sys.argv[1])
# Pages whose every block of C is of a file.
STRICT = ("docs/tutorial.md", "docs/which.md", "docs/recipes.md", "docs/coming-from.md")
failures = []


def fail(page, number, what):
    failures.append("%s:%d: %s" % (page, number, what))


def pages():
    names = []
    try:
        listed = subprocess.run(["git", "-C", SOURCE, "ls-files", "-co", "--exclude-standard", "*.md"], stdout=subprocess.PIPE,
                                stderr=subprocess.DEVNULL, text=True)
        names = listed.stdout.split() if listed.returncode == 0 else []
    except FileNotFoundError:
        pass
    if not names:  # no git, or not a repository: an unpacked archive
        for folder, folders, files in os.walk(SOURCE):
            folders[:] = [each for each in folders if each != "build" and not each.startswith(".")]
            names += [os.path.relpath(os.path.join(folder, each), SOURCE) for each in files if each.endswith(".md")]
    return sorted(each for each in names if os.path.exists(os.path.join(SOURCE, each)))


def read(name):
    with open(os.path.join(SOURCE, name), encoding="utf-8") as file:
        return file.read().splitlines()


def blocks(lines):
    """(line number, language, text, name in the comment before or None)"""
    begin = None
    for number, line in enumerate(lines, 1):
        if begin is None and line.startswith("```"):
            begin = number
        elif begin is not None and line.startswith("```"):
            before = lines[begin - 2] if begin >= 2 else ""
            name = re.fullmatch(r"<!-- (\S+) -->", before)
            yield begin, lines[begin - 1][3:].strip(), lines[begin:number - 1], name.group(1) if name else None
            begin = None


def parts(text):
    """The runs of lines between `/* ... */`, without empty lines at their ends."""
    run = []
    for line in [*text, "/* ... */"]:
        if line.strip() == "/* ... */":
            while run and not run[0].strip():
                run.pop(0)
            while run and not run[-1].strip():
                run.pop()
            if run:
                yield run
            run = []
        else:
            run.append(line)


def check_block(page, number, text, name, shown):
    if not os.path.exists(os.path.join(SOURCE, name)):
        return fail(page, number, "%s is not there" % name)
    shown.add(name)
    file, at = read(name), 0
    for part in parts(text):
        places = [i for i in range(at, len(file) - len(part) + 1) if file[i:i + len(part)] == part]
        if not places:
            return fail(page, number, "%s has no such lines: %s" % (name, part[0].strip()))
        at = places[0] + len(part)
    return None


def anchors(lines):
    found = set()
    for line in lines:
        heading = re.match(r"#+ +(.*)", line)
        if heading:
            text = re.sub(r"[^\w\- ]", "", heading.group(1).strip().lower())
            found.add(text.replace(" ", "-"))
    return found


def check_links(page, lines):
    count, fenced = 0, False
    for number, line in enumerate(lines, 1):
        fenced ^= line.startswith("```")
        if fenced or line.startswith("    "):
            continue
        for target in re.findall(r"\]\(([^)\s]+)\)", re.sub(r"`[^`]*`", "", line)):
            if re.match(r"[a-z]+:", target):
                continue
            count += 1
            path, _, anchor = target.partition("#")
            file = os.path.normpath(os.path.join(os.path.dirname(page), path)) if path else page
            if not os.path.exists(os.path.join(SOURCE, file)):
                fail(page, number, "the link %s leads nowhere" % target)
            elif anchor and file.endswith(".md") and anchor not in anchors(read(file)):
                fail(page, number, "%s has no heading #%s" % (file, anchor))
    return count


def check_tests(page, lines):
    """The tests that docs/ name are there: `unit.cache.bin` is tests/unit/cache/bin_test.c, or the files below such a folder."""
    for number, line in enumerate(lines, 1):
        for name in re.findall(r"`((?:unit|stress|misuse|soak|property|process)\.[a-z_.]+)`", line):
            if name.endswith((".c", ".h")):
                continue
            path = os.path.join(SOURCE, "tests", name.replace(".", "/"))
            if not os.path.isfile(path + "_test.c") and not os.path.isdir(path):
                fail(page, number, "there is no test %s" % name)


def check_readme(lines):
    """Two minutes are enough for the README: 130 lines and 1,250 words, and one table."""
    words = sum(len(line.split()) for line in lines)
    tables = sum(line.startswith("|---") for line in lines)
    if len(lines) > 130 or words > 1250 or tables > 1:
        fail("README.md", len(lines), "%d lines, %d words and %d tables" % (len(lines), words, tables))


check_readme(read("README.md"))
shown, count, links = set(), 0, 0
for page in pages():
    lines = read(page)
    links += check_links(page, lines)
    if page.startswith("docs/"):
        check_tests(page, lines)
    for number, language, text, name in blocks(lines):
        if name and name.endswith((".c", ".h", ".cpp", ".hpp", ".py")):
            count += 1
            check_block(page, number, text, name, shown)
        elif language == "c" and page in STRICT:
            fail(page, number, "a block of C that names no file")
for folder in ("examples/tutorial", "examples/recipes", "examples/cxx"):
    for file in sorted(os.listdir(os.path.join(SOURCE, folder))):
        name = folder + "/" + file
        if file.endswith((".c", ".cpp")) and file != "net.c" and name not in shown:
            fail(name, 1, "no page shows it")
if count == 0 or links == 0:
    fail("docs", 1, "%d blocks and %d links were found" % (count, links))
for line in failures:
    print(line, file=sys.stderr)
print("%d blocks of files, %d links, %d failures" % (count, links, len(failures)))
sys.exit(1 if failures else 0)
