"""`make mutants`: the core with one thing wrong at a time, against the tests of the room it is in.

The tests of a room run once as they are; then, for every mutant, a forked copy of that process exchanges the code of
one function and runs the tests that had called it, until one fails. Tests with drawn values (hypothesis) and slow ones
are left out: a mutant has to be caught by arithmetic that can be read. A room also has planted mutants, each a
plausible wrong engine (planted.py). It fails if the tests of a room catch less than nine in ten mutants or miss a
planted one.
"""

from __future__ import annotations

import argparse
import functools
import gc
import importlib
import math
import os
import random
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
from tests.mutants.planted import planted_of

ROOT = Path(__file__).parents[2]
EQUIVALENT = Path(__file__).parent / "equivalent.txt"
# Files of a room and its tests; of a folder all files but those within another folder.
ROOMS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "decisions": (("app/sizing/decisions",), ("tests/sizing/decisions",)),
    "serving": (("app/sizing/serving",), ("tests/sizing/serving",)),
    "training": (("app/sizing/training",), ("tests/sizing/training",)),
    "pools": (("app/sizing/pools",), ("tests/sizing/pools",)),
    "day": (
        ("app/sizing/day.py",),
        ("tests/sizing/test_day.py", "tests/sizing/test_day_shape.py", "tests/sizing/test_days.py"),
    ),
    "packing": (("app/sizing/packing.py",), ("tests/sizing/test_packing.py",)),
    "answer": (("app/sizing/answer",), ("tests/sizing/answer",)),
    "whatif": (("app/sizing/whatif",), ("tests/sizing/whatif",)),
    "diagnosis": (("app/sizing/diagnosis",), ("tests/sizing/diagnosis",)),
    "export": (("app/export", "app/export/handoff"), ("tests/export",)),
    "compare": (("app/sizing/compare.py",), ("tests/sizing/compare",)),
}
LEAST_CAUGHT = 0.9
# CPU time for a mutant beyond what its tests take unchanged: one that needs more runs in circles.
SPARE_SECONDS, SPARE_TIMES = 5, 3
SEED = 1  # of samples
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

    @property
    def missed(self) -> list[Mutant]:
        """Mutants that no test caught, in the order of the file."""
        return sorted([*self.survived, *self.untested], key=lambda m: m.line)


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

    def __init__(self, files: list[Path], mutants: list[Mutant], longest_s: float) -> None:
        self.files = {str(p) for p in files}
        self.mutants = mutants
        self.longest_s = longest_s  # tests that take longer judge no mutant
        self.outcomes: dict[str, Outcome] = {}
        self.broken: list[str] = []
        self.called: dict[tuple[str, int], set[int]] = defaultdict(set)  # function of a file: tests that call it
        self.seconds: list[float] = []

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        items = session.items
        for i, item in enumerate(items):
            started = time.process_time()
            sys.settrace(functools.partial(self.note, i))
            good = passed(item)
            sys.settrace(None)
            self.seconds.append(time.process_time() - started)
            good = good and passed(item)  # a second time, as mutants meet it
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
        caches = [o for o in gc.get_objects() if isinstance(o, functools._lru_cache_wrapper)]
        running: dict[int, Mutant] = {}
        gc.freeze()  # so that copies share memory
        for mutant in self.mutants:
            outcome = self.outcomes.setdefault(mutant.path, Outcome())
            tests = self.tests_of(mutant)
            if not tests:
                outcome.untested.append(mutant)
                continue
            if len(running) >= (os.cpu_count() or 1):
                self.wait(running)
            running[self.forked(mutant, items, tests, caches)] = mutant
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
        return sorted((i for i in found if self.seconds[i] <= self.longest_s), key=lambda i: self.seconds[i])

    def forked(self, mutant: Mutant, items: list[pytest.Item], tests: list[int], caches: list[Any]) -> int:
        child = os.fork()
        if child:
            return child
        signal.signal(signal.SIGPROF, lambda *_: os._exit(CAUGHT))
        signal.setitimer(signal.ITIMER_PROF, SPARE_SECONDS + SPARE_TIMES * sum(self.seconds[i] for i in tests))
        code = UNUSABLE
        try:
            for cache in caches:
                cache.cache_clear()
            exchanged(mutant)
            code = CAUGHT
            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
            code = SURVIVED if all(passed(items[i]) for i in tests) else CAUGHT
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
    """Every mutant that no test caught: where it is, the statement and what became of it."""
    for path, outcome in outcomes.items():
        for m in outcome.missed:
            notes = [f"planted: it {m.wrong}"] * bool(m.wrong) + ["never called"] * (m in outcome.untested)
            yield f"{path}:{m.line} {m.where}  {', '.join(notes)}\n  - {m.before}\n  + {m.after}"


