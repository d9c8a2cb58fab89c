"""The threads that compute answers: a fixed few, and a queue before them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


class Searches:
    """Answers computed at once; others wait, first come first served.

    Arithmetic holds the interpreter, so more threads than cores only take turns on it, each with its own memory.
    """

    def __init__(self, at_once: int) -> None:
        self._threads = ThreadPoolExecutor(at_once, thread_name_prefix="search")

    async def run(self, compute: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """What `compute` returns or raises, once its turn has come."""
        return await asyncio.wrap_future(self._threads.submit(compute, *args, **kwargs))
