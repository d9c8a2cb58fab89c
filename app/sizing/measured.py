"""Measurements of the user's own stacks: how far they move predictions of these stacks and of their neighbors.

A prediction is a sum of times of engine steps. Two factors correct it: one on all of these times, and one on prompts in
addition. Both are random effects in logarithms, one value per cell (model size, engine, format, accelerator type,
number of accelerators, kind of load). Cells correlate by the distance that evidence.py uses for published results;
inside a cell, a smooth effect of load and lengths is added. Everything is normal, so the posterior has a closed form.
Measurements on another vendor's accelerators, and of training for serving or the other way around, say nothing: each
such group has a posterior of its own. It depends on the set of live measurements only, not on their order: without a
measurement, its effect is gone.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from app.sizing.columns import Codes, Column, Columns
from app.sizing.evidence import (
    CATEGORICAL_WEIGHTS,
    NUMERIC_WEIGHTS,
    Compared,
    Familiarity,
    Neighbor,
    Setting,
    lower_is_better,
)
from app.sizing.hardware.achieved import vendor_of
from app.sizing.hardware.engines import engine_named
from app.sizing.hardware.engines.record import Release, release_of
from app.sizing.workload import Method

# Standard deviations in logarithms, from 8,587 predictions of published results whose sources were left out of the fit
# (2026-11-25). Cells of one source differ by 0.22 in output tokens/s and TPOT, by 0.39 in TTFT, by 0.18 in training
# tokens/s; results within a cell by 0.09, 0.11, 0.16 and 0.06.
STEP_DEVIATION = 0.22  # of the factor on all times of a cell
PREFILL_DEVIATION = 0.32  # of the additional factor on prompts: 0.39^2 = 0.22^2 + 0.32^2
STEP_SMOOTH_DEVIATION = 0.08  # of the smooth effect of load and lengths inside a cell
PREFILL_SMOOTH_DEVIATION = 0.12
STEP_VARIANCE = STEP_DEVIATION**2 + STEP_SMOOTH_DEVIATION**2
TTFT_VARIANCE = STEP_VARIANCE + PREFILL_DEVIATION**2 + PREFILL_SMOOTH_DEVIATION**2
# What two runs of the same setting differ by.
NOISE: Mapping[str, float] = MappingProxyType(
    {"output_tokens_per_s": 0.04, "tpot_s": 0.06, "ttft_s": 0.1, "tokens_per_s": 0.06, "samples_per_s": 0.06}
)
# Distance at which the correlation of two cells falls to 1/e. Inside published sources the residuals of cells
# correlate at 0.8 at a distance of 0.35, 0.6 at 0.85 and 0.46 at 1.25, part of which is the source's own.
CORRELATION_LENGTH = 0.8
SMOOTH_LENGTH = 1.5  # of the smooth effect inside a cell, in logarithms of load and lengths
OUTDATED_WEIGHT = 0.7  # correlation of two minor versions of an engine
MAX_DEVIATIONS = 4.0  # a residual beyond this many standard deviations is cut
DISAGREEMENT = 1.25  # ratio from which two measurements of one setting disagree
MOST_RATIO = 1e6  # a larger ratio says no more, and may be infinite
SAME_SETTING = 0.1  # relative difference of load and lengths up to which two measurements have one setting
SHOWN = 0.5  # correlation from which an answer names a measurement

CATEGORIES = tuple(CATEGORICAL_WEIGHTS)
CATEGORY_WEIGHTS: Column = np.array([weight.weight for weight in CATEGORICAL_WEIGHTS.values()])
# Weights of numbers per factor of e.
SCALE_WEIGHTS: Column = np.array(
    [
        0.0 if name == "in_flight" else NUMERIC_WEIGHTS[name].weight / math.log(2)
        for name in ("params", "in_flight", "input_tokens", "output_tokens")
    ]
)
DEVICES_WEIGHT = NUMERIC_WEIGHTS["devices"].weight / math.log(2)
TRAINING_LOADS = frozenset(method.value for method in Method)  # loads of training runs; others are of services
SMALLEST = 1e-9  # floor of a number before its logarithm
SAME = 1e-6  # difference of logarithms up to which numbers are the same
MAX_STACKS_CACHED = 4096
MAX_MATRICES_CACHED = 4


@dataclass(frozen=True, slots=True)
class MeasuredFigure:
    """One measured quantity of a run, with the engine's own prediction of it and how that follows the two factors."""

    metric: str  # a name of NOISE
    measured: float
    predicted: float
    step_elasticity: float = 1.0  # change of the logarithm of the time per change of the factor on all times
    prefill_elasticity: float = 0.0  # the same for the additional factor on prompts

    @property
    def residual(self) -> float:
        """Logarithm of how much slower the run was than predicted."""
        off = math.log(self.measured / self.predicted)
        return off if lower_is_better(self.metric) else -off

    @property
    def deviation(self) -> float:
        """Standard deviation of the residual before any measurement."""
        prefill = self.prefill_elasticity**2 * (TTFT_VARIANCE - STEP_VARIANCE)
        return math.sqrt(self.step_elasticity**2 * STEP_VARIANCE + prefill + NOISE[self.metric] ** 2)

    @property
    def is_cut(self) -> bool:
        """Whether the residual is too large to be taken in full."""
        return abs(self.residual) > MAX_DEVIATIONS * self.deviation

    @property
    def accepted_residual(self) -> float:
        """The residual, cut at four standard deviations."""
        most = MAX_DEVIATIONS * self.deviation
        return min(max(self.residual, -most), most)


