"""Cache of simulated load curves, keyed by everything that determines them.

A limit on cost does not change a scheduler, and /estimate evaluates deployments that /recommend proposed: both reuse
the curves in this cache.
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

MAX_CACHED_CURVES = 1000  # most cached curves, a few KB each
# Workload fields left out of the key: the replica covers the model except its context limit; traces are not cached.
EXCLUDED_FIELDS = ("model", "trace")


class CurveCache:
    """Cache of the most recently used load curves, at most `most` of them; thread-safe."""

    def __init__(self, most: int) -> None:
        self._most, self._lock = most, threading.Lock()
        self._curves: OrderedDict[bytes, Curve] = OrderedDict()

    def get_or_simulate(self, key: bytes, simulate: Callable[[], Curve]) -> Curve:
        """Curve of this key; simulated if it is not cached."""
        with self._lock:
            cached = self._curves.get(key)
            if cached is not None:
                self._curves.move_to_end(key)
                return cached
        curve = simulate()
        with self._lock:
            self._curves[key] = curve
            while len(self._curves) > self._most:
                self._curves.popitem(last=False)
        return curve

    def clear(self) -> None:
        """Remove all curves."""
        with self._lock:
            self._curves.clear()


CURVE_CACHE = CurveCache(MAX_CACHED_CURVES)


def workload_key(workload: InferenceWorkload) -> bytes:
    """Key part of a workload without a trace: everything that determines its requests and their limits."""
    values = [getattr(workload, f.name) for f in fields(workload) if f.name not in EXCLUDED_FIELDS]
    return repr((workload.model.max_context_tokens, *values)).encode()


def curve_key(workload: bytes, replica: Replica, *bounds: float) -> bytes:
    """Cache key of a curve.

    Parameters:
        workload: key part of the workload.
        replica: the simulated replica.
        bounds: what bounds the loads, and the number of simulated requests.
    """
    digest = sha256(workload)
    for value in (*replica, *bounds):
        column = np.asarray(value)
        digest.update(f"{column.dtype.str}{column.shape}".encode())
        digest.update(column.tobytes())
    return digest.digest()
