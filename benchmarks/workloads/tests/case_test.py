"""The small programs: both allocators compute the same, a figure is written for everything, wrong usage is refused."""

import os

import workload_check as w

for name in ("big_answers", "idle_connections", "xml_tree", "lua_states"):
    program = os.path.join(w.BUILD, name)
    if not os.path.exists(program):
        w.check(name in ("xml_tree", "lua_states"), "%s is not built" % name)
        print("%s: not built, as its library is not installed" % name)
        continue
    digests = {}
    for allocator in ("malloc", "tslab"):
        result, text = w.run_json(program, "--allocator=" + allocator, "--seconds=0.1")
        digests[allocator] = result["digest"]
        w.check(result["allocator"] == allocator and result["tool"] == name, "%r" % result)
        w.check(result["requests"] > 0 and result["requests_per_s"] > 0, "%s: no requests" % name)
        w.check(name in text and "RSS" not in text, "%r" % text)
        w.check_latencies(result["latency_ns"], result["requests"])
        rss = result["rss"]
        w.check(0 < rss["before_bytes"] and 0 < rss["after_bytes"] <= rss["peak_bytes"], "%r" % rss)
    w.check(digests["malloc"] == digests["tslab"] and int(digests["malloc"], 16) != 0, "%s: %r" % (name, digests))
    for line in ("--allocator=other", "--seconds=0", "--nonsense", "--seconds", "a b", "--json=/no/such/directory/x"):
        w.check_refused(program, line)
    done = w.run(program, "--help")
    w.check(done.returncode == 0 and done.stdout.startswith("usage: " + name), "%r" % done.stdout)
    if name == "xml_tree":
        done = w.run(program, "/no/such/file.xml")
        w.check(done.returncode == 1 and "/no/such/file.xml" in done.stderr, "%r" % done.stderr)

w.finish()
