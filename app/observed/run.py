"""Figures of a training run from the parsed lines of its log."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from statistics import median

from app.observed.figures import Figure, RunContext
from app.sizing.columns import GIB, SECONDS_PER_DAY, SECONDS_PER_HOUR

WARM_UP_STEPS = 5  # steps excluded if more are logged: kernels compile and caches fill
MIN_STEPS = 3  # minimum number of steps after the warm-up
STEP_SIZE_TOLERANCE = 0.1  # relative difference up to which a logged step has the size of the workload's step
MEMORY_UNITS = {"memory_bytes": 1.0, "memory_gb": 1e9, "memory_gib": float(GIB)}
TIMED_PARTS = ("optimizer_ms", "communication_ms", "input_ms")


@dataclass(frozen=True, slots=True)
class Line:
    """Values of one line; `at_s` is its timestamp or None."""

    values: Mapping[str, float]
    at_s: float | None


class Run:
    """Lines of a log with the context of the run."""

    def __init__(self, lines: Sequence[Line], runs: RunContext) -> None:
        self.lines, self.runs = keep_main_progress_bar(lines), runs
        self.logged_step_tokens = self.last_value("step_tokens") or self.counted_step_tokens
        self.step_tokens = self.logged_step_tokens or runs.tokens_per_step
        self.step_sequences = self.last_value("step_sequences") or runs.sequences_per_step

    def all_values(self, name: str) -> list[float]:
        """All values with a name, in the order of the lines."""
        return [line.values[name] for line in self.lines if name in line.values]

    def last_value(self, name: str) -> float | None:
        return next(reversed(self.all_values(name)), None)

    def step_seconds(self, line: Line) -> float | None:
        values, accelerators = line.values, self.runs.accelerators
        candidates = (
            (values.get("seconds"), 1.0),
            (values.get("milliseconds"), 1e-3),
            (divide_known(1.0, values.get("rate")), 1.0),
            (divide_known(self.step_tokens, values.get("device_tokens")), 1 / accelerators),
            (divide_known(self.step_sequences, values.get("samples")), 1.0),
        )
        return next((value * unit for value, unit in candidates if value), None)

    @cached_property
    def counted_step_tokens(self) -> float | None:
        """Median tokens of a step according to a count of all tokens since the start."""
        step, counts = None, []
        for line in self.lines:
            step = line.values.get("step", step)
            if "all_tokens" in line.values and step is not None:
                counts.append((step, line.values["all_tokens"]))
        rates = [(n - m) / (j - i) for (i, m), (j, n) in pairwise(counts) if j > i and n > m]
        return median(rates) if rates else None

    @cached_property
    def steady_lines(self) -> list[Line]:
        """Lines of steps after the warm-up; all lines but the first if there are only a few."""
        steps = [line for line in self.lines if self.step_seconds(line) or "device_tokens" in line.values]
        later = [line for line in steps[1:] if line.values.get("step", WARM_UP_STEPS + 1) > WARM_UP_STEPS]
        return later if len(later) >= MIN_STEPS else steps[1:] or steps

    @cached_property
    def step_s(self) -> float | None:
        """Median step time in seconds.

        It comes from logged step times or throughput, else from the speed of the whole run, else from timestamps.
        """
        durations = [s for line in self.steady_lines if (s := self.step_seconds(line))]
        if durations:
            return median(durations)
        return divide_known(1.0, self.last_value("run_rate")) or self.step_gap_s

    @cached_property
    def step_gap_s(self) -> float | None:
        """Median time between two numbered steps in seconds, from their timestamps."""
        seen = [
            (line.values["step"], line.at_s)
            for line in self.steady_lines
            if "step" in line.values and line.at_s is not None
        ]
        gaps = [(t - s) / (j - i) for (i, s), (j, t) in pairwise(seen) if j > i and t > s]
        return median(gaps) if gaps else None

    @cached_property
    def span_s(self) -> float | None:
        """Duration that the log covers, in seconds."""
        moments = [line.at_s for line in self.lines if line.at_s is not None]
        span = max(moments) - min(moments) if moments else 0.0
        return self.last_value("ran_s") or span or None

    @cached_property
    def checkpoint_marks(self) -> list[tuple[float | None, float | None]]:
        """Time and last step of each checkpoint, taken at its beginning or, if that is not logged, at its end."""
        marks: list[tuple[float | None, float | None]] = []
        step = None
        began = "saving" if self.all_values("saving") else "saved" if self.all_values("saved") else "saved_s"
        for line in self.lines:
            step = line.values.get("step", step)
            if began in line.values:
                marks.append((line.at_s, step))
        return marks

    @cached_property
    def save_s(self) -> float | None:
        """Time for which a checkpoint stops the run, in seconds."""
        durations = self.all_values("saved_s") or [ms / 1e3 for ms in self.all_values("saved_ms")]
        if durations:
            return median(durations)
        took, began = [], None
        for line in self.lines:
            if "saving" in line.values:
                began = line.at_s
            elif "saved" in line.values and began is not None and line.at_s is not None:
                took.append(max(0.0, line.at_s - began))
                began = None
        return median(took) if took else None

    @cached_property
    def save_interval_s(self) -> float | None:
        """Time between two checkpoints in seconds, from timestamps or else from step numbers."""
        pairs = list(pairwise(self.checkpoint_marks))
        by_moments = [t - s for (s, _), (t, _) in pairs if s is not None and t is not None and t > s]
        by_steps = [(j - i) * (self.step_s or 0.0) for (_, i), (_, j) in pairs if i is not None and j is not None]
        if by_moments:
            return max(0.0, median(by_moments) - (self.save_s or 0.0)) or None
        return (median(by_steps) or None) if by_steps else None

    @cached_property
    def step_size_mismatch(self) -> tuple[float, float, str] | None:
        """Size of a step in the log and in the workload, and its unit, if the two differ."""
        for what, logged, expected in (
            ("tokens", self.logged_step_tokens, self.runs.tokens_per_step),
            ("sequences", self.last_value("step_sequences"), self.runs.sequences_per_step),
        ):
            if logged and expected and abs(logged - expected) > STEP_SIZE_TOLERANCE * expected:
                return logged, expected, what
        return None

    @cached_property
    def warm_up_s(self) -> float | None:
        """Time that the first steps take beyond the typical step time, if the log begins with the run."""
        steps = [line for line in self.lines if "step" in line.values and self.step_seconds(line)]
        typical_step_s, last, lost = self.step_s, 0.0, 0.0
        if len(steps) < MIN_STEPS or typical_step_s is None or not 0 <= steps[0].values["step"] <= 1:
            return None
        for line in steps:
            number = line.values["step"]
            if number > WARM_UP_STEPS:
                break
            lost += max(0.0, (self.step_seconds(line) or 0.0) - typical_step_s) * max(1.0, number - last)
            last = number
        return lost or None


def run_figures(lines: Sequence[Line], runs: RunContext, title: str) -> Iterator[Figure]:
    """Figures of the run. The step time is included only if a step has the same size as in the workload."""
    run = Run(lines, runs)
    yield from _step_figures(run, title)
    if run.warm_up_s:
        yield Figure("training", "warmup_s", run.warm_up_s, f"first steps of {title}")
    for part in () if run.step_size_mismatch else TIMED_PARTS:
        seen = [ms / 1e3 for ms in run.all_values(part)]
        if seen:
            yield Figure("training", part.removesuffix("ms") + "s", median(seen), f"timers of {title}")
    memory = [value * unit for name, unit in MEMORY_UNITS.items() for value in run.all_values(name)]
    parts = ((line.values.get("allocated_gib"), line.values.get("cached_gib")) for line in run.lines)
    memory += [(used + cached) * GIB for used, cached in parts if used is not None and cached is not None]
    if memory and max(memory) > 0:
        yield Figure("training", "memory_peak_bytes", max(memory), f"steps of {title}")
    yield from _interruption_figures(run, title)
    watts = [line.values["watts"] for line in run.steady_lines if line.values.get("watts")]
    if watts:
        yield Figure("devices", "power_w", median(watts), f"steps of {title}")


def _step_figures(run: Run, title: str) -> Iterator[Figure]:
    steady = run.steady_lines
    source = f"median of {len(steady)} steps of {title}" if steady else f"whole run of {title}"
    step_s = run.step_s
    if step_s and not run.step_size_mismatch:
        yield Figure("training", "step_time_s", step_s, source)
    rates = [
        line.values["device_tokens"] * run.runs.accelerators for line in steady if line.values.get("device_tokens")
    ]
    if rates:
        yield Figure("training", "tokens_per_s", median(rates), source)
    elif run.logged_step_tokens and step_s:
        yield Figure("training", "tokens_per_s", run.logged_step_tokens / step_s, source)
    if run.step_size_mismatch and run.logged_step_tokens:
        yield Figure("training", "tokens_per_step", run.logged_step_tokens, f"steps of {title}")
    shares = [line.values["mfu"] / 100 for line in steady if line.values.get("mfu")] or logged_mfu(run)
    if shares and median(shares) <= 1:
        yield Figure("training", "mfu", median(shares), source)
    retries, numbers = run.all_values("retries"), run.all_values("step")
    if retries and numbers and max(numbers) > 0:
        each = max(retries) / max(1.0, max(numbers) - min(numbers) + 1)
        yield Figure("training", "allocator_retries_per_step", each, f"warnings of {title}")


def logged_mfu(run: Run) -> list[float]:
    """MFU values on lines of their own, shares from 0 to 1."""
    return [*run.all_values("mfu_share"), *(percent / 100 for percent in run.all_values("mfu_percent"))]


def _interruption_figures(run: Run, title: str) -> Iterator[Figure]:
    if run.save_s:
        yield Figure("training", "checkpoint_s", run.save_s, f"checkpoints of {title}")
    if run.save_interval_s:
        yield Figure("training", "checkpoint_interval_s", run.save_interval_s, f"checkpoints of {title}")
    evaluated = sum(run.all_values("evaluated_s")) + sum(run.all_values("evaluated_ms")) / 1e3
    span = run.span_s
    if evaluated and span and evaluated < span:
        yield Figure("training", "evaluation_share", evaluated / span, f"evaluations of {title}")
    starts = len(run.all_values("begun"))
    if starts > 1 and span and span >= SECONDS_PER_HOUR:
        yield Figure("training", "restarts_per_day", (starts - 1) * SECONDS_PER_DAY / span, f"starts of {title}")


def run_notes(lines: Sequence[Line], runs: RunContext) -> Iterator[str]:
    """Open points: missing figures, and differences between the run and the workload."""
    run = Run(lines, runs)
    if run.step_s is None:
        yield "The log has no step time. Set step_time_s."
    if run.step_size_mismatch:
        logged, expected, what = run.step_size_mismatch
        yield (
            f"A step in the log has {logged:,.0f} {what}, a step of the workload {expected:,.0f}. The step time is "
            "ignored. "
            "Set the batch size and sequence length of the workload to those of the run."
        )
    if run.checkpoint_marks and run.save_s is None:
        yield "The log does not say how long a checkpoint stops the run. Set checkpoint_s."


def keep_main_progress_bar(lines: Sequence[Line]) -> list[Line]:
    """Lines without the progress bars of minor loops: only the bar that covers the most time is kept."""
    spans: dict[float, float] = {}
    for line in lines:
        values = line.values
        if "of" in values:
            took = values.get("step", 0.0) * (values.get("seconds") or divide_known(1.0, values.get("rate")) or 0.0)
            spans[values["of"]] = max(spans.get(values["of"], 0.0), took)
    best = max(spans, key=spans.__getitem__, default=None)
    return [line for line in lines if line.values.get("of", best) == best]


def divide_known(amount: float | None, rate: float | None) -> float | None:
    """Quotient of two values; None if either is missing or zero."""
    return amount / rate if amount and rate else None
