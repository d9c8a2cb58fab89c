"""Curves that were simulated, kept by everything they come of: the same replica under the same requests does the same.

A limit of money changes no scheduler, and /estimate judges what /recommend found: both find their curves here.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import fields
from hashlib import sha256

import numpy as np

from app.sizing.serving.curves import Curve
from app.sizing.serving.simulation import Replica
from app.sizing.workload import InferenceWorkload

MOST_KEPT = 1000  # a few KB each
# Of a workload: the replica holds all of its model but the window that cuts requests off, and a trace is too long.
APART = ("model", "trace")


class KeptCurves:
    """The latest curves that were asked for."""

    def __init__(self, most: int) -> None:
        self._most, self._lock = most, threading.Lock()
        self._curves: OrderedDict[bytes, Curve] = OrderedDict()

    def curve(self, key: bytes, simulate: Callable[[], Curve]) -> Curve:
        """The curve of this key, simulated where it is not kept."""
        with self._lock:
            found = self._curves.get(key)
            if found is not None:
                self._curves.move_to_end(key)
                return found
        found = simulate()
        with self._lock:
            self._curves[key] = found
            while len(self._curves) > self._most:
                self._curves.popitem(last=False)
        return found

    def clear(self) -> None:
        """Forget all."""
        with self._lock:
            self._curves.clear()


KEPT = KeptCurves(MOST_KEPT)


def told_apart(workload: InferenceWorkload) -> bytes:
    """Everything of a workload without a trace that its requests and their limits come of."""
    told = [getattr(workload, f.name) for f in fields(workload) if f.name not in APART]
    return repr((workload.model.max_context_tokens, *told)).encode()


def key_of(workload: bytes, replica: Replica, *how: float) -> bytes:
    """What curves share that come of the same; `how`: what bounds their loads, and how many requests are simulated."""
    digest = sha256(workload)
    for value in (*replica, *how):
        column = np.asarray(value)
        digest.update(f"{column.dtype.str}{column.shape}".encode())
        digest.update(column.tobytes())
    return digest.digest()
