"""Runs the event loop of a simulation: compiled for this machine or else in Python, with equal results.

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

from app.sizing.serving.simulation.record import Counts, Replica, Requests, Seconds, field_types
from app.sizing.serving.simulation.state import State

RecordT = TypeVar("RecordT", Replica, Requests, State)
ARRAYS = (Seconds, Counts)
ENTRY = "run_events"  # name of the loop in the library

_loaded: list[Callable[..., None]] = []


def load_library(path: Path) -> None:
    """Use the library at `path` from now on. Raises OSError if it cannot be loaded."""
    loop = getattr(ctypes.CDLL(str(path)), ENTRY)
    loop.restype = None
    loop.argtypes = [*map(ctypes.POINTER, STRUCTURES.values()), ctypes.c_int64]
    _loaded[:] = [loop]


def is_compiled() -> bool:
    """Whether a library is loaded. Without it a simulation takes about a hundred times as long."""
    return bool(_loaded)


def run_loop(
    loop: Callable[[Replica, Requests, State, int], None], r: Replica, q: Requests, s: State, warm: int
) -> None:
    """Run all events of a simulation; `loop` is the loop in Python, for use without a library."""
    if _loaded:
        given = [ctypes.byref(STRUCTURES[type(record)](*_words(record))) for record in (r, q, s)]
        _loaded[0](*given, warm)
        return
    state = _as_lists(s)
    loop(_as_lists(r), _as_lists(q), state, warm)
    for array, values in zip(s, state, strict=True):
        array[:] = values


def _words(record: Replica | Requests | State) -> Iterator[Any]:
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
    {record: _structure(record) for record in (Replica, Requests, State)}
)
