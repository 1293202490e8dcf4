"""Larger programs, and servers under load: up to a minute or two each. Servers listen on the loopback, or on a socket in the
directory of their case."""

CASES = [
    ("sqlite3", ["sqlite3"], r"""
sqlite3 a.db <<'END'
create table t(a integer primary key, b text, c real);
with recursive n(i) as (select 1 union all select i + 1 from n where i < 200000) insert into t select i, hex(i * 7919), i / 3.0 from n;
create index i on t(b); select count(*), sum(a), min(b), max(b) from t where b like '3%';
select substr(b, 1, 3) k, count(*) from t group by k order by 2 desc, 1 limit 5;
create table u as select t.a, s.b from t join t s on s.a = t.a % 1000 + 1; select count(*), sum(length(b)) from u;
delete from t where a % 3 = 0; vacuum; pragma integrity_check; select group_concat(a) from (select a from t limit 20);
END
"""),
    ("lua", ["lua5.4"], r"""
lua5.4 -e 'local t = {} for i = 1, 300000 do t[#t + 1] = {i, tostring(i) .. "x"} end print(#t)
local s = {} for i = 1, 100000 do s[i] = ("k" .. i % 977):rep(3) end print(#table.concat(s))
local h = {} for _, v in ipairs(s) do h[v] = (h[v] or 0) + 1 end local n = 0 for _ in pairs(h) do n = n + 1 end print(n)
local co = coroutine.wrap(function() for i = 1, 1000 do coroutine.yield({i}) end end) for i = 1, 1000 do co() end
t = nil collectgarbage() print(string.format("%5.1f", 3.14159), ("hello"):gsub("l", "L")) table.sort(s) print(s[1], s[#s])'
"""),
    ("php", ["php"], r"""
USE_ZEND_ALLOC=0 php -r '$a = []; for ($i = 0; $i < 200000; $i++) $a["k" . ($i % 5003)][] = str_repeat("x", $i % 40); echo count($a), "\n";
ksort($a); echo md5(json_encode($a)), "\n"; echo preg_match_all("/\d+x/", implode("x", range(1, 50000))), "\n";
class N { public $n; public $m; } for ($i = 0; $i < 50000; $i++) { $n = new N; $n->m = $n; } echo gc_collect_cycles() > 0, "\n"; echo strlen(serialize($a)), "\n";'
php -r 'echo array_sum(array_map(fn($x) => $x ** 2, range(1, 100000))), "\n";'
"""),
    ("ruby", ["ruby"], r"""
ruby -e 'a = (1..200000).map { |i| "s#{i}" * (i % 5) }; puts a.map(&:size).sum; h = {}; a.each { |s| (h[s.size] ||= []) << s }
puts h.size, a.join.scan(/9s/).size; puts 8.times.map { |n| Thread.new { (1..3000).inject { |x, y| (x * y) % 1000007 } + n } }.map(&:value).inspect
GC.start; puts Marshal.load(Marshal.dump(h)) == h; puts (2**500).to_s.size; puts `echo child`; pid = fork { exit 4 }; Process.wait pid; puts $?.exitstatus'
"""),
    ("node", ["node"], r"""
node -e 'const m = new Map(); for (let i = 0; i < 300000; i++) m.set("k" + (i % 9973), { i, s: "x".repeat(i % 30) }); console.log(m.size);
const b = []; for (let i = 0; i < 2000; i++) b.push(Buffer.alloc(10000 + i, i)); console.log(b.reduce((s, x) => s + x[x.length - 1], 0));
const z = require("zlib"); const t = JSON.stringify([...m]); console.log(z.gunzipSync(z.gzipSync(t)).toString() === t);
const { Worker } = require("worker_threads"); const w = new Worker("require(\"worker_threads\").parentPort.postMessage([..." + "\"abc\"].map((c) => c + c))", { eval: true });
w.on("message", (x) => console.log(x)); console.log(require("crypto").createHash("sha256").update(t).digest("hex"), require("child_process").execSync("echo child").toString());'
"""),
    ("java", ["java"], r"""
cat >P.java <<'END'
import java.util.*; import java.util.concurrent.*; import java.util.stream.*;
public class P { public static void main(String[] a) throws Exception {
    Map<String, List<Integer>> m = new TreeMap<>(); for (int i = 0; i < 200000; i++) m.computeIfAbsent("k" + i % 997, k -> new ArrayList<>()).add(i);
    System.out.println(m.size() + " " + m.get("k5").size()); ExecutorService e = Executors.newFixedThreadPool(6); List<Future<Long>> f = new ArrayList<>();
    for (int t = 0; t < 20; t++) { final int n = t; f.add(e.submit(() -> LongStream.range(0, 100000).map(x -> x * n % 7).sum())); }
    long s = 0; for (Future<Long> x : f) s += x.get(); e.shutdown(); System.out.println(s);
    java.nio.ByteBuffer b = java.nio.ByteBuffer.allocateDirect(10 << 20); b.putInt(5, 77); System.out.println(b.getInt(5));
    java.util.zip.Deflater d = new java.util.zip.Deflater(); d.setInput(new byte[1 << 20]); d.finish(); System.out.println(d.deflate(new byte[1 << 16])); } }
END
if command -v javac >/dev/null; then javac P.java && java -Xmx300m P; else java -version 2>&1 | wc -l; java -Xmx300m -XX:+UseSerialGC -Xint -version 2>&1 | wc -l; java -XshowSettings:vm -XX:+PrintFlagsFinal -version 2>/dev/null | grep -c bool >/dev/null; echo ended; fi
"""),
    ("redis", ["redis-server", "redis-cli", "redis-benchmark"], r"""
redis-server --port 0 --unixsocket "$PWD/r.sock" --save '' --dir . --daemonize no >log 2>&1 & server=$!
cli="redis-cli -s $PWD/r.sock"; for i in $(seq 1 100); do $cli ping >/dev/null 2>&1 && break; sleep 0.1; done
redis-benchmark -s "$PWD/r.sock" -n 20000 -r 5000 -d 100 -q -t set,get,lpush,lpop,sadd,hset,zadd,incr,mset >/dev/null 2>&1
$cli eval 'for i = 1, 20000 do redis.call("set", "v" .. i, string.rep("y", i % 300)) end return redis.call("dbsize") > 20000' 0
$cli bgsave; for i in $(seq 1 100); do [ "$($cli lastsave)" != 0 ] && $cli info persistence | grep -q 'bgsave_in_progress:0' && break; sleep 0.1; done
$cli info persistence | grep -o 'rdb_last_bgsave_status:ok'; $cli eval 'local s = 0 for i = 1, 20000 do s = s + #redis.call("get", "v" .. i) end return s' 0
$cli memory purge; $cli flushall; $cli dbsize; $cli shutdown nosave >/dev/null 2>&1 || true; wait $server; echo "ended $?"
"""),
    ("nginx", ["nginx", "python3"], r"""
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
mkdir html logs; seq 1 20000 >html/a.txt
cat >n.conf <<END
daemon off; worker_processes 2; pid $PWD/n.pid; error_log $PWD/logs/error.log; user root;
events { worker_connections 200; }
http { access_log off; gzip on; gzip_types text/plain; gzip_min_length 10; client_body_temp_path $PWD/b; proxy_temp_path $PWD/p; fastcgi_temp_path $PWD/f; uwsgi_temp_path $PWD/u; scgi_temp_path $PWD/s;
  server { listen 127.0.0.1:$port; root $PWD/html; location /again/ { proxy_pass http://127.0.0.1:$port/; } } }
END
nginx -c "$PWD/n.conf" -p "$PWD" & server=$!
python3 - $port <<'END'
import concurrent.futures, gzip, sys, time, urllib.request
base = "http://127.0.0.1:%s/" % sys.argv[1]
for i in range(100):
    try: urllib.request.urlopen(base + "a.txt").read(); break
    except OSError: time.sleep(0.1)
def get(n):
    r = urllib.request.Request(base + ("again/" if n % 3 == 0 else "") + "a.txt", headers={"Accept-Encoding": "gzip"} if n % 2 else {})
    body = urllib.request.urlopen(r).read()
    return len(gzip.decompress(body) if n % 2 else body)
with concurrent.futures.ThreadPoolExecutor(16) as pool: print(set(pool.map(get, range(1500))))
END
kill -HUP $server; sleep 1; kill -QUIT $server; wait $server; echo "ended $?"; grep -c 'exited on signal' logs/error.log || true
"""),
    ("postgres", ["/usr/lib/postgresql/15/bin/initdb", "runuser"], r"""
bin=/usr/lib/postgresql/15/bin; id postgres >/dev/null; mkdir d; chown postgres d; chmod 755 .
as() { runuser -u postgres -- "$@"; }
as $bin/initdb -D "$PWD/d" -N -A trust --locale=C >/dev/null
as $bin/pg_ctl -D "$PWD/d" -w -l "$PWD/d/log" -o "-c listen_addresses='' -k $PWD/d -c fsync=off -c max_parallel_workers_per_gather=2 -c min_parallel_table_scan_size=0" start >/dev/null
q() { as $bin/psql -h "$PWD/d" -At -d postgres "$@"; }
q -c 'create table t as select i a, md5(i::text) b, array[i, i + 1] c from generate_series(1, 200000) i' -c 'create index on t(b)' -c 'analyze t'
q -c "select count(*), sum(a), max(b) from t where b like 'a%'" -c 'select substr(b, 1, 2) k, count(*) from t group by k order by 2 desc, 1 limit 3' -c 'select count(*) from t x join t y on x.a = y.c[2]'
q -c "select length(string_agg(b, ',')) from t" -c "select sum(jsonb_array_length(to_jsonb(c))) from t" -c 'do $$ declare r record; begin for r in select * from t limit 20000 loop perform r.b; end loop; end $$'
as $bin/pgbench -h "$PWD/d" -i -s 2 -q postgres 2>/dev/null >/dev/null; as $bin/pgbench -h "$PWD/d" -c 6 -j 2 -t 200 postgres 2>/dev/null | grep 'actually processed'
q -c 'select sum(abalance) = (select sum(bbalance) from pgbench_branches) from pgbench_accounts' -c 'vacuum full'
as $bin/pg_ctl -D "$PWD/d" -w -m fast stop >/dev/null; echo "ended $?"; grep -c 'terminated by signal' d/log || true
"""),
    ("mariadb", ["mariadbd", "mariadb-install-db", "mariadb"], r"""
mariadb-install-db --no-defaults --datadir="$PWD/d" --user=root --auth-root-authentication-method=normal >log 2>&1
mariadbd --no-defaults --datadir="$PWD/d" --socket="$PWD/s" --skip-networking --user=root --innodb-buffer-pool-size=32M >log2 2>&1 & server=$!
q() { mariadb --no-defaults -u root -S "$PWD/s" -N test -e "$1"; }
for i in $(seq 1 300); do mariadb --no-defaults -u root -S "$PWD/s" -e 'create database if not exists test' >/dev/null 2>&1 && break; sleep 0.2; done
q 'create table t(a int primary key, b varchar(100), key(b)); insert into t select seq, md5(seq) from seq_1_to_100000; select count(*), sum(a), max(b) from t where b like "a%"'
q 'select left(b, 2) k, count(*) from t group by k order by 2 desc, 1 limit 3; select count(*) from t x join t y on x.a = y.a + 1; set session group_concat_max_len = 10000000; select length(group_concat(b)) from t'
for i in 1 2 3 4 5 6; do (for k in 1 2 3 4 5 6 7 8; do q "update t set b = concat(b, 'x') where a % 97 = $k"; done) & list="$list $!"; done; for p in $list; do wait $p; done
q 'select count(*), sum(length(b)) from t'; kill $server; wait $server; echo "ended $?"; grep -c 'got signal' log2 || true
"""),
    ("ghostscript", ["gs"], r"""
cat >a.ps <<'END'
%!PS
/Times-Roman findfont 12 scalefont setfont
1 1 12 { /p exch def 1 1 55 { /i exch def 50 750 i 13 mul sub moveto (page ) show p 10 string cvs show ( line ) show i 10 string cvs show
  i 20 mul 700 lineto 0.1 i 60 div 0.5 setrgbcolor stroke i 7 mul p 30 mul i 0 360 arc fill } for showpage } for
END
gs -q -dNOPAUSE -dBATCH -dSAFER -sDEVICE=ppmraw -r60 -sOutputFile=o%d.ppm a.ps && cat o*.ppm | sha256sum
gs -q -dNOPAUSE -dBATCH -dSAFER -sDEVICE=pdfwrite -dCompressPages=false -sOutputFile=o.pdf a.ps && gs -q -dNOPAUSE -dBATCH -dSAFER -sDEVICE=pgmraw -r40 -sOutputFile=- o.pdf | sha256sum
"""),
    ("imagemagick", ["convert", "identify"], r"""
convert -size 600x400 plasma:red-blue -seed 5 a.png >/dev/null 2>&1 || true
convert -size 600x400 gradient:red-blue b.ppm && convert b.ppm -resize 50% -rotate 30 -blur 0x3 -colorspace Gray c.ppm && sha256sum <c.ppm
convert b.ppm -swirl 90 -emboss 2 -depth 8 d.png && convert d.png ppm:- | sha256sum; for i in 1 2 3 4 5 6; do convert b.ppm -resize ${i}0% e$i.gif; done; convert e*.gif -append ppm:- | sha256sum
"""),
    ("this project, by gcc", ["gcc", "cmake"], r"""
cmake -S "$SOURCE_DIR" -B b -DTSLAB_BUILD_TESTS=OFF -DTSLAB_BUILD_BENCHMARKS=OFF -DCMAKE_C_COMPILER=gcc -DCMAKE_C_COMPILER_LAUNCHER= -DCMAKE_C_FLAGS=-ffile-prefix-map=$PWD=. >log 2>&1
cmake --build b -j 2 >log 2>&1; objcopy -g b/libtslab.so l.so; sha256sum <l.so; b/tools/tslab --version
"""),
    ("this project, by clang", ["clang", "cmake"], r"""
cmake -S "$SOURCE_DIR" -B b -DTSLAB_BUILD_TESTS=OFF -DTSLAB_BUILD_BENCHMARKS=OFF -DCMAKE_C_COMPILER=clang -DCMAKE_C_COMPILER_LAUNCHER= -DCMAKE_C_FLAGS=-ffile-prefix-map=$PWD=. >log 2>&1
cmake --build b -j 2 >log 2>&1; objcopy -g b/libtslab.so l.so; sha256sum <l.so; b/tools/tslab --version
"""),
    ("qemu-user", ["qemu-x86_64"], r"""
qemu-x86_64 -E LD_PRELOAD= /bin/sh -c 'echo emulated; expr 6 \* 7'; qemu-x86_64 -E LD_PRELOAD= /usr/bin/sha256sum /bin/sh | cut -d ' ' -f 1
"""),
    ("valgrind", ["valgrind", "gcc"], r"""
printf '#include <stdlib.h>\n#include <stdio.h>\nint main(void) { char *p = malloc(10), *q = calloc(3, 1000); free(q); printf("%%d\\n", p != 0); free(p); return 0; }\n' >p.c
gcc -g p.c -o p && valgrind -q --error-exitcode=9 ./p; echo $?
"""),
]
