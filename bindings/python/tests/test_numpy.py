"""Domain.numpy(): NumPy's arrays in a domain, by NumPy's own hook."""

import asyncio
import contextvars
import gc
import os
import subprocess
import sys
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor

import pytest

import tslab

numpy = pytest.importorskip("numpy")
umath = (numpy._core if hasattr(numpy, "_core") else numpy.core)._multiarray_umath
N = 100_000  # of float64


def handler(array=None):
    name = umath.get_handler_name(array) if array is not None else umath.get_handler_name()
    return name


def outside():
    """Whether an array of this moment, here, lies outside of any domain."""
    return handler() == handler(numpy.ones(3)) == "default_allocator"


def test_arrays_and_temporaries_lie_in_the_domain():
    with tslab.Domain("arrays") as d, d.numpy():
        assert handler() == "tslab" and d.held == 0
        a = numpy.ones(N)
        assert handler(a) == "tslab" and a.nbytes <= d.held < 2 * a.nbytes
        z = numpy.zeros((10, N))
        assert not z.any() and d.held >= a.nbytes + z.nbytes
        before = d.held
        b = a * 2 + a * 3  # its temporaries come and go
        assert b[0] == 5 and handler(b) == "tslab" and d.held <= before + 3 * a.nbytes
        small = [numpy.arange(i) for i in range(100)]
        assert all(handler(s) == "tslab" and s.tolist() == list(range(i)) for i, s in enumerate(small))
        del a, b, z, small
    assert outside() and d.ended


def test_freed_places_are_used_again():
    with tslab.Domain() as d, d.numpy():
        kept = []  # one of each page: none is ever empty
        for i in range(20_000):
            temporary = numpy.full(30, i)
            if i % 40 == 0:
                kept.append(temporary)
        assert d.held <= 1 << 20 and [int(k[29]) for k in kept] == list(range(0, 20_000, 40))
        del kept, temporary


def test_an_array_that_lives_on_keeps_the_domain():
    with tslab.Domain() as d, d.numpy():
        a = numpy.arange(N)
        view = a[10:20]
        other = numpy.ones(N)
    assert outside() and not d.ended and d.held >= 2 * a.nbytes
    assert "ending" in repr(d)
    held = d.held
    del a
    assert view.tolist() == list(range(10, 20)) and not d.ended
    del other  # each goes back by itself
    assert d.held < held
    for call in (d.end, d.reset):
        with pytest.raises(BufferError):
            call()
    assert numpy.concatenate([view, view])[19] == 19  # outside
    del view
    assert d.ended and d.held == 0


def test_views_keep_the_domain_when_the_block_is_in_the_middle():
    d = tslab.Domain()
    with d.numpy():
        a = numpy.ones(10)
    b = numpy.ones(10)
    assert handler(a) == "tslab" and handler(b) == "default_allocator"
    with pytest.raises(BufferError, match="arrays of the domain are alive: 1"):
        d.end()
    del a
    assert d.ended  # the end that was refused


def test_reset_inside():
    d = tslab.Domain()
    with d.numpy():
        for i in range(50):
            a = numpy.full(N, i)
            with pytest.raises(BufferError):
                d.reset()
            assert a[N - 1] == i
            del a
            d.reset()
            assert handler(numpy.ones(3)) == "tslab"
        buffer = d.buffer(10)
        d.reset()
        with pytest.raises(tslab.StaleError):
            buffer[0]
    d.end()


def test_resize_outside_stays_in_the_domain():
    with tslab.Domain() as d, d.numpy():
        a = numpy.arange(10)
    b = numpy.arange(10)
    for n in (1000, N, 100, 5):
        a.resize(n, refcheck=False)
        assert handler(a) == "tslab" and a[:5].tolist() == [0, 1, 2, 3, 4] and len(a) == n
    with tslab.Domain() as other, other.numpy():
        b.resize(N, refcheck=False)
        a.resize(N, refcheck=False)
        assert other.held == 0 and handler(b) == "default_allocator" and d.held >= a.nbytes
    assert other.ended and not d.ended
    del a
    assert d.ended


def test_the_limit():
    with tslab.Domain("limited", limit=1 << 20) as d, d.numpy():
        kept = []
        with pytest.raises(MemoryError):
            while True:
                kept.append(numpy.ones(1000))
        assert 80 < len(kept) <= 131 and d.held <= 1 << 20
        a = kept.pop()
        with pytest.raises(MemoryError):
            a.resize(1 << 20, refcheck=False)
        with pytest.raises(MemoryError):
            numpy.zeros(1 << 40)
        assert a.sum() == 1000
        del a, kept
        assert numpy.ones(1000).sum() == 1000
    assert d.ended and numpy.ones(1 << 18).sum() == 1 << 18


def test_refused_once_it_was_left():
    with tslab.Domain() as d:
        block = d.numpy()
        a = d.array(3)
    for use in (d.numpy, block.__enter__):
        with pytest.raises(tslab.StaleError, match="takes no new arrays"):
            use()
    del a
    for use in (d.numpy, block.__enter__):
        with pytest.raises(tslab.StaleError, match="has ended"):
            use()
    with pytest.raises(TypeError, match="made once"):
        d.__init__()
    assert outside()


