"""Context of a request's work: its caller, and its progress. The computing code reports each stage, and the code that
started the work listens.

A listener may raise to stop the work: Abandoned if no client waits for it any more, OutOfTime if it took too long.
Without a listener, as in a command, `stage` has no effect.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Protocol, TypeVar

T = TypeVar("T")
CHECK_EVERY = 1000  # items of a long loop between two checks whether the work should go on


class OutOfTime(Exception):
    """The work exceeded the time limit of a request."""


class Abandoned(Exception):
    """No client waits for the work any more."""


class AwaitExternal(Exception):
    """The work needs a result that another host has yet to deliver. It restarts once `awaited` is done."""

    def __init__(self, awaited: Future[Any]) -> None:
        super().__init__("on its way")
        self.awaited = awaited


class StageListener(Protocol):
    """Receives the stages of the work that it started."""

    def check(self) -> None:
        """Raises if the work should stop."""
        ...

    def enter(self, stage: str) -> str:
        """Starts a stage, or resumes one after a nested stage. Returns the name of the previous stage. May raise."""
        ...

    def leave(self, before: str) -> None:
        """Ends the current stage and resumes the stage `before`. Never raises."""
        ...


_listener: ContextVar[StageListener | None] = ContextVar("work", default=None)
_caller: ContextVar[str] = ContextVar("caller", default="")


def work_for(caller: str) -> None:
    """Names the caller of the work in the rest of the current context: a key, the subject of a token, or an address."""
    _caller.set(caller)


def current_caller() -> str:
    """Returns the caller of the current work; an empty string in commands."""
    return _caller.get()


@contextmanager
def report_stages_to(listener: StageListener) -> Iterator[None]:
    """Reports the stages of the enclosed work to a listener."""
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)


@contextmanager
def stage(name: str) -> Iterator[None]:
    """Marks a stage of the work: `read`, `search`, `simulate`, `words` or `store`. Stages can be nested.

    Raises whatever the listener raises to stop the work.
    """
    listener = _listener.get()
    if listener is None:
        yield
        return
    before = listener.enter(name)
    try:
        yield
    finally:
        listener.leave(before)


def check_each(items: Iterable[T]) -> Iterator[T]:
    """Yields the items, and asks before the first and each thousandth one whether the work should go on.

    Every loop over parts of a caller's text needs it: such a loop can take longer than any stage. Raises whatever the
    listener raises to stop the work.
    """
    listener = _listener.get()
    for number, item in enumerate(items):
        if listener is not None and number % CHECK_EVERY == 0:
            listener.check()
        yield item


def external_result(future: Future[T]) -> T:
    """Returns a result from another host. Raises AwaitExternal instead of waiting if a listener is set, so that the
    waiting request occupies no worker thread.
    """
    if _listener.get() is not None and not future.done():
        raise AwaitExternal(future)
    return future.result()
