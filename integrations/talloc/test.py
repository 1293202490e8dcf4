#!/usr/bin/env python3
"""libtslab-talloc beside talloc: the same functions, the same reports, notmuch with the same answers, and a leak that the
doctor names.

usage: test.py LIBRARY BUILD    LIBRARY: libtslab-talloc.so, BUILD: the folder with the program tslab and the tests
"""

import pathlib
import re
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path[:0] = [str(pathlib.Path(__file__).resolve().parent), str(pathlib.Path(__file__).resolve().parent.parent)]
import programs  # noqa: E402
from shared import MISUSE_ENDS, SHOWN, arguments_of, differences, doctor_names, expect, failures  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent



def functions(library):
    """Names and versions that a library exports."""
    shown = subprocess.run(["objdump", "-T", library], capture_output=True, text=True, check=True).stdout
    return set(re.findall(r"DF \.text\s+\S+\s+\(?(TALLOC_[\d.]+)\)?\s+(\S+)", shown))


def same_functions(library, promises):
    linked = subprocess.run(["ldd", promises], capture_output=True, text=True, check=True).stdout
    theirs = functions(re.search(r"libtalloc\.so\.2 => (\S+)", linked)[1])
    expect("each of the %d functions of libtalloc is there, with its version" % len(theirs), theirs and theirs == functions(library),
           theirs ^ functions(library))


def same_promises(root, library, promises):
    plain = subprocess.run([promises], env=programs.environment(None, root), capture_output=True, text=True, check=False, timeout=300)
    expect("talloc keeps the promises that are tested", plain.returncode == 0, plain.stdout)
    said = []
    for preload in (None, library):
        shown = subprocess.run([promises, "report"], env=programs.environment(preload, root), capture_output=True, text=True, check=False,
                               timeout=60).stdout
        said.append(re.sub(r"cur_size = \d+", "cur_size", re.sub(r"0x[0-9a-f]+", "POINTER", shown)))
    expect("%d lines of reports and messages are the same" % said[0].count("\n"), said[0] == said[1] and said[0].count("\n") > 60,
           differences(*(s.split("\n") for s in said)))


def same_notmuch(root, library):
    programs.mails(root, 1000)
    plain = programs.conversation(root, None)
    ours = programs.conversation(root, library, MISUSE_ENDS)
    expect("notmuch: %d commands on a thousand mails say the same" % len(plain), ours == plain and "Added 1000 new messages" in plain[0],
           differences(plain, ours) or plain[0])
    maps = subprocess.run(["bash", "-c", "exec notmuch show --format=raw id:1.mail@example.org"], capture_output=True, text=True, check=False,
                          env={**programs.environment(library, root), "LD_DEBUG": "bindings"}).stderr
    bound = re.findall(r"binding file \S+ \[0\] to (\S+) \[0\]: normal symbol `_?talloc", maps)
    expect("notmuch's talloc functions are ours, after exec too", bound and all("libtslab-talloc" in file for file in bound), bound)


PLUGIN = "#include <talloc.h>\nvoid *make(void *context) { return talloc_strdup(context, \"of a plugin\"); }\n"
HOST = """
#include <dlfcn.h>
#include <talloc.h>
int main(int count, char **arguments) {
    void *plugin = count == 2 ? dlopen(arguments[1], RTLD_NOW | RTLD_DEEPBIND) : NULL, *top = talloc_new(NULL);
    void *(*make)(void *) = plugin ? (void *(*)(void *))dlsym(plugin, "make") : NULL;
    return !make || !make(top) || talloc_total_blocks(top) != 2 || talloc_free(top) != 0;
}
"""


def plugins_too(root, library):
    """Samba's modules look for talloc in their own libraries first."""
    for name, text, options in (("plugin.so", PLUGIN, ["-shared", "-fPIC"]), ("host", HOST, ["-D_GNU_SOURCE"])):
        subprocess.run(["gcc", *options, "-x", "c", "-o", root / name, "-", "-ltalloc"], input=text, text=True, check=True)
    done = subprocess.run([root / "host", root / "plugin.so"], env=programs.environment(library, root), capture_output=True, text=True, check=False)
    expect("a plugin that binds to its own libraries first has our talloc", done.returncode == 0, (done.returncode, done.stderr))


def leak_is_named(root, library, build):
    leak = root / "leak"
    subprocess.run(["gcc", "-o", leak, HERE / "leak.c", "-ltalloc"], check=True)
    with subprocess.Popen([leak], env=programs.environment(library, root, SHOWN)) as process:
        done, said = doctor_names(build / "tools/tslab", "sessions", lambda: [process.pid])
        process.kill()
    expect("tslab doctor names the context that grows: sessions", done and "`settings` leaks" not in said, said)


def main(library, build):
    promises = build / "integrations/talloc/integrations.talloc_promises_test"
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        same_functions(library, promises)
        same_promises(root, str(library), promises)
        plugins_too(root, str(library))
        leak_is_named(root, str(library), build)
        if programs.missing():
            print("notmuch: left out: not installed")
        else:
            same_notmuch(root, str(library))
    if failures:
        return 1
    return 77 if programs.missing() else 0


if __name__ == "__main__":
    sys.exit(main(*arguments_of(__doc__)))
