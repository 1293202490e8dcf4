"""Servers for programs_bench.py: Redis and PostgreSQL under load. A server runs under the allocator that is measured, its client under none."""
import os
import pwd
import shutil
import subprocess
import time

from harness.run import Missing

POSTGRES = next((d for d in (f"/usr/lib/postgresql/{v}/bin" for v in range(20, 10, -1)) if os.path.exists(d + "/initdb")), "")
QUIET = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "stdin": subprocess.DEVNULL}


def missing(name):
    """Programs that are not there, for the row of that name."""
    if name == "redis":
        return [n for n in ("redis-server", "redis-cli", "redis-benchmark") if not shutil.which(n)]
    if not POSTGRES or not shutil.which("pgbench"):
        return ["initdb" if not POSTGRES else "pgbench"]
    if os.geteuid() == 0 and (not shutil.which("runuser") or not any(u.pw_name == "postgres" for u in pwd.getpwall())):
        return ["user postgres"]
    return []


class Fails(Missing):
    """A server that does not start, or does not answer; it is gone."""


def wait_for(process, so, seconds=60):
    deadline = time.monotonic() + seconds
    while not so():
        if time.monotonic() > deadline or process.poll() is not None:
            process.kill()
            process.wait()
            raise Fails("it does not answer")
        time.sleep(0.05)


class Redis:
    def __init__(self, prefix, environment, directory):
        self.socket = os.path.join(directory, "r.sock")
        self.process = subprocess.Popen(prefix + ["redis-server", "--port", "0", "--unixsocket", self.socket, "--save", "", "--dir", directory],
                                        env=environment, cwd=directory, **QUIET)
        wait_for(self.process, lambda: self.cli("ping") == "PONG")

    def cli(self, *arguments):
        return subprocess.run(["redis-cli", "-s", self.socket, *arguments], capture_output=True, text=True, check=False).stdout.strip()

    def load(self, requests):
        subprocess.run(["redis-benchmark", "-s", self.socket, "-n", str(requests), "-r", "50000", "-d", "200", "-q", "-P", "8", "-t",
                        "set,get,lpush,lpop,sadd,hset,zadd,incr"], check=True, **QUIET)

    def fill(self, keys):
        self.cli("eval", f"for i = 1, {keys} do redis.call('set', 'v' .. i, string.rep('y', i % 1000)) end return 1", "0")

    def end(self):
        self.cli("shutdown", "nosave")


class Postgres:
    def __init__(self, prefix, environment, directory):
        self.directory = os.path.join(directory, "d")
        os.mkdir(self.directory)
        self.run_as = []
        if os.geteuid() == 0:
            shutil.chown(self.directory, "postgres")
            os.chmod(directory, 0o755)
            self.run_as = ["runuser", "-u", "postgres", "--"]
        self.call([POSTGRES + "/initdb", "-D", self.directory, "-A", "trust", "--no-sync"])
        self.process = subprocess.Popen(self.run_as + prefix + [POSTGRES + "/postgres", "-D", self.directory, "-k", self.directory, "-h", "", "-F"],
                                        env=environment, cwd=directory, **QUIET)
        wait_for(self.process, lambda: subprocess.run([POSTGRES + "/pg_isready", "-h", self.directory], check=False, **QUIET).returncode == 0)
        self.call([POSTGRES + "/pgbench", "-h", self.directory, "-i", "-s", "2", "-q", "postgres"])

    def call(self, command):
        subprocess.run(self.run_as + command, check=True, cwd="/", **QUIET)

    def load(self, requests):
        self.call([POSTGRES + "/pgbench", "-h", self.directory, "-c", "4", "-j", "1", "-t", str(requests // 4), "postgres"])

    def end(self):
        self.call([POSTGRES + "/pg_ctl", "-D", self.directory, "stop", "-m", "fast"])


# name, class, (usual, smoke) requests
ROWS = [("redis", Redis, (60000, 500)), ("postgres", Postgres, (2000, 40))]
