"""Fits factors of the engine's coefficients to published results, through the engine's own formulas.

Every coefficient is its base value times a factor per engine, vendor, family, format class and some of
their pairs; a factor is drawn to 1 by its prior, so that thin data moves it little and what was never
measured keeps what it shares with what was. Robust least squares on logarithms.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray
from scipy import linalg, sparse

from app.calibration.cases import Case, column_of
from app.sizing.achieved import SHARES, Achieved, CoefficientTable, moved
from app.sizing.columns import Column, stacked
from app.sizing.compute import PrefillWork, StepWork, prefill_s, prefill_terms, step_terms
from app.sizing.hardware import Factor
from app.sizing.serving import later_tokens, steady_flow
from app.sizing.workload import Load

Parameter = tuple[str, tuple[str, ...], tuple[str, ...]]  # coefficient, keys, their values
KEYS = ("runtime", "engine", "generation", "kernels", "vendor", "family", "format_class")
# What a coefficient varies with, and how far (standard deviation of the logarithm of the factor).
LEVELS: Mapping[str, Mapping[tuple[str, ...], float]] = MappingProxyType(
    {
        "linear_memory_fraction": {
            (): 0.07, ("kernels",): 0.28, ("format_class",): 0.14, ("vendor",): 0.17, ("family",): 0.14, ("runtime",): 0.14, ("engine",): 0.1,
            ("runtime", "format_class"): 0.14, ("runtime", "vendor"): 0.17, ("engine", "family", "format_class"): 0.14,
        },
        "expert_memory_fraction": {(): 0.35, ("engine",): 0.21},
        "linear_compute_fraction": {
            (): 0.07, ("kernels",): 0.28, ("format_class",): 0.14, ("vendor",): 0.17, ("family",): 0.14, ("runtime",): 0.14, ("engine",): 0.1,
            ("runtime", "format_class"): 0.14, ("runtime", "vendor"): 0.17, ("engine", "family", "format_class"): 0.14,
        },
        "prefill_compute_fraction": {(): 0.21, ("runtime",): 0.21, ("engine",): 0.21},
        "attention_memory_fraction": {(): 0.07, ("vendor",): 0.14, ("runtime",): 0.14, ("engine",): 0.14, ("engine", "family"): 0.14},
        "attention_compute_fraction": {(): 0.07, ("vendor",): 0.14, ("runtime",): 0.21, ("engine",): 0.14, ("engine", "family"): 0.14},
        "layer_overhead_s": {
            (): 0.14, ("kernels",): 0.28, ("vendor",): 0.17, ("runtime",): 0.21, ("engine",): 0.14, ("engine", "generation"): 0.14,
            ("runtime", "vendor"): 0.17, ("engine", "family"): 0.1,
        },
        "moe_layer_overhead_s": {(): 0.35, ("vendor",): 0.14, ("engine",): 0.21},
        "step_overhead_s": {(): 0.21, ("runtime",): 0.21, ("vendor",): 0.1, ("engine",): 0.21, ("engine", "generation"): 0.21},
        "sequence_overhead_s": {(): 0.21, ("vendor",): 0.1, ("runtime",): 0.21, ("engine",): 0.21, ("engine", "generation"): 0.21},
        "prefill_layer_overhead_s": {(): 0.21, ("runtime",): 0.21, ("engine",): 0.21, ("vendor",): 0.14, ("runtime", "vendor"): 0.14, ("engine", "generation"): 0.21},
        "request_overhead_s": {(): 0.21, ("runtime",): 0.07, ("engine",): 0.42, ("engine", "generation"): 0.21},
        "queued_share": {(): 0.35, ("engine",): 0.21},
        "scale_up_latency_s": {(): 0.21, ("vendor",): 0.14, ("runtime",): 0.21, ("engine",): 0.14},
        "pcie_latency_s": {(): 0.28, ("runtime",): 0.21},
        "pcie_bandwidth_fraction": {(): 0.21},
        "scale_up_bandwidth_fraction": {(): 0.14, ("vendor",): 0.07},
    }
)  # fmt: skip
# Where an earlier generation is expected before any measurement: vLLM's first engine prepared and sampled
# on one thread, which its authors found to take more than half of a step.
BEFORE: Mapping[tuple[str, ...], float] = {
    (name, "vllm", "before"): float(np.log(2.5)) for name in ("step_overhead_s", "sequence_overhead_s")
}
# Base values come from kernel tables of one vendor; of another's kernels and drivers less is known beforehand.
UNTABLED = 4.0
CROWDING = 0.3  # many results of one source, stack and metric count less each: n of them as n ** 0.7
SMALLEST = 0.005  # logarithm of a factor that is worth a row
SLACK = 1.05  # rounding of lengths and rates
STEPS, ENOUGH, NUDGE = 60, 2e-5, 1.001
ROW_SPREAD = 0.12  # beyond this a row counts less and less


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


def table_of(cases: Sequence[Case]) -> Table:
    return Table(
        cases[0].load, stacked([c.step for c in cases]), stacked([c.prefill for c in cases]),
        *(column_of(cases, n) for n in ("wanted", "most", "chunk_tokens", "input_tokens", "output_tokens", "replicas")),
    )  # fmt: skip


def predict(t: Table, k: Achieved) -> dict[str, Column]:
    """Every metric of every case, by the formulas that answer /estimate."""
    step, prefill = step_terms(t.step, k), prefill_terms(t.prefill, k)
    occupancy = prefill_s(prefill, t.chunk_tokens, np.full(len(t.wanted), np.inf)) / np.maximum(1.0, t.step.pipeline_parallel)
    flow = steady_flow(
        t.load, step, prefill, occupancy, chunk_tokens=t.chunk_tokens, output_tokens=t.output_tokens, wanted=t.wanted, most=t.most
    )
    requests = flow.rate_per_s * t.replicas
    return {
        "output_tokens_per_s": requests * t.output_tokens,
        "total_tokens_per_s": requests * (t.input_tokens + t.output_tokens),
        "tpot_s": flow.tpot_s,
        "decode_tokens_per_s": 1 / flow.tpot_s,
        "ttft_s": flow.ttft_s,
        "prefill_tokens_per_s": t.prefill.new_tokens / (flow.ttft_s - prefill.request_s),
        "e2e_s": flow.ttft_s + np.where(t.output_tokens > 1, later_tokens(t.output_tokens), 0.0) * flow.tpot_s,
    }


def ideal(count: int) -> Achieved:
    """Every rate fully achieved and no time lost: what no measurement can beat."""
    whole, none = np.full(count, 1.0), np.zeros(count)
    values = {name: whole if name in SHARES else none for name in Achieved.__slots__}
    return Achieved(**values | {"roofline_exponent": np.full(count, 50.0), "queued_share": none})


def possible(cases: Sequence[Case]) -> tuple[list[Case], int]:
    """The cases without figures that are better than the device's rates allow, and how many figures those were."""
    kept, dropped = [], 0
    for case in cases:
        best = predict(table_of([case]), ideal(1))
        good = {
            m: v for m, v in case.measured.items()
            if (v <= SLACK * best[m][0] if m.endswith("per_s") else v >= best[m][0] / SLACK)
        }  # fmt: skip
        dropped += len(case.measured) - len(good)
        if good:
            kept.append(replace(case, measured=good))
    return kept, dropped


