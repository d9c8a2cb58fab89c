"""How far predictions are from published results: errors by slice, of unseen sources first."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from app.sizing.evidence import Compared, is_cost
from app.sizing.uncertainty import interval_score

KINDS = (
    "throughput",
    "tpot",
    "ttft",
    "single_stream",
    "prefill",
    "e2e",
    "training",
    "training_samples",
    "training_memory",
)


@dataclass(frozen=True, slots=True)
class Errors:
    """Of absolute relative errors; `bias` is the median of predicted over measured."""

    median: float
    p90: float
    bias: float


@dataclass(frozen=True, slots=True)
class Held:
    """What 80 % intervals were worth for sources that neither fit nor spreads had seen.

    `coverage` is the share of results inside, `width` the median of high over low, `score` the interval score in
    logarithms (width, and ten times by how far results are outside). `kept` is the share of results that were as good
    as what would have been planned for at 80 %.
    """

    coverage: float
    width: float
    score: float
    kept: float


@dataclass(frozen=True, slots=True)
class Slice:
    """One slice of one quantity."""

    metric: str
    value: str
    rows: int
    sources: int
    held_out: Errors
    in_sample: Errors
    intervals: Held


def link_of(reference: str) -> str | None:
    """Where a reference of the form owner/repository:path@commit can be read; None for any other.

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
    """Model size, total parameters."""
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


AHEAD_OF_TIME = "one source only (AWS): ahead-of-time compiled steps have a fixed cost that other stacks do not show"
# Why a family with thirty results of a quantity is off by more than 30 % in the median for a source that was left out.
FAMILY_REASONS: Mapping[str, str] = MappingProxyType(
    {
        "amd_cdna2": (
            "one source only (Argonne, 2024): without it nothing is known of the family, "
            "whose early ROCm back ends are far slower than later ones"
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
            "one source only (llama.cpp on M1 to M3); "
            "prompt speed of Metal is not to be had from other vendors' results"
        ),
        "inferentia2": AHEAD_OF_TIME,
        "trainium": AHEAD_OF_TIME,
        "intel_gpu": "one source only (Argonne, 2024), on an early SYCL back end at 1 to 3 tokens/s: set aside",
        "nvidia_blackwell": (
            "InferenceX and the SGLang cookbook disagree on SGLang by a factor of two; "
            "TensorRT-LLM's tables are its only offline source"
        ),
        "nvidia_blackwell_consumer": ("one source only (TensorRT-LLM's tables of the RTX PRO 6000), FP4 over PCIe"),
        "nvidia_hopper": (
            "time to first token: load tests start every slot at once, "
            "and how prompts queue differs by tool and version"
        ),
        "nvidia_ampere": (
            "Ollama's time to first token includes loading and differs by card; "
            "prompt speed of llama.cpp in F16 is erratic in its one source"
        ),
        "nvidia_ada": (
            "prompt speed of llama.cpp in F16 is erratic in its one source (a factor of ten between lengths)"
        ),
    }
)
TOO_FAR, MANY = 0.30, 30


def held_of(rows: Sequence[Compared]) -> Held:
    """What intervals and promises were worth over these rows."""
    low, high, measured = (np.log([getattr(r, name) for r in rows]) for name in ("low", "high", "measured"))
    kept = [r.measured <= r.promised if is_cost(r.metric) else r.measured >= r.promised for r in rows]
    return Held(
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
        held_of(rows),
    )


@dataclass(frozen=True, slots=True)
class Report:
    """Errors overall, by every dimension, and the rows that are furthest off."""

    overall: tuple[Slice, ...]
    by: Mapping[str, tuple[Slice, ...]]
    worst: tuple[Compared, ...]


def unexplained(report: Report) -> list[Slice]:
    """Family slices that are far off, have many rows, and no written reason."""
    return [
        s
        for s in report.by["accelerator_family"]
        if s.rows >= MANY and s.held_out.median > TOO_FAR and s.value not in FAMILY_REASONS
    ]


def report_on(rows: Sequence[Compared], *, fewest: int = 10, worst: int = 20) -> Report:
    """The report over all comparisons, those set aside included; slices of fewer rows are left out."""
    overall = tuple(slice_of(k, "all", found) for k in KINDS if (found := [r for r in rows if r.kind == k]))
    by: dict[str, tuple[Slice, ...]] = {}
    for name, of in DIMENSIONS.items():
        groups: dict[tuple[str, str], list[Compared]] = defaultdict(list)
        for r in rows:
            groups[r.kind, of(r)].append(r)
        by[name] = tuple(
            slice_of(kind, value, found)
            for (kind, value), found in sorted(groups.items(), key=lambda g: (KINDS.index(g[0][0]), g[0][1]))
            if len(found) >= fewest
        )
    far = sorted(rows, key=lambda r: (-abs(np.log(r.held_out / r.measured)), r.measurement, r.metric))
    return Report(overall, by, tuple(far[:worst]))


def headline(rows: Sequence[Compared]) -> dict[str, dict[str, float]]:
    """Median errors by quantity: what a later run is held to."""
    found = {}
    for kind in KINDS:
        of_kind = [r for r in rows if r.kind == kind]
        if of_kind:
            measured = [r.measured for r in of_kind]
            held_out, seen = (
                errors_of((r.held_out for r in of_kind), measured),
                errors_of((r.predicted for r in of_kind), measured),
            )
            found[kind] = {
                "rows": len(of_kind),
                "held_out": round(held_out.median, 4),
                "in_sample": round(seen.median, 4),
            }
    return found
