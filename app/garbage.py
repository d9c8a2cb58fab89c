"""Pauses the collection of cyclic garbage while many long-lived objects are created."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def paused_collection(*, keeps_all: bool = False) -> Iterator[None]:
    """Pauses the collection of cyclic garbage. To look for cycles again and again among objects that all remain would
    take a fifth of the time of imports and of loading a catalog.

    Parameters:
        keeps_all: whether all objects of the process so far stay until it ends, so that no later collection looks at
            them either.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if keeps_all:
            gc.freeze()
        if was_enabled:
            gc.enable()
