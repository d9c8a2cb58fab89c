"""The fit recovers what made the data, the same way twice, and never beats physics."""

from __future__ import annotations

import csv
from dataclasses import replace

import numpy as np

from app.catalog.files import read_data_file
from app.sizing.hardware.achieved import ideal_coefficients
from app.sizing.snapshot import Catalog
from calibration.fit import Fit, fit_parameters, points_of, predict_figures
from calibration.serving.cases import ServingCase
from calibration.serving.formulas import closed_form_metrics, table_of
from calibration.serving.problem import SERVING

FORMULAS = replace(SERVING, add_run_ratios=None)  # without the runs
FACTORS = list(csv.DictReader(read_data_file("factors.csv").splitlines()))


def test_predictions_never_beat_an_ideal_device(cases: list[ServingCase], catalog: Catalog) -> None:
    fit = Fit(SERVING, cases, catalog.coefficients)
    rng = np.random.default_rng(7)
    for x in (fit.center, rng.normal(0, 1, fit.size), rng.normal(0, 3, fit.size)):
        values = np.exp(fit.log_predicted(fit.coefficients_at(x)))
        for point, value in zip(fit.points, values.tolist(), strict=True):
            best = closed_form_metrics(table_of([cases[point.case]]), ideal_coefficients(1))[point.metric][0]
            assert value <= best * 1.0001 if point.metric.endswith("per_s") else value >= best * 0.9999


def test_the_fit_recovers_what_made_the_data(cases: list[ServingCase], catalog: Catalog) -> None:
    """Measurements made by the formulas with known factors are predicted by the fit to them."""
    fit = Fit(FORMULAS, cases, catalog.coefficients)
    truth = fit.center + np.random.default_rng(3).normal(0, 1, fit.size) * fit.spread
    made = np.exp(fit.log_predicted(fit.coefficients_at(truth)))
    synthetic = [dict(c.measured) for c in cases]
    for point, value in zip(fit.points, made.tolist(), strict=True):
        synthetic[point.case][point.metric] = value
    remade = [replace(c, measured=m) for c, m in zip(cases, synthetic, strict=True)]
    found = predict_figures(
        FORMULAS, remade, catalog.coefficients, fit_parameters(FORMULAS, remade, catalog.coefficients)
    )
    off = [abs(value / point.measured - 1) for point, value in found]
    assert np.median(off) < 0.03
    assert points_of(remade) == [point for point, _ in found]


def test_the_fit_is_deterministic_and_stays_at_its_solution(cases: list[ServingCase], catalog: Catalog) -> None:
    found = fit_parameters(FORMULAS, cases[:40], catalog.coefficients)
    assert found == fit_parameters(FORMULAS, cases[:40], catalog.coefficients)
    again = fit_parameters(FORMULAS, cases[:40], catalog.coefficients, start=found)
    assert max(abs(again[name] - value) for name, value in found.items()) < 0.05


def test_committed_factors_carry_their_provenance() -> None:
    assert len(FACTORS) > 200
    for row in FACTORS:
        assert 0.01 < float(row["value"]) < 100, row
        assert row["source"].startswith("fitted to ")
        assert int(row["rows"]) > 0
        assert row["as_of"] >= "2025"
