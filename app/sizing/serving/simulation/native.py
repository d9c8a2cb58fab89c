"""Runs the loops of a simulation: compiled for this machine or else in Python, with equal results.

The library is compiled from the C text of the same functions (`c_source`); ctypes calls it without the lock of the
interpreter, so that other threads go on.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar, cast

import numpy as np

from app.sizing.serving.simulation.record import Counts, Dispatch, Replica, Requests, Routed, Seconds, field_types
from app.sizing.serving.simulation.state import State

Record = Replica | Requests | State | Routed | Dispatch
RecordT = TypeVar("RecordT", bound=Record)
ARRAYS = (Seconds, Counts)

_loaded: list[ctypes.CDLL] = []


def load_library(path: Path) -> None:
    """Use the library at `path` from now on. Raises OSError if it cannot be loaded."""
    _loaded[:] = [ctypes.CDLL(str(path))]


def is_compiled() -> bool:
    """Whether a library is loaded. Without it a simulation takes about a hundred times as long."""
    return bool(_loaded)


def run_loop(loop: Callable[..., None], *records: Record, warm: int | None = None) -> None:
    """Run a loop over records, the last of which it changes.

    Parameters:
        loop: the loop in Python, for use without a library; its name is that of the loop in the library.
        warm: last argument of the loop, if it takes one.
    """
    last = () if warm is None else (warm,)
    if _loaded:
        given = [ctypes.byref(STRUCTURES[type(record)](*_words(record))) for record in records]
        _loaded[0][loop.__name__](*given, *map(ctypes.c_int64, last))
        return
    listed = [_as_lists(record) for record in records]
    loop(*listed, *last)
    for array, values in zip(records[-1], listed[-1], strict=True):
        cast(Any, array)[:] = values


def _words(record: Record) -> Iterator[Any]:
    """The fields of a record as C sees them: an address and a length for each array."""
    for value in record:
        if isinstance(value, np.ndarray):
            yield value.__array_interface__["data"][0]
            yield len(value)
        else:
            yield value


def _structure(record: type[Any]) -> type[ctypes.Structure]:
    """The declaration of a record in ctypes."""
    fields: list[tuple[str, Any]] = []
    for name, kind in field_types(record).items():
        if kind in ARRAYS:
            fields += [(name, ctypes.c_void_p), (f"{name}_len", ctypes.c_int64)]
        else:
            fields.append((name, ctypes.c_double if kind is float else ctypes.c_int64))
    return type(record.__name__, (ctypes.Structure,), {"_fields_": fields})


def _as_lists(record: RecordT) -> RecordT:
    """The record with lists in place of arrays, whose elements Python reads several times faster."""
    return type(record)(*(value.tolist() if isinstance(value, np.ndarray) else value for value in cast(Any, record)))


STRUCTURES: Mapping[type[Any], type[ctypes.Structure]] = MappingProxyType(
    {record: _structure(record) for record in (Replica, Requests, State, Routed, Dispatch)}
)
