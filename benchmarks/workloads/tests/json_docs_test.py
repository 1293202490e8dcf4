"""The command line and the JSON of json_docs, and that it really parses and prints what it is given."""

import json
import os
import tempfile

import workload_check as w

DOCS = os.path.join(w.BUILD, "json_docs")
SHORT = ["--seconds=0.05"]

REFUSED = ("--nonsense", "-q", "--seconds", "--allocator=none", "--seconds=0", "--seconds=soon", "--rss_sample_ms=0", "--json=",
           "--json=/no/such/directory/x.json")

GOOD = {
    "plain.json": {"a": [1, 2.5, None, True, "text"], "b": {"c": {}}},
    "unicode.json": {"grüße": "日本語 \u0000 \U0001f600", "empty": ""},
    "deep/er/nested.json": [[[[[["x" * 1000]]]]]],
    "deep/number.json": 42,
    "deep/large.json": [{"key %d" % i: "value %d" % i} for i in range(5000)],
}


def fnv1a(data):
    value = 0xCBF29CE484222325
    for byte in data:
        value = ((value ^ byte) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
    return "%016x" % value


def write(directory, name, data):
    path = os.path.join(directory, name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
        file.write(data)
    return path


def nodes(value):
    if isinstance(value, dict):
        return 1 + sum(nodes(each) for each in value.values())
    if isinstance(value, list):
        return 1 + sum(nodes(each) for each in value)
    return 1


def string_bytes(value):
    if isinstance(value, dict):
        return sum(len(key.encode()) + string_bytes(each) for key, each in value.items())
    if isinstance(value, list):
        return sum(string_bytes(each) for each in value)
    return len(value.encode()) if isinstance(value, str) else 0


def check_documents(result, directory):
    got = {os.path.relpath(each["path"], directory): each for each in result["documents"]}
    w.check(set(got) == set(GOOD), "documents %r" % sorted(got))
    for name, value in GOOD.items():
        if name in got:
            w.check(got[name]["nodes"] == nodes(value), "%s: %d nodes" % (name, got[name]["nodes"]))
            w.check(got[name]["string_bytes"] == string_bytes(value), "%s: strings" % name)
    # The output for this one is known byte by byte.
    text = b'[\n  [\n    [\n      [\n        [\n          [\n            "' + b"x" * 1000 + \
        b'"\n          ]\n        ]\n      ]\n    ]\n  ]\n]'
    nested = got.get("deep/er/nested.json", {})
    w.check(nested.get("output_bytes") == len(text), "nested: %r bytes" % nested.get("output_bytes"))
    w.check(nested.get("output_fnv1a") == fnv1a(text), "nested: hash %r" % nested.get("output_fnv1a"))


def good_directory(directory):
    for name, value in GOOD.items():
        write(directory, name, json.dumps(value).encode())
    write(directory, "not-json.txt", b"{")


for line in REFUSED:
    w.check_refused(DOCS, line)
w.check_refused(DOCS, "--json --help", "--json: needs a value, not '--help'")
done = w.run(DOCS, "--help")
w.check(done.returncode == 0 and "--allocator" in done.stdout and "PATH" in done.stdout, "--help")

with tempfile.TemporaryDirectory() as directory:
    good_directory(directory)
    results = {}
    for allocator in ("malloc", "tslab"):
        result, text = w.run_json(DOCS, "--allocator=" + allocator, "--seconds=0.2", "--rss_sample_ms=5", directory)
        results[allocator] = result
        check_documents(result, directory)
        w.check(result["requests"] == result["rounds"] * len(GOOD) > 0, "%d requests" % result["requests"])
        w.check(result["wrong"] == result["invalid"] == result["unreadable"] == 0, "%s: %r" % (allocator, text))
        w.check_latencies(result["latency_ns"], result["requests"])
        w.check_rss(result["rss"], 0.2)
    w.check(results["malloc"]["documents"] == results["tslab"]["documents"], "the allocators print alike")
    w.check(results["malloc"]["leaked"] == {"objects": None, "by_epoch_label": None}, "malloc knows no leaks")
    w.check(results["tslab"]["leaked"] == {"objects": 0, "by_epoch_label": []}, "tslab leaks nothing")
    slab = results["tslab"]["tslab"]
    w.check(slab["allocated_objects_total"] == slab["freed_objects_total"] > 0, "tslab: %r" % slab)

    # Of an even number of documents one is served twice a round.
    two = [os.path.join(directory, name) for name in ("deep/large.json", "plain.json")]
    result, text = w.run_json(DOCS, "--allocator=malloc", *SHORT, *two)
    w.check(result["requests"] == 3 * result["rounds"] > 0, "%d requests" % result["requests"])

    # Without --allocator: both, compared.
    result, text = w.run_json(DOCS, *SHORT, directory)
    w.check(result["same_output"] is True and [run["allocator"] for run in result["runs"]] == ["malloc", "tslab"],
            "both: %r" % text)
    w.check("malloc and tslab print all %d documents alike" % len(GOOD) in text, "both: %r" % text)

    # A bad document is named with its line, counted, and the others are served.
    bad = write(directory, "bad.json", b'{\n  "a": 1,\n  "b": ]\n}\n')
    empty = write(directory, "empty.json", b"")
    missing = os.path.join(directory, "missing.json")
    for arguments in (["--allocator=malloc"], ["--allocator=tslab"], []):
        done = w.run(DOCS, *arguments, *SHORT, missing, directory)
        lines = done.stderr.splitlines()
        w.check(done.returncode == 0, "%r: exit %d: %s" % (arguments, done.returncode, done.stderr))
        w.check(len(lines) == 3, "%r: stderr %r" % (arguments, lines))
        w.check(any(line.startswith("json_docs: %s:3:" % bad) for line in lines), "%r: %r" % (arguments, lines))
        w.check(any(line.startswith("json_docs: %s:" % empty) for line in lines), "%r: %r" % (arguments, lines))
        w.check("json_docs: %s: No such file or directory" % missing in lines, "%r: %r" % (arguments, lines))
        w.check("2 invalid, 1 unreadable" in done.stdout, "%r: %s" % (arguments, done.stdout))

    # Nothing usable is a failure.
    for arguments in (["--allocator=malloc"], ["--allocator=tslab"], []):
        for paths in ([bad, empty], [missing]):
            done = w.run(DOCS, *arguments, *SHORT, *paths)
            w.check(done.returncode == 1, "%r %r: exit %d" % (arguments, paths, done.returncode))
            w.check(done.stderr.count("no document could be read") == 1, "%r: %r" % (arguments, done.stderr))

w.finish()
