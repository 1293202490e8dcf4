"""run-observability.sh with a program, Prometheus, and a Grafana that checks its arguments. Arguments: BUILD_DIR
SOURCE_DIR. Skipped (77) where there is no Prometheus, PyYAML or libtslab-http.

Called as `run_test.py --grafana REPORT ARGUMENT...` it is that Grafana.
"""

import glob
import http.server
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import unittest

from servers import free_ports, get, wait_for


def grafana(report, arguments):
    """Checks the provisioning as Grafana reads it, writes its findings, and stays until it is told to end."""
    import yaml

    found = {"arguments": arguments, "pid": os.getpid(),
             "environment": {k: v for k, v in os.environ.items() if k.startswith("GF_")}}
    provisioning = os.environ["GF_PATHS_PROVISIONING"]
    kinds = {}
    for kind in ("datasources", "dashboards", "plugins", "alerting"):
        kinds[kind] = []
        for path in sorted(glob.glob(os.path.join(provisioning, kind, "*"))):
            with open(path, encoding="utf-8") as file:
                kinds[kind].append(yaml.safe_load(file))
    found["folders"] = sorted(os.listdir(provisioning))
    found["provisioning"] = kinds
    found["writable"] = all(os.access(os.environ[k], os.W_OK) for k in ("GF_PATHS_DATA", "GF_PATHS_LOGS", "GF_PATHS_PLUGINS"))
    found["dashboards"] = []
    for config in kinds["dashboards"]:
        for provider in config["providers"]:
            for path in sorted(glob.glob(os.path.join(provider["options"]["path"], "*.json"))):
                with open(path, encoding="utf-8") as file:
                    found["dashboards"].append(json.load(file))
    with open(os.environ["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"], encoding="utf-8") as file:
        found["home"] = json.load(file)["uid"]
    with open(report + ".new", "w", encoding="utf-8") as file:
        json.dump(found, file)
    os.rename(report + ".new", report)
    signal.pause()


if len(sys.argv) > 2 and sys.argv[1] == "--grafana":
    grafana(sys.argv[2], sys.argv[3:])
    sys.exit(0)

BUILD, SOURCE = (os.path.abspath(a) for a in sys.argv[1:3])
SCRIPT = os.path.join(SOURCE, "observability/run-observability.sh")
LIBRARY = os.path.join(BUILD, "src/http/libtslab-http.so")
PROGRAM = os.path.join(BUILD, "src/http/http_target")
BENCH = os.path.join(BUILD, "benchmarks/synthetic_bench")


