"""Fitting problem of serving: what each coefficient varies with, and all metrics by the formulas of /estimate."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import numpy as np

from app.sizing.columns import Column
from app.sizing.hardware.achieved import Achieved, ideal_coefficients
from app.sizing.model.architecture import ModelArchitecture
from app.sizing.snapshot import Catalog
from calibration.fit import Levels, Problem
from calibration.serving.cases import ServingCase, read_cases
from calibration.serving.formulas import Table, closed_form_metrics, predict_metrics, table_of
from calibration.serving.measured import TAILS
from calibration.serving.simulated import add_run_ratios
from calibration.serving.split import (
    SplitCase,
    SplitTable,
    pools_of,
    predict_split,
    read_split_cases,
    split_table_of,
)

# What a coefficient varies with, and the prior standard deviation of the logarithm of each factor. Launch costs belong
# to a family and its driver of the time, more than to a vendor. The latency of links is measured: untuned expert
# kernels of a vendor are factors of experts, not of links. The servers of all engines parse requests in Python.
# A format may reach another share on the library of another vendor, but little: few sources show AMD's.
LEVELS: Levels = MappingProxyType(
    {
        "linear_memory_fraction": {
            (): 0.07,
            ("kernels",): 0.28,
            ("format_class",): 0.14,
            ("vendor",): 0.17,
            ("family",): 0.14,
            ("runtime",): 0.14,
            ("engine",): 0.1,
            ("runtime", "format_class"): 0.14,
            ("runtime", "vendor"): 0.17,
            ("runtime", "family"): 0.14,
            ("engine", "family", "format_class"): 0.1,
        },
        "read_bytes_per_clock": {(): 0.07, ("engine",): 0.21},
        "expert_memory_fraction": {(): 0.35, ("vendor",): 0.14, ("engine",): 0.21},
        "linear_compute_fraction": {
            (): 0.07,
            ("kernels",): 0.28,
            ("format_class",): 0.14,
            ("vendor",): 0.17,
            ("family",): 0.14,
            ("runtime",): 0.14,
            ("engine",): 0.08,
            ("runtime", "format_class"): 0.14,
            ("runtime", "vendor", "format_class"): 0.05,
            ("runtime", "vendor"): 0.17,
            ("runtime", "family"): 0.14,
            ("engine", "family", "format_class"): 0.1,
        },
        "prefill_compute_fraction": {(): 0.21, ("runtime",): 0.21, ("engine",): 0.21},
        "attention_memory_fraction": {
            (): 0.07,
            ("vendor",): 0.14,
            ("runtime",): 0.14,
            ("engine",): 0.14,
            ("engine", "family"): 0.14,
        },
        "attention_compute_fraction": {
            (): 0.07,
            ("vendor",): 0.14,
            ("runtime",): 0.21,
            ("engine",): 0.14,
            ("engine", "generation"): 0.2,
            ("runtime", "family"): 0.14,
            ("engine", "family"): 0.14,
        },
        "layer_overhead_s": {
            (): 0.14,
            ("kernels",): 0.28,
            ("vendor",): 0.1,
            ("runtime",): 0.21,
            ("engine",): 0.14,
            ("engine", "generation"): 0.14,
            ("runtime", "vendor"): 0.1,
            ("generation", "family"): 0.14,
        },
        "moe_layer_overhead_s": {(): 0.35, ("vendor",): 0.14, ("engine",): 0.21},
        "step_overhead_s": {
            (): 0.21,
            ("runtime",): 0.21,
            ("vendor",): 0.1,
            ("engine",): 0.21,
            ("engine", "generation"): 0.21,
        },
        "sequence_overhead_s": {
            (): 0.21,
            ("vendor",): 0.1,
            ("runtime",): 0.21,
            ("engine",): 0.21,
            ("engine", "generation"): 0.21,
        },
        "prefill_layer_overhead_s": {
            (): 0.21,
            ("runtime",): 0.14,
            ("engine",): 0.1,
            ("vendor",): 0.14,
            ("runtime", "vendor"): 0.14,
            ("engine", "generation"): 0.07,
        },
        "prefill_moe_layer_overhead_s": {(): 0.35, ("engine",): 0.35},
        "request_overhead_s": {(): 0.21, ("runtime",): 0.07, ("engine",): 0.21, ("engine", "generation"): 0.14},
        "prefill_expert_fraction": {(): 0.35, ("engine",): 0.21},
        "expert_half_rows": {(): 0.35},
        "expert_copy_passes": {(): 0.21, ("engine",): 0.21},
        "latent_layer_overhead_s": {(): 0.21, ("engine",): 0.7},
        "tokenise_token_s": {(): 0.21, ("engine",): 0.14},
        "stream_token_s": {(): 0.35, ("engine",): 0.28},
        "scale_up_latency_s": {(): 0.21, ("vendor",): 0.035, ("runtime",): 0.3, ("engine",): 0.14},
        "pcie_latency_s": {(): 0.28, ("runtime",): 0.21},
        "pcie_bandwidth_fraction": {(): 0.21},
        "scale_up_bandwidth_fraction": {(): 0.14, ("vendor",): 0.07},
    }
)


# Prior centers of an earlier generation: vLLM's first engine prepared and sampled on one thread, which takes more than
# half of a step according to its authors (blog.vllm.ai/2024/09/05/perf-update: 38 % of the time on the GPU). They spent
# 29 % of it on scheduling and outputs alone, most of which grows with the batch: about 50 us per sequence.
# llama.cpp's attention was not fused: odds of the share 0.11 (its coefficient's source counts it) over those of 0.45.
BEFORE: Mapping[tuple[str, ...], float] = {
    ("step_overhead_s", "vllm", "before"): float(np.log(2.5)),
    ("sequence_overhead_s", "vllm", "before"): float(np.log(4.0)),
    ("attention_compute_fraction", "llama.cpp", "before"): float(np.log(0.11 / 0.89 / (0.45 / 0.55))),
}

ROUNDING_TOLERANCE = 1.05  # tolerance for rounded lengths and rates


def drop_impossible_figures(cases: Sequence[ServingCase]) -> tuple[list[ServingCase], int]:
    """Cases without figures better than the device's rates allow, and the number of dropped figures."""
    kept, dropped = [], 0
    for case in cases:
        best = closed_form_metrics(table_of([case]), ideal_coefficients(1))
        good = {
            m: v
            for m, v in case.measured.items()
            if (v <= ROUNDING_TOLERANCE * best[m][0] if m.endswith("per_s") else v >= best[m][0] / ROUNDING_TOLERANCE)
        }
        dropped += len(case.measured) - len(good)
        if good:
            kept.append(replace(case, measured=good))
    return kept, dropped


