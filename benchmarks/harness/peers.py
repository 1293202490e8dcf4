"""The allocators that are compared: their names, the files they are had from, and what is set for them.

A name is that of CSV files and options. `tcmalloc` is that of gperftools, `google` is Google's own. What benchmarks/peers/newest.sh built
takes the place of what the system has; a file is called NAME-VERSION.so there.
"""

import glob
import os
import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
NEWEST = ROOT / "build" / "peers"
PEERS = ["malloc", "jemalloc", "tcmalloc", "mimalloc", "snmalloc", "google"]
ALLOCATORS = ["tslab", *PEERS]
# The system's files, of Debian's packages libjemalloc2, libtcmalloc-minimal4 and libmimalloc2.0.
SYSTEM = {"jemalloc": "libjemalloc.so.2", "tcmalloc": "libtcmalloc_minimal.so.4", "mimalloc": "libmimalloc.so.2"}
BUILT = ["mimalloc", "snmalloc", "jemalloc", "google"]  # by newest.sh
PLACES = ("/usr/lib/*/", "/usr/lib/", "/usr/local/lib/")
FOREIGN = ("LD_PRELOAD", "GLIBC_TUNABLES", "HEAPPROFILE", "MALLOC_", "MIMALLOC_", "TCMALLOC_", "TSLAB_")
LABELS = {"tslab": "temporal-slab", "tcmalloc": "gperftools", "google": "Google's tcmalloc"}


def label(name):
    """What a reader calls it: also one of its versions (`google-0.1.14`) or ways (`tcmalloc_free`)."""
    first = re.match("[a-z]*", name)[0]
    return LABELS.get(first, first) + name[len(first):] if first != "tslab" or name == first else name


def installed(file):
    """The first file of that name where libraries lie; or None."""
    return next((path for place in PLACES for path in sorted(glob.glob(place + file))), None)


def version_key(path):
    return [int(part) for part in re.findall(r"\d+", os.path.basename(path))]


def find(newest=None):
    """({name: file}, [names that are not installed]). newest: a directory of NAME-VERSION.so, the newest of which takes the place of the
    system's; its name is NAME-VERSION then."""
    built = {}
    for path in sorted(glob.glob(os.path.join(newest, "*-*.so")) if newest else [], key=version_key):
        built[os.path.basename(path).split("-")[0]] = os.path.abspath(path)
    found, absent = {}, []
    for name in PEERS[1:]:
        path = built.get(name) or (name in SYSTEM and installed(SYSTEM[name]))
        if path:
            found[os.path.basename(path)[:-3] if name in built else name] = path
        elif name in SYSTEM or newest:
            absent.append(name)
    return found, absent


def settings(name, file):
    """What a program is started with to have this allocator."""
    more = {"GLIBC_TUNABLES": "glibc.pthread.rseq=0"} if name.startswith("google") else {}  # its documentation: else no caches per processor
    return {"LD_PRELOAD": str(file), **more}


def clean_environment():
    """The environment without what would make an allocator another one than it is."""
    return {key: value for key, value in os.environ.items() if not key.startswith(FOREIGN)}
