"""Plays what docs/tutorial.md says that a client says and hears, against the program of each step. For the step with the planted leak
the page's commands are followed: `tslab doctor` names the leak and its line; the mended program has none.

    <!-- talk: step1 -->
    ```text
    > what the client sends
    < what it must hear

Arguments: DIRECTORY_OF_THE_PROGRAMS PAGE TSLAB SOURCE_DIRECTORY COMPILER LIBRARY_DIRECTORY.
"""

import os
import re
import socket
import subprocess
import sys
import tempfile
import time

programs, page, tslab, source, compiler, library = sys.argv[1:]
os.environ.pop("LD_PRELOAD", None)


class Server:
    def __init__(self, program, **environment):
        self.process = subprocess.Popen([program, "0"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                                        env=dict(os.environ, **environment))
        self.port = int(self.process.stdout.readline().rsplit(":", 1)[1])

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()

    def client(self):
        connection = socket.create_connection(("127.0.0.1", self.port), timeout=30)
        return connection, connection.makefile("rw", encoding="utf-8", newline="\n")


def ask(file, line):
    file.write(line + "\n")
    file.flush()
    return file.readline().rstrip("\n")


def talks():
    with open(page, encoding="utf-8") as file:
        text = file.read()
    return re.findall(r"<!-- talk: (\w+) -->\n```text\n(.*?)```", text, re.DOTALL)


def play(step, text):
    lines = text.splitlines()
    with Server(os.path.join(programs, step)) as server:
        connection, file = server.client()
        asked = None
        for line in lines:
            if line.startswith("> "):
                asked = line[2:]
                heard = ask(file, asked)
            elif line.startswith("< "):
                if heard != line[2:]:
                    sys.exit("%s: to '%s' the page has '%s', the program says '%s'" % (step, asked, line[2:], heard))
            else:
                sys.exit("%s: '%s' is neither said nor heard" % (step, line))
        connection.close()
    return len(lines)


def use_sessions(server, count):
    connection, file = server.client()
    for number in range(count):
        for line in ("login anna", "motto number %d" % number, "logout"):
            if "out of memory" in ask(file, line):
                sys.exit("step6: no memory")
    connection.close()


def doctor(process):
    done = subprocess.run([tslab, "doctor", str(process.pid)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60)
    return done.stdout


def find_the_leak():
    with Server(os.path.join(programs, "step6"), TSLAB_SHM="1", TSLAB_SAMPLE_STACKS="1") as server:
        use_sessions(server, 100)
        said, until = "", time.monotonic() + 40
        while "`session` has held" not in said and time.monotonic() < until:
            time.sleep(1)
            said = doctor(server.process)
    if "`session` has held" not in said or not re.search(r"\bkeep\b", said):
        sys.exit("step6: the doctor does not name the leak:\n" + said)
    return said


def mend(directory):
    """The program with the line that the page adds."""
    with open(page, encoding="utf-8") as file:
        mended = re.search(r"<!-- mend: step6 -->\n```diff\n(.*?)```", file.read(), re.DOTALL).group(1).splitlines()
    with open(os.path.join(source, "examples", "tutorial", "step6.c"), encoding="utf-8") as file:
        text = file.read()
    before = "\n".join(line[1:] for line in mended if line[0] != "+")
    after = "\n".join(line[1:] for line in mended if line[0] != "-")
    if text.count(before) != 1:
        sys.exit("step6: the page mends lines that are not there:\n" + before)
    path = os.path.join(directory, "mended.c")
    with open(path, "w", encoding="utf-8") as file:
        file.write(text.replace(before, after))
    program = os.path.join(directory, "mended")
    folder = os.path.join(source, "examples", "tutorial")
    subprocess.run([compiler, "-D_GNU_SOURCE", "-I", os.path.join(source, "include"), "-I", folder, path, os.path.join(folder, "net.c"),
                    "-o", program, "-L", library, "-ltslab", "-Wl,-rpath," + library], check=True)
    return program


def check_mended():
    with tempfile.TemporaryDirectory() as directory, Server(mend(directory), TSLAB_SHM="1") as server:
        use_sessions(server, 100)
        until = time.monotonic() + 30
        while True:  # the page is written a few times a second
            done = subprocess.run([tslab, "stats", str(server.process.pid)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                  text=True, timeout=60)
            held, _, ended = done.stdout.partition("\nended epoch")
            if done.returncode == 0 and "session" not in held and "session" in ended:
                return
            if time.monotonic() > until:
                sys.exit("step6: the mended program still holds sessions:\n" + done.stdout)
            time.sleep(0.3)


def check_ports():
    for port in ("7000x", "", "-1", "65536"):
        done = subprocess.run([os.path.join(programs, "step1"), port], capture_output=True, text=True, timeout=60)
        if done.returncode != 2 or "'%s'" % port not in done.stderr:
            sys.exit("step1: port '%s': %d, %s" % (port, done.returncode, done.stderr))


def talk(port, text=""):
    return subprocess.run([sys.executable, "-B", os.path.join(source, "examples", "tutorial", "talk.py"), str(port)], input=text,
                          capture_output=True, text=True, timeout=60)


def check_client():
    with Server(os.path.join(programs, "step1")) as server:
        done = talk(server.port, "hello\nworld\n")
    if done.returncode != 0 or len(done.stdout.splitlines()) != 2:
        sys.exit("talk.py: %d, %s%s" % (done.returncode, done.stdout, done.stderr))
    with socket.socket() as unheard:  # bound, so that nobody else listens there
        unheard.bind(("127.0.0.1", 0))
        port = unheard.getsockname()[1]
        for port, said in ((port, "no server listens on port %d" % port), ("x", "'x' is no port"), (65536, "'65536' is no port")):
            done = talk(port, "hello\n")
            if done.returncode != 1 or said not in done.stderr or len(done.stderr.splitlines()) != 1:
                sys.exit("talk.py %s: %d, %s" % (port, done.returncode, done.stderr))


check_ports()
check_client()
played = {step: play(step, text) for step, text in talks() if os.path.exists(os.path.join(programs, step))}
for step in sorted(set(step for step, _ in talks()) - set(played)):
    print("%s: not built" % step)
if len(played) < 5:
    sys.exit("%d steps were played: %s" % (len(played), played))
if tslab != "none":
    find_the_leak()
    check_mended()
print("%d steps, %d lines" % (len(played), sum(played.values())))
