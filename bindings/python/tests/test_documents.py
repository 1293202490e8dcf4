"""README.md and the pages of docs run as they stand, and print what they say."""

import os
import pathlib
import re
import subprocess
import sys

import pytest

HERE = pathlib.Path(__file__).parent.parent
PAGES = [HERE / "README.md", *sorted((HERE / "docs").glob("*.md"))]
BLOCK = re.compile(r"^```python\n(.*?)^```\n(?:```text\n(.*?)^```\n)?", re.S | re.M)

# Runs the blocks of a page in one namespace, as a notebook does, and compares what each prints.
RUN = """
import contextlib, io, pathlib, sys
sys.path.insert(0, sys.argv[2])
from test_documents import blocks
page, namespace = pathlib.Path(sys.argv[1]), {"__name__": "__main__"}
for line, code, expected in blocks(page):
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(compile("\\n" * line + code, str(page), "exec"), namespace)
    if expected is not None and printed.getvalue() != expected:
        sys.exit(f"{page}:{line}: expected\\n{expected}printed\\n{printed.getvalue()}")
"""


def blocks(page):
    """Of each program in the page: how many lines stand before it, its text, and what it prints if the page says so."""
    text = page.read_text(encoding="utf-8")
    return [(text.count("\n", 0, m.start(1)), m[1], m[2]) for m in BLOCK.finditer(text)]


def needs(page):
    text = page.read_text(encoding="utf-8")
    uses = {"numpy": "numpy", "pandas": "tslab.frame(", "matplotlib": "import matplotlib"}
    return [module for module, use in uses.items() if use in text]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_page(page, tmp_path):
    for module in needs(page):
        pytest.importorskip(module)
    assert blocks(page)
    environment = dict(os.environ, MPLBACKEND="Agg")
    command = [sys.executable, "-c", RUN, str(page), str(HERE / "tests")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path, env=environment)
    assert done.returncode == 0, done.stderr
    for picture in re.findall(r"!\[.*\]\((.*)\)", page.read_text(encoding="utf-8")):
        assert (page.parent / picture).exists() and (tmp_path / picture).exists()


def test_types(tmp_path):
    """The package is typed but for the reader of recordings (trace.py), its stub is the module's, and the pages use it as its types say."""
    pytest.importorskip("mypy")
    check = [sys.executable, "-m", "mypy", f"--cache-dir={tmp_path}", f"--config-file={HERE / 'pyproject.toml'}"]
    stubtest = [sys.executable, "-m", "mypy.stubtest", "--ignore-unused-allowlist", "--ignore-disjoint-bases"]
    allowed, programs = tmp_path / "allowed", []
    allowed.write_text("tslab._core.Buffer.__buffer__\n", encoding="utf-8")  # what Python 3.11 has without this name
    for page in PAGES:
        programs.append(tmp_path / f"{page.stem}.py")
        programs[-1].write_text("\n".join(code for _, code, _ in blocks(page)), encoding="utf-8")
    for command in (
        [*check, "--strict", "--no-warn-return-any", "-p", "tslab"],
        [*check, "--disable-error-code=union-attr", *map(str, programs)],
        [*stubtest, f"--allowlist={allowed}", "tslab._core"],
    ):
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
        assert done.returncode == 0, done.stdout + done.stderr
