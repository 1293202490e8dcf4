import importlib.util
import os
import subprocess
import sys
import textwrap
import time

import pytest

import tslab
import tslab._native


@pytest.fixture
def program():
    """A process that shows its statistics, and holds what a test looks for."""
    code = textwrap.dedent(
        """
        import sys, tslab
        domains = [tslab.Domain("held") for _ in range(10)]
        kept = [d.buffer(5000) for d in domains for _ in range(100)]
        print("ready", flush=True)
        sys.stdin.read()
        """
    )
    environment = dict(os.environ, TSLAB_SHM="1", TSLAB_SAMPLE_STACKS="4096")
    process = subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    )
    assert process.stdout.readline() == "ready\n"
    for _ in range(400):  # the page is written four times a second
        if sum(e["live_objects"] for e in _epochs(process.pid) if e["label"] == "held") == 1000:
            break
        time.sleep(0.05)
    yield process
    process.stdin.close()
    process.wait()
    process.stdout.close()


def _epochs(pid):
    try:
        return tslab.stats(pid)["epochs"]
    except tslab.TargetError:
        return []


def test_another_process(program):
    assert program.pid in [p["pid"] for p in tslab.processes()]
    shown = tslab.stats(program.pid)
    assert shown["pid"] == program.pid and shown["global"]["live_bytes"] >= 5_000_000
    held = [e for e in shown["epochs"] if e["label"] == "held"]
    assert len(held) == 10 and all(e["live_objects"] == 100 for e in held)
    assert isinstance(tslab.findings(program.pid), list)
    stacks = tslab.stacks(program.pid)
    assert stacks and {s["label"] for s in stacks} == {"held"}
    assert all(len(s["at"]) == len(s["frames"]) and s["at"][0].startswith("_core.abi3.so+0x") for s in stacks)
    assert [s["pid"] for s in tslab.watch(program.pid, every=0.01, times=3)] == [program.pid] * 3


def test_a_frame(program):
    pytest.importorskip("pandas")
    frame = tslab.frame(program.pid)
    assert (frame[frame["label"] == "held"]["live_objects"] == 100).all()
    assert tslab.frame(program.pid, "labels").set_index("label")["active_epochs"]["held"] == 10
    assert (tslab.frame(program.pid, "stacks")["label"] == "held").all()
    assert tslab.frame(program.pid, "findings").empty
    for no_list in ("nothing", "global"):
        with pytest.raises(ValueError, match=no_list):
            tslab.frame(program.pid, no_list)


def test_watch_waits_for_a_process_that_starts():
    environment = dict(os.environ, TSLAB_SHM="1")
    code = "import sys, tslab; d = tslab.Domain('late'); b = d.buffer(9); sys.stdin.read()"
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, env=environment) as process:
        shown = next(tslab.watch(process.pid, every=0.01, wait=60))
        assert shown["pid"] == process.pid
        process.stdin.close()
    with pytest.raises(tslab.TargetError):
        next(tslab.watch(process.pid, every=0.01))


def test_no_such_process():
    with pytest.raises(tslab.TargetError, match="999999999"):
        tslab.stats(999999999)
    with pytest.raises(OSError):
        tslab.findings("/nowhere")
    for bad in ("", "--help", True):
        with pytest.raises(ValueError):
            tslab.stats(bad)


def test_run():
    command = [sys.executable, "-m", "tslab", "run", "sh", "-c", "cat /proc/self/maps; exit 7"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 7
    assert str(tslab._native.command().parent.parent / "lib") in done.stdout
    assert subprocess.run([sys.executable, "-m", "tslab", "--version"], check=False, capture_output=True).returncode == 0


def test_all_allocators():
    """Under this malloc a job's domains are the smaller part: they are seen all the same."""
    code = textwrap.dedent(
        """
        import sys, tslab
        ballast = [bytes(1000) for _ in range(10000)]
        d = tslab.Domain("held")
        b = d.buffer(5000)
        print("ready", flush=True)
        sys.stdin.read()
        """
    )
    command = [sys.executable, "-m", "tslab", "run", sys.executable, "-c", code]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as job:
        try:
            assert job.stdout.readline() == "ready\n"
            for _ in range(400):
                shown = tslab.stats(job.pid)
                if "held" in [row["label"] for row in shown["labels"]]:
                    break
                time.sleep(0.05)
            of = {row["label"]: row["allocator"] for row in shown["labels"]}
            assert of["malloc"]["name"] == "malloc" and of["held"]["name"] == "default"
            malloc, held = of["malloc"]["number"], of["held"]["number"]
            assert malloc != held
            assert [row["label"] for row in tslab.stats(job.pid, allocator=held)["labels"]] == ["held"]
            assert all(s["allocator"]["number"] == malloc for s in tslab.stacks(job.pid, malloc))
            assert all("allocator" in f for f in tslab.findings(job.pid))
            with pytest.raises(tslab.TargetError, match="there is no 9"):
                tslab.stats(job.pid, 9)
            if importlib.util.find_spec("pandas"):
                frame = tslab.frame(job.pid, "labels")
                assert frame.set_index("label")["allocator"].to_dict() == {"malloc": malloc, "held": held}
                assert set(frame["allocator_name"]) == {"malloc", "default"}
                assert list(tslab.frame(job.pid, "labels", allocator=held)["label"]) == ["held"]
        finally:
            job.stdin.close()


def test_domains_under_this_malloc():
    code = "import tslab; d = tslab.Domain('x'); b = d.buffer(9); b[0] = 1; d.end(); print(d.ended)"
    command = [sys.executable, "-m", "tslab", "run", sys.executable, "-c", code]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "True\n"