@dataclass(frozen=True, slots=True)
class Point:
    """One measured figure of one case."""

    case: int
    metric: str
    measured: float


def points_of(cases: Sequence[Case]) -> list[Point]:
    return [Point(i, metric, value) for i, c in enumerate(cases) for metric, value in c.measured.items()]


class Fit:
    """The least-squares problem over a set of cases."""

    def __init__(self, cases: Sequence[Case], table: CoefficientTable) -> None:
        self.cases = list(cases)
        self.groups = {load: [i for i, c in enumerate(cases) if c.load is load] for load in Load}
        self.groups = {load: rows for load, rows in self.groups.items() if rows}
        self.tables = {load: table_of([cases[i] for i in rows]) for load, rows in self.groups.items()}
        self.points = points_of(cases)
        self.log_measured = np.log([p.measured for p in self.points])
        stacks = [c.stack for c in cases]
        self.base = {
            name: np.array([table.row(name, family=s.family, format_class=s.format_class, engine=s.engine).value for s in stacks])
            for name in Achieved.__slots__
        }
        self.names: list[Parameter] = []
        spread_of: list[float] = []
        self.columns: dict[str, list[NDArray[np.int64]]] = {}
        for name, levels in LEVELS.items():
            for keys, spread in levels.items():
                values = [tuple(getattr(s, k) for k in keys) for s in stacks]
                index = {v: len(self.names) + j for j, v in enumerate(sorted(set(values)))}
                self.names.extend((name, keys, v) for v in index)
                spread_of.extend(
                    spread * (UNTABLED if {"vendor", "family"} & set(keys) and not any(w.startswith("nvidia") for w in v) else 1.0)
                    for v in index
                )
                self.columns.setdefault(name, []).append(np.array([index[v] for v in values]))
        self.size = len(self.names)
        self.spread = np.array(spread_of)
        self.center = np.array([BEFORE.get((name, *values), 0.0) for name, _, values in self.names])
        cells = [(self.cases[p.case].source, self.cases[p.case].stack, p.metric) for p in self.points]
        count = Counter(cells)
        self.weight = np.array([count[c] ** -CROWDING for c in cells])
        self.weight /= self.weight.mean()
        self.where = self._where()

    def _where(self) -> list[tuple[Load, str, NDArray[np.int64], NDArray[np.int64]]]:
        """For each load and metric: the points, and their rows in that load's table."""
        found = []
        for load, rows in self.groups.items():
            place = {case: i for i, case in enumerate(rows)}
            for metric in sorted({p.metric for p in self.points}):
                at = [(j, place[p.case]) for j, p in enumerate(self.points) if p.metric == metric and p.case in place]
                if at:
                    found.append((load, metric, np.array([a for a, _ in at]), np.array([b for _, b in at])))
        return found

    def log_factor(self, name: str, x: Column) -> Column:
        total = np.zeros(len(self.cases))
        for index in self.columns.get(name, ()):
            total += x[index]
        return total

    def achieved(self, x: Column) -> Achieved:
        return Achieved(**{name: moved(name, base, np.exp(self.log_factor(name, x))) for name, base in self.base.items()})

    def log_predicted(self, k: Achieved) -> Column:
        out = np.empty(len(self.points))
        for load, rows in self.groups.items():
            predicted = predict(self.tables[load], k.take(np.array(rows)))
            for at_load, metric, points, places in self.where:
                if at_load is load:
                    out[points] = np.log(predicted[metric][places])
        return out

    def slopes(self, k: Achieved, here: Column) -> sparse.csr_matrix:
        """Change of every point's logarithm per parameter.

        Rows depend on their own coefficients only, so one nudge of a whole column gives every row's slope.
        """
        case = np.array([p.case for p in self.points])
        rows, columns, values = [], [], []
        every = np.arange(len(self.points))
        for name, levels in self.columns.items():
            nudged = replace(k, **{name: moved(name, getattr(k, name), np.array(NUDGE))})
            slope = (self.log_predicted(nudged) - here) / np.log(NUDGE)
            for index in levels:
                rows.append(every)
                columns.append(index[case])
                values.append(slope)
        shape = (len(every), self.size)
        return sparse.csr_matrix((np.concatenate(values), (np.concatenate(rows), np.concatenate(columns))), shape=shape)

    def cost(self, x: Column, here: Column) -> float:
        """Robust sum of squares: pseudo-Huber in the rows, squares in the factors."""
        off = (here - self.log_measured) / ROW_SPREAD
        return float((self.weight * 2 * (np.sqrt(1 + off**2) - 1)).sum() + (((x - self.center) / self.spread) ** 2).sum())

    def solve(self) -> Column:
        """Levenberg-Marquardt on reweighted squares."""
        x, damping = self.center.copy(), 1e-2
        k = self.achieved(x)
        here = self.log_predicted(k)
        cost = self.cost(x, here)
        for _ in range(STEPS):
            off = here - self.log_measured
            weight = self.weight / np.sqrt(1 + (off / ROW_SPREAD) ** 2) / ROW_SPREAD**2
            jac = self.slopes(k, here)
            drawn = 1 / self.spread**2
            normal = (jac.T @ jac.multiply(weight[:, None])).toarray() + np.diag(drawn)
            downhill = -(jac.T @ (weight * off)) - drawn * (x - self.center)
            before = cost
            while damping < 1e6:
                step = linalg.solve(normal + damping * np.diag(np.diag(normal)), downhill, assume_a="pos")
                tried = self.achieved(x + step)
                there = self.log_predicted(tried)
                now = self.cost(x + step, there)
                if now < cost:
                    x, k, here, cost, damping = x + step, tried, there, now, damping / 4
                    break
                damping *= 4
            if before - cost < ENOUGH * before:
                break
        return x

    def factors(self, x: Column) -> list[Factor]:
        """The solution as rows of the catalogue, those that move anything."""
        used: list[list[int]] = [[] for _ in range(self.size)]
        for levels in self.columns.values():
            for index in levels:
                for case, i in enumerate(index.tolist()):
                    used[i].append(case)
        found = []
        for i, (name, keys, values) in enumerate(self.names):
            at = dict.fromkeys(KEYS, "*") | dict(zip(keys, values, strict=True))
            sources = sorted({self.cases[c].source for c in used[i]})
            if abs(x[i]) >= SMALLEST:
                found.append(Factor(name=name, **at, value=float(np.exp(x[i])), rows=len(used[i]), sources=" ".join(sources)))
        return found

    def at(self, named: Mapping[Parameter, float]) -> Column:
        """Parameters of another fit, by name; what it never saw keeps what was expected beforehand."""
        return np.array([named.get(name, center) for name, center in zip(self.names, self.center.tolist(), strict=True)])


def solved(cases: Sequence[Case], table: CoefficientTable) -> dict[Parameter, float]:
    """Parameters fitted to all cases that are not set aside."""
    fit = Fit([c for c in cases if c.set_aside is None], table)
    return dict(zip(fit.names, fit.solve().tolist(), strict=True))


def predicted(cases: Sequence[Case], table: CoefficientTable, parameters: Mapping[Parameter, float]) -> list[tuple[Point, float]]:
    """Every figure of the cases with what the parameters predict for it."""
    fit = Fit(cases, table)
    values = np.exp(fit.log_predicted(fit.achieved(fit.at(parameters))))
    return list(zip(fit.points, values.tolist(), strict=True))