@dataclass(frozen=True, slots=True)
class OwnMeasurement:
    """One benchmark or training run of the user."""

    identity: str  # "meas_" and the digest of the content
    day: str  # day of the run, or of the upload
    model: str
    setting: Setting  # devices are those of one replica; in_flight is the load of `load_level`
    engine_version: str
    figures: tuple[MeasuredFigure, ...]

    @property
    def key(self) -> str:
        """Everything that a prediction takes from the measurement."""
        return repr((self.identity, self.setting, self.engine_version, self.figures))


@dataclass(frozen=True, slots=True)
class Disagreement:
    """Two measurements of one setting that differ by more than a quarter."""

    first: OwnMeasurement
    second: OwnMeasurement
    metric: str
    ratio: float  # of the larger to the smaller value, at most MOST_RATIO


@dataclass(frozen=True, slots=True)
class MeasuredEffect(Columns):
    """Effect of the measurements on predictions, one row per prediction."""

    step_time: Column  # factor on all times
    prefill_time: Column  # further factor on the times of prompts
    step_narrowing: Column  # spread of rates and of TPOT, as a share of that without measurements
    ttft_narrowing: Column  # the same for TTFT

    @classmethod
    def constant(cls, count: int, *, step_time: float = 1.0, prefill_time: float = 1.0) -> MeasuredEffect:
        """The same two factors for every prediction, and unchanged spreads."""
        ones = np.ones(count)
        return cls(ones * step_time, ones * prefill_time, ones, ones)

    def narrowing(self, quantity: str) -> Column:
        """Spread of a quantity as a share of that without measurements."""
        return self.ttft_narrowing if quantity.startswith(("ttft", "prefill")) else self.step_narrowing


@dataclass(frozen=True, slots=True)
class Posterior:
    """What the measurements say about the two effects, one entry per measurement."""

    step_weights: Column  # weight of each covariance in the mean of the effect on all times
    prefill_weights: Column  # the same for prompts
    step_explained: Column  # variance of the effect on all times that the measurements explain, in its own setting
    ttft_explained: Column  # the same for both effects together

    def predict(
        self, cells: Column, smooth: Column, near: Column, same: Column
    ) -> tuple[Column, Column, Column, Column]:
        """Means of both effects, and the shares of the deviations of rates and of TTFT that remain; one per stack.

        What remains is an upper bound: it counts the measurement that explains most, whose own setting all of them
        explain.

        Parameters:
            cells: factor of each stack (rows) in its correlation with each measurement (columns).
            smooth: the same for the smooth effects inside a cell.
            near: the remaining factors of the correlation of cells, one per measurement.
            same: the same for the smooth effects.
        """
        alike = np.flatnonzero(same)
        smooth, same = smooth[:, alike], same[alike]

        def total(weights: Column, cell: float, inside: float) -> Column:
            mean: Column = cells @ (cell**2 * near * weights) + smooth @ (inside**2 * same * weights[alike])
            return mean

        def most_explained(explained: Column, cell: float, inside: float) -> Column:
            root = np.sqrt(explained)
            most = (cells * (cell * near * root)).max(axis=1)
            own = cells[:, alike] * (cell * near * root)[alike] + smooth * (inside * same * root[alike])
            most_own: Column = np.maximum(most, own.max(axis=1, initial=0.0)) ** 2
            return most_own

        of_step = most_explained(self.step_explained, STEP_DEVIATION**2, STEP_SMOOTH_DEVIATION**2)
        of_ttft = most_explained(
            self.ttft_explained,
            STEP_DEVIATION**2 + PREFILL_DEVIATION**2,
            STEP_SMOOTH_DEVIATION**2 + PREFILL_SMOOTH_DEVIATION**2,
        )
        return (
            total(self.step_weights, STEP_DEVIATION, STEP_SMOOTH_DEVIATION),
            total(self.prefill_weights, PREFILL_DEVIATION, PREFILL_SMOOTH_DEVIATION),
            remaining_share(STEP_VARIANCE, of_step / STEP_VARIANCE**2, NOISE["tpot_s"]),
            remaining_share(TTFT_VARIANCE, of_ttft / TTFT_VARIANCE**2, NOISE["ttft_s"]),
        )


