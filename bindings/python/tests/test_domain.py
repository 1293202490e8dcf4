import gc
import multiprocessing
import os
import pickle
import threading
import weakref

import pytest

import tslab


def test_a_buffer_is_memory():
    with tslab.Domain("memory") as d:
        b = d.buffer(10)
        assert len(b) == 10 and bytes(b) == bytes(10)
        b[0] = 7
        b[2:5] = b"abc"
        assert b[0] == 7 and bytes(b[2:5]) == b"abc" and b[-1] == 0
        with pytest.raises(IndexError):
            b[10]
        with pytest.raises(ValueError):
            b[2:5] = b"ab"
        with pytest.raises(TypeError):
            del b[0]
        view = memoryview(b)
        assert not view.readonly and view.nbytes == 10
        view.release()
        assert len(d.buffer(0)) == 0
        assert d.held > 0 and not d.ended


def test_use_after_the_end():
    with tslab.Domain() as d:
        b = d.buffer(100)
    for use in (lambda: b[0], lambda: b[:], lambda: len(b), lambda: bytes(b), lambda: memoryview(b), lambda: b.__setitem__(0, 1)):
        with pytest.raises(tslab.StaleError):
            use()
    with pytest.raises(ValueError):
        d.buffer(1)
    with pytest.raises(tslab.StaleError):
        d.reset()
    with pytest.raises(tslab.StaleError):
        d.__enter__()
    assert d.ended and d.held == 0
    d.end()


def test_use_after_a_reset():
    d = tslab.Domain()
    b = d.buffer(100)
    d.reset()
    c = d.buffer(100)
    with pytest.raises(tslab.StaleError):
        b[0]
    c[0] = 1
    assert c[0] == 1


def test_no_end_under_a_view():
    d = tslab.Domain()
    b = d.buffer(100)
    view = memoryview(b)
    for call in (d.end, d.reset):
        with pytest.raises(BufferError):
            call()
    view[3] = 9
    assert b[3] == 9
    part = view[2:5]
    view.release()
    assert part[1] == 9 and not d.ended
    part.release()  # the last view: the end that was refused comes now
    assert d.ended
    with pytest.raises(tslab.StaleError):
        b[3]


def test_with_under_a_view():
    with tslab.Domain() as d:
        b = d.buffer(100)
        view = memoryview(b)
    assert not d.ended and d.held > 0  # it ends with the view
    view[0] = 1
    assert view[0] == 1 and b[0] == 1
    for use in (lambda: d.buffer(1), lambda: d.buffer(0), d.__enter__):
        with pytest.raises(tslab.StaleError):
            use()
    with pytest.raises(BufferError):
        d.end()
    with pytest.raises(BufferError):
        d.reset()
    second = view[:10]
    del view
    assert not d.ended
    del second
    assert d.ended and d.held == 0
    with pytest.raises(tslab.StaleError):
        b[0]


def test_with_keeps_the_exception_of_its_block():
    views = []
    for _ in range(2):
        with pytest.raises(KeyError, match="the block's own") as caught:
            with tslab.Domain() as d:
                views.append(memoryview(d.buffer(100)))
                raise KeyError("the block's own")
        assert caught.value.__context__ is None
        views[-1][0] = 1
        assert not d.ended
        views.pop()
        del caught  # its traceback refers to the frame of the block
        assert d.ended


def test_a_reset_that_was_refused_ends_nothing():
    d = tslab.Domain()
    view = memoryview(d.buffer(10))
    with pytest.raises(BufferError):
        d.reset()
    view.release()
    assert not d.ended


def test_bad_arguments():
    d = tslab.Domain()
    with pytest.raises(ValueError):
        d.buffer(-1)
    with pytest.raises(TypeError):
        d.buffer("ten")
    with pytest.raises(MemoryError):
        d.buffer(1 << 62)
    with pytest.raises(OverflowError):
        d.buffer(1 << 70)
    with pytest.raises(ValueError):
        tslab.Domain(limit=-1)
    with pytest.raises(TypeError):
        tslab.Buffer()
    with pytest.raises(TypeError):
        d.__init__()


def test_repr():
    d = tslab.Domain("batch")
    d.buffer(100_000)
    assert repr(d) == f"<tslab.Domain 'batch': {d.held} bytes, open>" and d.held >= 100_000
    view = memoryview(d.buffer(1))
    with pytest.raises(BufferError):
        d.end()
    assert repr(d) == f"<tslab.Domain 'batch': {d.held} bytes, ending>"
    view.release()
    assert repr(d) == "<tslab.Domain 'batch': 0 bytes, ended>"
    with tslab.Domain() as d:
        assert repr(d) == f"<tslab.Domain None: {d.held} bytes, open>"


def test_a_memory_error_says_why():
    with pytest.raises(MemoryError, match=f"no memory for {1 << 62} bytes$"):
        tslab.Domain().buffer(1 << 62)
    d = tslab.Domain("limited", limit=1)  # a limit above 0 is a unit at least
    d.buffer(1000)
    assert d.held == 16384
    with pytest.raises(MemoryError, match="no memory for 20000 bytes in a domain that holds 16384 of at most 16384"):
        d.buffer(20000)


