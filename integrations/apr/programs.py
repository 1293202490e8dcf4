"""Apache httpd and Subversion as test.py and bench.py run them: started in a folder of their own, with a library preloaded
or none."""

import contextlib
import hashlib
import http.client
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import time

from shared import descendants, free_port

MODULES = pathlib.Path("/usr/lib/apache2/modules")
CONFIGURATION = """
ServerRoot "{root}"
PidFile "{root}/pid"
Listen 127.0.0.1:{port}
ServerName localhost
ErrorLog "{root}/error.log"
{modules}
<IfModule !unixd_module>
</IfModule>
User {user}
Group {group}
Mutex file:{root}
StartServers 1
ServerLimit 2
MinSpareThreads 25
MaxSpareThreads 75
ThreadsPerChild 25
MaxRequestWorkers 50
MaxConnectionsPerChild 0
KeepAlive On
MaxKeepAliveRequests 0
EnableSendfile Off
DocumentRoot "{root}/site"
ScriptSock "{root}/cgisock"
ScriptAlias /cgi/ "{root}/cgi/"
TypesConfig /etc/mime.types
<Directory "{root}">
Options +ExecCGI +Indexes
Require all granted
</Directory>
<Location /proxy/>
ProxyPass http://127.0.0.1:{port}/
</Location>
"""
NAMES = ("mpm_event authz_core authz_host access_compat mime dir alias cgid autoindex headers deflate filter proxy proxy_http env "
         "status").split()
SCRIPT = "#!/bin/sh\necho Content-Type: text/plain\necho\nwc -c | tr -d ' '\necho \"$REQUEST_METHOD $QUERY_STRING\"\n"


def environment(preload, extra=None):
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("TSLAB_", "LD_"))}
    return {**clean, **({"LD_PRELOAD": preload} if preload else {}), **(extra or {})}


def missing():
    return [p for p, name in (("apache2", "/usr/sbin/apache2"), ("subversion", "svn"), ("wrk", "wrk")) if not shutil.which(name)]


def site(root):
    (root / "site").mkdir(parents=True)
    (root / "cgi").mkdir()
    (root / "site/small.html").write_text("<p>hello</p>\n" * 40)
    (root / "site/large.bin").write_bytes(bytes(range(256)) * 8192)
    script = root / "cgi/count"
    script.write_text(SCRIPT)
    script.chmod(0o755)


@contextlib.contextmanager
def httpd(root, preload, extra=None, lines=""):
    """The port and the process of the parent. Ended by a graceful stop, whose status is checked."""
    root.mkdir(parents=True, exist_ok=True)
    if not (root / "site").exists():
        site(root)
    root.chmod(0o755)
    port = free_port()
    user, group = ("www-data", "www-data") if os.getuid() == 0 else (str(os.getuid()), str(os.getgid()))
    modules = "\n".join("LoadModule %s_module %s/mod_%s.so" % (n, MODULES, n) for n in NAMES if (MODULES / ("mod_%s.so" % n)).exists())
    configuration = root / "httpd.conf"
    configuration.write_text(CONFIGURATION.format(root=root, port=port, user=user, group=group, modules=modules) + lines)
    with open(root / "output.log", "ab") as output:
        server = subprocess.Popen(["/usr/sbin/apache2", "-DFOREGROUND", "-f", configuration], env=environment(preload, extra),
                                  stdout=output, stderr=output, start_new_session=True)
    try:
        wait_for(port, server)
        yield port, server
        server.send_signal(signal.SIGWINCH)
        status = server.wait(30)
        log = (root / "output.log").read_text() + (root / "error.log").read_text()
        if status != 0 or "exit signal" in log:
            raise RuntimeError("httpd ended with %d: %s" % (status, log))
    finally:
        with contextlib.suppress(ProcessLookupError):  # what is left of it, its children too
            os.killpg(server.pid, signal.SIGKILL)
        server.wait()


def wait_for(port, server):
    for _ in range(200):
        if server.poll() is not None:
            raise RuntimeError("httpd did not start: status %d" % server.returncode)
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        time.sleep(0.05)
    raise RuntimeError("httpd does not listen")


