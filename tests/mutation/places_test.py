#!/usr/bin/env python3
"""Does a mutant find its place after its function was moved and its comments were reworded, and nothing else?"""
import pathlib
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
import places  # noqa: E402
import rooms  # noqa: E402

ONE = """/* take { */
#define CELLS 2u
static const int sizes[] = {1, 2};
TS_COLD static int take(int a /* { */, int b) {
    /* a note */ if (a &&
        b) return "}"[0];
#if X
    a = b; /* again */
#else
    a = b + 1;
#endif
    return a == b;
}
"""
TWO = "int take(void) { return 2; }\nint give(int a, int b) { return a && b; }\n"


class Found(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        for name, text in (("src/low/one.c", ONE), ("src/low/two.h", TWO)):
            (self.root / name).parent.mkdir(parents=True, exist_ok=True)
            (self.root / name).write_text(text)

    def texts(self, name, anchor, room="low/one"):
        table = places.Places(self.root, ["src"])
        return [table.sources[file][begin:end] for file, begin, end in table.find(name, anchor, room)]

    def test_white_space_and_comments_do_not_count(self):
        self.assertEqual(self.texts("take", "if (a && b) /* else */ return"), ["if (a &&\n        b) return"])

    def test_the_name_limits_the_search(self):
        self.assertEqual(self.texts("give", "a && b"), ["a && b"])
        self.assertEqual(self.texts("give", "a = b"), [])
        self.assertEqual(self.texts("gone", "a && b"), [])

    def test_twice_is_twice(self):
        self.assertEqual(len(self.texts("take", "a = b")), 2)

    def test_other_files_have_it_too(self):
        self.assertEqual(self.texts("take", "return 2", "low/one"), ["return 2"])
        self.assertEqual(len(self.texts("take", "return", "low/one")), 2)  # the room's own, both of them
        self.assertEqual(self.texts("take", "return", "low/two"), ["return"])

    def test_what_is_no_function(self):
        self.assertEqual(self.texts("CELLS", "2u"), ["2u"])
        self.assertEqual(self.texts("sizes", "{1, 2}"), ["{1, 2}"])

    def test_comments_and_strings_are_no_code(self):
        self.assertEqual(self.texts("take", "again"), [])
        self.assertEqual(self.texts("take", '"}"[0]'), ['"}"[0]'])


class Read(unittest.TestCase):
    def read(self, text):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "room.txt"
            path.write_text(text)
            return rooms.read_room(path, "low/room")

    def test_a_mutant(self):
        text = "# Why.\n[a-b] take\nprotocol: x.c, 1\ntests: unit.x; stress.y --seconds 2\n- if (a)\n-     b;\n+ b;\n"
        self.assertEqual(self.read(text), [{"name": "a-b", "in": "take", "room": "low/room", "protocol": "x.c, 1",
                                            "tests": ["unit.x", "stress.y --seconds 2"], "old": "if (a)\n    b;",
                                            "new": "b;"}])

    def test_malformed(self):
        for text in ("[a] f\nprotocol: p\ntests: t\n", "[a] f\nprotocol: p\n- x\n", "- x\n", "[a] f\nwhy: p\n"):
            with self.assertRaises(rooms.Malformed):
                self.read(text)


if __name__ == "__main__":
    unittest.main()