def read_published_cases(
    rows: Sequence[Mapping[str, Any]], catalog: Catalog, model_named: Callable[[str], ModelArchitecture]
) -> tuple[list[ServingCase | SplitCase], Counter[str]]:
    """Cases of all rows, of one pool or two, without impossible figures, and the number of other rows by reason."""
    whole, left_out = read_cases([row for row in rows if pools_of(row) is None], catalog, model_named)
    whole, faster = drop_impossible_figures(whole)
    split, split_left_out = read_split_cases([row for row in rows if pools_of(row) is not None], catalog, model_named)
    left_out += split_left_out
    left_out["figures faster than the device's rates allow"] = faster
    return [*whole, *split], left_out


def table_of_group(cases: Sequence[Any]) -> Table | SplitTable:
    """Cases of one group as columns."""
    return split_table_of(cases) if isinstance(cases[0], SplitCase) else table_of(cases)


def predict_group(table: Table | SplitTable, achieved: Achieved) -> dict[str, Column]:
    """Every metric of every case of one group."""
    return predict_split(table, achieved) if isinstance(table, SplitTable) else predict_metrics(table, achieved)


SERVING = Problem(
    Achieved,
    LEVELS,
    BEFORE,
    table_of_group,
    predict_group,
    compared_only=frozenset(TAILS),
    add_run_ratios=add_run_ratios,
)
