#!/usr/bin/env python3
"""Real programs under one malloc after the other: processor time and peak resident memory.

usage: programs_bench.py LIBRARY [--hard] [--rounds N] [--smoke] [--csv FILE] [ROW...]

Each row is a command that takes about a second. In a round every allocator runs it once, in an order that turns; figures are medians of the
rounds, and ratios are to the median of glibc. --hard: the library in its usual mode and with TSLAB_HARDEN=1, and ratios are to the former. Peak memory is at least this script's own,
some 15 MB, which the system counts for what it starts. An allocator or a program that is not there is left out, by name. --smoke: one round of
short runs, for whether it works.
"""
import argparse
import csv
import glob
import math
import os
import shutil
import statistics
import subprocess
import sys
import tempfile

PYTHON = r"""
import json, random, re
random.seed(1); n = int(%s)
for k in range(n):
    data = {str(i): [random.random() for _ in range(i %% 20)] for i in range(3000)}
    text = json.dumps(data); assert json.loads(text) == data
    words = {}
    for w in re.findall(r"\d\d\d", text): words[w] = words.get(w, 0) + 1
"""
PERL = r"""for my $k (1..%s) { my %%h; $h{$_ * 7919 %% 50021}{t} = "x" x ($_ %% 60) for 1..60000; my @s = sort map { $_->{t} } values %%h;
my $t = join ",", @s; my $n = () = $t =~ /x+/g; }"""
LUA = r"""for k = 1, %s do local t = {} for i = 1, 100000 do t[i] = {i, "k" .. i} end local s = {} for i = 1, 50000 do s[i] = ("k" .. i):rep(3) end
local c = table.concat(s) t = nil end"""
SQL = r"""create table t(a integer primary key, b text);
with recursive n(i) as (select 1 union all select i + 1 from n where i < %s) insert into t select i, hex(i * 7919) from n;
create index i on t(b); select substr(b, 1, 3) k, count(*), group_concat(a) from t group by k order by 2 desc limit 3;"""

# name, programs that it needs, (usual, smoke) amount of work, files, command
ROWS = [
    ("python", ["python3"], (12, 1), {"p.py": PYTHON}, ["python3", "p.py"]),
    ("perl", ["perl"], (6, 1), {"p.pl": PERL}, ["perl", "p.pl"]),
    ("lua", ["lua5.4"], (10, 1), {"p.lua": LUA}, ["lua5.4", "p.lua"]),
    ("sqlite", ["sqlite3"], (250000, 5000), {"p.sql": SQL}, ["sqlite3", ":memory:", ".read p.sql"]),
    ("gcc", ["gcc"], (900, 30), {"p.c": None}, ["gcc", "-O2", "-c", "p.c"]),
    ("g++", ["g++"], (1, 1), {"p.cpp": "#include <iostream>\n#include <map>\n#include <regex>\nint main(int n, char **) { std::map<int, "
                              "std::string> m; m[n] = \"x\"; std::regex r(\"a+\"); std::cout << std::regex_match(m[n], r) << %s; }\n"},
     ["g++", "-O1", "-c", "p.cpp"]),
    ("php", ["php"], (8, 1), {"p.php": "<?php for ($k = 0; $k < %s; $k++) { $a = []; for ($i = 0; $i < 100000; $i++) $a['k' . ($i %% 5003)][] = "
                              "str_repeat('x', $i %% 40); ksort($a); json_encode($a); }"}, ["env", "USE_ZEND_ALLOC=0", "php", "p.php"]),
    ("ruby", ["ruby"], (5, 1), {"p.rb": "%s.times { a = (1..80000).map { |i| \"s#{i}\" * (i %% 5) }; h = a.group_by(&:size); a.join.scan(/9s/) }"},
     ["ruby", "p.rb"]),
    ("ghostscript", ["gs"], (60, 2), {"p.ps": "%%!PS\n/Times-Roman findfont 12 scalefont setfont 1 1 %s { /p exch def 1 1 55 { /i exch def 50 750 i 13 mul sub "
                                      "moveto p 10 string cvs show ( line of text ) show i 20 mul 700 lineto stroke } for showpage } for\n"},
     ["gs", "-q", "-dNOPAUSE", "-dBATCH", "-dSAFER", "-sDEVICE=pdfwrite", "-sOutputFile=/dev/null", "p.ps"]),
]


def c_source(n):
    lines = ["static int f0(int a, int b) { return a + b; }"]
    for i in range(1, n):
        lines.append(f"static int f{i}(int a, int b) {{ int s = 0; for (int i = a; i < b; i++) s += (i * {i + 3}) ^ (s >> {i % 7}); "
                     f"return s > {i} ? s : f{i - 1}(b, s); }}")
    lines.append(f"int main(int n, char **v) {{ (void)v; return f{n - 1}(n, 9); }}\n")
    return "\n".join(lines)


