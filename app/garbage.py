"""Pauses the collection of cyclic garbage while many long-lived objects are created."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def paused_collection() -> Iterator[None]:
    """Pauses the collection of cyclic garbage. To look for cycles again and again among objects that all remain would
    take a fifth of the time of imports and of loading a catalog.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
