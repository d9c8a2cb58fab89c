"""A measurement moves its own prediction, its neighbors by distance and nothing else; its effect ends with it."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace

import numpy as np
import pytest

from app.sizing.evidence import Compared, Setting, lower_is_better
from app.sizing.measured import (
    MAX_DEVIATIONS,
    MeasuredEffect,
    MeasuredFigure,
    MeasuredStacks,
    OwnMeasurement,
    Scale,
    stack_of,
)
from app.sizing.snapshot import Catalog

HERE = Setting(
    engine="vllm",
    family="nvidia_hopper",
    format_class="fp8",
    accelerator="nvidia-h100-sxm5-80gb",
    load="closed",
    params=70e9,
    devices=4.0,
    in_flight=32.0,
    input_tokens=1024.0,
    output_tokens=256.0,
)
METRICS = (("output_tokens_per_s", 2000.0, 0.2), ("tpot_s", 0.015, 0.2), ("ttft_s", 0.4, 0.75))


def measured(
    slower: float = 1.3, setting: Setting = HERE, *, name: str = "a", version: str = "0.30.0", metrics: str = ""
) -> OwnMeasurement:
    """A run whose times are `slower` times the predicted ones."""
    figures = tuple(
        MeasuredFigure(m, v * slower if lower_is_better(m) else v / slower, v, 1.0, prefill)
        for m, v, prefill in METRICS
        if m.startswith(metrics)
    )
    return OwnMeasurement(f"meas_{name}", "2026-11-20", "m", setting, version, figures)


def effect_at(stacks: MeasuredStacks, setting: Setting, version: str | None = None) -> MeasuredEffect:
    scale = Scale(setting.params, setting.in_flight, setting.input_tokens, setting.output_tokens)
    return stacks.effect([stack_of(setting)], scale, np.array([0]), np.array([setting.devices]), version)


def step_time(measurements: Iterable[OwnMeasurement], setting: Setting = HERE, version: str | None = None) -> float:
    """Factor on all times of a prediction."""
    return float(effect_at(MeasuredStacks(measurements), setting, version).step_time[0])


@pytest.mark.parametrize("slower", [1 / 0.7, 1.3, 1 / 1.3, 0.7])
@pytest.mark.parametrize("metrics", ["", "output", "tpot"])
def test_a_measurement_30_percent_off_moves_its_own_prediction_to_within_5_percent(slower: float, metrics: str) -> None:
    found = effect_at(MeasuredStacks([measured(slower, metrics=metrics)]), HERE)
    for metric, _, prefill in METRICS:
        if metric.startswith(metrics):
            times = float(found.step_time[0] * found.prefill_time[0] ** prefill)
            assert times == pytest.approx(slower, rel=0.05)


NEIGHBORS = (
    HERE,
    replace(HERE, in_flight=64.0),
    replace(HERE, accelerator="nvidia-h200-sxm-141gb"),
    replace(HERE, engine="sglang"),
    replace(HERE, engine="sglang", format_class="16bit"),
    replace(HERE, engine="sglang", format_class="16bit", family="nvidia_ampere"),
    replace(HERE, engine="sglang", format_class="16bit", family="nvidia_ampere", params=7e9),
)


def test_neighbors_move_less_with_distance() -> None:
    times = [step_time([measured()], setting) for setting in NEIGHBORS]
    assert times == sorted(times, reverse=True)
    assert times[0] > 1.28
    assert 1 < times[-1] < 1.02


UNRELATED = (
    replace(HERE, family="amd_cdna3", accelerator="amd-mi300x"),
    replace(HERE, family="nvidia_ada", accelerator="nvidia-rtx-4090", engine="llama.cpp", params=7e9),
    replace(HERE, engine="fsdp", load="full", family="nvidia_ampere", accelerator="nvidia-a100-sxm4-80gb", params=7e9),
)


@pytest.mark.parametrize("setting", UNRELATED)
def test_unrelated_stacks_move_by_less_than_1_percent(setting: Setting) -> None:
    assert step_time([measured()], setting) == pytest.approx(1.0, abs=0.01)


def test_the_order_does_not_matter_and_a_removed_measurement_leaves_nothing() -> None:
    several = [measured(slower, HERE, name=name) for slower, name in ((1.1, "a"), (1.25, "b"), (0.9, "c"))]
    forward, backward = MeasuredStacks(several), MeasuredStacks(reversed(several))
    assert forward.digest == backward.digest
    assert effect_at(forward, HERE).step_time == effect_at(backward, HERE).step_time
    without = MeasuredStacks(several[:2])
    assert without.digest != forward.digest
    assert without.digest == MeasuredStacks([several[1], several[0]]).digest
    assert step_time([]) == 1.0


def test_more_runs_of_a_cell_narrow_the_spread_further() -> None:
    runs = [measured(1.2, replace(HERE, in_flight=n), name=str(n)) for n in (8.0, 32.0, 128.0)]
    at = replace(HERE, in_flight=20.0)
    narrowed = [float(effect_at(MeasuredStacks(runs[:n]), at).step_narrowing[0]) for n in range(4)]
    assert narrowed[0] == 1.0
    assert narrowed == sorted(narrowed, reverse=True)
    assert 0.2 < narrowed[3] < narrowed[1] < 0.6


def test_an_older_engine_version_weighs_less() -> None:
    old, new = measured(version="0.11.0"), measured(version="0.30.0")
    assert 1 < step_time([old]) < step_time([new])
    assert math.log(step_time([old])) == pytest.approx(0.7 * math.log(step_time([new])), rel=0.01)
    assert step_time([old], version="0.11.2") == pytest.approx(step_time([new]))  # asked for that version


def test_two_that_disagree_by_a_quarter_are_both_reported_and_count_less() -> None:
    agreeing = [measured(1.3, name="a"), measured(1.25, name="b")]
    apart = [measured(1.3, name="a"), measured(0.95, name="b")]
    assert MeasuredStacks(agreeing).disagreements == ()
    found = MeasuredStacks(apart).disagreements
    assert {d.metric for d in found} == {metric for metric, _, _ in METRICS}
    assert {(d.first.identity, d.second.identity) for d in found} == {("meas_a", "meas_b")}
    assert found[0].ratio == pytest.approx(1.3 / 0.95)
    assert MeasuredStacks([agreeing[0], measured(1e-320, name="b")]).disagreements[0].ratio == 1e6
    assert 0.95 < step_time(apart) < 1.3
    wide, narrow = (effect_at(MeasuredStacks(runs), HERE).step_narrowing for runs in (apart, agreeing))
    assert wide > narrow


def test_a_residual_counts_up_to_four_standard_deviations() -> None:
    figure = MeasuredFigure("tpot_s", 1.0, 0.01)
    assert figure.is_cut
    assert figure.accepted_residual == pytest.approx(MAX_DEVIATIONS * figure.deviation)
    assert not MeasuredFigure("tpot_s", 0.013, 0.01).is_cut
    assert MeasuredFigure("output_tokens_per_s", 10.0, 13.0).residual == pytest.approx(math.log(1.3))


# Metric, share of the prompt in its time, and most of the median error that may be left. TPOT is mostly that of 21
# series of one source; its errors differ inside a series nearly as much as between series.
KINDS = {
    "throughput": ("output_tokens_per_s", 0.2, 0.7),
    "tpot": ("tpot_s", 0.2, 0.8),
    "ttft": ("ttft_s", 0.75, 0.7),
    "single_stream": ("output_tokens_per_s", 0.05, 0.65),
    "training": ("tokens_per_s", 0.0, 0.6),
    "training_samples": ("samples_per_s", 0.0, 0.5),
}


def published_cells(catalog: Catalog, kind: str) -> list[list[Compared]]:
    """Published results by source, model, stack and load, at least four each, in the order of their load."""
    cells = defaultdict(list)
    for r in catalog.evidence.rows:
        s = r.setting
        if r.kind == kind and not r.excluded:
            cells[r.source, r.model, s.engine, s.accelerator, s.format_class, s.load].append(r)
    return [sorted(c, key=lambda r: (r.setting.in_flight, r.measurement)) for c in cells.values() if len(c) >= 4]


@pytest.mark.parametrize("kind", KINDS)
def test_one_run_of_a_published_cell_cuts_the_error_of_the_others_and_intervals_still_hold(
    catalog: Catalog, kind: str
) -> None:
    """Back-test on published results, predicted by fits without their source: the middle run of each cell is shown."""
    metric, prefill, left = KINDS[kind]
    before, after, inside = [], [], []
    for cell in published_cells(catalog, kind):
        shown = cell[len(cell) // 2]
        figure = MeasuredFigure(metric, shown.measured, shown.held_out, 1.0, prefill)
        stacks = MeasuredStacks([OwnMeasurement("meas_a", "", "", shown.setting, "", (figure,))])
        for r in cell:
            if r is shown:
                continue
            found = effect_at(stacks, r.setting)
            times = float(found.step_time[0] * found.prefill_time[0] ** prefill)
            predicted = r.held_out * times if lower_is_better(r.metric) else r.held_out / times
            share = float(found.narrowing(kind)[0])
            low, high = (predicted * (end / r.held_out) ** share for end in (r.low, r.high))
            before.append(abs(math.log(r.measured / r.held_out)))
            after.append(abs(math.log(r.measured / predicted)))
            inside.append(low <= r.measured <= high)
    assert len(before) > 400
    assert np.median(after) < left * np.median(before)
    assert 0.75 <= np.mean(inside) <= 0.9