def newest_release(engine: str) -> Release | None:
    """Newest version of an engine whose facts the service knows; None if it knows none."""
    record = engine_named(engine)
    return max((release for release, _ in (*record.memory_since, *record.scheduling_since)), default=None)


class Stack(NamedTuple):
    """What runs where, as far as measurements of it carry over."""

    engine: str
    family: str
    format_class: str
    accelerator: str
    load: str


class Scale(NamedTuple):
    """Size of the model, load and lengths."""

    params: float
    in_flight: float  # requests in flight, or per second of an open loop; sequences of a training step
    input_tokens: float
    output_tokens: float


def stack_of(setting: Setting) -> Stack:
    """The stack of a setting."""
    return Stack(setting.engine, setting.family, setting.format_class, setting.accelerator, setting.load)


def category_words(stack: Stack) -> tuple[str, ...]:
    """Categorical attributes of a stack, in the order of their weights."""
    words = stack._asdict()
    known = {name: str(words.get(name, "")) for name in CATEGORIES}
    known["vendor"], known["runtime"] = vendor_of(stack.family), engine_named(stack.engine).runtime
    return tuple(known.values())


def log_scale(scale: Scale) -> Column:
    """Natural logarithms of a scale."""
    logs: Column = np.log(np.maximum(np.array(scale, dtype=np.float64), SMALLEST))
    return logs


class MeasuredRows:
    """The settings of measurements as columns, and the correlation of any prediction with each of them.

    A correlation is a product of one factor for the stack, one for the number of accelerators and one for the scale,
    so that many predictions of one workload cost little more than one.
    """

    def __init__(self, settings: Sequence[Setting], releases: Sequence[Release | None]) -> None:
        self.releases = list(releases)
        self.stacks = [stack_of(s) for s in settings]
        self._words = np.array([category_words(s) for s in self.stacks], dtype=object).reshape(-1, len(CATEGORIES))
        self.scales = [Scale(s.params, s.in_flight, s.input_tokens, s.output_tokens) for s in settings]
        self._logs = np.array([log_scale(s) for s in self.scales]).reshape(-1, len(SCALE_WEIGHTS))
        self.devices = np.log(np.maximum(np.array([s.devices for s in settings], dtype=np.float64), SMALLEST))
        self._by_stack: dict[tuple[Stack, Release | None], tuple[Column, Column]] = {}

    def stack_factors(self, stack: Stack, release: Release | None) -> tuple[Column, Column]:
        """Factor of a stack in the correlation of cells, and in that of the smooth effects inside a cell.

        The first falls exponentially with the distance. Both are OUTDATED_WEIGHT for another minor version of the
        engine.
        """
        key = stack, release
        known = self._by_stack.get(key)
        if known is None:
            differs = self._words != np.array(category_words(stack), dtype=object)
            version = np.where([r == release for r in self.releases], 1.0, OUTDATED_WEIGHT)
            cells = version * np.exp(-(differs @ CATEGORY_WEIGHTS) / CORRELATION_LENGTH)
            if len(self._by_stack) >= MAX_STACKS_CACHED:
                self._by_stack.clear()
            known = self._by_stack[key] = cells, np.where(differs.any(axis=1), 0.0, version)
        return known

    def device_factors(self, log_devices: float) -> tuple[Column, Column]:
        """The same factors of a number of accelerators; 1 if it is NaN."""
        off = np.nan_to_num(np.abs(self.devices - log_devices))
        return np.exp(-off * DEVICES_WEIGHT / CORRELATION_LENGTH), np.asarray(off < SAME, dtype=np.float64)

    def scale_factors(self, scale: Scale) -> tuple[Column, Column]:
        """The same factors of a scale. The load acts inside a cell only."""
        off = np.abs(self._logs - log_scale(scale))
        smooth = np.exp(-((off[:, 1:] / SMOOTH_LENGTH) ** 2).sum(axis=1) / 2)
        near = np.exp(-(off @ SCALE_WEIGHTS) / CORRELATION_LENGTH)
        return near, np.where(off[:, 0] < SAME, smooth, 0.0)

    def correlations(self, row: int) -> tuple[Column, Column]:
        """Correlation of one measurement with all: of the effects of cells, and of the smooth effects."""
        parts = (
            self.stack_factors(self.stacks[row], self.releases[row]),
            self.device_factors(float(self.devices[row])),
            self.scale_factors(self.scales[row]),
        )
        cells, smooth = (math.prod(each) for each in zip(*parts, strict=True))
        return np.asarray(cells), np.asarray(smooth)


