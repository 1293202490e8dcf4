"""The command line, the text and the JSON of synthetic_bench."""

import os
import tempfile

import workload_check as w

BENCH = os.path.join(w.BUILD, "synthetic_bench")

# Of what they name the last word.
REFUSED = """-x;extra;-- extra;--threads;--allocator=jemalloc;--allocator=;--pattern=bursty;--duration_s=0;--duration_s=-1;--duration_s=1x
--duration_s=86401;--duration_s=nan;--threads=0;--threads=1025;--req_rate=fast;--req_rate=-1;--objs_min=0;--objs_max=1000001;--objs_min=300
--objs_min=9 --objs_max=8;--size=0;--size=;--size=200-100;--size=1-2-3;--size=-5;--size=5-;--size=1073741825;--epoch_policy=often
--epoch_policy=batch;--epoch_policy=batch:0;--epoch_policy=batch:x;--epoch_policy=per_req:3;--free_policy=never;--free_policy=lag:0
--free_policy=lag:1000001;--free_policy=leak:101;--free_policy=leak:;--free_policy=leak:-1;--objs_max=1000000 --free_policy=lag:1000000
--rss_sample_ms=0;--seed=9223372036854775808;--json=;--json=/no/such/directory/x.json""".replace("\n", ";").split(";")
NAMED = (("--json --help", "--json: needs a value, not '--help'"), ("--seed --json=x", "--seed: needs a value, not '--json=x'"),
         ("--nonsense=1", "--nonsense"), ("--help=3", "--help"), ("--size=" + "1" * 40 + "-2", "--size=1111"))

PRESETS = {
    "burst": {"req_rate": 2000, "objs_min": 80, "objs_max": 200, "size_min": 128, "size_max": 128, "epoch_policy": "per_req", "free_policy": "within_req"},
    "steady": {"req_rate": 5000, "objs_min": 50, "objs_max": 50, "epoch_policy": "batch:16", "free_policy": "lag:8"},
    "leak": {"req_rate": 2000, "epoch_policy": "per_req", "free_policy": "leak:1"},
    "hotspot": {"req_rate": 4000, "objs_min": 120, "objs_max": 120, "hot_pct": 80, "hot_bytes": 128},
    "kernel": {"req_rate": 2000, "objs_min": 300, "objs_max": 300, "size_min": 256, "size_max": 256},
}


def check_counts(name, result):
    options = result["options"]
    requests, objects = result["requests"], result["objects"]
    w.check(0 < requests <= options["req_rate"] * options["duration_s"] + options["threads"],
            "%s: %d requests" % (name, requests))
    w.check(requests * options["objs_min"] <= objects <= requests * options["objs_max"],
            "%s: %d objects" % (name, objects))
    w.check(objects * options["size_min"] <= result["object_bytes"] <= objects * options["size_max"],
            "%s: %d bytes" % (name, result["object_bytes"]))
    w.check(result["allocation_failures"] == 0, "%s: %d failures" % (name, result["allocation_failures"]))
    w.check(abs(result["requests_per_s"] - requests / result["elapsed_s"]) < 1, "%s: the rate" % name)


def check_leaked(name, result, allocator):
    leaked = result["leaked"]
    w.check(leaked["objects"] == result["objects"] - result["freed"], "%s: leaked" % name)
    w.check((leaked["objects"] > 0) == (name == "leak"), "%s: %d leaked" % (name, leaked["objects"]))
    w.check(leaked["bytes"] == leaked["objects"] * 128, "%s: %d bytes leaked" % (name, leaked["bytes"]))
    labels = leaked["by_epoch_label"]
    if allocator == "malloc":
        w.check(labels is None and result["tslab"] is None, "malloc knows no labels")
        return
    w.check([row["label"] for row in labels] == (["req"] if name == "leak" else []), "%s: labels %r" % (name, labels))
    w.check(sum(row["objects"] for row in labels) == leaked["objects"], "%s: labels %r" % (name, labels))
    slab = result["tslab"]
    w.check(slab["allocated_objects_total"] - slab["freed_objects_total"] == leaked["objects"], "%s: totals" % name)
    w.check(slab["allocated_objects_total"] == result["objects"], "%s: allocated" % name)
    rate = 1 - slab["slow_path_hits"] / slab["allocated_objects_total"]
    w.check(abs(slab["fast_path_rate"] - rate) < 1e-9, "%s: fast path %r" % (name, slab["fast_path_rate"]))