class Stack(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)
        os.mkdir(os.path.join(self.folder, "tmp"))
        os.mkdir(os.path.join(self.folder, "bin"))
        self.report = os.path.join(self.folder, "report")
        self.ports = free_ports(3)
        # The programs that the script calls, but no Grafana that may be installed here.
        for name in ("sh", "cat", "cp", "dirname", "mkdir", "mktemp", "prometheus", "readlink", "rm", "sed", "sleep"):
            os.symlink(shutil.which(name), os.path.join(self.folder, "bin", name))

    def install(self, name, text):
        """A program of that name in PATH, in a folder as Grafana's."""
        home = os.path.join(self.folder, "grafana home")
        os.makedirs(os.path.join(home, "bin"))
        os.makedirs(os.path.join(home, "conf"))
        with open(os.path.join(home, "conf/defaults.ini"), "w", encoding="utf-8") as file:
            file.write("app_mode = production\n")
        path = os.path.join(home, "bin", name)
        with open(path, "w", encoding="utf-8") as file:
            file.write("#!/bin/sh\n" + text)
        os.chmod(path, 0o755)
        os.symlink(path, os.path.join(self.folder, "bin", name))
        return home

    def start(self, *command):
        return self.begin(*(command or (PROGRAM,)))

    def begin(self, *command):
        """With the options and the command that are given."""
        port, prometheus, grafana_port = self.ports
        environment = {k: v for k, v in os.environ.items() if not k.startswith(("TSLAB_", "GF_", "GRAFANA"))}
        environment.update(PATH=os.path.join(self.folder, "bin"), TMPDIR=os.path.join(self.folder, "tmp"), LIBTSLAB_HTTP=LIBRARY,
                           SYNTHETIC_BENCH=BENCH)
        return subprocess.Popen([SCRIPT, f"--port={port}", f"--prometheus-port={prometheus}", f"--grafana-port={grafana_port}",
                                 *command], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True)

    def check_gone(self):
        for port in self.ports:
            with self.assertRaises(OSError):
                socket.create_connection(("127.0.0.1", port), timeout=2).close()
        self.assertEqual(os.listdir(os.path.join(self.folder, "tmp")), [])

    def check_grafana(self, name, arguments):
        home = self.install(name, f'exec "{sys.executable}" -B "{os.path.abspath(__file__)}" --grafana "{self.report}" "$@"\n')
        port, prometheus, grafana_port = self.ports
        run = self.start()
        try:
            wait_for(lambda: os.path.exists(self.report))
            with open(self.report, encoding="utf-8") as file:
                found = json.load(file)
            self.assertEqual(found["arguments"], arguments + [f"--homepath={home}"])
            self.assertEqual(found["folders"], ["alerting", "dashboards", "datasources", "plugins"])
            self.assertTrue(found["writable"])
            e = found["environment"]
            self.assertEqual((e["GF_SERVER_HTTP_ADDR"], e["GF_SERVER_HTTP_PORT"]), ("127.0.0.1", str(grafana_port)))
            self.assertEqual((e["GF_AUTH_ANONYMOUS_ENABLED"], e["GF_AUTH_ANONYMOUS_ORG_ROLE"]), ("true", "Viewer"))
            (config,) = found["provisioning"]["datasources"]
            (source,) = config["datasources"]
            self.assertEqual((config["apiVersion"], source["type"], source["access"], source["isDefault"]),
                             (1, "prometheus", "proxy", True))
            self.assertEqual(source["url"], f"http://127.0.0.1:{prometheus}")
            (config,) = found["provisioning"]["dashboards"]
            (provider,) = config["providers"]
            self.assertEqual((config["apiVersion"], provider["type"]), (1, "file"))
            (dashboard,) = found["dashboards"]
            self.assertEqual((dashboard["uid"], found["home"]), ("temporal-slab", "temporal-slab"))
            (variable,) = [v for v in dashboard["templating"]["list"] if v["type"] == "datasource"]
            self.assertEqual((variable["current"]["value"], variable["query"]), (source["uid"], source["type"]))
            for panel in dashboard["panels"]:
                for target in [panel, *panel["targets"]]:
                    self.assertEqual(target["datasource"]["uid"], "${" + variable["name"] + "}")
            ids = [panel["id"] for panel in dashboard["panels"]]
            self.assertEqual(len(ids), len(set(ids)))
            # The data source answers with figures of the program.
            query = f"{source['url']}/api/v1/query?query=temporal_slab_rss_bytes"
            wait_for(lambda: '"__name__":"temporal_slab_rss_bytes"' in (get(query) or ""))
            self.assertEqual(get(f"http://127.0.0.1:{port}/healthz"), "ok\n")
            said = run.stderr.readline() + run.stderr.readline()
            self.assertIn(f"Grafana: http://127.0.0.1:{grafana_port}/d/temporal-slab\n", said)
            run.send_signal(signal.SIGTERM)
            self.assertEqual(run.wait(timeout=300), 143)
            with self.assertRaises(ProcessLookupError):
                os.kill(found["pid"], 0)
            self.check_gone()
        finally:
            run.kill()
            run.communicate()

    def test_grafana(self):
        self.check_grafana("grafana", ["server"])

    def test_grafana_server(self):
        self.check_grafana("grafana-server", [])

    def test_grafana_that_does_not_start(self):
        self.install("grafana", "echo no database here; exit 1\n")
        run = self.start()
        _, port = run.stderr.readline(), self.ports[0]
        self.assertEqual(run.stderr.readline(), "no database here\n")
        self.assertIn("Grafana did not start", run.stderr.readline())
        self.assertEqual(get(f"http://127.0.0.1:{port}/healthz"), "ok\n")
        run.stdin.close()  # the program ends, and all with it
        self.assertEqual(run.wait(timeout=300), 0)
        self.check_gone()
        run.stdout.close()
        run.stderr.close()

    def test_without_grafana(self):
        run = self.start("sh", "-c", "read x; exit 7")
        first, second = run.stderr.readline(), run.stderr.readline()
        self.assertRegex(first, rf"^the page: http://127\.0\.0\.1:{self.ports[0]}/ ")
        self.assertEqual(second, "Grafana is not installed; the page shows the same without it\n")
        run.communicate("\n", timeout=300)
        self.assertEqual(run.returncode, 7)  # the program's own
        self.check_gone()

    def test_demonstration(self):
        """Without a command: the five patterns, then all is gone."""
        if not os.path.exists(BENCH):
            self.skipTest("the workloads are not built")
        run = self.begin("--pattern-seconds=1")
        out, _ = run.communicate(timeout=300)
        self.assertEqual(run.returncode, 0)
        self.assertEqual([line.split()[1] for line in out.splitlines()], ["burst", "steady", "leak", "hotspot", "kernel"])
        self.check_gone()

    def test_demonstration_ends_at_a_signal(self):
        if not os.path.exists(BENCH):
            self.skipTest("the workloads are not built")
        run = self.begin("--pattern-seconds=300")
        wait_for(lambda: get(f"http://127.0.0.1:{self.ports[0]}/healthz"))
        run.send_signal(signal.SIGTERM)
        self.assertEqual(run.wait(timeout=300), 143)
        run.communicate()
        self.check_gone()

    def test_a_gateway_is_scraped(self):
        """Pushed images keep their names."""
        class Gateway(http.server.BaseHTTPRequestHandler):
            def do_GET(self):  # noqa: N802
                self.send_response(200)
                self.send_header("Content-Type", "text/plain; version=0.0.4")
                self.end_headers()
                self.wfile.write(b'pushed_figure{job="mine",instance="here"} 7\n')

            def log_message(self, *_):
                pass

        with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Gateway) as gateway:
            threading.Thread(target=gateway.serve_forever, daemon=True).start()
            run = self.begin(f"--gateway-port={gateway.server_port}", PROGRAM)
            try:
                query = f"http://127.0.0.1:{self.ports[1]}/api/v1/query?query=pushed_figure"
                wait_for(lambda: '"instance":"here","job":"mine"' in (get(query) or ""))
            finally:
                run.communicate(timeout=300)
                gateway.shutdown()

    def test_without_prometheus(self):
        os.remove(os.path.join(self.folder, "bin", "prometheus"))
        run = self.start()
        _, said = run.communicate(timeout=300)
        self.assertEqual(run.returncode, 3, said)
        self.assertRegex(said, r"prometheus is not installed .*\n.*TSLAB_HTTP=\d+ ")

    def test_usage(self):
        for arguments, code, said in ((("--help",), 0, "usage"), (("--prot=1", "true"), 2, "'--prot=1'"),
                                      (("--pattern-seconds=0",), 2, "'0': a number of seconds"),
                                      (("--port=x", "true"), 2, "'x' is not a port"),
                                      (("--grafana-port=", "true"), 2, "'' is not a port")):
            answer = subprocess.run([SCRIPT, *arguments], capture_output=True, text=True, timeout=300, check=False)
            self.assertEqual(answer.returncode, code, answer.stderr)
            self.assertIn(said, answer.stdout + answer.stderr)