class Group(NamedTuple):
    """Predictions that measurements of the same group move, and no others."""

    vendor: str  # of the accelerator, whose software is its own
    trains: bool  # training runs are predicted by coefficients of their own


def group_of(stack: Stack) -> Group:
    """The group of a stack."""
    return Group(vendor_of(stack.family), stack.load in TRAINING_LOADS)


class MeasuredGroup:
    """The live measurements of one group, and the posterior that follows from them."""

    def __init__(self, measurements: Sequence[OwnMeasurement]) -> None:
        self.measurements = measurements
        self._newest = newest_releases(measurements)
        self._rows = MeasuredRows(
            [m.setting for m in measurements],
            [release_of(m.engine_version) or self._newest[m.setting.engine] for m in measurements],
        )
        self._matrices: dict[tuple[tuple[Stack, ...], str | None], tuple[Column, Column]] = {}
        self.disagreements = tuple(find_disagreements(measurements))

    @cached_property
    def _posterior(self) -> Posterior:
        figures = [(row, f) for row, m in enumerate(self.measurements) for f in m.figures]
        rows = np.array([row for row, _ in figures], dtype=np.int64)
        step = np.array([f.step_elasticity for _, f in figures])
        prefill = np.array([f.prefill_elasticity for _, f in figures])
        pairs = [self._rows.correlations(row) for row in range(len(self.measurements))]
        cells, smooth = (np.array(each) for each in zip(*pairs, strict=True))
        of_step = STEP_DEVIATION**2 * cells + STEP_SMOOTH_DEVIATION**2 * smooth
        of_prefill = PREFILL_DEVIATION**2 * cells + PREFILL_SMOOTH_DEVIATION**2 * smooth
        # Covariance of the effects of each measurement (rows) with each figure (columns), then of the figures.
        step_figures, prefill_figures = of_step[:, rows] * step, of_prefill[:, rows] * prefill
        covariance = step[:, None] * step_figures[rows] + prefill[:, None] * prefill_figures[rows]
        covariance[np.diag_indices_from(covariance)] += self._noise_variance(figures)
        inverse = np.linalg.inv(covariance)
        explaining = inverse @ np.array([f.accepted_residual for _, f in figures])
        count, both = len(self.measurements), step_figures + prefill_figures
        return Posterior(
            step_weights=np.bincount(rows, explaining * step, count).astype(np.float64),
            prefill_weights=np.bincount(rows, explaining * prefill, count).astype(np.float64),
            step_explained=np.einsum("ij,ij->i", step_figures @ inverse, step_figures),
            ttft_explained=np.einsum("ij,ij->i", both @ inverse, both),
        )

    def _noise_variance(self, figures: Sequence[tuple[int, MeasuredFigure]]) -> Column:
        """Variance of each residual around the effects; larger where two measurements of one setting disagree."""
        widened: dict[tuple[str, str], float] = {}
        for d in self.disagreements:
            for m in (d.first, d.second):
                key = m.identity, d.metric
                widened[key] = max(widened.get(key, 0.0), (math.log(d.ratio) / 2) ** 2)
        return np.array(
            [NOISE[f.metric] ** 2 + widened.get((self.measurements[row].identity, f.metric), 0.0) for row, f in figures]
        )

    def predict(self, stacks: Sequence[Stack], scale: Scale, sizes: Column, version: str | None) -> Column:
        """Means of both effects and remaining shares of both deviations (first axis) of stacks (second) at numbers of
        accelerators (third); see `Posterior.predict`.
        """
        posterior, of_scale = self._posterior, self._rows.scale_factors(scale)
        cells, smooth = self._stack_matrices(tuple(stacks), version)
        found = np.empty((4, len(stacks), len(sizes)))
        for i, size in enumerate(sizes.tolist()):
            near, same = (a * b for a, b in zip(of_scale, self._rows.device_factors(math.log(size)), strict=True))
            found[:, :, i] = posterior.predict(cells, smooth, near, same)
        return found

    def _stack_matrices(self, stacks: tuple[Stack, ...], version: str | None) -> tuple[Column, Column]:
        """Factors of stacks (rows) in their correlations with each measurement (columns); the last ones are kept."""
        key = stacks, version
        known = self._matrices.get(key)
        if known is None:
            pairs = [self._stack_factors(stack, version) for stack in stacks]
            cells, smooth = (np.array(each) for each in zip(*pairs, strict=True))
            if len(self._matrices) >= MAX_MATRICES_CACHED:
                self._matrices.clear()
            known = self._matrices[key] = cells, smooth
        return known

    def _stack_factors(self, stack: Stack, version: str | None) -> tuple[Column, Column]:
        return self._rows.stack_factors(stack, release_of(version) or self._newest.get(stack.engine))

    def find_neighbors(self, setting: Setting, version: str | None = None) -> list[tuple[OwnMeasurement, float]]:
        """Measurements that correlate strongly with a setting, nearest first, with their correlation."""
        scale = Scale(setting.params, setting.in_flight, setting.input_tokens, setting.output_tokens)
        parts = (
            self._stack_factors(stack_of(setting), version),
            self._rows.device_factors(math.log(setting.devices)),
            self._rows.scale_factors(scale),
        )
        cells, smooth = (np.asarray(math.prod(each)) for each in zip(*parts, strict=True))
        order = np.lexsort((np.arange(len(cells)), -smooth, -np.round(cells, 9)))
        return [(self.measurements[i], float(cells[i])) for i in order.tolist() if cells[i] >= SHOWN]


