"""Fits factors of the engine's coefficients to published results, through the engine's own formulas.

Every coefficient is its base value times a factor per engine, vendor, family, format class and some pairs of them. A
prior draws each factor to 1: a few results move it little, and stacks without measurements keep the factors that they
share with measured ones. The fit is robust least squares on logarithms. Serving, training in tokens, training in
samples and training memory are four problems of this kind.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import linalg, sparse

from app.sizing.columns import Column, Columns, column_names
from app.sizing.hardware.achieved import CoefficientTable, Factor, apply_factor
from calibration.case import Case, Stack

Parameter = tuple[str, tuple[str, ...], tuple[str, ...]]  # coefficient, keys, their values
# What a coefficient varies with, and the prior standard deviation of the logarithm of each factor.
Levels = Mapping[str, Mapping[tuple[str, ...], float]]
KEYS = ("runtime", "engine", "generation", "kernels", "vendor", "family", "format_class")


@dataclass(frozen=True, slots=True)
class Problem:
    """One fitting problem: coefficients, what they vary with, and the formulas that predict a group of cases.

    `before` is the expected logarithm of a factor before any measurement. An under-prediction counts `caution` times as
    much as an over-prediction.
    """

    coefficients: type[Columns]
    levels: Levels
    before: Mapping[tuple[str, ...], float]
    table: Callable[[Sequence[Any]], Any]
    predict: Callable[[Any, Any], dict[str, Column]]
    caution: float = 1.0
    distance: Callable[[Any, float], float] | None = None  # from the nearest evidence, of a case and its prediction
    row_spread: float = 0.12  # residuals above it count linearly, as log(predicted / measured)
    compared_only: frozenset[str] = frozenset()  # metrics that no factor is fitted to
    add_run_ratios: Callable[[Sequence[Any], Any], Sequence[Any]] | None = (
        None  # adds ratios of simulated runs to the cases
    )


# Base values are from kernel tables of one vendor, so priors are wider for kernels and drivers of other vendors. Priors
# of engines stay the same: one source of an engine changes a stack by tens of percent, not tenfold.
UNTABULATED_PRIOR_FACTOR = 4.0
OUTDATED_WEIGHT = 0.7  # weight of a result of an earlier engine generation if the family also has current results
CROWDING_EXPONENT = 0.3  # n results of one source, stack and metric count as n ** 0.7
SMALLEST_LOG_FACTOR = 0.005  # smallest logarithm of a factor that gets a row
STEPS, ENOUGH, NUDGE = 60, 2e-5, 1.001
FIT_ROUNDS = 3  # rounds of simulating runs and refitting


@dataclass(frozen=True, slots=True)
class Point:
    """One measured figure of one case."""

    case: int
    metric: str
    measured: float


def points_of(cases: Sequence[Case]) -> list[Point]:
    return [Point(i, metric, value) for i, c in enumerate(cases) for metric, value in c.measured.items()]


def is_outdated(stack: Stack, known: Container[tuple[str, str]]) -> bool:
    """Whether a stack is of an earlier generation and its engine and family also have current results (`known`)."""
    return stack.generation == "before" and (stack.engine, stack.family) in known


class Fit:
    """The least-squares problem over a set of cases."""

    def __init__(self, problem: Problem, cases: Sequence[Case], table: CoefficientTable) -> None:
        self.problem = problem
        self.cases = list(cases)
        self.groups: dict[Hashable, list[int]] = {}
        for i, case in enumerate(self.cases):
            self.groups.setdefault(case.group, []).append(i)
        self.tables = {group: problem.table([cases[i] for i in rows]) for group, rows in self.groups.items()}
        self.points = points_of(cases)
        self.log_measured = np.log([p.measured for p in self.points])
        stacks = [c.stack for c in cases]
        self.base = {
            name: np.array(
                [
                    table.find_row(name, family=s.family, format_class=s.format_class, engine=s.engine).value
                    for s in stacks
                ]
            )
            for name in column_names(problem.coefficients)
        }
        self.names: list[Parameter] = []
        spread_of: list[float] = []
        self.columns: dict[str, list[NDArray[np.int64]]] = {}
        for name, levels in problem.levels.items():
            for keys, spread in levels.items():
                values = [s.values_of(keys, name) for s in stacks]
                index = {v: len(self.names) + j for j, v in enumerate(sorted(set(values)))}
                self.names.extend((name, keys, v) for v in index)
                spread_of.extend(
                    spread
                    * (
                        UNTABULATED_PRIOR_FACTOR
                        if {"vendor", "family"} & set(keys)
                        and "engine" not in keys
                        and not any(w.startswith("nvidia") for w in v)
                        else 1.0
                    )
                    for v in index
                )
                self.columns.setdefault(name, []).append(np.array([index[v] for v in values]))
        self.size = len(self.names)
        self.spread = np.array(spread_of)
        self.center = np.array([problem.before.get((name, *values), 0.0) for name, _, values in self.names])
        cells = [(self.cases[p.case].source, self.cases[p.case].stack, p.metric) for p in self.points]
        count = Counter(cells)
        known = {(s.engine, s.family) for s in stacks if s.generation == "today"}
        self.weight = np.array(
            [count[c] ** -CROWDING_EXPONENT * (OUTDATED_WEIGHT if is_outdated(c[1], known) else 1.0) for c in cells]
        )
        self.weight *= [p.metric not in problem.compared_only for p in self.points]
        self.weight /= self.weight.mean()
        self.where = self._locate_points()

    def _locate_points(self) -> list[tuple[Hashable, str, NDArray[np.int64], NDArray[np.int64]]]:
        """For each group and metric: indices of the points, and of their rows in the group's table."""
        found = []
        for group, rows in self.groups.items():
            place = {case: i for i, case in enumerate(rows)}
            for metric in sorted({p.metric for p in self.points}):
                at = [(j, place[p.case]) for j, p in enumerate(self.points) if p.metric == metric and p.case in place]
                if at:
                    found.append((group, metric, np.array([a for a, _ in at]), np.array([b for _, b in at])))
        return found

    def log_factor(self, name: str, x: Column) -> Column:
        total = np.zeros(len(self.cases))
        for index in self.columns.get(name, ()):
            total += x[index]
        return total

    def coefficients_at(self, x: Column) -> Any:
        return self.problem.coefficients(
            **{name: apply_factor(name, base, np.exp(self.log_factor(name, x))) for name, base in self.base.items()}
        )

    def log_predicted(self, k: Any) -> Column:
        out = np.empty(len(self.points))
        for group, rows in self.groups.items():
            predicted = self.problem.predict(self.tables[group], k.take(np.array(rows)))
            for at_group, metric, points, places in self.where:
                if at_group == group:
                    out[points] = np.log(predicted[metric][places])
        return out

    def log_slopes(self, k: Any, here: Column) -> sparse.csr_matrix:
        """Derivative of every point's log prediction with respect to every parameter.

        A row depends on its own coefficients only, so one small change of a whole column gives the slope of every
        row.
        """
        case = np.array([p.case for p in self.points])
        rows, columns, values = [], [], []
        every = np.arange(len(self.points))
        for name, levels in self.columns.items():
            nudged = replace(k, **{name: apply_factor(name, getattr(k, name), np.array(NUDGE))})
            slope = (self.log_predicted(nudged) - here) / np.log(NUDGE)
            for index in levels:
                rows.append(every)
                columns.append(index[case])
                values.append(slope)
        shape = (len(every), self.size)
        return sparse.csr_matrix((np.concatenate(values), (np.concatenate(rows), np.concatenate(columns))), shape=shape)

    def weighted_residuals(self, here: Column) -> Column:
        """Residuals in units of a row's spread; under-predictions are multiplied by the problem's caution."""
        off = (here - self.log_measured) / self.problem.row_spread
        return np.where(off < 0, off * self.problem.caution, off)

    def robust_cost(self, x: Column, here: Column) -> float:
        """Robust cost: pseudo-Huber loss of the rows plus squared prior deviations of the factors."""
        off = self.weighted_residuals(here)
        return float(
            (self.weight * 2 * (np.sqrt(1 + off**2) - 1)).sum() + (((x - self.center) / self.spread) ** 2).sum()
        )

    def solve_least_squares(self, start: Column | None = None) -> Column:
        """Solves by Levenberg-Marquardt on iteratively reweighted squares."""
        x, damping = self.center.copy() if start is None else start, 1e-2
        k = self.coefficients_at(x)
        here = self.log_predicted(k)
        cost = self.robust_cost(x, here)
        for _ in range(STEPS):
            off = self.weighted_residuals(here)
            tilt = np.where(off < 0, self.problem.caution, 1.0) / self.problem.row_spread
            weight = self.weight / np.sqrt(1 + off**2)
            jac = self.log_slopes(k, here)
            drawn = 1 / self.spread**2
            normal = (jac.T @ jac.multiply((weight * tilt**2)[:, None])).toarray() + np.diag(drawn)
            downhill = -(jac.T @ (weight * tilt * off)) - drawn * (x - self.center)
            before = cost
            while damping < 1e6:
                step = linalg.solve(normal + damping * np.diag(np.diag(normal)), downhill, assume_a="pos")
                tried = self.coefficients_at(x + step)
                there = self.log_predicted(tried)
                now = self.robust_cost(x + step, there)
                if now < cost:
                    x, k, here, cost, damping = x + step, tried, there, now, damping / 4
                    break
                damping *= 4
            if before - cost < ENOUGH * before:
                break
        return x

    def factor_list(self, x: Column) -> list[Factor]:
        """The solution as rows of the catalog; factors that change nothing are left out."""
        used: list[list[int]] = [[] for _ in range(self.size)]
        for levels in self.columns.values():
            for index in levels:
                for case, i in enumerate(index.tolist()):
                    used[i].append(case)
        found = []
        for i, (name, keys, values) in enumerate(self.names):
            at = dict.fromkeys(KEYS, "*") | dict(zip(keys, values, strict=True))
            sources = sorted({self.cases[c].source for c in used[i]})
            if abs(x[i]) >= SMALLEST_LOG_FACTOR:
                found.append(
                    Factor(name=name, **at, value=float(np.exp(x[i])), rows=len(used[i]), sources=" ".join(sources))
                )
        return found

    def match_parameters(self, named: Mapping[Parameter, float]) -> Column:
        """Parameters of another fit, matched by name; unknown parameters keep their prior center."""
        return np.array(
            [named.get(name, center) for name, center in zip(self.names, self.center.tolist(), strict=True)]
        )


