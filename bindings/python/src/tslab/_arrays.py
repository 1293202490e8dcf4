"""The arrays of NumPy in a domain: what ``Domain.numpy()`` returns."""

from __future__ import annotations

import importlib
import io
import pickle
from types import SimpleNamespace, TracebackType
from typing import TYPE_CHECKING, Any

from ._core import Domain

if TYPE_CHECKING:
    import numpy


def _table() -> Any:
    """The functions that NumPy gives to other modules."""
    try:
        importlib.import_module("numpy")
    except ImportError as error:
        raise ImportError("Domain.numpy() needs NumPy 1.22 or newer: pip install numpy") from error
    try:
        return importlib.import_module("numpy._core._multiarray_umath")._ARRAY_API
    except ModuleNotFoundError:
        return importlib.import_module("numpy.core._multiarray_umath")._ARRAY_API


class _Pickler(pickle.Pickler):
    """Arrays stay out of the pickle: each is copied once."""

    def __init__(self, file: io.BytesIO, copies: list[numpy.ndarray[Any, Any]]) -> None:
        super().__init__(file, protocol=5)
        import numpy

        self._array = numpy.ndarray
        self._copies = copies
        self._places: dict[int, int] = {}

    def persistent_id(self, obj: Any) -> int | None:
        if type(obj) is not self._array or obj.dtype.hasobject:
            return None
        if id(obj) not in self._places:
            self._places[id(obj)] = len(self._copies)
            self._copies.append(obj.copy(order="K"))
        return self._places[id(obj)]


class _Unpickler(pickle.Unpickler):
    def __init__(self, file: io.BytesIO, copies: list[numpy.ndarray[Any, Any]]) -> None:
        super().__init__(file)
        self._copies = copies

    def persistent_load(self, pid: Any) -> Any:
        return self._copies[pid]


def _copy(value: Any) -> Any:
    """A copy of which nothing lies where the value does. Deeper than copy.deepcopy(), which leaves the index of a pandas frame."""
    file = io.BytesIO()
    copies: list[numpy.ndarray[Any, Any]] = []
    pickler = _Pickler(file, copies)
    try:
        pickler.dump(value)
    finally:
        pickler.clear_memo()  # it is in a cycle with its own method, and holds what it saw
    file.seek(0)
    return _Unpickler(file, copies).load()


class Arrays:
    """A block in which NumPy's arrays are made in the domain. For one ``with`` statement."""

    def __init__(self, domain: Domain) -> None:
        self._domain = domain
        self._table = _table()
        self._handler = domain._numpy_block(self._table)
        self._out = SimpleNamespace()

    def __enter__(self) -> SimpleNamespace:
        self._domain._numpy_enter(self._table, self._handler)
        return self._out

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._domain._numpy_leave(self._table, self._handler)
        if kind is None and vars(self._out):
            vars(self._out).update(_copy(vars(self._out)))