def newest_releases(measurements: Iterable[OwnMeasurement]) -> dict[str, Release | None]:
    """The newest version of each measured engine, known or measured."""
    newest: dict[str, Release | None] = {}
    for m in measurements:
        engine, release = m.setting.engine, release_of(m.engine_version)
        known = newest.setdefault(engine, newest_release(engine))
        newest[engine] = max((v for v in (known, release) if v is not None), default=None)
    return newest


class MeasuredStacks:
    """The live measurements of one tenant, by group.

    Parameters:
        step_time: factor on all times in addition to the measured effect, to see how predictions follow it.
        prefill_time: the same on the times of prompts.
    """

    def __init__(
        self, measurements: Iterable[OwnMeasurement], *, step_time: float = 1.0, prefill_time: float = 1.0
    ) -> None:
        self._factors = step_time, prefill_time
        self.measurements = tuple(sorted(measurements, key=lambda m: m.identity))
        members: dict[Group, list[OwnMeasurement]] = {}
        for m in self.measurements:
            members.setdefault(group_of(stack_of(m.setting)), []).append(m)
        self._groups = {group: MeasuredGroup(each) for group, each in members.items()}

    @cached_property
    def digest(self) -> str:
        """Digest of everything that predictions take from the measurements."""
        content = "\n".join((repr(self._factors), *(m.key for m in self.measurements)))
        return hashlib.sha256(content.encode()).hexdigest()[:28]

    @property
    def disagreements(self) -> tuple[Disagreement, ...]:
        """Pairs of measurements of one setting that differ by more than a quarter."""
        return tuple(d for group in self._groups.values() for d in group.disagreements)

    def limit_to(self, vendors: Container[str], *, trains: bool) -> MeasuredStacks | None:
        """The measurements of some groups, which move predictions as before; None if there are none.

        Parameters:
            vendors: vendors of accelerators, as families name them.
            trains: whether predictions are those of training runs, not of services.
        """
        kept = {g: each for g, each in self._groups.items() if g.vendor in vendors and g.trains == trains}
        if len(kept) == len(self._groups):
            return self
        limited = copy(self)
        limited.__dict__.pop("digest", None)
        limited._groups = kept
        limited.measurements = tuple(m for m in self.measurements if group_of(stack_of(m.setting)) in kept)
        return limited if kept else None

    def effect(
        self, stacks: Sequence[Stack], scale: Scale, which: Codes, devices: Column, version: str | None = None
    ) -> MeasuredEffect:
        """Effect on predictions of one workload.

        Parameters:
            stacks: distinct stacks.
            which: stack of each prediction, an index into `stacks`.
            devices: accelerators of a replica of each prediction; NaN: any number.
            version: engine version of the predictions; by default the newest one known of each engine.
        """
        step_time, prefill_time = self._factors
        if not len(which) or not self.measurements:
            return MeasuredEffect.constant(len(which), step_time=step_time, prefill_time=prefill_time)
        sizes, size_of = np.unique(devices, return_inverse=True)
        found = np.empty((4, len(stacks), len(sizes)))
        found[:2], found[2:] = 0.0, 1.0
        members: dict[Group, list[int]] = {}
        for i, stack in enumerate(stacks):
            members.setdefault(group_of(stack), []).append(i)
        for group, rows in members.items():
            if group in self._groups:
                found[:, rows] = self._groups[group].predict([stacks[i] for i in rows], scale, sizes, version)
        step, prefill, of_step, of_ttft = found[:, which, size_of]
        return MeasuredEffect(step_time * np.exp(step), prefill_time * np.exp(prefill), of_step, of_ttft)

    def find_neighbors(self, setting: Setting, version: str | None = None) -> list[tuple[OwnMeasurement, float]]:
        """Measurements that correlate strongly with a setting, nearest first, with their correlation."""
        group = self._groups.get(group_of(stack_of(setting)))
        return [] if group is None else group.find_neighbors(setting, version)


