"""Prediction errors against published results, by slice; unseen sources come first."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from app.sizing.evidence import Compared, lower_is_better
from app.sizing.uncertainty import interval_score

QUANTITIES = (
    "throughput",
    "tpot",
    "ttft",
    "single_stream",
    "prefill",
    "e2e",
    "ttft_p95",
    "ttft_p99",
    "tpot_p95",
    "tpot_p99",
    "training",
    "training_samples",
    "training_memory",
)


@dataclass(frozen=True, slots=True)
class Errors:
    """Quantiles of absolute relative errors; `bias` is the median of predicted over measured."""

    median: float
    p90: float
    bias: float


@dataclass(frozen=True, slots=True)
class IntervalQuality:
    """Quality of 80 % intervals for sources that neither fit nor spreads had seen.

    `coverage` is the share of results inside. `width` is the median of high over low. `score` is the interval score in
    logarithms: the width plus ten times the distance of results outside. `kept` is the share of results that were at
    least as good as the value guaranteed at 80 % confidence.
    """

    coverage: float
    width: float
    score: float
    kept: float


@dataclass(frozen=True, slots=True)
class Slice:
    """Errors and interval quality of one slice of one quantity."""

    metric: str
    value: str
    rows: int
    sources: int
    held_out: Errors
    in_sample: Errors
    intervals: IntervalQuality


def link_of(reference: str) -> str | None:
    """URL of a reference of the form owner/repository:path@commit; None for any other form.

    Check:
        >>> link_of("a/b:docs/x.md@0f45")
        'https://github.com/a/b/blob/0f45/docs/x.md'
    """
    found = re.fullmatch(r"(?:github\.com/)?([\w.-]+/[\w.-]+):([^\s:@]+)@([0-9a-f]{4,40})", reference)
    if found is None:
        return f"https://{reference}" if reference.startswith("github.com/") and " " not in reference else None
    repository, path, commit = found.groups()
    return f"https://github.com/{repository}/blob/{commit}/{path}"


def errors_of(predicted: Iterable[float], measured: Iterable[float]) -> Errors:
    ratio = np.array(list(predicted)) / np.array(list(measured))
    off = np.abs(ratio - 1)
    return Errors(float(np.median(off)), float(np.quantile(off, 0.9)), float(np.median(ratio)))


def size_class(params: float) -> str:
    """Class of the model size, by total parameters."""
    for bound, name in (
        (3e9, "under 3B"),
        (10e9, "3B-10B"),
        (40e9, "10B-40B"),
        (100e9, "40B-100B"),
        (250e9, "100B-250B"),
    ):
        if params < bound:
            return name
    return "250B and more"


DIMENSIONS: Mapping[str, Callable[[Compared], str]] = MappingProxyType(
    {
        "engine": lambda c: c.setting.engine,
        "accelerator_family": lambda c: c.setting.family,
        "format": lambda c: c.setting.format_class,
        "model_size": lambda c: size_class(c.setting.params),
        "load": lambda c: c.setting.load,
        "source": lambda c: c.source,
        "nearness": lambda c: c.near.name.lower(),
    }
)


AHEAD_OF_TIME = "one source only (AWS): steps compiled ahead of time have a fixed cost that other stacks lack"
# Why the median error of a family with 30 or more results is above 30 % for unseen sources.
FAMILY_REASONS: Mapping[str, str] = MappingProxyType(
    {
        "amd_cdna2": (
            "one source only (Argonne, 2024): without it there are no results for the family, "
            "and its early ROCm back ends are far slower than later ones"
        ),
        "amd_cdna3": (
            "sources of different years disagree: Argonne's vLLM of 2024 "
            "is two to four times slower than AMD's own of 2025"
        ),
        "amd_rdna": (
            "prompt speed differs twofold between back ends (Vulkan, ROCm) of one chip, "
            "which the sources choose differently"
        ),
        "apple": (
            "one source only (llama.cpp on M1 to M3); other vendors' results do not predict the prompt speed of Metal"
        ),
        "inferentia2": AHEAD_OF_TIME,
        "trainium": AHEAD_OF_TIME,
        "intel_gpu": "one source only (Argonne, 2024), on an early SYCL back end at 1 to 3 tokens/s: not fitted",
        "nvidia_blackwell": (
            "InferenceX and the SGLang cookbook disagree on SGLang by a factor of two; "
            "TensorRT-LLM's tables are its only offline source"
        ),
        "nvidia_blackwell_consumer": ("one source only (TensorRT-LLM's tables of the RTX PRO 6000), FP4 over PCIe"),
        "nvidia_hopper": (
            "TTFT: load tests start every slot at once, and the order of queued prompts differs by tool and version"
        ),
        "nvidia_ampere": (
            "Ollama's TTFT includes loading and differs by card; "
            "prompt speed of llama.cpp in F16 is erratic in its one source"
        ),
        "nvidia_ada": (
            "prompt speed of llama.cpp in F16 is erratic in its one source (a factor of ten between lengths)"
        ),
    }
)
MAX_MEDIAN_ERROR, MIN_ROWS = 0.30, 30

# Targets for 80 % intervals of unseen sources: the share of results inside, and the widest median of high over low.
# Prompt rates and static batches come from three or four sources: they are reported without a target.
COVERAGE_TARGET = (0.75, 0.90)
WIDEST_INTERVALS: Mapping[str, float] = MappingProxyType(
    {
        "throughput": 2.5,
        "tpot": 2.5,
        "ttft": 6.0,
        "single_stream": 2.5,
        "training": 2.5,
        "training_samples": 2.5,
        "training_memory": 1.5,
    }
)
MIN_INTERVAL_ROWS = 40  # fewest results of a family for which its coverage is meaningful
ONE_SOURCE_CLOSE = (
    "one source only and no kernel tables: the interval is wide, and the results are close to the prediction"
)
OWN_RUNTIME = "one source only (AWS), and no other source uses its runtime: nothing narrows the interval"
# Why intervals of a family miss the target, by family, and by family and quantity if the quantity has its own reason.
INTERVAL_REASONS: Mapping[str, str] = MappingProxyType(
    {
        "amd_cdna2": "one source only (Argonne, 2024), slower than the results of other families suggest",
        "amd_cdna3": (
            "sources of different years disagree two- to fourfold, so each is outside the interval of the others, "
            "and no kernel tables of the manufacturer narrow it"
        ),
        "amd_rdna": "two sources and no kernel tables: the interval is wide, and both are close to the prediction",
        "apple": ONE_SOURCE_CLOSE,
        "gaudi": ONE_SOURCE_CLOSE,
        "inferentia2": OWN_RUNTIME,
        "trainium": OWN_RUNTIME,
        "intel_gpu": "one source only, on an early back end at 1 to 3 tokens/s: not fitted",
        "nvidia_ada": "nearly all results are from one source per engine, and close to the prediction",
        "nvidia_ada prefill": "prompt speed of llama.cpp in F16 is erratic (a factor of ten between lengths)",
        "nvidia_ampere": "NVIDIA's training examples are slower than the other sources suggest",
        "nvidia_ampere prefill": "prompt speed of llama.cpp in F16 is erratic (a factor of ten between lengths)",
        "nvidia_ampere ttft": "four in five results are from Ollama, whose TTFT includes loading",
        "nvidia_ampere training_samples": (
            "timm's benchmarks are faster, and MLPerf's runs are slower, than the other source suggests"
        ),
        "nvidia_ampere training_memory": "trainers and allocators differ, and few sources log a peak",
        "nvidia_blackwell": (
            "InferenceX, the SGLang cookbook and TensorRT-LLM's tables disagree by a factor of two, "
            "and no fourth source shows which is typical"
        ),
        "nvidia_blackwell_consumer": "one source only (TensorRT-LLM's tables), faster than other families suggest",
        "nvidia_hopper": "four in five results are from TensorRT-LLM's own tables, and close to the prediction",
        "nvidia_hopper tpot": (
            "InferenceX's load tests are faster, and the SGLang cookbook's are slower, than the other sources suggest"
        ),
        "nvidia_hopper ttft": (
            "load tests start every slot at once, and the order of queued prompts differs by tool and version"
        ),
        "nvidia_hopper single_stream": "Qwen's tables of SGLang are 1.7 times as fast as the other sources suggest",
        "nvidia_hopper training_samples": "one benchmark (MLPerf) in three rounds, each of which predicts the others",
        "nvidia_hopper training_memory": "trainers and allocators differ, and each source logs only a few peaks",
        "nvidia_volta": (
            "runs of 2019 to 2022: DeepSpeed's own posts are twice as fast as the other sources suggest, "
            "and BigScience's runs are slower"
        ),
    }
)


def reason_of(s: Slice) -> str | None:
    """The recorded reason why intervals of a family miss the target for a quantity; None if there is none."""
    return INTERVAL_REASONS.get(f"{s.value} {s.metric}", INTERVAL_REASONS.get(s.value))


def interval_quality(rows: Sequence[Compared]) -> IntervalQuality:
    """Quality of intervals and guaranteed values over these rows."""
    low, high, measured = (np.log([getattr(r, name) for r in rows]) for name in ("low", "high", "measured"))
    kept = [r.measured <= r.promised if lower_is_better(r.metric) else r.measured >= r.promised for r in rows]
    return IntervalQuality(
        float(np.mean((low <= measured) & (measured <= high))),
        float(np.exp(np.median(high - low))),
        float(interval_score(measured, low, high).mean()),
        float(np.mean(kept)),
    )


def slice_of(metric: str, value: str, rows: Sequence[Compared]) -> Slice:
    measured = [r.measured for r in rows]
    return Slice(
        metric,
        value,
        len(rows),
        len({r.source for r in rows}),
        errors_of((r.held_out for r in rows), measured),
        errors_of((r.predicted for r in rows), measured),
        interval_quality(rows),
    )


@dataclass(frozen=True, slots=True)
class Report:
    """Errors overall and by every dimension, and the rows with the largest errors."""

    overall: tuple[Slice, ...]
    by: Mapping[str, tuple[Slice, ...]]
    worst: tuple[Compared, ...]


def unexplained_slices(report: Report) -> list[Slice]:
    """Family slices with a large error and many rows, but without a recorded reason."""
    return [
        s
        for s in report.by["accelerator_family"]
        if s.rows >= MIN_ROWS and s.held_out.median > MAX_MEDIAN_ERROR and s.value not in FAMILY_REASONS
    ]


def misses_interval_target(s: Slice) -> bool:
    """Whether the coverage of a slice is outside the target or its intervals are too wide."""
    low, high = COVERAGE_TARGET
    return not low <= s.intervals.coverage <= high or s.intervals.width > WIDEST_INTERVALS.get(s.metric, np.inf)


def imprecise_slices(report: Report) -> list[Slice]:
    """Family slices with enough results whose intervals miss the target."""
    return [s for s in report.by["accelerator_family"] if s.rows >= MIN_INTERVAL_ROWS and misses_interval_target(s)]


def report_on(rows: Sequence[Compared], *, fewest: int = 10, worst: int = 20) -> Report:
    """The report over all comparisons, including results that are not fitted; slices with fewer rows are left out."""
    overall = tuple(slice_of(k, "all", found) for k in QUANTITIES if (found := [r for r in rows if r.kind == k]))
    by: dict[str, tuple[Slice, ...]] = {}
    for name, of in DIMENSIONS.items():
        groups: dict[tuple[str, str], list[Compared]] = defaultdict(list)
        for r in rows:
            groups[r.kind, of(r)].append(r)
        by[name] = tuple(
            slice_of(kind, value, found)
            for (kind, value), found in sorted(groups.items(), key=lambda g: (QUANTITIES.index(g[0][0]), g[0][1]))
            if len(found) >= fewest
        )
    far = sorted(rows, key=lambda r: (-abs(np.log(r.held_out / r.measured)), r.measurement, r.metric))
    return Report(overall, by, tuple(far[:worst]))


def headline_figures(rows: Sequence[Compared]) -> dict[str, dict[str, float]]:
    """By quantity, the figures that a later fit must not exceed: median errors and interval quality."""
    found = {}
    for kind in QUANTITIES:
        of_kind = [r for r in rows if r.kind == kind]
        if of_kind:
            s = slice_of(kind, "all", of_kind)
            figures = {
                "held_out": s.held_out.median,
                "in_sample": s.in_sample.median,
                "coverage": s.intervals.coverage,
                "width": s.intervals.width,
                "interval_score": s.intervals.score,
                "kept": s.intervals.kept,
            }
            found[kind] = {"rows": s.rows, **{name: round(value, 4) for name, value in figures.items()}}
    return found
