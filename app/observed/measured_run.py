"""One run of a benchmark or of a training, what the caller adds to it, and the guards that refuse unusable runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from app.errors import Unanswerable

MIN_REQUESTS = 50
SAME_NUMBER = 0.02  # relative difference up to which a file and a parameter state the same number
MAX_FAILED_SHARE = 0.05
MIN_ACHIEVED_SHARE = 0.9  # of the request rate that an open loop was asked for
MIN_BUSY_SHARE = 0.7  # of the concurrency that a closed loop was asked for
MIN_WAVES = 3.0  # requests per concurrent request: the first wave starts together
COLD_TTFT_S, COLD_TTFT_RATIO = 10.0, 20.0  # P99 TTFT that only a cold start explains: seconds, and times the median


class UnusableRun(Unanswerable):
    """A run that says nothing about the stack: incomplete, limited by its client, cold or failing."""

    code = "unusable-measurement"


@dataclass(frozen=True, slots=True)
class MeasuredRun:
    """One run of a benchmark or of a training, as far as its file states it. Base units; None: not stated."""

    format: str  # tool that wrote the file
    digest: str = ""  # digest of the content
    day: str | None = None
    model: str | None = None
    accelerator: str | None = None
    accelerators: float | None = None
    engine: str | None = None  # engine, or framework of a training
    engine_version: str | None = None
    weight_format: str | None = None
    tensor_parallel: float | None = None
    pipeline_parallel: float | None = None
    data_parallel: float | None = None
    concurrency: float | None = None  # requests in flight that a closed loop asks for
    busy_concurrency: float | None = None  # mean number of requests in flight
    asked_per_s: float | None = None  # request rate that an open loop asks for
    achieved_per_s: float | None = None
    batch: float | None = None  # sequences that the engine's own process computes at a time
    offline: bool | None = None  # all requests at once
    completed: float | None = None
    failed: float | None = None
    input_tokens: float | None = None  # mean
    output_tokens: float | None = None  # mean
    output_tokens_per_s: float | None = None
    ttft_s: float | None = None
    tpot_s: float | None = None
    latency_statistic: str = "mean"  # of ttft_s and tpot_s: mean or p50
    ttft_p50_s: float | None = None
    ttft_p99_s: float | None = None
    method: str | None = None  # of a training: full, lora or qlora
    sequence_length: float | None = None
    global_batch_sequences: float | None = None
    step_time_s: float | None = None
    tokens_per_s: float | None = None  # of a training
    invalid: str = ""  # why the tool itself calls the run invalid

    @property
    def trains(self) -> bool:
        return self.step_time_s is not None or self.tokens_per_s is not None


# Names that have several spellings; the catalog compares accelerators.
RESOLVED_LATER = ("model", "accelerator", "weight_format", "engine_version")


def is_same(own: object, value: object) -> bool:
    """Whether a file and a parameter state the same; numbers up to 2 %."""
    if isinstance(own, float) and isinstance(value, float):
        return abs(own - value) <= SAME_NUMBER * max(own, value)
    return str(own).lower() == str(value).lower()


def fill_run(run: MeasuredRun, known: Mapping[str, Any]) -> MeasuredRun:
    """The run with what the caller states. Raises Unanswerable if the file states something else."""
    for name, value in known.items():
        own = getattr(run, name)
        if own is not None and not is_same(own, value) and name not in RESOLVED_LATER:
            detail = (
                f"The file states {name} {own:g}, but the parameter is {value:g}."
                if isinstance(own, float)
                else f"The file states {name} {own!r}, but the parameter is {value!r}."
            )
            raise UnusableRun(f"{detail} Omit the parameter, or upload the file of that run.", parameters=[name])
    loads = {"concurrency", "asked_per_s", "batch", "offline"}
    if loads & set(known):
        values: dict[str, Any] = dict.fromkeys(loads - set(known))
        run = replace(run, **values)
    return replace(run, **known)


def check_run(run: MeasuredRun) -> None:
    """Raises UnusableRun for a run that is invalid, failing, too short, limited by its client, cold or overloaded."""
    if run.invalid:
        raise UnusableRun(f"The run is not usable: {run.invalid}.")
    if run.trains:
        return
    failed, completed = run.failed or 0.0, run.completed
    if completed is not None:
        if failed > MAX_FAILED_SHARE * (failed + completed):
            raise UnusableRun(
                f"{failed:,.0f} of {failed + completed:,.0f} requests failed. At most "
                f"{MAX_FAILED_SHARE * 100:.0f} % may fail."
            )
        if completed < MIN_REQUESTS:
            raise UnusableRun(f"The run has {completed:,.0f} requests. Measure at least {MIN_REQUESTS}.")
        if run.concurrency is not None and completed < MIN_WAVES * run.concurrency:
            raise UnusableRun(
                f"The run has {completed:,.0f} requests at a concurrency of {run.concurrency:,.0f}: the first wave, "
                f"which starts together, weighs too much. Measure at least {MIN_WAVES * run.concurrency:,.0f}."
            )
    check_load(run)
    median, tail = run.ttft_p50_s, run.ttft_p99_s
    if median is not None and tail is not None and tail > max(COLD_TTFT_S, COLD_TTFT_RATIO * median):
        raise UnusableRun(
            f"The P99 of TTFT is {tail:.3g} s, its median {median:.3g} s: the run includes a cold start. "
            "Repeat it on a warm server."
        )


def check_load(run: MeasuredRun) -> None:
    """Raises UnusableRun if the load was not the one that was asked for."""
    asked, achieved = run.asked_per_s, run.achieved_per_s
    if asked is not None and achieved is not None and achieved < MIN_ACHIEVED_SHARE * asked:
        raise UnusableRun(
            f"The run asked for {asked:.3g} requests/s and achieved {achieved:.3g}: the client or the server could not "
            "keep up, so latencies depend on the length of the run. Measure at a lower rate or at a concurrency."
        )
    busy, wanted = run.busy_concurrency, run.concurrency
    if busy is not None and wanted is not None and busy < MIN_BUSY_SHARE * wanted:
        raise UnusableRun(
            f"The client kept {busy:.3g} of {wanted:g} requests in flight: it limited the run, not the server. Use a "
            "faster client or more requests."
        )
