"""A cache of the most recently used results."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Kept = TypeVar("Kept")


class RecentlyUsed(Generic[Key, Kept]):
    """Cache of the most recently used results, at most `most` of them; thread-safe."""

    def __init__(self, most: int) -> None:
        self._most, self._lock = most, threading.Lock()
        self._results: OrderedDict[Key, Kept] = OrderedDict()

    def get_or_make(self, key: Key, make: Callable[[], Kept]) -> Kept:
        """Result of this key; made if it is not cached. Threads that make it at the same time get the same one."""
        with self._lock:
            if key in self._results:
                self._results.move_to_end(key)
                return self._results[key]
        made = make()
        with self._lock:
            kept = self._results.setdefault(key, made)
            while len(self._results) > self._most:
                self._results.popitem(last=False)
        return kept

    def clear(self) -> None:
        """Remove all results."""
        with self._lock:
            self._results.clear()
