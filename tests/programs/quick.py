"""Programs that a machine with a compiler has: a second or two each."""

C_PROGRAM = r"""
cat >p.c <<'END'
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
typedef struct node { struct node *left, *right; int key; char text[20]; } node;
static node *insert(node *t, int key) {
    if (!t) { t = calloc(1, sizeof *t); t->key = key; sprintf(t->text, "%d", key); return t; }
    if (key < t->key) t->left = insert(t->left, key); else t->right = insert(t->right, key);
    return t;
}
static long sum(node *t) { if (!t) return 0; long s = sum(t->left) + sum(t->right) + (long)strlen(t->text); free(t); return s; }
int main(void) { node *t = NULL; unsigned x = 1; for (int i = 0; i < 20000; i++) { x = x * 1103515245u + 12345u; t = insert(t, (int)(x >> 8)); }
    printf("%ld\n", sum(t)); return 0; }
END
"""

CASES = [
    ("bash", ["bash"], r"""
bash -c '
declare -A seen; for i in $(seq 1 2000); do seen[$((i * 7919 % 1009))]=$i; done; echo ${#seen[@]}
f() { local x=$1; [ "$x" -le 1 ] && { echo 1; return; }; echo $((x * $(f $((x - 1))))); }; f 15
text=$(for i in {1..3000}; do echo "line $i of a text"; done); echo ${#text}; echo "${text//line/LINE}" | tail -n 2
while read -r a b; do a=$b; done < <(seq 1 2000); echo "$a"; (exit 3); echo $?; trap "echo trapped" EXIT; printf "%s\n" {a..e}{1..3} | wc -l'
"""),
    ("coreutils", ["sort", "sha256sum", "split", "od"], r"""
seq 1 100000 | sort -r | sort -n --parallel=4 | sha256sum
seq 1 30000 | split -l 1000 - part.; cat part.* | tac | head -n 3; ls | wc -l
join <(true) <(true) 2>/dev/null || true
seq 1 5000 | paste - - - | cut -f 2 | uniq | shuf --random-source=/bin/sh | sort -g | md5sum
ls -lR /usr/include 2>/dev/null | wc -l; du -s /usr/include | cut -f 2; od -c /bin/sh | head -n 1000 | cksum
expr 3 \* 4; date -d @0 +%F; stat -c %F .; df . | wc -l; printf '%05d\n' 42; tr a-z A-Z </etc/passwd | wc -l; env -i /bin/true && echo ended
""".replace("join <(true) <(true) 2>/dev/null || true\n", "")),
    ("grep and find", ["grep", "find", "sed", "awk"], r"""
find /usr/include -name '*.h' | sort | head -n 400 >list
xargs grep -c 'define' <list | md5sum
xargs grep -hoE '[a-z_]+_t\b' <list | sort | uniq -c | sort -rn | head -n 5
xargs cat <list | grep -aP '(?<=#)include\s+<(\w+)\.h>' | wc -l
xargs cat <list | sed -E 's/([a-z]+)_([a-z]+)/\2_\1/g; s/  +/ /g' | md5sum
xargs cat <list | awk '{ for (i = 1; i <= NF; i++) n[$i]++ } END { for (w in n) if (n[w] > 400) print n[w], w }' | sort -rn | head -n 8
"""),
    ("tar", ["tar", "gzip"], r"""
cp -r /usr/include/linux . && tar cf a.tar --sort=name --mtime=@0 --owner=0 --group=0 linux && sha256sum <a.tar
gzip -9n a.tar && zcat a.tar.gz | sha256sum; mkdir out && tar xzf a.tar.gz -C out && diff -r linux out/linux && echo same
"""),
    ("git", ["git"], r"""
git init -q -b main r && cd r
for i in 1 2 3 4 5 6 7 8; do seq $i 3 4000 >f$i; git add f$i; git commit -qm "commit $i"; done
git checkout -q -b side HEAD~3; seq 1 50 >>f1; git commit -qam side; git checkout -q main; git merge -q -m merged side
git log --oneline --graph --stat | md5sum; git diff HEAD~4 | md5sum; git blame f1 | md5sum; git gc -q; git fsck 2>&1 | wc -l
git clone -q . ../c && git -C ../c rev-parse HEAD; git grep -c 1 | head -n 3; git archive HEAD | sha256sum
"""),
    ("perl", ["perl"], r"""
perl -e 'my %h; $h{$_ * 7919 % 10007}{text} = "x" x ($_ % 50) for 1..30000; print scalar(keys %h), "\n";
my @s = sort { $a <=> $b } map { length $h{$_}{text} } keys %h; print "@s[0..9] $s[-1]\n";
my $t = join ",", 1..20000; my $n = () = $t =~ /(\d)\1/g; print "$n\n"; print sprintf("%s", reverse "abc"), "\n";
my @a = map { [ $_, { v => $_ } ] } 1..20000; splice @a, 100, 10000; print scalar(@a), "\n"; eval { die { code => 7 } }; print $@->{code}, "\n";
local $SIG{ALRM} = sub { print "alarm\n" }; kill ALRM => $$; print `echo from a child`;'
perl -Mthreads -e 'my @t = map { my $n = $_; threads->create(sub { my %h = map { $_ => "x$_" } 1..3000; return scalar(keys %h) + $n }) } 1..4; print join(" ", map { $_->join } @t), "\n"'
"""),
    ("python3", ["python3"], r"""
python3 - <<'END'
import collections, concurrent.futures, decimal, gc, hashlib, json, multiprocessing, random, re, sqlite3, subprocess, sys, threading, zlib
random.seed(1)
data = {str(i): [random.random() for _ in range(i % 20)] for i in range(5000)}
text = json.dumps(data)
print(hashlib.md5(text.encode()).hexdigest(), json.loads(text) == data)
words = collections.Counter(re.findall(r"\d\d", text)); print(words.most_common(3))
class Node:
    def __init__(self, n): self.n = n; self.me = self
for i in range(20000): Node(i)
print(gc.collect() >= 0, len(zlib.compress(text.encode())) > 1000)
results = []
def work(n): results.append(sum(len(str(i) * 3) for i in range(n)))
threads = [threading.Thread(target=work, args=(5000 + i,)) for i in range(8)]
[t.start() for t in threads]; [t.join() for t in threads]; print(sorted(results))
print(subprocess.run(["sh", "-c", "echo child; exit 3"], capture_output=True).stdout, [subprocess.run(["true"]).returncode for _ in range(10)])
db = sqlite3.connect(":memory:"); db.execute("create table t(a, b)")
db.executemany("insert into t values(?, ?)", ((i, str(i) * 5) for i in range(20000)))
print(db.execute("select count(*), sum(length(b)) from t where a % 3 = 1").fetchone())
print(decimal.Decimal(2) ** 300, sum(bytearray(1 << 22)))
def square(n): return n * n
if __name__ == "__main__":
    context = multiprocessing.get_context("fork")
    with context.Pool(3) as pool: print(sum(pool.map(square, range(2000))))
    with concurrent.futures.ThreadPoolExecutor(6) as pool: print(sum(pool.map(square, range(2000))))
END
"""),
    ("gcc", ["gcc"], C_PROGRAM + r"""
for o in -O0 -O2 "-O3 -funroll-loops"; do gcc $o -fno-ident -S p.c -o - | grep -v '\.file\|p\.c' | md5sum; done
gcc -O2 -Wall p.c -o p && ./p; echo 'int main(void) { return x; }' | gcc -x c - 2>&1 | grep -c error
gcc -flto -O2 p.c -o q && ./q; ar rc l.a /dev/null && ar t l.a; objdump -d p | wc -l >/dev/null; strip p && ./p
"""),
    ("g++", ["g++"], r"""
cat >p.cpp <<'END'
#include <algorithm>
#include <functional>
#include <iostream>
#include <map>
#include <memory>
#include <regex>
#include <sstream>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>
int main() {
    std::map<std::string, std::vector<int>> m; for (int i = 0; i < 20000; i++) m["k" + std::to_string(i % 777)].push_back(i);
    std::unordered_map<int, std::shared_ptr<std::string>> u; for (int i = 0; i < 20000; i++) u[i * 31 % 5003] = std::make_shared<std::string>(i % 90, 'x');
    std::vector<std::thread> t; for (int i = 0; i < 4; i++) t.emplace_back([&] { auto c = m; for (auto &e : c) std::sort(e.second.rbegin(), e.second.rend()); });
    for (auto &x : t) x.join();
    std::ostringstream s; for (auto &e : m) s << e.first << ' ' << e.second.size() << '\n';
    std::regex r("k(\\d)7 (\\d+)"); std::string text = s.str(); int n = 0;
    for (std::sregex_iterator i(text.begin(), text.end(), r), end; i != end; ++i) n++;
    try { std::vector<int> v; v.at(3); } catch (const std::exception &e) { std::cout << "caught\n"; }
    std::function<int(int)> f = [&](int k) { return k < 2 ? k : f(k - 1) + f(k - 2); };
    std::cout << m.size() << ' ' << u.size() << ' ' << n << ' ' << f(18) << '\n';
}
END
g++ -O1 -pthread p.cpp -o p && ./p
"""),
    ("cmake and make", ["cmake", "make", "gcc"], C_PROGRAM + r"""
cat >CMakeLists.txt <<'END'
cmake_minimum_required(VERSION 3.10)
project(p C)
foreach(i RANGE 1 6)
    configure_file(p.c p${i}.c COPYONLY)
    add_executable(p${i} ${CMAKE_CURRENT_BINARY_DIR}/p${i}.c)
endforeach()
enable_testing()
add_test(NAME t COMMAND p1)
END
cmake -S . -B b >log 2>&1 && make -C b -j 3 -s >log 2>&1 && b/p6 && ctest --test-dir b 2>&1 | grep -c Passed
"""),
    ("gdb", ["gdb", "gcc"], C_PROGRAM + r"""
gcc -g -O0 p.c -o p
gdb -nx -q -batch -ex 'break sum' -ex run -ex 'print t->text[0] != 0' -ex 'info breakpoints' -ex 'delete' -ex continue p 2>&1 | grep -c 'exited normally\|= 1'
"""),
]
