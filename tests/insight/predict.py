#!/usr/bin/env python3
"""How far a replay predicts the program: lua5.4, sqlite3, python3 and jq, each with a small load.

    predict.py TSLAB [--rounds N] [--program NAME]

Each program runs under each allocator, in interleaved rounds, and its trace is replayed under the same ones. Compared:

time    processor time of the program under an allocator, against that under malloc plus the difference of the two
        replays. Beside it the error of "it takes as long as under malloc".
peak    largest resident memory of the program, less that of the program with nothing to do, against the replay's peak.

Exit status: 0 done; 77 a program is not installed.
"""
import argparse
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile

LIBRARIES = {"malloc": "", "jemalloc": "libjemalloc.so.2", "tcmalloc": "libtcmalloc_minimal.so.4",
             "mimalloc": "libmimalloc.so.2"}
LUA = """
local keep = {}
for r = 1, 30 do
  local t = {}
  for i = 1, 20000 do t[i] = {id = i, name = "object " .. i .. "/" .. r} end
  keep[r % 5] = t
  local s = {}
  for i = 1, #t, 7 do s[#s + 1] = t[i].name end
  local u = table.concat(s, ",")
end
"""
SQL = """
create table t(id integer primary key, name text, v real);
with recursive n(i) as (select 1 union all select i+1 from n where i<300000) insert into t select i, 'name '||i, i*0.37 from n;
create index tn on t(name);
select count(*), sum(v) from t where name like '%77%';
select substr(name,1,7) p, count(*) c, group_concat(id) from t group by p order by c desc limit 3;
"""
PYTHON = """
import json
d = [{"id": i, "name": "n%d" % i, "tags": ["a%d" % (i % 7), "b"], "v": i * .5} for i in range(30000)]
for r in range(3):
    d = json.loads(json.dumps(d))
    x = {}
    for e in d: x.setdefault(e["name"][:3], []).append(e)
"""
# A child of this one begins with the resident memory of this one.
METER_SOURCE = """
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
int main(int argc, char **argv) {
    struct rusage u;
    int status = 1;
    pid_t child = fork();
    if (child == 0) {
        (void)dup2(open("/dev/null", O_WRONLY), 1);
        if (getenv("PRELOAD")) setenv("LD_PRELOAD", getenv("PRELOAD"), 1);
        if (argc > 1) execvp(argv[1], argv + 1);
        _exit(127);
    }
    if (child < 0 || wait4(child, &status, 0, &u) < 0 || status) return 1;
    printf("%ld %ld\\n", (u.ru_utime.tv_sec + u.ru_stime.tv_sec) * 1000000 + u.ru_utime.tv_usec + u.ru_stime.tv_usec,
           u.ru_maxrss);
    return 0;
}
"""
METER = pathlib.Path("meter")
FILTER = "map(select(.v < 30000)) | group_by(.tags[0]) | map(length)"


def programs(folder):
    """Name: the command, and the same program with nothing to do."""
    for name, text in (("work.lua", LUA), ("work.sql", SQL), ("work.py", PYTHON)):
        (folder / name).write_text(text)
    rows = [{"id": i, "name": "n%d" % i, "tags": ["t%d" % (i % 7), "u"], "v": i * 0.5} for i in range(100000)]
    (folder / "work.json").write_text(json.dumps(rows))
    return {"lua5.4": (["lua5.4", str(folder / "work.lua")], ["lua5.4", "-e", ""]),
            "sqlite3": (["sqlite3", ":memory:", ".read " + str(folder / "work.sql")], ["sqlite3", ":memory:", ""]),
            "python3": (["/usr/bin/python3", str(folder / "work.py")], ["/usr/bin/python3", "-c", "import json"]),
            "jq": (["jq", "-c", FILTER, str(folder / "work.json")], ["jq", "-n", "1"])}


def run(command, library):
    """Processor time in ms, and the largest resident memory in MB."""
    variables = {**os.environ, "PYTHONMALLOC": "malloc"}
    if library:
        variables["PRELOAD"] = library
    answer = subprocess.run([str(METER), *command], stdout=subprocess.PIPE, env=variables, check=True)
    cpu_us, kib = answer.stdout.split()
    return int(cpu_us) / 1e3, int(kib) * 1024 / 1e6


def medians(command, libraries, rounds):
    runs = {name: [] for name in libraries}
    for _ in range(rounds):
        for name, library in libraries.items():
            runs[name].append(run(command, library))
    return {name: [statistics.median(column) for column in zip(*of)] for name, of in runs.items()}


def off(predicted, own):
    return 100 * (predicted - own) / own


def compare(tslab, name, work, idle, libraries, rounds, folder):
    trace = folder / (name + ".trace")
    subprocess.run([tslab, "record", "-o", str(trace), *work], check=True, capture_output=True,
                   env={**os.environ, "PYTHONMALLOC": "malloc"})
    answer = subprocess.run([tslab, "replay", "--json", "--rounds", str(rounds), "--allocator", ",".join(libraries),
                             str(trace)], check=True, stdout=subprocess.PIPE)
    replays = {a["name"]: a for a in json.loads(answer.stdout)["allocators"]}
    libraries = {a: library for a, library in libraries.items() if a in replays}
    own, base = medians(work, libraries, rounds), medians(idle, libraries, rounds)
    for a, replayed in replays.items():
        change = (replayed["cpu_ns"]["median"] - replays["malloc"]["cpu_ns"]["median"]) / 1e6
        predicted, peak = own["malloc"][0] + change, own[a][1] - base[a][1]
        replay_peak = replayed["peak_bytes"]["median"] / 1e6
        print("%-8s %-9s %8.1f %8.1f %+6.1f %% (%+6.1f %%) %9.2f %8.2f %+6.1f %%" % (
            name, a, own[a][0], predicted, off(predicted, own[a][0]), off(own["malloc"][0], own[a][0]), peak,
            replay_peak, off(replay_peak, peak)), flush=True)


def main():
    global METER
    parser = argparse.ArgumentParser()
    parser.add_argument("tslab")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--program")
    chosen = parser.parse_args()
    tslab = os.path.abspath(chosen.tslab)
    beside = sorted(pathlib.Path(tslab).parent.glob("../src/malloc/libtslab-malloc.so.?"))
    libraries = {**LIBRARIES, "tslab": str(beside[0].resolve()) if beside else "libtslab-malloc.so.0"}
    print("program  allocator   own ms  predicted           (unchanged)  own MB   replay")
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        METER = folder / "meter"
        subprocess.run(["gcc", "-D_GNU_SOURCE", "-O1", "-x", "c", "-", "-o", str(METER)], input=METER_SOURCE, text=True,
                       check=True)
        for program, (work, idle) in programs(folder).items():
            if chosen.program not in (None, program):
                continue
            if not shutil.which(work[0]):
                print("%s is not installed" % work[0])
                sys.exit(77)
            compare(tslab, program, work, idle, libraries, chosen.rounds, folder)


if __name__ == "__main__":
    main()