def allocators(library, hard):
    """Name: what is set in the environment. Ratios are to the first."""
    preload = [f"LD_PRELOAD={library}"]
    if hard:
        return {"tslab": preload, "tslab hard": preload + ["TSLAB_HARDEN=1"]}
    found = {"glibc": [], "tslab": preload}
    for name, pattern in (("jemalloc", "libjemalloc.so.2"), ("tcmalloc", "libtcmalloc_minimal.so.4"), ("mimalloc", "libmimalloc.so.2")):
        paths = sorted(glob.glob(f"/usr/lib/*/{pattern}") + glob.glob(f"/usr/local/lib/{pattern}"))
        if paths:
            found[name] = [f"LD_PRELOAD={paths[0]}"]
        else:
            print(f"{name}: not installed")
    return found


def measure(command, directory, variables):
    """Seconds of processor time and peak KiB of the largest process, or None if it fails."""
    environment = {k: v for k, v in os.environ.items() if k != "LD_PRELOAD" and not k.startswith("TSLAB_")}
    environment.update(PYTHONHASHSEED="0", PERL_HASH_SEED="0", LC_ALL="C")
    # By way of env: the variable is for the program, not for who starts it.
    arguments = ["env"] + variables + command
    process = subprocess.Popen(arguments, cwd=directory, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    error = process.stderr.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    process.stderr.close()
    if process.returncode != 0:
        print(f"{' '.join(command)}: status {process.returncode}: {error[-200:].decode(errors='replace')}", file=sys.stderr)
        return None
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss


def run_row(row, all_of_them, rounds, smoke):
    name, _, amounts, files, command = row
    amount = amounts[1 if smoke else 0]
    figures = {a: [] for a in all_of_them}
    with tempfile.TemporaryDirectory(prefix="programs_bench.") as directory:
        for file, text in files.items():
            with open(os.path.join(directory, file), "w", encoding="ascii") as f:
                f.write(c_source(amount) if text is None else text % amount)
        order = list(all_of_them)
        for _ in range(rounds):
            for allocator in order:
                figure = measure(command, directory, all_of_them[allocator])
                if figure is None and allocator in ("glibc", "tslab", "tslab hard"):
                    sys.exit(f"{name}: fails with {allocator}")
                figures[allocator].append(figure)
            order = order[1:] + order[:1]
    return {a: (statistics.median(t for t, _ in f), statistics.median(m for _, m in f)) if all(f) else None for a, f in figures.items()}


def mean(values):
    return math.exp(sum(math.log(v) for v in values) / len(values))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("library")
    parser.add_argument("rows", nargs="*")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--hard", action="store_true")
    parser.add_argument("--smoke", action="store_true")
    parser.add_argument("--csv")
    arguments = parser.parse_intermixed_args()
    found = allocators(os.path.abspath(arguments.library), arguments.hard)
    first = next(iter(found))
    rounds = 1 if arguments.smoke else arguments.rounds
    lines, ratios = [], {a: ([], []) for a in found}
    print(f"{'':12s}" + "".join(f"{a:>22s}" for a in found) + f"{'tslab / best':>16s}")
    for row in ROWS:
        if arguments.rows and row[0] not in arguments.rows:
            continue
        missing = [n for n in row[1] if not shutil.which(n)]
        if missing:
            print(f"{row[0]}: left out, there is no {', '.join(missing)}")
            continue
        medians = run_row(row, found, rounds, arguments.smoke)
        base = medians[first]
        text = ""
        for a, figure in medians.items():
            if figure is None:
                text += f"{'fails':>22s}"
                lines.append([row[0], a, "fails", "", "", ""])
                continue
            seconds, kib = figure
            t, m = seconds / base[0] if base[0] else 1, kib / base[1]
            text += f"{seconds:9.3f} s {t:4.2f} {m:4.2f}m"
            ratios[a][0].append(max(t, 0.01))
            ratios[a][1].append(m)
            lines.append([row[0], a, f"{seconds:.4f}", int(kib), f"{t:.3f}", f"{m:.3f}"])
        best = min(f[0] for a, f in medians.items() if f and a != "tslab")
        print(f"{row[0]:12s}{text}{medians['tslab'][0] / best if best else 1:16.2f}", flush=True)
    if not lines:
        sys.exit("no row was run")
    print(f"{'mean':12s}" + "".join(f"{'':11s} {mean(r[0]):4.2f} {mean(r[1]):4.2f}m" for r in ratios.values()))
    print("seconds of processor time; time and peak memory (m) as a ratio to those of", first + "; medians of", rounds, "rounds, interleaved")
    if arguments.csv:
        with open(arguments.csv, "w", newline="", encoding="ascii") as f:
            writer = csv.writer(f)
            writer.writerow(["row", "allocator", "cpu_s", "peak_kib", "time_to_first", "peak_to_first"])
            writer.writerows(lines)


if __name__ == "__main__":
    main()
