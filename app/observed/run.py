"""What lines of a log say together of the run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from statistics import median

from app.observed.figures import Figure, Runs
from app.sizing.units import GIB, SECONDS_PER_DAY, SECONDS_PER_HOUR

WARM_UP_STEPS = 5  # that are left out where more are logged: kernels are compiled, caches are filled
LEAST_STEPS = 3
SAME = 0.1  # up to which a step of the log is that of the workload
PARTS = ("optimizer_ms", "communication_ms", "input_ms")


@dataclass(frozen=True, slots=True)
class Line:
    """What a line says; `at_s` where it begins with a moment."""

    said: Mapping[str, float]
    at_s: float | None


class Run:
    """A log's lines, and what they are of."""

    def __init__(self, lines: Sequence[Line], runs: Runs) -> None:
        self.lines, self.runs = main_bars(lines), runs
        self.step_tokens = self.last("step_tokens") or runs.tokens_per_step
        self.step_sequences = self.last("step_sequences") or runs.sequences_per_step

    def all(self, name: str) -> list[float]:
        """Every value of a name."""
        return [line.said[name] for line in self.lines if name in line.said]

    def last(self, name: str) -> float | None:
        """The last value of a name."""
        return next(reversed(self.all(name)), None)

    def seconds(self, line: Line) -> float | None:
        """How long the steps take that a line is of."""
        said, accelerators = line.said, self.runs.accelerators
        ways = (
            (said.get("seconds"), 1.0),
            (said.get("milliseconds"), 1e-3),
            (over(1.0, said.get("rate")), 1.0),
            (over(self.step_tokens, said.get("device_tokens")), 1 / accelerators),
            (over(self.step_sequences, said.get("samples")), 1.0),
        )
        return next((value * unit for value, unit in ways if value), None)

    @cached_property
    def steady(self) -> list[Line]:
        """Lines of steps after the warm-up, or all but the first where there are few."""
        steps = [line for line in self.lines if self.seconds(line) or "device_tokens" in line.said]
        later = [line for line in steps[1:] if line.said.get("step", WARM_UP_STEPS + 1) > WARM_UP_STEPS]
        return later if len(later) >= LEAST_STEPS else steps[1:] or steps

    @cached_property
    def step_s(self) -> float | None:
        """The median of a step: as it is told, by what it goes through, of the whole run, or by the moments."""
        told = [s for line in self.steady if (s := self.seconds(line))]
        if told:
            return median(told)
        return over(1.0, self.last("run_rate")) or self.between_steps

    @cached_property
    def between_steps(self) -> float | None:
        """The median time between two numbered steps, by their moments."""
        seen = [(line.said["step"], line.at_s) for line in self.steady if "step" in line.said and line.at_s is not None]
        gaps = [(t - s) / (j - i) for (i, s), (j, t) in pairwise(seen) if j > i and t > s]
        return median(gaps) if gaps else None

    @cached_property
    def span_s(self) -> float | None:
        """How long the run is that the log is of."""
        moments = [line.at_s for line in self.lines if line.at_s is not None]
        span = max(moments) - min(moments) if moments else 0.0
        return self.last("ran_s") or span or None

    @cached_property
    def saves(self) -> list[tuple[float | None, float | None]]:
        """Of each checkpoint the moment it began, or ended, and the last step before it."""
        found: list[tuple[float | None, float | None]] = []
        step = None
        began = "saving" if self.all("saving") else "saved" if self.all("saved") else "saved_s"
        for line in self.lines:
            step = line.said.get("step", step)
            if began in line.said:
                found.append((line.at_s, step))
        return found

    @cached_property
    def save_s(self) -> float | None:
        """For how long a checkpoint holds the run up."""
        told = self.all("saved_s") or [ms / 1e3 for ms in self.all("saved_ms")]
        if told:
            return median(told)
        took, began = [], None
        for line in self.lines:
            if "saving" in line.said:
                began = line.at_s
            elif "saved" in line.said and began is not None and line.at_s is not None:
                took.append(max(0.0, line.at_s - began))
                began = None
        return median(took) if took else None

    @cached_property
    def save_interval_s(self) -> float | None:
        """Between two checkpoints: by the moments, or by the steps."""
        pairs = list(pairwise(self.saves))
        by_moments = [t - s for (s, _), (t, _) in pairs if s is not None and t is not None and t > s]
        by_steps = [(j - i) * (self.step_s or 0.0) for (_, i), (_, j) in pairs if i is not None and j is not None]
        if by_moments:
            return max(0.0, median(by_moments) - (self.save_s or 0.0)) or None
        return (median(by_steps) or None) if by_steps else None

    @cached_property
    def other_step(self) -> tuple[float, float, str] | None:
        """What goes through a step of the log and of the workload, where they differ."""
        for what, asked in (("tokens", self.runs.tokens_per_step), ("sequences", self.runs.sequences_per_step)):
            said = self.last(f"step_{what}")
            if said and asked and abs(said - asked) > SAME * asked:
                return said, asked, what
        return None

    @cached_property
    def warm_up_s(self) -> float | None:
        """What the first steps of the log take beyond the pace, where it begins with the run."""
        steps = [line for line in self.lines if "step" in line.said and self.seconds(line)]
        pace, last, lost = self.step_s, 0.0, 0.0
        if len(steps) < LEAST_STEPS or pace is None or not 0 <= steps[0].said["step"] <= 1:
            return None
        for line in steps:
            number = line.said["step"]
            if number > WARM_UP_STEPS:
                break
            lost += max(0.0, (self.seconds(line) or 0.0) - pace) * max(1.0, number - last)
            last = number
        return lost or None


