"""packaging/abi_test.py lets a small library grow, and refuses each other change of its interface.

Arguments: SOURCE_DIR COMPILER. Exit code 77: abidiff is missing, or the machine is another than that of the records."""

import contextlib
import io
import os
import subprocess
import sys
import tempfile
import unittest

source, compiler = sys.argv[1:3]
sys.path.insert(0, os.path.join(source, "packaging"))
import abi_test  # noqa: E402  (it lies in packaging)

TEXT = """
struct SlabZones { int SECRET; };
typedef struct SlabTestOptions { unsigned long size; int first; int second; } SlabTestOptions;
typedef struct SlabPlain { long only; } SlabPlain;
typedef enum SlabOrder { SLAB_FIRST = 0 } SlabOrder;
int slab_open(const SlabTestOptions *o, struct SlabZones *s) { return o->first + s->SECRET; }
long slab_plain(const SlabPlain *p, SlabOrder order) { return p->only + order; }
"""
MORE = "int slab_more(void) { return 0; }\n"
GROWN = ("int second;", "int second; long third;")


class Gate(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.build = folder.name
        abi_test.RECORDS = self.build
        self.assertEqual(self.run_gate(["--update"])[0], 0)

    def run_gate(self, options=(), changes=()):
        text = TEXT
        for before, after in changes:
            self.assertIn(before, text)
            text = text.replace(before, after)
        subprocess.run([compiler, "-g", "-shared", "-fPIC", "-Wl,-soname,libtslab.so.0", "-x", "c", "-", "-o",
                        os.path.join(self.build, "libtslab.so")], input=text, text=True, check=True)
        said = io.StringIO()
        with contextlib.redirect_stderr(said), contextlib.redirect_stdout(said):
            code = abi_test.main([*options, self.build])
        return code, said.getvalue()

    def test_growth_is_good(self):
        for changes in ([], [GROWN], [("typedef enum", MORE + "typedef enum")], [("int SECRET;", "int SECRET, other;")],
                        [("SLAB_FIRST = 0", "SLAB_FIRST = 0, SLAB_SECOND = 1")]):
            code, said = self.run_gate(changes=changes)
            self.assertEqual(code, 0, (changes, said))

    def test_other_changes_are_refused(self):
        swapped = [("int first; int second;", "int second; int first;")]
        for changes, named in (
                (swapped, "SlabTestOptions.first: bit 96"),
                ([("int second;", "long second;")], "second"),
                ([GROWN, ("int second;", "unsigned second;")], "second"),
                ([("long only;", "long only, more;")], "SlabPlain"),
                ([("slab_plain", "slab_other")], "slab_plain"),
                ([("SLAB_FIRST = 0", "SLAB_FIRST = 2")], "SLAB_FIRST"),
                ([("SlabOrder order", "long order")], "slab_plain")):
            for options in ([], ["--update"]):  # the record stays as it is
                code, said = self.run_gate(options, changes)
                self.assertEqual(code, 1, (changes, said))
                self.assertIn(named, said)
        self.assertEqual(self.run_gate()[0], 0)

    def test_a_new_soname_needs_a_record(self):
        os.remove(os.path.join(self.build, "libtslab.so.0.abi"))
        code, said = self.run_gate()
        self.assertEqual(code, 1)
        self.assertIn("libtslab.so.0 has no record", said)


abi_test.need_tools()
unittest.main(argv=sys.argv[:1])
