"""A log as figures; of a trainer's lines by their patterns: warm-up left out, the median of the steps."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime

from app.observed.deepspeed import DEEPSPEED
from app.observed.engine_logs import ENGINE_LOGS, engine_log
from app.observed.figures import SHOWN, Reading, Runs, Unread, UnreadableText, plain
from app.observed.huggingface import HUGGINGFACE
from app.observed.lightning import LIGHTNING
from app.observed.lines import lines_of
from app.observed.maxtext import MAXTEXT
from app.observed.megatron import MEGATRON, NEMO
from app.observed.run import Line, figures, notes
from app.observed.torchtitan import TORCHTITAN
from app.observed.trainer import Trainer

# The most special first: NeMo's lines have iterations as Megatron's, Lightning's bars are tqdm's too.
TRAINERS: tuple[Trainer, ...] = (TORCHTITAN, NEMO, MEGATRON, MAXTEXT, DEEPSPEED, LIGHTNING, HUGGINGFACE)
OF_ENGINES = tuple(e.name for e in ENGINE_LOGS)
FORMATS = (*(t.name for t in TRAINERS), *OF_ENGINES)
STAMP = re.compile(r"(\d{4}-\d\d-\d\d)[ T](\d\d:\d\d:\d\d)(?:[.,](\d{1,6}))?")
STAMP_WITHIN = 80  # letters from the beginning of a line


def log(text: str, runs: Runs, name: str | None = None) -> Reading:
    """What a log says: a trainer's, or an engine's. Raises UnreadableText where it is none that is known."""
    if name in OF_ENGINES:
        return engine_log(text, runs, name)
    try:
        return trainer_log(text, runs, name)
    except UnreadableText:
        if name is None and any(e.said(line) for line in lines_of(text) for e in ENGINE_LOGS):
            return engine_log(text, runs)
        raise


def trainer_log(text: str, runs: Runs, name: str | None = None) -> Reading:
    """What a trainer's log says. Raises UnreadableText where no step is found."""
    every = lines_of(text)
    trainer = next((t for t in TRAINERS if t.name == name), None) or likeliest(every)
    if trainer is None or not any(pattern.search(line) for line in every for pattern in trainer.steps):
        raise UnreadableText(nothing(every, trainer))
    known, unread = [], []
    for number, line in enumerate(every, 1):
        said = trainer.said(line)
        if said:
            known.append(Line(said, moment(line)))
        else:
            unread.append(f"line {number}: {plain(line)}")
    found = tuple(figures(known, runs, trainer.title))
    return Reading(found, Unread((), len(unread), tuple(unread[:SHOWN])), tuple(notes(known, runs)))


def likeliest(every: Sequence[str]) -> Trainer | None:
    """The first trainer that knows at least half as many steps as any other."""
    counts = [sum(any(p.search(line) for p in t.steps) for line in every) for t in TRAINERS]
    return next((t for t, count in zip(TRAINERS, counts, strict=True) if 0 < count >= max(counts) / 2), None)


def moment(line: str) -> float | None:
    """Seconds since 1970 at the beginning of a line; zones do not matter, only what lies between."""
    stamp = STAMP.search(line[:STAMP_WITHIN])
    if stamp is None:
        return None
    try:
        at = datetime.fromisoformat(f"{stamp[1]}T{stamp[2]}").replace(tzinfo=UTC)
    except ValueError:
        return None
    return at.timestamp() + (float(f"0.{stamp[3]}") if stamp[3] else 0.0)


def nothing(every: Sequence[str], trainer: Trainer | None) -> str:
    """Why nothing was read."""
    seen = f" It begins with {plain(every[0])!r}." if every else " It is empty."
    which = trainer.title if trainer is not None else ", ".join(t.title for t in (*TRAINERS, *ENGINE_LOGS))
    return f"No step of a run was found.{seen} What is read are logs of {which}."
