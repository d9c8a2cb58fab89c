"""Context of a request's work: its caller, its progress, and how much of it there is. The computing code reports each
stage and counts what it computes, and the code that started the work listens.

A listener may raise to stop the work: Abandoned if no client waits for it any more, OutOfTime if it took too long.
Without a listener, as in a command, `stage` has no effect.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Protocol, TypeVar

T = TypeVar("T")
Work = tuple[float, float, Hashable]  # units of work, and further ones, of which the most counts for each key
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


class WorkLimitReached(Exception):
    """The work of several answers reached the limit of one request."""


class WorkAccount:
    """Counts the work of an answer, in units of about a millisecond of CPU time.

    Cached results count as well, so that an answer never depends on earlier requests. Within one account, results that
    are used again count once as far as they are shared.
    """

    def __init__(self, most: float, *, stops: bool = False) -> None:
        self.most, self.done = most, 0.0
        self.entries: list[Work] = []
        self.left_out: dict[str, None] = {}  # what was left out for lack of work, as sentences
        self._stops, self._known = stops, dict[Hashable, float]()

    @property
    def is_used_up(self) -> bool:
        """Whether the work has reached its limit."""
        return self.done >= self.most

    def add(self, work: Work) -> None:
        """Counts work. Raises WorkLimitReached."""
        units, shared_units, key = work
        known = self._known.get(key, 0.0) if key is not None else 0.0
        self.done += units + max(0.0, shared_units - known)
        self._known[key] = max(known, shared_units)
        self.entries.append(work)
        if self._stops and self.is_used_up:
            raise WorkLimitReached


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
_accounts: ContextVar[tuple[WorkAccount, ...]] = ContextVar("accounts", default=())


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
def count_work(most: float, *, stops: bool = False) -> Iterator[WorkAccount]:
    """Counts the enclosed work, which counts for the accounts around it too.

    Parameters:
        most: units of work after which optional work is left out.
        stops: whether all work stops there: WorkLimitReached is raised.
    """
    account = WorkAccount(most, stops=stops)
    token = _accounts.set((*_accounts.get(), account))
    try:
        yield account
    finally:
        _accounts.reset(token)


def add_work(units: float, shared_units: float = 0.0, key: Hashable = None) -> None:
    """Counts work that was done. Of `shared_units`, an account counts the most that a key had, so that a later use of
    the key counts as far as it extends the earlier one. Raises WorkLimitReached.
    """
    for account in _accounts.get():
        account.add((units, shared_units, key))


def add_shared_work(entries: Iterable[Work]) -> None:
    """Counts work that another answer of the same request did, in the innermost account alone, so that the answer is
    the one that it would be alone. Raises WorkLimitReached.
    """
    for account in _accounts.get()[-1:]:
        for work in entries:
            account.add(work)


def is_work_left(left_out: str) -> bool:
    """Whether the answer may take on optional work. If not, it states the part that is left out."""
    if not _accounts.get() or not _accounts.get()[-1].is_used_up:
        return True
    _accounts.get()[-1].left_out[left_out] = None
    return False


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
