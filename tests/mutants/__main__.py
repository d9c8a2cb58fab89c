"""`make mutants`: the core with one thing wrong at a time, against the tests of the room it is in.

The tests of a room run once as they are; then, for every mutant, a forked copy of that process exchanges the code of
one function and runs the tests that had called it, until one fails. Tests with drawn values (hypothesis) are left out:
they are slow, and a mutant has to be caught by arithmetic that can be read. Where in a room less than nine in ten are
caught, it fails.
"""

from __future__ import annotations

import argparse
import functools
import gc
import importlib
import os
import signal
import sys
import time
import traceback
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import pytest
from _pytest.runner import runtestprotocol

from tests.mutants.operators import Mutant, mutants_of, tables_of

ROOT = Path(__file__).parents[2]
EQUIVALENT = Path(__file__).parent / "equivalent.txt"
ROOMS = ("decisions", "serving", "training")
LEAST_CAUGHT = 0.9
# A mutant that has not ended by then runs in circles, which a person would notice.
SECONDS_EACH = 5
SURVIVED, CAUGHT, UNUSABLE = 0, 1, 2


@dataclass
class Outcome:
    """Mutants of one file."""

    caught: int = 0
    survived: list[Mutant] = field(default_factory=list)
    untested: list[Mutant] = field(default_factory=list)

    @property
    def total(self) -> int:
        return self.caught + len(self.survived) + len(self.untested)


def equivalent() -> set[str]:
    """Names of mutants that compute the same; each stands under a line that says why."""
    lines = EQUIVALENT.read_text().splitlines() if EQUIVALENT.exists() else []
    return {line for line in lines if line and not line.startswith("#")}


def exchanged(mutant: Mutant) -> None:
    """Put the mutant's code into the function that everybody holds."""
    module: Any = importlib.import_module(mutant.path.removesuffix(".py").replace("/", "."))
    found: Any = module
    for name in mutant.where.split("."):
        found = vars(found)[name]
    for wrapper in ("fget", "func", "__func__", "function"):
        found = getattr(found, wrapper, found)
    while hasattr(found, "__wrapped__"):
        found = found.__wrapped__
    found.__code__ = mutant.code(str(ROOT / mutant.path))


class Judge:
    """A plugin that runs the tests once, then again for every mutant."""

    def __init__(self, files: list[Path]) -> None:
        self.files = {str(p): p for p in files}
        self.outcomes: dict[str, Outcome] = {}
        self.broken: list[str] = []
        self.called: dict[tuple[str, int], set[int]] = defaultdict(set)  # function of a file: tests that call it
        self.seconds: list[float] = []

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        items = session.items
        for i, item in enumerate(items):
            started = time.perf_counter()
            sys.settrace(functools.partial(self.note, i))
            good = passed(item)
            sys.settrace(None)
            good = good and passed(item)  # a second time, as mutants meet it
            self.seconds.append(time.perf_counter() - started)
            if not good:
                self.broken.append(item.nodeid)
        if not self.broken:
            self.judge(items)
        session._setupstate.teardown_exact(None)  # what fixtures hold is given back
        return True

    def note(self, test: int, frame: FrameType, _event: str, _argument: Any) -> None:
        code: CodeType = frame.f_code
        if code.co_filename in self.files:
            self.called[code.co_filename, code.co_firstlineno].add(test)

    def judge(self, items: list[pytest.Item]) -> None:
        tables, same = tables_of(ROOT / "app" / "sizing"), equivalent()
        caches = [o for o in gc.get_objects() if isinstance(o, functools._lru_cache_wrapper)]
        running: dict[int, Mutant] = {}
        gc.freeze()  # so that copies share memory
        for path in self.files.values():
            outcome = self.outcomes[path.relative_to(ROOT).as_posix()] = Outcome()
            for mutant in mutants_of(path, ROOT, tables):
                if mutant.name in same:
                    continue
                tests = self.tests_of(mutant)
                if not tests:
                    outcome.untested.append(mutant)
                    continue
                if len(running) >= (os.cpu_count() or 1):
                    self.wait(running)
                running[self.forked(mutant, [items[i] for i in tests], caches)] = mutant
        while running:
            self.wait(running)

    def tests_of(self, mutant: Mutant) -> list[int]:
        """Tests that had called the function or something within it, the quickest first."""
        function = mutant.function()
        lines = range(
            min([function.lineno, *(d.lineno for d in function.decorator_list)]), (function.end_lineno or 0) + 1
        )
        file = str(ROOT / mutant.path)
        found = {t for (name, line), tests in self.called.items() if name == file and line in lines for t in tests}
        return sorted(found, key=lambda i: self.seconds[i])

    def forked(self, mutant: Mutant, items: list[pytest.Item], caches: list[Any]) -> int:
        child = os.fork()
        if child:
            return child
        signal.signal(signal.SIGALRM, lambda *_: os._exit(CAUGHT))
        signal.alarm(SECONDS_EACH)
        code = UNUSABLE
        try:
            for cache in caches:
                cache.cache_clear()
            exchanged(mutant)
            code = CAUGHT
            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
            code = SURVIVED if all(passed(item) for item in items) else CAUGHT
        except BaseException:  # whatever a mutant breaks: the copy must end here
            traceback.print_exc()
        finally:
            os._exit(code)

    def wait(self, running: dict[int, Mutant]) -> None:
        child, status = os.wait()
        mutant = running.pop(child)
        outcome = self.outcomes[mutant.path]
        code = os.waitstatus_to_exitcode(status)
        if code == UNUSABLE:
            sys.exit(f"{mutant.name} could not be put in place")
        if code == SURVIVED:
            outcome.survived.append(mutant)
        else:
            outcome.caught += 1