def test_a_block_is_for_one_with():
    d = tslab.Domain()
    block = d.numpy()
    with block:
        with pytest.raises(RuntimeError, match="entered before"):
            block.__enter__()
        assert handler() == "tslab"
    with pytest.raises(RuntimeError, match="entered before"):
        block.__enter__()
    assert outside()


def test_nested():
    with tslab.Domain("outer") as outer, outer.numpy():
        a = numpy.ones(N)
        with tslab.Domain("inner") as inner, inner.numpy():
            held = outer.held
            b = numpy.ones(N)
            assert outer.held == held and inner.held >= b.nbytes
            with outer.numpy():  # the same one again
                c = numpy.ones(N)
                assert outer.held >= 2 * c.nbytes
        del b
        assert inner.ended and not outer.ended
        del a, c
        assert handler() == "tslab"
    assert outside() and outer.ended


def test_blocks_that_end_in_another_order():
    def block(d):
        with d, d.numpy():
            yield

    domains = [tslab.Domain(str(i)) for i in range(3)]
    blocks = [block(d) for d in domains]
    for b in blocks:
        next(b)
    a = numpy.ones(10)
    for b in (blocks[1], blocks[0], blocks[2]):
        assert handler() == "tslab"
        next(b, None)
    assert outside() and [d.ended for d in domains] == [True, True, False]
    del a
    assert domains[2].ended


def test_an_exception_of_the_block():
    with pytest.raises(KeyError, match="own"):
        with tslab.Domain() as d, d.numpy() as out:
            out.result = numpy.ones(10)
            raise KeyError("own")
    assert outside() and handler(out.result) == "tslab"
    del out
    gc.collect()


def test_results_are_copied_out():
    numpy.ma.masked_greater(numpy.arange(3.0), 1)  # what numpy.ma makes once, and keeps
    with tslab.Domain() as d, d.numpy() as out:
        a = numpy.arange(N, dtype="float64").reshape(100, -1)
        out.mean = a.mean(axis=0)
        out.parts = [a[:2], {"f": numpy.asfortranarray(a), "again": out.mean}]
        out.masked = numpy.ma.masked_greater(a[0], 3)
        out.objects = numpy.array([a[0], "text", None], dtype=object)
        out.scalar, out.text = a.sum(), "text"
        out.view = a[::7, 3]
        del a
    assert d.ended and d.held == 0
    assert out.mean.flags.owndata and out.mean.flags.writeable and handler(out.mean) == "default_allocator"
    assert out.parts[1]["again"] is out.mean and out.parts[1]["f"].flags.f_contiguous
    expected = numpy.arange(N, dtype="float64").reshape(100, -1)
    assert (out.mean == expected.mean(axis=0)).all() and (out.parts[0] == expected[:2]).all()
    assert out.masked.count() == 4 and out.objects[1] == "text" and (out.objects[0] == expected[0]).all()
    assert out.scalar == expected.sum() and (out.view == expected[::7, 3]).all()


def test_results_of_an_inner_block_are_the_outer_domains():
    with tslab.Domain() as outer, outer.numpy():
        with tslab.Domain() as inner, inner.numpy() as out:
            out.a = numpy.ones(N)
        assert inner.ended and outer.held >= out.a.nbytes
        del out
    assert outer.ended


def test_a_result_that_cannot_be_copied():
    with pytest.raises(TypeError):
        with tslab.Domain() as d, d.numpy() as out:
            out.a, out.lock = numpy.ones(3), threading.Lock()
    assert outside() and out.a.sum() == 3 and not d.ended
    del out
    assert d.ended


def test_frames_of_pandas():
    pandas = pytest.importorskip("pandas")
    numpy_only = pandas.DataFrame({"k": [1, 2, 1], "v": [1.0, 2.0, 3.0]}).groupby("k").sum()  # what pandas makes once
    assert len(numpy_only) == 2
    with tslab.Domain() as d, d.numpy() as out:
        frame = pandas.DataFrame({"k": numpy.arange(N) % 7, "v": numpy.ones(N)})
        assert d.held >= 16 * N
        out.sums = frame.groupby("k").sum()
        out.index = frame.set_index("k").iloc[:10]
        del frame
        gc.collect()
    assert handler(out.sums["v"].to_numpy().base if out.sums["v"].to_numpy().base is not None else out.sums["v"].to_numpy()) != "tslab"
    assert out.sums["v"].sum() == N and out.index.index.tolist() == [0, 1, 2, 3, 4, 5, 6, 0, 1, 2]
    assert d.held < 16 * N, "the frame went, and its results have no view of it"


def test_threads_have_handlers_of_their_own():
    with tslab.Domain() as d, d.numpy():
        names = []
        thread = threading.Thread(target=lambda: names.append(handler()), **({"context": contextvars.Context()} if sys.version_info >= (3, 14) else {}))
        thread.start()
        thread.join()
        assert names == ["default_allocator"]
        context = contextvars.copy_context()
        with ThreadPoolExecutor(1) as pool:
            a = pool.submit(context.run, numpy.ones, N).result()
        assert handler(a) == "tslab" and d.held >= a.nbytes
        del a


