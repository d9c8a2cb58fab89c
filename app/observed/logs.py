"""Figures from a log. Trainer logs are matched by patterns; figures are the median of the steps after the warm-up."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime

from app.observed.deepspeed import DEEPSPEED
from app.observed.engine_logs import ENGINE_LOGS, engine_log
from app.observed.figures import SHOWN, Reading, Runs, UnreadContent, UnreadableText, plain
from app.observed.huggingface import HUGGINGFACE
from app.observed.lightning import LIGHTNING
from app.observed.lines import lines_of
from app.observed.maxtext import MAXTEXT
from app.observed.megatron import MEGATRON, NEMO
from app.observed.run import Line, figures, notes
from app.observed.torchtitan import TORCHTITAN
from app.observed.trainer import Trainer

# Most specific first: NeMo lines have iterations like Megatron-LM lines, and Lightning also shows tqdm bars.
TRAINERS: tuple[Trainer, ...] = (TORCHTITAN, NEMO, MEGATRON, MAXTEXT, DEEPSPEED, LIGHTNING, HUGGINGFACE)
OF_ENGINES = tuple(e.name for e in ENGINE_LOGS)
FORMATS = (*(t.name for t in TRAINERS), *OF_ENGINES)
STAMP = re.compile(r"(\d{4}-\d\d-\d\d)[ T](\d\d:\d\d:\d\d)(?:[.,](\d{1,6}))?")
STAMP_WITHIN = 80  # a timestamp starts within this many characters


def log(text: str, runs: Runs, name: str | None = None) -> Reading:
    """Figures from the log of a trainer or an engine. Raises UnreadableText for any other text."""
    if name in OF_ENGINES:
        return engine_log(text, runs, name)
    try:
        return trainer_log(text, runs, name)
    except UnreadableText:
        if name is None and any(e.parse_line(line) for line in lines_of(text) for e in ENGINE_LOGS):
            return engine_log(text, runs)
        raise


def trainer_log(text: str, runs: Runs, name: str | None = None) -> Reading:
    """Figures from a trainer log. Raises UnreadableText if it has no training step."""
    every = lines_of(text)
    trainer = next((t for t in TRAINERS if t.name == name), None) or likeliest(every)
    if trainer is None or not any(pattern.search(line) for line in every for pattern in trainer.steps):
        raise UnreadableText(nothing(every, trainer))
    known, unread = [], []
    for number, line in enumerate(every, 1):
        parsed = trainer.parse_line(line)
        if parsed:
            known.append(Line(parsed, moment(line)))
        else:
            unread.append(f"line {number}: {plain(line)}")
    run_values = tuple(figures(known, runs, trainer.title))
    return Reading(run_values, UnreadContent((), len(unread), tuple(unread[:SHOWN])), tuple(notes(known, runs)))


def likeliest(every: Sequence[str]) -> Trainer | None:
    """The first trainer whose patterns match at least half as many lines as those of any other trainer."""
    counts = [sum(any(p.search(line) for p in t.steps) for line in every) for t in TRAINERS]
    return next((t for t, count in zip(TRAINERS, counts, strict=True) if 0 < count >= max(counts) / 2), None)


def moment(line: str) -> float | None:
    """Unix time in seconds at the beginning of a line. Time zones are ignored, because only differences count."""
    stamp = STAMP.search(line[:STAMP_WITHIN])
    if stamp is None:
        return None
    try:
        at = datetime.fromisoformat(f"{stamp[1]}T{stamp[2]}").replace(tzinfo=UTC)
    except ValueError:
        return None
    return at.timestamp() + (float(f"0.{stamp[3]}") if stamp[3] else 0.0)


def nothing(every: Sequence[str], trainer: Trainer | None) -> str:
    """Error message for a log in which nothing was found."""
    seen = f" The text begins with {plain(every[0])!r}." if every else " The text is empty."
    which = trainer.title if trainer is not None else ", ".join(t.title for t in (*TRAINERS, *ENGINE_LOGS))
    return f"The text has no training step.{seen} Supported logs: {which}."