def passed(item: pytest.Item) -> bool:
    """Run a test; fixtures of the whole session stay for the next."""
    reports = runtestprotocol(item, log=False, nextitem=item.session)  # type: ignore[arg-type]
    return not any(r.failed for r in reports)


def lines_of(outcomes: dict[str, Outcome]) -> Iterator[str]:
    for path, outcome in outcomes.items():
        for m in sorted([*outcome.survived, *outcome.untested], key=lambda m: m.line):
            never = "  (never called)" if m in outcome.untested else ""
            yield f"{path}:{m.line} {m.where}{never}\n  - {m.before}\n  + {m.after}"


def table_of(found: dict[str, dict[str, Outcome]]) -> Iterator[str]:
    """A line per file and per folder; shares below the minimum are marked."""
    for room, outcomes in found.items():
        rows = {path.removeprefix("app/sizing/"): (o.caught, o.total) for path, o in outcomes.items() if o.total}
        rows[f"{room}, all files"] = share_of(outcomes)
        for name, (caught, total) in rows.items():
            low = "  below" if caught < LEAST_CAUGHT * total else ""
            yield f"{name:32} {caught:5} of {total:5} caught {caught / max(1, total):6.1%}{low}"


def share_of(outcomes: dict[str, Outcome]) -> tuple[int, int]:
    """(caught, all mutants) of a room."""
    return sum(o.caught for o in outcomes.values()), sum(o.total for o in outcomes.values())


def judged(room: str, only: str) -> dict[str, Outcome]:
    """Mutants of a room's files against that room's tests."""
    files = sorted(p for p in (ROOT / "app" / "sizing" / room).glob("[!_]*.py") if only in p.name)
    judge = Judge(files)
    options = ["-q", "--no-header", "-p", "no:cacheprovider", "-m", "not hypothesis"]
    code = pytest.main([*options, f"tests/sizing/{room}"], plugins=[judge])
    if judge.broken or code not in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
        sys.exit(f"The tests have to pass before mutants are judged: {judge.broken or code}")
    return judge.outcomes


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("rooms", nargs="*", default=ROOMS)
    asked.add_argument("--file", default="", help="only files whose name contains this")
    given = asked.parse_args()
    started = time.perf_counter()
    found = {room: judged(room, given.file) for room in given.rooms}
    for outcomes in found.values():
        print("\n".join(lines_of(outcomes)))
    print("\n".join(table_of(found)))
    print(f"{time.perf_counter() - started:.0f} s")
    sys.exit(any(caught < LEAST_CAUGHT * total for caught, total in map(share_of, found.values())))


if __name__ == "__main__":
    main()
