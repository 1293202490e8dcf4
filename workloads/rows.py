"""The rows of `make run`: what each one does, which program does it, and which figures are compared."""

from collections import namedtuple

# name: as in the table. does: one sentence. time, memory: what the two figures are. memory_key: of the program's "rss".
# program: in build/workloads, or None for the unmodified program. needs: what is missing if it is not built.
Row = namedtuple("Row", "name does time memory memory_key program arguments needs note")

PATTERN = "synthetic_bench"


def pattern(name, does, memory="peak", note=""):
    return Row(name, does, "median request", "after the run" if memory == "after" else "at the peak", memory + "_bytes", PATTERN,
               ["--pattern=" + name], "", note)


ROWS = [
    Row("8 answers of 2 MB", "Eight threads build an answer of 2 MB each at the same time. Then all is quiet for a second.",
        "median answer", "idle afterwards", "after_bytes", "big_answers", [], "", ""),
    Row("idle connections", "A thousand connections have a request each, all at once. Then they stay open and idle for a second.",
        "median request", "idle afterwards", "after_bytes", "idle_connections", [], "",
        "temporal-slab runs with its option `background`, as a server would."),
    Row("JSON documents", "Real documents (iso-codes) are parsed by jansson, walked, and printed again.",
        "median document", "at the peak", "peak_bytes", "json_docs", [], "", ""),
    Row("XML tree", "A real document is parsed by libxml2, its tree walked, and printed again.",
        "median document", "at the peak", "peak_bytes", "xml_tree", [], "libxml2-dev", ""),
    Row("Lua states", "Each request makes a Lua state, runs a script in it, and drops the state.",
        "median request", "at the peak", "peak_bytes", "lua_states", [], "liblua5.4-dev", ""),
    pattern("burst", "A request allocates 80 to 200 objects of 128 bytes and frees them."),
    pattern("steady", "A request allocates 50 objects of 128 bytes. Each is freed 8 requests later."),
    pattern("hotspot", "A request allocates 120 objects of 48 to 768 bytes in one long-lived epoch and frees them one by one."),
    pattern("leak", "As burst, but one object in a hundred is never freed. temporal-slab opens an epoch for each request.", "after",
            "An epoch that leaks keeps some 6 KiB ten seconds after its close. In return temporal-slab names the epochs that leak, and can free them."),
    pattern("kernel", "A request allocates 300 objects of 256 bytes. temporal-slab returns the memory to the system after each.",
            note="malloc keeps the memory. The difference in time is the system's calls and page faults."),
    Row("python3, unmodified", "python3 (PYTHONMALLOC=malloc) reads and writes JSON. libtslab-malloc.so is preloaded; nothing is changed.",
        "processor time", "at the peak", "peak_bytes", None, [], "", ""),
]
