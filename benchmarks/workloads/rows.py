"""The rows of `make run`: what each one does, which program does it, and which figures are compared."""

from collections import namedtuple

# name: as in the table. does: one sentence. time, memory: the meaning of the two figures. memory_key: of the program's
# "rss". program: of the build, or None for the unmodified program. needs: the missing library if it is not built.
# matters: for which program. by_design: why temporal-slab is slow there, where it means to be.
Row = namedtuple("Row", "name does time memory memory_key program arguments needs note matters by_design", defaults=("",))

PATTERN = "synthetic_bench"


def pattern(name, does, matters, memory="peak", note="", shown=None, by_design=""):
    return Row(shown or name, does, "median request", "after the run" if memory == "after" else "at the peak", memory + "_bytes", PATTERN,
               ["--pattern=" + name], "", note, matters, by_design)


ROWS = [
    Row("memory after a burst", "Eight threads build an answer of 2 MB each at the same time. Then all is quiet for a second.",
        "median answer", "idle afterwards", "after_bytes", "big_answers", [], "", "", "a server that is busy now and then"),
    Row("idle connections", "A thousand connections have a request each, all at once. Then they stay open and idle for a second.",
        "median request", "idle afterwards", "after_bytes", "idle_connections", [], "",
        "temporal-slab runs with its option `background`, as a server would.", "a server with many open connections"),
    Row("JSON documents", "Real documents (iso-codes) are parsed by jansson, walked, and printed again.",
        "median document", "at the peak", "peak_bytes", "json_docs", [], "", "", "a parser of JSON"),
    Row("XML tree", "A real document is parsed by libxml2, its tree walked, and printed again.",
        "median document", "at the peak", "peak_bytes", "xml_tree", [], "libxml2-dev", "", "a parser of XML"),
    Row("Lua states", "Each request makes a Lua state, runs a script in it, and drops the state.",
        "median request", "at the peak", "peak_bytes", "lua_states", [], "liblua5.4-dev", "", "a server that runs scripts"),
    pattern("burst", "A request allocates 80 to 200 objects of 128 bytes and frees them.", "a server of short requests", shown="short requests"),
    pattern("hotspot", "A request allocates 120 objects of 48 to 768 bytes in one long-lived epoch and frees them one by one.",
            "a program without lifetimes"),
    pattern("steady", "A request allocates 50 objects of 128 bytes. Each is freed 8 requests later.", "objects that outlive their request a little"),
    Row("python3, unmodified", "python3 (PYTHONMALLOC=malloc) reads and writes JSON. libtslab-malloc.so is preloaded; nothing is changed.",
        "processor time", "at the peak", "peak_bytes", None, [], "", "", "a program that you do not compile"),
    pattern("leak", "As short requests, but one object in a hundred is never freed. temporal-slab opens an epoch for each request.",
            "a program that leaks", "after",
            "An epoch that leaks keeps some 6 KiB ten seconds after its close. In return temporal-slab names the epochs that leak, and can free them.",
            by_design="an epoch a request, so that a leak has a name"),
    pattern("kernel", "A request allocates 300 objects of 256 bytes. temporal-slab returns the memory to the system after each.",
            "a program that must hold nothing between requests",
            note="malloc keeps the memory. The difference in time is the system's calls and page faults.",
            by_design="the memory goes back after each request"),
]
