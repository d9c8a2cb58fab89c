"""Databases that stop answering while they are asked."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Engine, event

from app.postgres import unavailable_error


class Outage:
    """An engine whose statements can be refused, or held until they are let go; `met` of them were sent."""

    def __init__(self, engine: Engine) -> None:
        self._refusing, self._free, self.met = False, threading.Event(), 0
        self._free.set()
        event.listen(engine, "before_cursor_execute", self._meet)

    def _meet(self, *_: Any) -> None:
        self.met += 1
        if self._refusing:
            raise unavailable_error("gone")
        assert self._free.wait(30)

    @contextmanager
    def refused(self) -> Iterator[None]:
        """No statement is taken."""
        self._refusing = True
        try:
            yield
        finally:
            self._refusing = False

    @contextmanager
    def held(self) -> Iterator[None]:
        """No statement ends."""
        self._free.clear()
        try:
            yield
        finally:
            self._free.set()
