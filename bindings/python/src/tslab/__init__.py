"""temporal-slab for Python.

Watch any process that shows its statistics (``TSLAB_SHM=1``, or ``tslab run PROGRAM``)::

    for process in tslab.processes():
        print(process["pid"], tslab.stats(process["pid"])["global"]["live_bytes"])

Buffers that die with a domain::

    with tslab.Domain("request") as d:
        b = d.buffer(1000)
        b[:5] = b"hello"
    b[0]  # raises StaleError
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ._core import Buffer, StaleError, version
from ._core import Domain as _Domain
from ._watch import TargetError, findings, frame, processes, stacks, stats, watch

if TYPE_CHECKING:
    import numpy

__all__ = [
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

    label: under which statistics and tools show it. limit: the most bytes of memory it may hold, in units of 16 KiB; 0: none.

    The end gives the memory back. Any use of a buffer afterwards raises StaleError. While a view of a buffer is alive
    (a memoryview, an array) the end raises BufferError, and the domain lives on until it is tried again, or the views are gone.
    A domain that nobody refers to any more ends, too. A child of fork has a copy of it, as of all memory.
    """

    def array(self, shape: int | tuple[int, ...], dtype: Any = "float64") -> "numpy.ndarray[Any, numpy.dtype[Any]]":
        """A NumPy array of zeros in the domain. It is a view: while it is alive, the domain does not end."""
        import numpy

        dtype = numpy.dtype(dtype)
        if dtype.hasobject:
            raise TypeError("an array of Python objects cannot lie in a domain")
        shape = (shape,) if isinstance(shape, int) else tuple(shape)
        if any(n < 0 for n in shape):
            raise ValueError(f"negative dimensions in {shape}")
        size = dtype.itemsize
        for n in shape:
            size *= n
        if size == 0:
            return numpy.zeros(shape, dtype)
        return numpy.frombuffer(memoryview(self.buffer(size)), dtype).reshape(shape)