def table_of(found: dict[str, dict[str, Outcome]]) -> Iterator[str]:
    """A line per file and per room; shares below the minimum are marked."""
    for room, outcomes in found.items():
        rows = {path.removeprefix("app/").removeprefix("sizing/"): (o.caught, o.total) for path, o in outcomes.items()}
        rows[f"{room}, all files"] = share_of(outcomes)
        for name, (caught, total) in rows.items():
            low = "  below" if caught < LEAST_CAUGHT * total else ""
            yield f"{name:32} {caught:5} of {total:5} caught {caught / max(1, total):6.1%}{low}"


def share_of(outcomes: dict[str, Outcome]) -> tuple[int, int]:
    """(caught, all mutants) of a room."""
    return sum(o.caught for o in outcomes.values()), sum(o.total for o in outcomes.values())


def is_held(outcomes: dict[str, Outcome]) -> bool:
    """Whether the tests of a room catch enough of its mutants, and every planted one."""
    caught, total = share_of(outcomes)
    return caught >= LEAST_CAUGHT * total and not any(m.wrong for o in outcomes.values() for m in o.missed)


def files_of(room: str, only: str) -> list[Path]:
    """The files of a room whose name contains `only`."""
    places = [ROOT / place for place in ROOMS[room][0]]
    files = [p for place in places for p in (sorted(place.glob("[!_]*.py")) if place.is_dir() else [place])]
    return [p for p in files if only in p.name]


def mutants_in(files: list[Path], sample: int | None) -> list[Mutant]:
    """The planted mutants of files, then all others or a sample of them."""
    tables, same = tables_of(ROOT / "app"), equivalent()
    made = [m for path in files for m in mutants_of(path, ROOT, tables) if m.name not in same]
    if sample is not None and sample < len(made):
        made = random.Random(SEED).sample(made, sample)
    return [m for path in files for m in planted_of(path, ROOT)] + made


def judged(room: str, given: argparse.Namespace) -> dict[str, Outcome]:
    """Mutants of a room's files against that room's tests."""
    files = files_of(room, given.file)
    judge = Judge(files, mutants_in(files, given.sample), given.seconds)
    options = ["-q", "--no-header", "-p", "no:cacheprovider", "-m", "not hypothesis and not slow"]
    code = pytest.main([*options, *ROOMS[room][1]], plugins=[judge])
    if judge.broken or code not in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
        sys.exit(f"The tests have to pass before mutants are judged: {judge.broken or code}")
    return judge.outcomes


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("rooms", nargs="*", default=ROOMS, help=", ".join(ROOMS))
    asked.add_argument("--file", default="", help="only files whose name contains this")
    asked.add_argument(
        "--sample", type=int, help="number of mutants of a room, always the same ones, besides the planted ones"
    )
    asked.add_argument("--seconds", type=float, default=math.inf, help="only tests that take at most this long")
    given = asked.parse_args()
    started = time.perf_counter()
    found = {room: judged(room, given) for room in given.rooms}
    for outcomes in found.values():
        print("\n".join(lines_of(outcomes)))
    print("\n".join(table_of(found)))
    print(f"{time.perf_counter() - started:.0f} s")
    sys.exit(not all(map(is_held, found.values())))


if __name__ == "__main__":
    main()
