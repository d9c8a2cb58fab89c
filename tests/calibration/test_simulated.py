"""Published runs, simulated as they were taken."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from app.sizing.hardware.achieved import Achieved
from app.sizing.snapshot import Catalog
from calibration.fit import Fit
from calibration.serving.cases import ServingCase, ServingCases
from calibration.serving.formulas import closed_form_metrics, predict_metrics, table_of
from calibration.serving.problem import SERVING
from calibration.serving.runs import Start, Statistic
from calibration.serving.simulated import add_run_ratios, requests_overlap, sent_to, simulate_case
from tests.calibration.conftest import ROWS

SWEEP = "inferencex-aiconfigurator-0855"  # a burst through a server


@pytest.fixture(scope="module")
def burst(builder: ServingCases) -> ServingCase:
    return builder.build_case(ROWS[SWEEP])


def achieved(case: ServingCase, catalog: Catalog) -> Achieved:
    fit = Fit(SERVING, [case], catalog.coefficients)
    found: Achieved = fit.coefficients_at(fit.center)
    return found


def test_a_case_predicts_what_its_run_gives(burst: ServingCase, catalog: Catalog) -> None:
    at = achieved(burst, catalog)
    run = simulate_case(burst, at)
    found = predict_metrics(table_of(add_run_ratios([burst], at)), at)
    for metric in burst.measured:
        assert found[metric][0] == pytest.approx(run[metric])


def test_a_run_is_what_its_row_says(burst: ServingCase) -> None:
    sent = sent_to(burst)
    assert burst.run.start is Start.BURST
    assert (sent.warm, sent.wanted) == (0, burst.run.requests)
    assert sent.requests.in_flight == burst.wanted
    nominal = float(ROWS[SWEEP]["input_len"])
    assert int(0.8 * nominal) <= sent.requests.input_tokens.min()
    assert sent.requests.input_tokens.max() <= nominal


def test_a_burst_weighs_more_in_the_mean_and_in_a_short_run(burst: ServingCase, catalog: Catalog) -> None:
    at = achieved(burst, catalog)

    def first(statistic: Statistic, rounds: int) -> float:
        run = replace(burst.run, statistic=statistic, requests=rounds * int(burst.wanted))
        return simulate_case(replace(burst, run=run), at)["ttft_s"]

    assert first(Statistic.MEAN, 10) > first(Statistic.P50, 10)
    assert first(Statistic.MEAN, 2) > first(Statistic.MEAN, 20)


def test_a_run_of_one_request_at_a_time_is_left_to_the_formulas(burst: ServingCase, catalog: Catalog) -> None:
    alone = replace(burst, run=replace(burst.run, start=Start.SINGLE), wanted=1.0)
    assert not requests_overlap(alone)
    assert add_run_ratios([alone], achieved(alone, catalog)) == [alone]


def test_formulas_and_simulation_agree_where_nothing_meets(burst: ServingCase, catalog: Catalog) -> None:
    """Two requests in flight with prompts much shorter than the answers: the simulation adds little."""
    at = achieved(burst, catalog)
    calm = replace(burst, wanted=2.0, run=replace(burst.run, requests=400))
    formulas, run = closed_form_metrics(table_of([calm]), at), simulate_case(calm, at)
    assert run["tpot_s"] == pytest.approx(formulas["tpot_s"][0], rel=0.1)
    assert run["output_tokens_per_s"] == pytest.approx(formulas["output_tokens_per_s"][0], rel=0.1)


def test_a_rate_is_simulated_at_its_arrivals(builder: ServingCases, catalog: Catalog) -> None:
    case = builder.build_case(ROWS["mi100-vllm-bench-0002"])
    assert (case.run.start, case.rate_per_s) == (Start.POISSON, 0.5)
    arrivals = sent_to(case).requests.arrival_s
    assert np.diff(arrivals).mean() == pytest.approx(2.0, rel=0.1)
    found = simulate_case(case, achieved(case, catalog))
    assert found["ttft_p99_s"] > found["ttft_s"]