def fit_problem(
    problem: Problem,
    cases: Sequence[Case],
    table: CoefficientTable,
    rounds: int = FIT_ROUNDS,
    start: Mapping[Parameter, float] | None = None,
) -> tuple[Fit, Column]:
    """The fit to all cases that are not excluded, from `start` or from the prior centers.

    If the problem simulates runs, the runs are simulated at the fitted coefficients and fitted again.
    """
    used: Sequence[Any] = [c for c in cases if c.exclusion_reason is None]
    fit = Fit(problem, used, table)
    x = fit.match_parameters(start or {})
    for _ in range(1 if problem.add_run_ratios is None else rounds):
        if problem.add_run_ratios is not None:
            fit = Fit(problem, problem.add_run_ratios(used, fit.coefficients_at(x)), table)
        x = fit.solve_least_squares(x)
    return fit, x


def fit_parameters(
    problem: Problem,
    cases: Sequence[Case],
    table: CoefficientTable,
    rounds: int = FIT_ROUNDS,
    start: Mapping[Parameter, float] | None = None,
) -> dict[Parameter, float]:
    """Parameters fitted to all cases that are not excluded."""
    fit, x = fit_problem(problem, cases, table, rounds, start)
    return dict(zip(fit.names, x.tolist(), strict=True))


def predict_figures(
    problem: Problem, cases: Sequence[Case], table: CoefficientTable, parameters: Mapping[Parameter, float]
) -> list[tuple[Point, float]]:
    fit = Fit(problem, cases, table)
    if problem.add_run_ratios is not None:
        fit = Fit(problem, problem.add_run_ratios(cases, fit.coefficients_at(fit.match_parameters(parameters))), table)
    values = np.exp(fit.log_predicted(fit.coefficients_at(fit.match_parameters(parameters))))
    return list(zip(fit.points, values.tolist(), strict=True))
