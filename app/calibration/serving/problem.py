"""What is fitted of serving: which coefficient varies with what, and every metric by the formulas of /estimate."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

import numpy as np

from app.calibration.fit import Levels, Problem
from app.calibration.serving.cases import ServingCase
from app.sizing.columns import Column, stacked
from app.sizing.hardware.achieved import Achieved, ideal
from app.sizing.serving.load import later_tokens, occupancy_s
from app.sizing.serving.operation import steady_flow
from app.sizing.serving.prefill import PrefillWork, prefill_terms, prompt_s
from app.sizing.serving.step import StepWork, step_terms
from app.sizing.workload import Load

# What a coefficient varies with, and how far (standard deviation of the logarithm of the factor).
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
        "expert_memory_fraction": {(): 0.35, ("engine",): 0.21},
        "linear_compute_fraction": {
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
            ("engine", "family"): 0.14,
        },
        "layer_overhead_s": {
            (): 0.14,
            ("kernels",): 0.28,
            ("vendor",): 0.17,
            ("runtime",): 0.21,
            ("engine",): 0.14,
            ("engine", "generation"): 0.14,
            ("runtime", "vendor"): 0.17,
            ("engine", "family"): 0.1,
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
        "request_overhead_s": {(): 0.21, ("runtime",): 0.07, ("engine",): 0.42, ("engine", "generation"): 0.21},
        "queued_share": {(): 0.35, ("engine",): 0.14},
        "scale_up_latency_s": {(): 0.21, ("vendor",): 0.14, ("runtime",): 0.21, ("engine",): 0.14},
        "pcie_latency_s": {(): 0.28, ("runtime",): 0.21},
        "pcie_bandwidth_fraction": {(): 0.21},
        "scale_up_bandwidth_fraction": {(): 0.14, ("vendor",): 0.07},
    }
)


# Where an earlier generation is expected before any measurement: vLLM's first engine prepared and sampled
# on one thread, which its authors found to take more than half of a step.
BEFORE: Mapping[tuple[str, ...], float] = {
    (name, "vllm", "before"): float(np.log(2.5)) for name in ("step_overhead_s", "sequence_overhead_s")
}

SLACK = 1.05  # rounding of lengths and rates


def column_of(cases: Sequence[ServingCase], name: str) -> Column:
    return np.array([getattr(c, name) for c in cases], dtype=np.float64)


@dataclass(frozen=True, slots=True)
class Table:
    """Cases of one kind of load, as columns."""

    load: Load
    step: StepWork
    prefill: PrefillWork
    wanted: Column
    most: Column
    chunk_tokens: Column
    input_tokens: Column
    output_tokens: Column
    replicas: Column


def table_of(cases: Sequence[ServingCase]) -> Table:
    return Table(
        cases[0].load,
        stacked([c.step for c in cases]),
        stacked([c.prefill for c in cases]),
        *(column_of(cases, n) for n in ("wanted", "most", "chunk_tokens", "input_tokens", "output_tokens", "replicas")),
    )


def predict(table: Table, achieved: Achieved) -> dict[str, Column]:
    """Every metric of every case, by the formulas that answer /estimate."""
    step, prefill = step_terms(table.step, achieved), prefill_terms(table.prefill, achieved)
    occupancy = occupancy_s(prompt_s(prefill, table.chunk_tokens, None), table.step.pipeline_parallel)
    flow = steady_flow(
        table.load,
        step,
        prefill,
        occupancy,
        max_batched_tokens=table.chunk_tokens,
        output_tokens=table.output_tokens,
        in_flight=table.wanted,
        sequences=table.most,
    )
    requests = flow.rate_per_s * table.replicas
    return {
        "output_tokens_per_s": requests * table.output_tokens,
        "total_tokens_per_s": requests * (table.input_tokens + table.output_tokens),
        "tpot_s": flow.tpot_s,
        "decode_tokens_per_s": 1 / flow.tpot_s,
        "ttft_s": flow.ttft_s,
        "prefill_tokens_per_s": table.prefill.new_tokens / (flow.ttft_s - prefill.request_s),
        "e2e_s": flow.ttft_s + np.where(table.output_tokens > 1, later_tokens(table.output_tokens), 0.0) * flow.tpot_s,
    }


def possible(cases: Sequence[ServingCase]) -> tuple[list[ServingCase], int]:
    """The cases without figures that are better than the device's rates allow, and how many figures those were."""
    kept, dropped = [], 0
    for case in cases:
        best = predict(table_of([case]), ideal(1))
        good = {
            m: v
            for m, v in case.measured.items()
            if (v <= SLACK * best[m][0] if m.endswith("per_s") else v >= best[m][0] / SLACK)
        }
        dropped += len(case.measured) - len(good)
        if good:
            kept.append(replace(case, measured=good))
    return kept, dropped


SERVING = Problem(Achieved, LEVELS, BEFORE, table_of, predict)