def request(connection, method, path, body=None, headers=None):
    connection.request(method, path, body, headers or {})
    answer = connection.getresponse()
    return answer.status, hashlib.sha256(answer.read()).hexdigest(), answer.getheader("ETag")


def conversation(port):
    """What a client sees: each kind of request on one kept connection, and again on new ones."""
    seen = []
    for _ in range(2):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        _, _, tag = request(connection, "GET", "/small.html")
        upload = b"0123456789abcdef" * (1 << 16)
        for method, path, body, headers in (
                ("GET", "/small.html", None, None), ("GET", "/large.bin", None, None), ("HEAD", "/large.bin", None, None),
                ("GET", "/small.html", None, {"If-None-Match": tag or ""}), ("GET", "/none", None, None),
                ("GET", "/large.bin", None, {"Range": "bytes=100-299"}), ("GET", "/cgi/count?x=1", None, None),
                ("POST", "/cgi/count", upload, None), ("GET", "/proxy/small.html", None, None),
                ("GET", "/small.html", None, {"Accept-Encoding": "gzip"}), ("BREW", "/small.html", None, None)):
            seen.append((method, path, *request(connection, method, path, body, headers)[:2]))
        connection.close()
    return seen


def memory_mib(pid):
    """Proportional set size of the process and of all below it."""
    total = 0
    for one in [pid, *descendants(pid)]:
        with contextlib.suppress(OSError):
            text = pathlib.Path("/proc/%d/smaps_rollup" % one).read_text()
            total += next(int(line.split()[1]) for line in text.splitlines() if line.startswith("Pss:"))
    return total / 1024


def svn(root, preload, revisions, extra=None):
    """Makes a repository with so many revisions, and looks at all of it. What the commands print, without the path."""
    shutil.rmtree(root, ignore_errors=True)
    root.mkdir(parents=True)
    url, copy = "file://%s/repository" % root, root / "copy"
    env = {**environment(preload, extra), "HOME": str(root), "LC_ALL": "C"}
    said = []

    def run(*command):
        done = subprocess.run([str(c) for c in command], env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        said.append("%d %s" % (done.returncode, done.stdout.replace(str(root), "ROOT")))

    run("svnadmin", "create", root / "repository")
    dump = root / "dump"
    dump.write_bytes(dump_of(revisions))
    with open(dump, "rb") as source:
        done = subprocess.run(["svnadmin", "load", "-q", root / "repository"], env=env, stdin=source, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, check=False)
    said.append("%d %s" % (done.returncode, done.stdout))
    run("svn", "checkout", "-q", url, copy)
    for i in range(20):
        (copy / ("added%d" % i)).write_text("line %d\n" % i * 1000)
    run("svn", "add", "-q", *copy.glob("added*"))
    run("svn", "commit", "-q", "-m", "add", "--with-revprop", "none=x", copy)
    run("svn", "update", copy)
    run("svn", "log", "-q", "-v", "-r", "1:%d" % revisions, url)
    run("svn", "blame", copy / "file0")
    run("svn", "diff", "-r", "1:%d" % revisions, url)
    run("svnadmin", "verify", "-q", root / "repository")
    return said


def dump_of(revisions):
    """A dump file: 50 files, one of which changes in each revision."""
    out = [b"SVN-fs-dump-format-version: 2\n\n"]
    text = {}
    for revision in range(revisions + 1):
        properties = b"K 8\nsvn:date\nV 27\n2020-01-01T00:%02d:%02d.000000Z\nPROPS-END\n" % (revision // 60 % 60, revision % 60)
        out.append(b"Revision-number: %d\nProp-content-length: %d\nContent-length: %d\n\n%s\n" %
                   (revision, len(properties), len(properties), properties))
        if revision == 0:
            continue
        name = b"file%d" % (revision % 50)
        action = b"change" if name in text else b"add"
        text[name] = text.get(name, b"") + b"line of revision %d\n" % revision * 5
        out.append(b"Node-path: %s\nNode-kind: file\nNode-action: %s\nText-content-length: %d\nContent-length: %d\n\n%s\n\n" %
                   (name, action, len(text[name]), len(text[name]), text[name]))
    return b"".join(out)
