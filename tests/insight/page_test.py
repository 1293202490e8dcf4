#!/usr/bin/env python3
"""The page of tslab advise --html: well-formed, on its own, and names stay text.

    page_test.py TSLAB

Exit status: 0 all is right; 1 something is not; 77 there is no compiler.
"""
import html.parser
import pathlib
import shutil
import subprocess
import sys
import tempfile

PROGRAMS = pathlib.Path(__file__).resolve().parent / "programs"
HOSTILE = "<img src=x onerror=alert(1)>&\"'q"
EMPTY = {"meta", "polygon"}  # as the page has them, they have no end tag
MOST_BYTES = 200_000


class Page(html.parser.HTMLParser):
    """Takes a page apart: its text, its tags and their attributes; what is open in the wrong order is a fault."""

    def __init__(self, text):
        super().__init__()
        self.open, self.faults, self.tags, self.attributes, self.text = [], [], [], [], ""
        self.ids, self.links = set(), set()
        self.feed(text)
        self.close()
        self.faults += ["<%s> is not closed" % tag for tag in self.open]

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs
        self.ids |= {value for name, value in attrs if name == "id"}
        self.links |= {value for name, value in attrs if name in ("href", "src")}
        if tag not in EMPTY:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append(tag)

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.faults.append("</%s> at line %d" % (tag, self.getpos()[0]))

    def handle_data(self, data):
        self.text += data


def page_of(tslab, folder, source, name, flags=("-g",)):
    """The page of a program of this folder that is built under a name."""
    program, trace, out = folder / name, folder / "trace", folder / "page.html"
    subprocess.run(["gcc", "-std=c11", "-O2", *flags, "-pthread", str(PROGRAMS / source), "-o", str(program)], check=True)
    subprocess.run([tslab, "record", "-o", str(trace), "./" + name], check=True, capture_output=True, cwd=folder,
                   timeout=120)
    done = subprocess.run([tslab, "advise", "--html", str(out), str(trace)], capture_output=True, timeout=120, check=False)
    assert done.returncode in (0, 1), done.stderr
    text = out.read_text(encoding="utf-8")
    page = Page(text)
    assert not page.faults, page.faults
    assert len(text) < MOST_BYTES, len(text)
    assert "script" not in page.tags and "http" not in text and "url(" not in text, "it needs more than itself"
    assert page.links <= {"#" + i for i in page.ids}, "links to nothing: %s of %s" % (page.links, page.ids)
    return page


def main():
    tslab = str(pathlib.Path(sys.argv[1]).resolve())
    if not shutil.which("gcc"):
        sys.exit(77)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        page = page_of(tslab, folder, "transactions.c", "transactions")
        for part in ("run_transaction", "run_statement", "Live bytes over time", "Boundaries"):
            assert part in page.text, part
        assert page.tags.count("polygon") == 8 and page.ids >= {"b1", "b2"}, page.ids
        assert page.text.count("run_statement") >= 2, "not in the tree and in the table"
        assert "of 2" in page_of(tslab, folder, "generations.c", "generations").text, "no generation"
        text = page_of(tslab, folder, "wrapped.c", "wrapped").text
        assert "load_routes" in text and "> xmalloc" in text, "no wrapper"
        page = page_of(tslab, folder, "request_server.c", HOSTILE, ("-s",))
        assert "Escapees" in page.text, "no escapees"
        assert "img" not in page.tags and HOSTILE + "+0x" in page.text, "a hostile name is no text"
        missing = subprocess.run([tslab, "advise", "--html", "/nowhere/page.html", str(folder / "trace")],
                                 capture_output=True, timeout=120, check=False)
        assert missing.returncode == 3 and b"/nowhere/page.html" in missing.stderr, missing
    print("the page is right")


if __name__ == "__main__":
    main()