def test_limit():
    with tslab.Domain("limited", limit=1 << 20) as d:
        kept = []
        with pytest.raises(MemoryError):
            for _ in range(1000):
                kept.append(d.buffer(10000))
        assert 50 < len(kept) < 110 and d.held <= 1 << 20


def test_memory_goes_back():
    d = tslab.Domain()
    d.buffer(8 << 20)[:] = b"x" * (8 << 20)
    held = d.held
    b = d.buffer(1)
    d.end()
    assert held >= 8 << 20 and d.held == 0
    del d
    with pytest.raises(tslab.StaleError):
        b[0]


def test_finalised_by_any_thread():
    def make(n):
        for _ in range(n):
            d = tslab.Domain("thread")
            b = d.buffer(1000)
            loop = [b]
            loop.append(loop)  # the collector's, in whichever thread it runs

    threads = [threading.Thread(target=make, args=(200,)) for _ in range(4)]
    for t in threads:
        t.start()
    make(200)
    for t in threads:
        t.join()
    gc.collect()

    shared = tslab.Domain("shared")
    results = []
    threads = [threading.Thread(target=lambda i=i: results.append((i, shared.buffer(100)))) for i in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    for i, b in results:
        b[0] = i
    assert sorted(b[0] for _, b in results) == list(range(8))
    ender = threading.Thread(target=shared.end)
    ender.start()
    ender.join()
    assert shared.ended


def test_a_domain_that_holds_its_own_buffers_is_collected():
    class Request(tslab.Domain):
        pass

    ends = []
    for keep in (lambda b: b, memoryview, lambda b: [b]):
        d = Request("cycle")
        d.kept = keep(d.buffer(1000))
        weakref.finalize(d, ends.append, d.epoch_id)
        del d
    gc.collect()
    assert len(ends) == 3


def test_fork():
    d = tslab.Domain()
    b = d.buffer(10)
    b[0] = 5
    child = os.fork()
    if child == 0:
        code = 1
        try:
            if b[0] == 5:
                b[0] = 6
                d.end()
                tslab.Domain().buffer(1000)
                code = 0
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert b[0] == 5


def _work(n):
    with tslab.Domain() as d:
        b = d.buffer(n)
        b[:] = bytes([n % 256]) * n
        return sum(bytes(b))


def test_multiprocessing():
    with pytest.raises(TypeError):
        pickle.dumps(tslab.Domain())
    for method in ("fork", "spawn"):
        with multiprocessing.get_context(method).Pool(2) as pool:
            assert pool.map(_work, [1, 10, 200]) == [1, 100, 40000]


def test_arrays():
    numpy = pytest.importorskip("numpy")
    with tslab.Domain() as d:
        a = d.array((3, 4), "int32")
        assert a.shape == (3, 4) and a.dtype == numpy.int32 and not a.any()
        a += numpy.arange(12).reshape(3, 4)
        assert a.sum() == 66 and a.flags.writeable
        row = a[1]
        with pytest.raises(BufferError):
            d.end()
        del a
        assert row.tolist() == [4, 5, 6, 7]
        with pytest.raises(TypeError):
            d.array(3, object)
        with pytest.raises(ValueError):
            d.array((-1, 2))
        assert d.array((0, 5)).shape == (0, 5)
        del row
    assert d.ended
    with pytest.raises(tslab.StaleError):
        d.array(0)


def test_an_array_that_is_the_last_of_its_block():
    pytest.importorskip("numpy")
    with tslab.Domain() as d:
        a = d.array(10)
        a += 1
    assert a.sum() == 10 and not d.ended
    with pytest.raises(tslab.StaleError):
        d.array(10)
    del a
    assert d.ended


def test_shapes_of_numpy_integers():
    numpy = pytest.importorskip("numpy")
    with tslab.Domain() as d:
        for kind in (numpy.uint8, numpy.int16, numpy.int64, int):
            n = kind(100)
            assert d.array((n, n), "uint8").shape == (100, 100)
            assert d.array(n).shape == (100,)
            assert d.array([n, 2], "uint8").shape == (100, 2)
        a = d.array((numpy.uint8(200), numpy.uint8(200)), "uint8")  # 200 * 200 is 64 in eight bits
        owner = a
        while isinstance(owner, numpy.ndarray):
            owner = owner.base
        assert a.shape == (200, 200) and len(memoryview(owner)) == 40000
        assert d.array(numpy.array([3, 4])).shape == (3, 4) and d.array(()).shape == ()
        with pytest.raises(ValueError):
            d.array(numpy.int8(-1))
        for shape in (2.0, (2, 3.0), "ab", None, numpy.array([1.0])):
            with pytest.raises(TypeError):
                d.array(shape)


def test_one_label_many_domains():
    for i in range(20000):
        with tslab.Domain("many") as d:
            d.buffer(64)[0] = i % 256