def test_many_threads_in_one_domain_and_frees_elsewhere():
    d = tslab.Domain()
    results, errors = [], []

    def work(n):
        try:
            with d.numpy():
                for i in range(200):
                    a = numpy.full(i * 50 + 1, n)
                    if i % 10 == 0:
                        results.append(a)
                    assert a.sum() == n * len(a)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not errors and len(results) == 160 and outside()
    with pytest.raises(BufferError, match="alive: 160"):
        d.end()
    assert sum(int(a.sum()) for a in results) > 0

    def drop():
        while True:
            try:
                results.pop()
            except IndexError:
                return

    threads = [threading.Thread(target=drop) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert d.ended and d.held == 0


def test_tasks():
    async def work(n):
        with tslab.Domain(str(n)) as d, d.numpy():
            parts = []
            for i in range(20):
                parts.append(numpy.full(1000, n))
                await asyncio.sleep(0)
                assert handler() == "tslab" and d.held >= sum(p.nbytes for p in parts)
            total = sum(int(p.sum()) for p in parts)
            del parts
        assert d.ended and outside()
        return total

    async def main():
        return await asyncio.gather(*(work(n) for n in range(10)))

    assert asyncio.run(main()) == [20_000 * n for n in range(10)]
    assert outside()


def test_a_task_that_outlives_the_block():
    async def main():
        go = asyncio.Event()
        arrays = []

        async def late():
            arrays.append(numpy.ones(N))
            await go.wait()
            arrays.append(numpy.ones(N))  # the domain has ended: outside, though the handler is the same
            arrays[1].resize(2 * N, refcheck=False)
            arrays.append(numpy.zeros(N))

        with tslab.Domain() as d, d.numpy():
            task = asyncio.create_task(late())
            await asyncio.sleep(0)
        assert not d.ended and outside()
        arrays.clear()
        arrays.append(None)
        assert d.ended
        go.set()
        await task
        assert arrays[1].sum() == N and not arrays[2].any()
        assert d.held == 0
        return arrays

    assert len(asyncio.run(main())) == 3


def test_left_in_another_context():
    d = tslab.Domain()
    block = d.numpy()
    contextvars.copy_context().run(block.__enter__)
    assert outside()
    block.__exit__(None, None, None)
    assert outside()
    d.end()


def test_abandoned():
    class Mine(tslab.Domain):
        pass

    d = Mine()
    gone = weakref.ref(d)

    def enter():
        d.numpy().__enter__()
        assert numpy.ones(10).sum() == 10

    contextvars.copy_context().run(enter)
    del d
    gc.collect()
    assert gone() is None and outside()


def test_fork():
    with tslab.Domain() as d, d.numpy():
        a = numpy.arange(N)
        child = os.fork()
        if child == 0:
            code = 1
            try:
                b = a * 2
                a.resize(10, refcheck=False)
                code = 0 if b[N - 1] == 2 * (N - 1) and handler(b) == "tslab" else 2
                del a, b
                code = code or (0 if d.held < 1 << 20 else 3)
            finally:
                os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert a[N - 1] == N - 1
        del a
    assert d.ended


def test_tracemalloc_sees_the_arrays():
    import tracemalloc

    tracemalloc.start()
    try:
        with tslab.Domain() as d, d.numpy():
            before = tracemalloc.get_traced_memory()[0]
            a = numpy.ones(N)
            assert tracemalloc.get_traced_memory()[0] - before >= a.nbytes
            del a
    finally:
        tracemalloc.stop()


def test_without_numpy(tmp_path):
    (tmp_path / "numpy.py").write_text("raise ImportError('none')\n", encoding="utf-8")
    program = "import tslab\nd = tslab.Domain()\nd.buffer(3)\ntry:\n    d.numpy()\nexcept ImportError as error:\n    print(error)\n"
    environment = dict(os.environ, PYTHONPATH=str(tmp_path))
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, env=environment)
    assert "needs NumPy 1.22" in done.stdout


def test_arguments_of_the_hook():
    d = tslab.Domain()
    table = umath._ARRAY_API
    for bad in (None, 3, d):
        with pytest.raises((TypeError, ValueError)):
            d._numpy_block(bad)
        with pytest.raises((TypeError, ValueError)):
            d._numpy_enter(table, bad)
        with pytest.raises((TypeError, ValueError)):
            d._numpy_leave(table, bad)
    with pytest.raises(RuntimeError, match="never entered"):
        d._numpy_leave(table, d._numpy_block(table))
    assert outside()


def test_no_misuse_at_the_end_of_a_process():
    program = (
        "import numpy, tslab, sys, atexit\n"
        "d = tslab.Domain(); b = d.numpy(); b.__enter__()\n"
        "a = numpy.ones(1000); sys.kept = [a, numpy.ones(100000)]\n"
        "atexit.register(lambda: numpy.ones(10))\n"
    )
    environment = dict(os.environ, TSLAB_ON_MISUSE="abort")
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0 and not done.stderr
