"""A program that serves by libtslab-http and obeys the lines of its input (http_target.c)."""

import os
import subprocess

ENVIRONMENT = {k: v for k, v in os.environ.items() if not k.startswith("TSLAB_")}


class Target:
    def __init__(self, path, **environment):
        self.process = subprocess.Popen([path], env={**ENVIRONMENT, **environment}, stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert self.process.stdout.readline() == "ready\n"

    def tell(self, what):
        self.process.stdin.write(what + "\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().strip()

    def start(self, how="127.0.0.1:0"):
        """Serves at an address, by default at a port that is free; returns the port."""
        answer = self.tell("start " + how)
        assert answer.startswith("ok "), answer
        self.port = int(answer[3:])
        return self.port

    def __enter__(self):
        return self
