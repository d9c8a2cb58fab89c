"""Where the work of a request stands: what computes says at each stage that it begins, who set it on listens.

A listener may raise there, which ends the work: Abandoned where nobody waits any more, OutOfTime where it took too
long. Where nobody listens, as in a command, `stage` does nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Protocol, TypeVar

T = TypeVar("T")


class OutOfTime(Exception):
    """The work took longer than a request may."""


class Abandoned(Exception):
    """Nobody waits for the work any more."""


class Elsewhere(Exception):
    """The work wants what is on its way from another host; it is begun anew once that is there."""

    def __init__(self, awaited: Future[Any]) -> None:
        super().__init__("on its way")
        self.awaited = awaited


class Listener(Protocol):
    """Who set the work on."""

    def enter(self, stage: str) -> str:
        """A stage begins, or goes on after one inside it; the name of that before. May raise."""
        ...

    def leave(self, before: str) -> None:
        """It has ended, and that before goes on. Never raises."""
        ...


_listening: ContextVar[Listener | None] = ContextVar("work", default=None)


@contextmanager
def heard_by(listener: Listener) -> Iterator[None]:
    """The stages of what runs inside are told to this one."""
    token = _listening.set(listener)
    try:
        yield
    finally:
        _listening.reset(token)


@contextmanager
def stage(name: str) -> Iterator[None]:
    """A stage of the work, or of another stage: `read`, `search`, `simulate`, `words`, `store`.

    Raises what ends the work.
    """
    listener = _listening.get()
    if listener is None:
        yield
        return
    before = listener.enter(name)
    try:
        yield
    finally:
        listener.leave(before)


def waited_for(future: Future[T]) -> T:
    """What comes from another host. Raises Elsewhere where somebody listens: no turn passes in waiting."""
    if _listening.get() is not None and not future.done():
        raise Elsewhere(future)
    return future.result()