class Checks(unittest.TestCase):
    def test_usage(self):
        for arguments, code, said in ((("demo_leak.py", "--help"), 0, "BUILD_DIR"), (("demo_leak.py",), 2, "BUILD_DIR"),
                                      (("demo_leak.py", "/nonexistent", "10"), 2, "'10'"),
                                      (("demo_leak.py", "/nonexistent"), 1, "/nonexistent/"),
                                      (("check_queries.py", "--help"), 0, "SECONDS"), (("check_queries.py",), 2, "BUILD_DIR"),
                                      (("check_queries.py", "/nonexistent", "0"), 2, "SECONDS"),
                                      (("check_queries.py", "/nonexistent"), 1, "/nonexistent/")):
            answer = subprocess.run([sys.executable, "-B", os.path.join(os.path.dirname(SCRIPT), arguments[0]), *arguments[1:]],
                                    capture_output=True, text=True, timeout=300, check=False)
            self.assertEqual(answer.returncode, code, answer.stderr)
            self.assertIn(said, answer.stdout + answer.stderr)


if __name__ == "__main__":
    try:
        import yaml  # noqa: F401
    except ImportError:
        print("run_test: no PyYAML here (python3-yaml)")
        sys.exit(77)
    if not shutil.which("prometheus") or not os.path.exists(LIBRARY):
        print("run_test: no Prometheus here, or no libtslab-http (tools/setup.sh observability)")
        sys.exit(77)
    unittest.main(argv=[sys.argv[0]])
