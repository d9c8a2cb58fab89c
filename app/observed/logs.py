"""Figures from a log. Trainer logs are matched by patterns; figures are the median of the steps after the warm-up."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime

from app.observed.deepspeed import DEEPSPEED
from app.observed.engine_logs import ENGINE_LOGS, read_engine_log
from app.observed.figures import MAX_UNREAD_SHOWN, Reading, RunContext, UnreadableText, UnreadContent, printable_excerpt
from app.observed.huggingface import HUGGINGFACE
from app.observed.lightning import LIGHTNING
from app.observed.lines import split_lines
from app.observed.maxtext import MAXTEXT
from app.observed.megatron import MEGATRON, NEMO
from app.observed.run import Line, run_figures, run_notes
from app.observed.torchtitan import TORCHTITAN
from app.observed.trainer import Trainer

# Most specific first: NeMo lines have iterations like Megatron-LM lines, and Lightning also shows tqdm bars.
TRAINERS: tuple[Trainer, ...] = (TORCHTITAN, NEMO, MEGATRON, MAXTEXT, DEEPSPEED, LIGHTNING, HUGGINGFACE)
ENGINE_LOG_NAMES = tuple(e.name for e in ENGINE_LOGS)
FORMATS = (*(t.name for t in TRAINERS), *ENGINE_LOG_NAMES)
TIMESTAMP = re.compile(r"(\d{4}-\d\d-\d\d)[ T](\d\d:\d\d:\d\d)(?:[.,](\d{1,6}))?")
TIMESTAMP_WITHIN = 80  # a timestamp starts within this many characters


def read_log(text: str, runs: RunContext, name: str | None = None) -> Reading:
    """Figures from the log of a trainer or an engine. Raises UnreadableText for any other text."""
    if name in ENGINE_LOG_NAMES:
        return read_engine_log(text, runs, name)
    try:
        return read_trainer_log(text, runs, name)
    except UnreadableText:
        if name is None and any(e.parse_line(line) for line in split_lines(text) for e in ENGINE_LOGS):
            return read_engine_log(text, runs)
        raise


def read_trainer_log(text: str, runs: RunContext, name: str | None = None) -> Reading:
    """Figures from a trainer log. Raises UnreadableText if it has no training step."""
    text_lines = split_lines(text)
    trainer = next((t for t in TRAINERS if t.name == name), None) or likeliest_trainer(text_lines)
    if trainer is None or not any(pattern.search(line) for line in text_lines for pattern in trainer.steps):
        raise UnreadableText(nothing_read_message(text_lines, trainer))
    known, unread = [], []
    for number, line in enumerate(text_lines, 1):
        parsed = trainer.parse_line(line)
        if parsed:
            known.append(Line(parsed, line_timestamp(line)))
        else:
            unread.append(f"line {number}: {printable_excerpt(line)}")
    run_values = tuple(run_figures(known, runs, trainer.title))
    return Reading(
        run_values, UnreadContent((), len(unread), tuple(unread[:MAX_UNREAD_SHOWN])), tuple(run_notes(known, runs))
    )


def likeliest_trainer(every: Sequence[str]) -> Trainer | None:
    """The first trainer whose patterns match at least half as many lines as those of any other trainer."""
    counts = [sum(any(p.search(line) for p in t.steps) for line in every) for t in TRAINERS]
    return next((t for t, count in zip(TRAINERS, counts, strict=True) if 0 < count >= max(counts) / 2), None)


def line_timestamp(line: str) -> float | None:
    """Unix time in seconds at the beginning of a line. Time zones are ignored, because only differences count."""
    stamp = TIMESTAMP.search(line[:TIMESTAMP_WITHIN])
    if stamp is None:
        return None
    try:
        at = datetime.fromisoformat(f"{stamp[1]}T{stamp[2]}").replace(tzinfo=UTC)
    except ValueError:
        return None
    return at.timestamp() + (float(f"0.{stamp[3]}") if stamp[3] else 0.0)


def nothing_read_message(every: Sequence[str], trainer: Trainer | None) -> str:
    """Error message for a log in which nothing was found."""
    seen = f" The text begins with {printable_excerpt(every[0])!r}." if every else " The text is empty."
    which = trainer.title if trainer is not None else ", ".join(t.title for t in (*TRAINERS, *ENGINE_LOGS))
    return f"The text has no training step.{seen} Supported logs: {which}."
