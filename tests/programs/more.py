"""Tools of every day: compressors, editors, interpreters, cryptography, linkers. Some seconds each."""

TEXT = "find /usr/include -name '*.h' | sort | head -n 300 | xargs cat >text\n"

CASES = [
    ("xz, bzip2 and zstd", ["xz", "bzip2", "zstd", "gzip"], TEXT + r"""
for c in "xz -T2 -3" "xz -9 -T1" bzip2 "zstd -q -T2 -6" "zstd -q --ultra -20" "gzip -9n"; do
    $c <text >packed && ${c%% *} -dc <packed | cmp - text && echo "$c"
done
cat text text | zstd -q --long=27 | zstd -dc --long=27 | sha256sum
"""),
    ("zip, cpio and rsync", ["zip", "unzip", "cpio", "rsync"], r"""
mkdir from && cp -r /usr/include/linux from/ && (cd from && zip -qr9 ../a.zip . && find . | sort | cpio -o --quiet -H newc >../a.cpio)
mkdir z c && (cd z && unzip -q ../a.zip) && (cd c && cpio -id --quiet <../a.cpio) && diff -r from z && diff -r from c && echo same
rsync -a from/ r/ && touch r/extra && rsync -a --delete from/ r/ && diff -r from r && echo same
"""),
    ("openssl", ["openssl"], TEXT + r"""
for d in md5 sha1 sha256 sha3-512 blake2b512; do openssl dgst -$d text; done
openssl enc -aes-256-cbc -pbkdf2 -k secret -nosalt -in text -out e && openssl enc -d -aes-256-cbc -pbkdf2 -k secret -nosalt -in e | cmp - text && sha256sum <e
openssl genpkey -algorithm RSA -pkeyopt rsa_keygen_bits:2048 -out k 2>/dev/null && openssl pkey -in k -pubout -out p
openssl dgst -sha256 -sign k -out s text && openssl dgst -sha256 -verify p -signature s text
openssl req -x509 -new -key k -subj /CN=test -days 2 -out c && openssl verify -CAfile c c && openssl x509 -in c -noout -subject
openssl ecparam -name prime256v1 -genkey -noout -out ek && openssl ec -in ek -check -noout 2>&1 | tail -n 1
"""),
    ("ssh-keygen", ["ssh-keygen"], r"""
for t in ed25519 ecdsa rsa; do ssh-keygen -q -t $t -N secret -f k_$t && ssh-keygen -y -P secret -f k_$t | cut -d ' ' -f 1; done
ssh-keygen -q -t ed25519 -N '' -f ca && ssh-keygen -q -s ca -I id -n user k_ed25519.pub && ssh-keygen -L -f k_ed25519-cert.pub | grep -c user
"""),
    ("jq", ["jq"], r"""
jq -nc '[range(30000) | {id: ., name: "n\(. % 977)", tags: [range(. % 5)]}]' >a
jq -r 'group_by(.name) | map({key: .[0].name, value: (map(.id) | add)}) | from_entries | tojson' a | md5sum
jq '[.[] | select(.id % 7 == 0) | .name | ascii_upcase | test("N1")] | map(select(.)) | length' a
jq -c 'reduce .[] as $x ({}; .[$x.name] += ($x.tags | length)) | to_entries | sort_by(-.value) | .[0:3]' a
"""),
    ("vim", ["vim"], TEXT + r"""
vim -u NONE -i NONE -n -es -c '%s/\v<(\w+)_t>/\1_type/ge' -c 'g/^$/d' -c 'sort u' -c 'w! out' -c 'qa!' text || true
md5sum <out
vim -u NONE -i NONE -n -es -c 'let d = {} | for l in getline(1, 2000) | for w in split(l, "\\W\\+") | let d[w] = get(d, w, 0) + 1 | endfor | endfor' \
    -c 'call writefile(map(sort(keys(d)), "v:val . \" \" . d[v:val]"), "counts")' -c 'qa!' text || true
md5sum <counts
"""),
    ("bc and tclsh", ["bc", "tclsh"], r"""
echo 'scale = 400; 4 * a(1); for (i = 1; i < 200; i++) s += 1 / i; s; 2 ^ 3000 % 10 ^ 50' | bc -lq | md5sum
cat >t.tcl <<'END'
set l {}; for {set i 0} {$i < 40000} {incr i} { lappend l [expr {$i * 7919 % 10007}]; dict incr d [expr {$i % 613}] $i }
puts [lindex [lsort -integer -unique $l] 5000]; puts [dict size $d]; puts [string length [join $l ,]]
puts [regexp -all {7[0-9]+7} [join $l ,]]; proc f n { if {$n < 2} { return $n }; expr {[f [expr {$n - 1}]] + [f [expr {$n - 2}]]} }; puts [f 17]
interp create other; puts [other eval { set x [string repeat abc 10000]; string length $x }]; interp delete other
END
tclsh t.tcl
"""),
    ("awk", ["gawk", "mawk"], TEXT + r"""
for a in gawk mawk; do
    $a '{ for (i = 1; i <= NF; i++) n[$i]++ } END { for (w in n) { t += n[w]; c++ } print c, t }' text
    $a '{ gsub(/[a-z]+_/, "&x"); s = s substr($0, 1, 3) } END { print length(s) }' text
done
gawk 'BEGIN { PROCINFO["sorted_in"] = "@ind_num_asc"; for (i = 0; i < 50000; i++) a[i % 5003][i] = i; print length(a), length(a[7]); asorti(a, b); print b[3] }'
"""),
    ("rustc", ["rustc"], r"""
cat >p.rs <<'END'
use std::collections::{BTreeMap, HashMap};
use std::sync::{mpsc, Arc, Mutex};
use std::thread;
fn main() {
    let shared = Arc::new(Mutex::new(BTreeMap::new()));
    let (send, receive) = mpsc::channel();
    let workers: Vec<_> = (0..4).map(|t| {
        let (shared, send) = (shared.clone(), send.clone());
        thread::spawn(move || for i in 0..5000u32 {
            shared.lock().unwrap().entry(i % 701).or_insert_with(Vec::new).push(format!("{t} {i}"));
            if i % 10 == 0 { send.send(Box::new([i; 50])).unwrap(); }
        })
    }).collect();
    drop(send);
    let sum: u64 = receive.iter().map(|b| b[49] as u64).sum();
    for w in workers { w.join().unwrap(); }
    let map = shared.lock().unwrap();
    let lengths: HashMap<usize, usize> = map.values().fold(HashMap::new(), |mut m, v| { *m.entry(v.len()).or_default() += 1; m });
    println!("{} {} {}", map.len(), sum, lengths.values().sum::<usize>());
}
END
rustc -O p.rs -o p && ./p && rustc --test -C debuginfo=2 p.rs -o q && ./q | grep -c 'test result: ok'
"""),
    ("binutils", ["ld.gold", "readelf", "objdump", "gcc", "c++filt"], r"""
for i in 1 2 3 4; do printf 'int f%d(int x) { return x * %d; }\n' $i $i; done >f.c && echo 'int f1(int), f4(int); int main(void) { return f1(0) + f4(0); }' >m.c
gcc -g -ffunction-sections -c f.c m.c && for l in bfd gold; do gcc -fuse-ld=$l -Wl,--gc-sections f.o m.o -o p.$l && ./p.$l && echo $l; done
objdump -dSl p.bfd | grep -c 'f4' ; readelf -aW p.gold | wc -l >/dev/null && nm -C p.bfd | grep -c ' T '; ar rcs l.a f.o m.o && nm -s l.a | grep -c f1
strip -o s p.bfd && ./s && objcopy --only-keep-debug p.bfd d && addr2line -e p.bfd 0 | wc -l; echo _ZNSt6vectorIiSaIiEE9push_backEOi | c++filt
"""),
    ("gettext and locale", ["msgfmt", "msgunfmt", "localedef", "iconv"], TEXT + r"""
{ printf 'msgid ""\nmsgstr "Content-Type: text/plain; charset=UTF-8\\n"\n'; for i in $(seq 1 3000); do printf '\nmsgid "text %d"\nmsgstr "Text %d"\n' $i $((i * 7)); done; } >a.po
msgfmt -c a.po -o a.mo && msgunfmt a.mo | md5sum
iconv -f UTF-8 -t UTF-16 <a.po | iconv -f UTF-16 -t UTF-8 | cmp - a.po && echo same
"""),
]