def figures(lines: Sequence[Line], runs: Runs, title: str) -> Iterator[Figure]:
    """Figures of the run; those of a step only where it is that of the workload."""
    run = Run(lines, runs)
    yield from _steps(run, title)
    if run.warm_up_s:
        yield Figure("training", "warmup_s", run.warm_up_s, f"{title}'s first steps")
    for part in () if run.other_step else PARTS:
        seen = [ms / 1e3 for ms in run.all(part)]
        if seen:
            yield Figure("training", part.removesuffix("ms") + "s", median(seen), f"{title}'s timers")
    memory = [*run.all("memory_bytes"), *(gib * GIB for gib in run.all("memory_gib"))]
    if memory and max(memory) > 0:
        yield Figure("training", "memory_peak_bytes", max(memory), f"{title}'s steps")
    yield from _stops(run, title)
    watts = [line.said["watts"] for line in run.steady if line.said.get("watts")]
    if watts:
        yield Figure("devices", "power_w", median(watts), f"{title}'s steps")


def _steps(run: Run, title: str) -> Iterator[Figure]:
    steady = run.steady
    source = f"{title}'s steps, the median of {len(steady)}" if steady else f"{title}'s whole run"
    step_s = run.step_s
    if step_s and not run.other_step:
        yield Figure("training", "step_time_s", step_s, source)
    rates = [line.said["device_tokens"] * run.runs.accelerators for line in steady if line.said.get("device_tokens")]
    if rates:
        yield Figure("training", "tokens_per_s", median(rates), source)
    shares = [line.said["mfu"] / 100 for line in steady if line.said.get("mfu")]
    if shares and median(shares) <= 1:
        yield Figure("training", "mfu", median(shares), source)
    retries, numbers = run.all("retries"), run.all("step")
    if retries and numbers and max(numbers) > 0:
        each = max(retries) / max(1.0, max(numbers) - min(numbers) + 1)
        yield Figure("training", "allocator_retries_per_step", each, f"{title}'s warnings")


def _stops(run: Run, title: str) -> Iterator[Figure]:
    if run.save_s:
        yield Figure("training", "checkpoint_s", run.save_s, f"{title}'s checkpoints")
    if run.save_interval_s:
        yield Figure("training", "checkpoint_interval_s", run.save_interval_s, f"{title}'s checkpoints")
    evaluated = sum(run.all("evaluated_s")) + sum(run.all("evaluated_ms")) / 1e3
    span = run.span_s
    if evaluated and span and evaluated < span:
        yield Figure("training", "evaluation_share", evaluated / span, f"{title}'s evaluations")
    starts = len(run.all("begun"))
    if starts > 1 and span and span >= SECONDS_PER_HOUR:
        yield Figure("training", "restarts_per_day", (starts - 1) * SECONDS_PER_DAY / span, f"{title}'s starts")


def notes(lines: Sequence[Line], runs: Runs) -> Iterator[str]:
    """What the log leaves open, and where it is of another run than the workload."""
    run = Run(lines, runs)
    if run.step_s is None:
        yield "The log has no time of a step; give step_time_s."
    if run.other_step:
        said, asked, what = run.other_step
        yield (
            f"A step of the log has {said:,.0f} {what}, a step of the workload {asked:,.0f}: its time is left out. "
            "Give the workload the batch and the length of the run."
        )
    if run.saves and run.save_s is None:
        yield "The log does not say how long a checkpoint holds the run up; give checkpoint_s."


def main_bars(lines: Sequence[Line]) -> list[Line]:
    """Of several progress bars the one that goes through most time; lines without a bar as they are."""
    spans: dict[float, float] = {}
    for line in lines:
        said = line.said
        if "of" in said:
            took = said.get("step", 0.0) * (said.get("seconds") or over(1.0, said.get("rate")) or 0.0)
            spans[said["of"]] = max(spans.get(said["of"], 0.0), took)
    best = max(spans, key=spans.__getitem__, default=None)
    return [line for line in lines if line.said.get("of", best) == best]


def over(amount: float | None, rate: float | None) -> float | None:
    """An amount by a rate, where both are known."""
    return amount / rate if amount and rate else None
