"""The statistics page of a process."""
import json
import subprocess
import time


def settle(tslab, pid):
    """Until the page has been written twice. The second time began after the call."""
    seen, deadline = set(), time.monotonic() + 30
    while len(seen) < 3:
        assert time.monotonic() < deadline, f"process {pid} does not write its page"
        answer = subprocess.run([tslab, "stats", "--json", str(pid)], capture_output=True, text=True, timeout=300, check=False)
        if answer.returncode == 0:
            seen.add(json.loads(answer.stdout)["taken_ns"])
        time.sleep(0.02)
