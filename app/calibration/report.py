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

# What is asked of 80 % intervals, for sources that nothing had seen: the share of results inside, and the widest median
# of high over low. Prompt rates and static batches come from three or four sources: reported, and held to nothing.
INSIDE = (0.75, 0.90)
WIDEST: Mapping[str, float] = MappingProxyType(
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
SURE_OF = 40  # results of a family, from which on its share inside tells something
LUCKY = "one source only and no kernel tables: the interval is wide, and its results happen to be near the prediction"
OWN_RUNTIME = "one source only (AWS), of a runtime that nobody else uses: nothing narrows the interval"
# Why intervals of a family hold fewer results than was asked, or more, or are wider: by family, and where a quantity
# has a reason of its own by both.
INTERVAL_REASONS: Mapping[str, str] = MappingProxyType(
    {
        "amd_cdna2": "one source only (Argonne, 2024), slower than any other family's results lead to expect",
        "amd_cdna3": (
            "sources of different years disagree two- to fourfold: each is outside of what the others say, "
            "and no kernel tables of the maker's own narrow it"
        ),
        "amd_rdna": "two sources and no kernel tables: the interval is wide, and both happen to be near the prediction",
        "apple": LUCKY,
        "gaudi": LUCKY,
        "inferentia2": OWN_RUNTIME,
        "trainium": OWN_RUNTIME,
        "intel_gpu": "one source only, on an early back end at 1 to 3 tokens/s: set aside",
        "nvidia_ada": "nearly all results are of one source for each engine, and near the prediction",
        "nvidia_ada prefill": "prompt speed of llama.cpp in F16 is erratic (a factor of ten between lengths)",
        "nvidia_ampere": "NVIDIA's training examples are slower than the other sources say",
        "nvidia_ampere prefill": "prompt speed of llama.cpp in F16 is erratic (a factor of ten between lengths)",
        "nvidia_ampere ttft": "four in five results are Ollama's, whose time to first token includes loading",
        "nvidia_ampere training_samples": "timm's benchmarks are faster, and MLPerf's runs slower, than the other says",
        "nvidia_ampere training_memory": "trainers and allocators differ, and only a few sources log a peak",
        "nvidia_blackwell": (
            "InferenceX, the SGLang cookbook and TensorRT-LLM's tables disagree by a factor of two, "
            "and no fourth source tells which is usual"
        ),
        "nvidia_blackwell_consumer": "one source only (TensorRT-LLM's tables), faster than other families suggest",
        "nvidia_hopper": "four in five results are TensorRT-LLM's own tables, and near the prediction",
        "nvidia_hopper tpot": (
            "InferenceX's load tests are faster, and the SGLang cookbook's slower, than the other sources say"
        ),
        "nvidia_hopper ttft": "load tests start every slot at once, and how prompts queue differs by tool and version",
        "nvidia_hopper single_stream": "Qwen's tables of SGLang are 1.7 times as fast as the other sources say",
        "nvidia_hopper training_samples": "one benchmark (MLPerf) in three rounds, each of which foretells the others",
        "nvidia_hopper training_memory": "trainers and allocators differ, and each source logs a few peaks only",
        "nvidia_volta": (
            "runs of 2019 to 2022: DeepSpeed's own posts are twice as fast, BigScience's runs slower "
            "than the other sources say"
        ),
    }
)


def reason_of(s: Slice) -> str | None:
    """Why intervals of a family fall short for a quantity, where somebody looked."""
    return INTERVAL_REASONS.get(f"{s.value} {s.metric}", INTERVAL_REASONS.get(s.value))


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


def fallen_short(s: Slice) -> bool:
    """Whether intervals of a quantity hold fewer or more results than was asked, or are wider."""
    low, high = INSIDE
    return not low <= s.intervals.coverage <= high or s.intervals.width > WIDEST.get(s.metric, np.inf)


def unsure(report: Report) -> list[Slice]:
    """Family slices with results enough whose intervals fall short."""
    return [s for s in report.by["accelerator_family"] if s.rows >= SURE_OF and fallen_short(s)]


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
    """By quantity, what a later run is held to: median errors, and what intervals and promises were worth."""
    found = {}
    for kind in KINDS:
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