def check_text(name, text, allocator):
    for word in ("requests", "objects", "latency of a request", "fast path", "slow paths", "slabs", "purges",
                 "resident memory", "leaked, by epoch label"):
        w.check("\n" + word in text, "%s with %s: no line %r" % (name, allocator, word))
    w.check(("n/a" in text) == (allocator == "malloc"), "%s with %s: n/a" % (name, allocator))
    if allocator == "tslab" and name == "leak":
        w.check('"req": ' in text, "the leak report names no label: %s" % text)


for line, named in (*((line, None) for line in REFUSED), *NAMED):
    w.check_refused(BENCH, line, named)

done = w.run(BENCH, "--help")
w.check(done.returncode == 0 and done.stderr == "", "--help")
for option in ("--allocator", "--pattern", "--duration_s", "--threads", "--req_rate", "--objs_min", "--objs_max",
               "--size", "--epoch_policy", "--free_policy", "--rss_sample_ms", "--seed", "--json"):
    w.check(option in done.stdout, "--help does not tell %s" % option)

for name, expected in PRESETS.items():
    for allocator in ("malloc", "tslab"):
        result, text = w.run_json(BENCH, "--pattern=" + name, "--allocator=" + allocator, "--duration_s=0.3",
                                  "--rss_sample_ms=5")
        for key, value in {**expected, "reclaim_at_once": name == "kernel"}.items():
            w.check(result["options"][key] == value, "%s: %s is %r" % (name, key, result["options"][key]))
        w.check(result["workload"] == name and result["allocator"] == allocator, "%s: names" % name)
        check_counts(name, result)
        check_leaked(name, result, allocator)
        check_text(name, text, allocator)
        w.check_latencies(result["latency_ns"], result["requests"])
        w.check_rss(result["rss"], 0.3)

# An option wins over the preset wherever it stands, and all of them arrive.
result, _ = w.run_json(BENCH, "--threads=2", "--req_rate=300", "--objs_min=3", "--objs_max=7", "--size=64-512",
                       "--epoch_policy=batch:5", "--free_policy=lag:3", "--rss_sample_ms=20", "--seed=42",
                       "--duration_s=0.2", "--pattern=kernel")
options = result["options"]
w.check([options[key] for key in ("threads", "req_rate", "objs_min", "objs_max", "size_min", "size_max",
                                  "epoch_policy", "free_policy", "rss_sample_ms", "seed", "reclaim_at_once")]
        == [2, 300, 3, 7, 64, 512, "batch:5", "lag:3", 20, 42, True], "options %r" % options)
check_counts("all options", result)

# Memory that leaks stays: 30 % of 64 KiB objects, 50 requests of 20 of them. With at_once nothing is kept warm, so
# that epoch_destroy is seen to give it back.
os.environ["TSLAB_RECLAIM"] = "at_once"
for allocator in ("malloc", "tslab"):
    result, _ = w.run_json(BENCH, "--allocator=" + allocator, "--pattern=leak", "--size=65536", "--objs_min=20",
                           "--objs_max=20", "--req_rate=100", "--free_policy=leak:30", "--duration_s=0.5",
                           "--rss_sample_ms=1")
    grown = result["rss"]["after_bytes"] - result["rss"]["before_bytes"]
    w.check(grown >= result["leaked"]["bytes"] * 0.9, "%s: %d bytes leaked, resident memory grew by %d"
            % (allocator, result["leaked"]["bytes"], grown))
    if allocator == "tslab":
        w.check(result["rss"]["after_destroy_bytes"] < result["rss"]["after_bytes"] - grown / 2,
                "epoch_destroy gave nothing back: %r" % result["rss"]["after_destroy_bytes"])
del os.environ["TSLAB_RECLAIM"]

with tempfile.TemporaryDirectory() as directory:
    w.check_refused(BENCH, ["--json=" + directory], directory)

w.finish()
