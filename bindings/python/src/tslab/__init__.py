"""temporal-slab for Python.

Watch any process that shows its statistics (``TSLAB_SHM=1``, or ``tslab run PROGRAM``)::

    for process in tslab.processes():
        print(process["pid"], tslab.stats(process["pid"])["global"]["live_bytes"])

Buffers that die with a domain::

    with tslab.Domain("request") as d:
        b = d.buffer(1000)
        b[:5] = b"hello"
    b[0]  # raises StaleError

Arrays that NumPy makes, temporaries too::

    with tslab.Domain("batch") as d, d.numpy() as out:
        out.total = (numpy.arange(1000) ** 2).sum()
"""

from __future__ import annotations

import math
from operator import index
from typing import TYPE_CHECKING, Any, Iterable, SupportsIndex

from ._arrays import Arrays
from ._core import Buffer, StaleError, version
from ._core import Domain as _Domain
from ._watch import TargetError, findings, frame, processes, stacks, stats, watch

if TYPE_CHECKING:
    import numpy

__all__ = [
    "Arrays",
    "Buffer",
    "Domain",
    "StaleError",
    "TargetError",
    "findings",
    "frame",
    "processes",
    "stacks",
    "stats",
    "version",
    "watch",
]
__version__ = version()


class Domain(_Domain):
    """A lifetime: its buffers die with it. A context manager; any thread may use it.

    label: under which statistics and tools show it. limit: the most bytes of memory it may hold; 0: none. Memory comes in
    units of 16 KiB, and a limit above 0 lets it hold one unit: ``limit=1`` is 16 KiB.

    The end gives the memory back. Any use of a buffer afterwards raises StaleError. The end of a ``with`` block raises
    nothing: while views of a buffer (a memoryview, an array) or arrays of ``numpy()`` are alive, the domain takes no new buffers, and ends with the
    last of them. ``end()`` raises BufferError then, and the domain lives on until it is tried again, or the views are gone.
    A domain that nobody refers to any more ends, too. A child of fork has a copy of it, as of all memory.
    """

    def array(self, shape: SupportsIndex | Iterable[SupportsIndex], dtype: Any = "float64") -> "numpy.ndarray[Any, numpy.dtype[Any]]":
        """A NumPy array of zeros in the domain. It is a view: while it is alive, the domain does not end."""
        import numpy

        dtype = numpy.dtype(dtype)
        if dtype.hasobject:
            raise TypeError("an array of Python objects cannot lie in a domain")
        try:
            lengths: tuple[int, ...] = (index(shape),)  # type: ignore[arg-type]
        except TypeError:
            lengths = tuple(index(n) for n in shape)  # type: ignore[union-attr]
        if any(n < 0 for n in lengths):
            raise ValueError(f"negative dimensions in {lengths}")
        size = math.prod(lengths, start=dtype.itemsize)  # of Python's integers: NumPy's would wrap
        buffer = self.buffer(size)
        if size == 0:
            return numpy.zeros(lengths, dtype)
        return numpy.frombuffer(memoryview(buffer), dtype).reshape(lengths)

    def numpy(self) -> Arrays:
        """In the block ``with d.numpy() as out:`` every array that NumPy makes lies in the domain, temporaries too.

        In this thread or task, and in the tasks that start inside. An array that lives on keeps the domain, whose end comes with
        the last one. What is set on ``out`` (arrays, frames, lists and dicts of them: all that can be pickled) is replaced at the
        end of the block by a copy outside of the domain, unless the block raises.

        ImportError: there is no NumPy, or one before 1.22. StaleError: the domain has ended, or its block.
        """
        return Arrays(self)
