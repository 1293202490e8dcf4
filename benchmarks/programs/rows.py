"""The rows of programs_bench.py: commands of real programs, and the loops of programs_loops."""

PYTHON = r"""
import json, random, re
random.seed(1); n = int(%s)
for k in range(n):
    data = {str(i): [random.random() for _ in range(i %% 20)] for i in range(3000)}
    text = json.dumps(data); assert json.loads(text) == data
    words = {}
    for w in re.findall(r"\d\d\d", text): words[w] = words.get(w, 0) + 1
"""
JQ = r"""[range(%s) | {id: ., name: "n\(. %% 977)", tags: [range(. %% 5)]}] | tojson | fromjson
| (group_by(.name) | map({key: .[0].name, value: (map(.id) | add)}) | from_entries | length),
(map(select(.name | test("n9"))) | length), (map(.tags | join("-")) | unique | length)"""
PERL = r"""for my $k (1..%s) { my %%h; $h{$_ * 7919 %% 50021}{t} = "x" x ($_ %% 60) for 1..60000; my @s = sort map { $_->{t} } values %%h;
my $t = join ",", @s; my $n = () = $t =~ /x+/g; }"""
LUA = r"""for k = 1, %s do local t = {} for i = 1, 100000 do t[i] = {i, "k" .. i} end local s = {} for i = 1, 50000 do s[i] = ("k" .. i):rep(3) end
local c = table.concat(s) t = nil end"""
SQL = r"""create table t(a integer primary key, b text);
with recursive n(i) as (select 1 union all select i + 1 from n where i < %s) insert into t select i, hex(i * 7919) from n;
create index i on t(b); select substr(b, 1, 3) k, count(*), group_concat(a) from t group by k order by 2 desc limit 3;"""

# name, programs that it needs, (usual, smoke) amount of work, files, command
ROWS = [
    ("python", ["python3"], (8, 1), {"p.py": PYTHON}, ["python3", "p.py"]),
    # With malloc for every object: without that, Python asks for arenas of 256 KiB and divides them itself.
    ("python malloc", ["python3"], (8, 1), {"p.py": PYTHON}, ["env", "PYTHONMALLOC=malloc", "python3", "p.py"]),
    ("jq", ["jq"], (40000, 500), {"p.jq": JQ}, ["jq", "-n", "-f", "p.jq"]),
    ("perl", ["perl"], (4, 1), {"p.pl": PERL}, ["perl", "p.pl"]),
    ("lua", ["lua5.4"], (6, 1), {"p.lua": LUA}, ["lua5.4", "p.lua"]),
    ("sqlite", ["sqlite3"], (250000, 5000), {"p.sql": SQL}, ["sqlite3", ":memory:", ".read p.sql"]),
    ("gcc", ["gcc"], (450, 30), {"p.c": None}, ["gcc", "-O2", "-c", "p.c"]),
    ("clang", ["clang"], (450, 30), {"p.c": None}, ["clang", "-O2", "-c", "p.c"]),
    ("g++", ["g++"], (1, 1), {"p.cpp": "#include <iostream>\n#include <map>\n#include <string>\nint main(int n, char **) { std::map<int, "
                              "std::string> m; m[n] = \"x\"; std::cout << m[n] << %s; }\n"},
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
    """A C file of n functions."""
    lines = ["static int f0(int a, int b) { return a + b; }"]
    for i in range(1, n):
        lines.append(f"static int f{i}(int a, int b) {{ int s = 0; for (int i = a; i < b; i++) s += (i * {i + 3}) ^ (s >> {i % 7}); "
                     f"return s > {i} ? s : f{i - 1}(b, s); }}")
    lines.append(f"int main(int n, char **v) {{ (void)v; return f{n - 1}(n, 9); }}\n")
    return "\n".join(lines)


# Loop, (usual, smoke) amount of work.
LOOPS = [("factor", (2500, 20)), ("logic", (5000, 20)), ("fragment", (180, 2)), ("large", (24, 1)), ("power", (250, 1)), ("server", (250, 2)),
         ("cross", (120, 1)), ("simple", (100, 1)), ("threads", (20, 1)), ("produce", (800, 2)), ("big", (24, 1))]


def loop_rows(tools):
    path = str(tools / "programs_loops")
    sized = str(tools / "programs_sized")
    return [("loop " + name, [path], amounts, {}, [path, name, "%s"]) for name, amounts in LOOPS] + \
        [("loop sized", [sized], (250, 2), {}, [sized, "%s"])]
