#!/usr/bin/env python3
"""The modelled functions are as their models know them; and manifest.py says so when they are not."""

import os
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.dont_write_bytecode = True
sys.path.insert(0, HERE)
import manifest  # noqa: E402

PROGRAM = os.path.join(HERE, "manifest.py")


def complaints(root):
    try:
        return manifest.check(root)
    except SystemExit as end:
        return [str(end)]


def main():
    done = subprocess.run([sys.executable, "-B", PROGRAM], check=False)
    if done.returncode != 0:
        return 1
    if complaints(ROOT):
        print("manifest.py: code 0 in spite of complaints")
        return 1

    failed = 0
    with tempfile.TemporaryDirectory() as root:
        os.makedirs(os.path.join(root, "tests/model"))
        for file in ("manifest.txt", "README.md"):
            shutil.copy(os.path.join(HERE, file), os.path.join(root, "tests/model"))
        shutil.copytree(os.path.join(ROOT, "src"), os.path.join(root, "src"))
        os.makedirs(os.path.dirname(os.path.join(root, manifest.ORDERS)))
        shutil.copy(os.path.join(ROOT, manifest.ORDERS), os.path.join(root, manifest.ORDERS))

        def case(what, path, old, new, expected):
            nonlocal failed
            full = os.path.join(root, path)
            with open(full, encoding="utf-8") as f:
                text = f.read()
            if text.count(old) != 1:
                print("%s: '%s' is in %s %d times: this test needs another place" % (what, old, path, text.count(old)))
                failed += 1
                return
            with open(full, "w", encoding="utf-8") as f:
                f.write(text.replace(old, new))
            found = complaints(root)
            with open(full, "w", encoding="utf-8") as f:
                f.write(text)
            if len(found) != (1 if expected else 0) or expected and expected not in found[0]:
                print("%s: expected '%s', got %s" % (what, expected, found))
                failed += 1

        foreign = "src/core/cache/foreign.c"
        case("a step is gone", foreign, "        if (bits & bit) return TS_FOREIGN_NOT_LIVE;\n", "",
             "foreign.c: ts_foreign_free is not as it was")
        case("an order is weaker", "src/core/region/table.h", "ts_store_release(&((ts_table_record *)record)->id, id)",
             "ts_store_relaxed(&((ts_table_record *)record)->id, id)", "table.h: ts_table_publish is not as it was")
        case("a comment changes", foreign, "/* step c */", "/* here */", "")
        case("white space changes", foreign, "        if (bits & bit) return", "  if (bits & bit)\n    return", "")
        case("a function has another name", foreign, "static void push_on(ts_heap *heap, uint32_t unit, const ts_block *block) {",
             "static void push_onto(ts_heap *heap, uint32_t unit) {", "the function push_on is not there")
        case("a source does not name its models", foreign, "Modelled in tests/model: foreign, ", "Modelled in tests/model: ",
             "does not name foreign")
        case("a source names a model that has nothing of it", "src/core/os/lock.c", "Modelled in tests/model: lock",
             "Modelled in tests/model: exit, lock", "names exit, which has no function of it")
        case("a model of orders is not run", manifest.ORDERS, '        ("queue", queue),\n',
             '        ("queue", queue),\n        ("more", more),\n', "the model more is here alone")
        case("the manifest is not one", "tests/model/manifest.txt", "# The modelled functions", "The modelled functions",
             "not 'hash file function'")
        case("the manifest knows too much", "tests/model/manifest.txt", "# The modelled",
             "0123456789abcdef src/core/ownership/heap.c nothing\n# The modelled", "nothing of src/core/ownership/heap.c is in no model")
        case("the README forgets a control", "tests/model/README.md", "SECOND_READ (3)", "(3)",
             "SECOND_READ of the model foreign is not named")
        case("the table of orders is another", "tests/model/README.md", "| bracket | in_op", "| bracket | in op",
             "the table of orders is not as")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
