"""comparison.py: the page is what the figures give, and the figures are those of the runs. Argument: the build directory."""

import contextlib
import io
import pathlib
import sys
import tempfile
import unittest

BUILD = sys.argv.pop(1)
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
sys.dont_write_bytecode = True

import comparison  # noqa: E402


def call(*arguments):
    """Its answer, and what it says."""
    said = io.StringIO()
    with contextlib.redirect_stderr(said):
        code = comparison.main([str(argument) for argument in arguments])
    return code, said.getvalue()


class Comparison(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def test_the_page_is_what_its_figures_give(self):
        self.assertEqual(call("--check"), (0, ""))

    def test_runs_and_page(self):
        figures, page = self.folder / "a.csv", self.folder / "a.md"
        self.assertEqual(call("--smoke", "--build", BUILD, "--csv", figures)[0], 0)
        about, found = comparison.read_figures(figures)
        self.assertIn("governor", about["machine"])
        self.assertEqual(set(found), {(p, a) for p in comparison.PATTERNS for a in ("malloc", "tslab")})
        for pattern in comparison.PATTERNS:
            ours, theirs = found[pattern, "tslab"], found[pattern, "malloc"]
            self.assertNotIn("net_slabs", theirs)
            # 1 % of the leaking requests' objects are never freed, and hold slabs.
            self.assertEqual(ours["net_slabs"] > 0, pattern == "leak")
            self.assertEqual(ours["leak_keeps_bytes"] >= 16384 * ours["leak_epochs"] > 0, pattern == "leak")
            self.assertEqual(ours["madvise_bytes"] > 0, pattern == "kernel")
        page.write_text("before\n" + "\n".join(comparison.MARKS) + "\nafter\n", encoding="utf-8")
        more = ("--csv", figures, "--page-file", page)
        code, said = call("--check", *more)
        self.assertEqual(code, 1)
        self.assertIn("is not what", said)
        self.assertEqual(call("--page", *more), (0, ""))
        self.assertEqual(call("--check", *more), (0, ""))
        text = page.read_text(encoding="utf-8")
        self.assertIn(f"| leaked objects | 0, 0 | 0, 0 | {found['leak', 'malloc']['leaked_objects']:,.0f}, ", text)

    def test_refuses(self):
        self.assertEqual(call("--check", "--csv", self.folder / "absent.csv")[0], 2)
        (self.folder / "a.csv").write_text("pattern,allocator,figure,value\nburst,malloc,p50_ns,1\n", encoding="utf-8")
        code, said = call("--page", "--csv", self.folder / "a.csv")
        self.assertEqual(code, 2)
        self.assertIn("no figures of burst with tslab, steady with malloc", said)
        self.assertIn("is not built", call("--build", self.folder, "--csv", self.folder / "b.csv")[1])


if __name__ == "__main__":
    unittest.main()