def remaining_share(prior: float, explained: Column, noise: float) -> Column:
    """Share of a standard deviation that remains after part of its variance is explained."""
    share: Column = np.sqrt((np.clip(prior - explained, 0.0, prior) + noise**2) / (prior + noise**2))
    return share


def has_same_load(first: Setting, second: Setting) -> bool:
    """Whether load and lengths of two runs of one stack are the same within a tenth."""
    pairs = (
        (first.in_flight, second.in_flight),
        (first.input_tokens, second.input_tokens),
        (first.output_tokens, second.output_tokens),
    )
    return all(abs(x - y) <= SAME_SETTING * max(x, y) for x, y in pairs)


def find_disagreements(measurements: Sequence[OwnMeasurement]) -> Iterator[Disagreement]:
    """Pairs of measurements of one setting and version that differ by more than a quarter in a quantity."""
    groups: dict[tuple[Setting, Release | None], list[OwnMeasurement]] = {}
    for m in measurements:
        cell = replace(m.setting, in_flight=0.0, input_tokens=0.0, output_tokens=0.0)
        groups.setdefault((cell, release_of(m.engine_version)), []).append(m)
    pairs = (pair for group in groups.values() for pair in combinations(group, 2))
    for first, second in pairs:
        if has_same_load(first.setting, second.setting):
            values = {f.metric: f.measured for f in first.figures}
            for f in second.figures:
                low, high = sorted((values.get(f.metric, f.measured), f.measured))
                if high / low > DISAGREEMENT:
                    yield Disagreement(first, second, f.metric, min(high / low, MOST_RATIO))


def as_neighbor(measurement: OwnMeasurement, correlation: float) -> Neighbor:
    """A measurement as answers list results near a prediction."""
    figure = measurement.figures[0]
    compared = Compared(
        measurement=measurement.identity,
        source="own",
        reference=f"own measurement {measurement.identity} of {measurement.day}",
        metric=figure.metric,
        measured=figure.measured,
        predicted=figure.predicted,
        held_out=figure.predicted,
        near=Familiarity.STACK,
        neighbor_sources=0.0,
        distance=0.0,
        low=figure.predicted,
        high=figure.predicted,
        promised=figure.predicted,
        excluded=False,
        model=measurement.model,
        setting=measurement.setting,
    )
    return Neighbor(compared, max(0.0, -CORRELATION_LENGTH * math.log(correlation)))
