"""How sure a run is, in an answer: intervals inside physics, the deadline in words, what more certainty takes. How
sure an answer is: its interval, what it rests on, and which results are near.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from app.sizing.answer.confidence import (
    RATES,
    Certainty,
    build_certainty,
    deadline_reason,
    describe_interruptions,
    duration_intervals,
    fits_reason,
    memory_interval,
    run_assurance,
    speed_interval,
    training_setting,
)
from app.sizing.assumptions import Assumptions
from app.sizing.evidence import Familiarity, Setting
from app.sizing.result import BillFactor, CertaintyFactor, Interval
from app.sizing.serving.bill import bill_sentence
from app.sizing.snapshot import Catalog
from app.sizing.uncertainty import UNKNOWN_SPREAD, Spread, evidence_pool
from tests.examples import PRETRAIN, col, row
from tests.sizing.published import result, setting
from tests.sizing.small import BIG, SMALL, snapshot

# Nothing was ever compared in the small catalogue: an 80 % interval is e^0.7 = 2.01 to either side.
SURE: Certainty = build_certainty(training_setting(PRETRAIN, BIG, "megatron", 8.0), SMALL, Assumptions(), training=True)
TWICE = math.exp(0.7)


def finalists(**columns: Any) -> Any:
    known: dict[str, Any] = {
        "outcome": row(units_per_s=col(1000.0), mfu=col(0.25), days=col(5.0), usd_total=col(100.0)),
        "run": row(
            interruptions=col(1.5),
            memory=row(
                total_bytes=col(40.0),
                capacity_bytes=col(100.0),
                weights_bytes=col(10.0),
                gradient_bytes=col(5.0),
                optimizer_bytes=col(10.0),
            ),
        ),
        "fits": np.array([True]),
        "plans": row(
            stack=row(margins=row(asked=0.8, memory=UNKNOWN_SPREAD, recipe_known=np.array([True]), widened=col(1.0)))
        ),
        "assurance": row(
            levels=(0.5, 0.8),
            meets_deadline=col(0.93),
            fits=col(0.85),
            wall_s=col(8 * 86400.0),
            accelerators=np.array([[8.0, np.nan]]),
            usd_total=np.array([[np.nan, np.nan]]),
            after=(0.9, 0.6),
            accelerators_after=np.array([[np.nan, 4.0]]),
            usd_total_after=np.array([[np.nan, 90.0]]),
            owned=np.array([np.inf]),
        ),
    }
    return row(**known | columns)


def test_a_speed_never_passes_the_peak() -> None:
    free = speed_interval(finalists(), 0, SURE, samples=False)
    assert free.quantity == "tokens_per_s"
    assert (free.low, free.high) == pytest.approx((1000 / TWICE, 1000 * TWICE))
    # 80 % of the peak is useful: a quarter more is all of it
    near = speed_interval(finalists(outcome=row(units_per_s=col(1000.0), mfu=col(0.8))), 0, SURE, samples=True)
    assert near.quantity == "samples_per_s"
    assert near.high == pytest.approx(1250.0)


def test_days_and_money_are_off_as_speed_is() -> None:
    days, usd = duration_intervals(finalists(), 0, Interval("tokens_per_s", 500.0, 1250.0))
    assert (days.quantity, days.low, days.high) == ("days", 4.0, 10.0)
    assert (usd.quantity, usd.low, usd.high) == ("usd_total", 80.0, 200.0)
    unpriced = finalists(outcome=row(units_per_s=col(1000.0), days=col(5.0), usd_total=col(np.nan)))
    assert len(list(duration_intervals(unpriced, 0, Interval("tokens_per_s", 500.0, 1250.0)))) == 1


def test_memory_holds_at_least_its_states_and_at_most_the_device() -> None:
    found = memory_interval(finalists(), 0)
    assert (found.low, found.high) == pytest.approx((25.0, 40 * TWICE))
    full = finalists().run.memory
    full.total_bytes = col(60.0)
    assert memory_interval(finalists(run=row(memory=full)), 0).high == 100.0
    assert memory_interval(finalists(run=row(memory=full), fits=np.array([False])), 0).high > 100.0


def test_an_uncertain_memory_fit_states_its_probability() -> None:
    (said,) = fits_reason(0.55)
    assert said.text.startswith("The run is 55 % likely to fit in memory.")
    assert (said.quantity, said.value) == ("fits", 0.55)
    assert [*fits_reason(0.8), *fits_reason(0.97), *fits_reason(0.1)] == []


def test_levels_without_a_size_or_a_price_have_none() -> None:
    found = run_assurance(finalists(), 0)
    assert (found.asked, found.meets_deadline, found.fits, found.meets_slo) == (0.8, 0.93, 0.85, None)
    assert [(level.confidence, level.total_accelerators, level.usd_total) for level in found.by_level] == [
        (0.5, 8, None),
        (0.8, None, None),
    ]
    assert [(level.total_accelerators, level.usd_total) for level in found.after] == [(None, None), (4, 90.0)]


def test_a_deadline_shows_expected_and_confident_durations_in_days_or_hours() -> None:
    text = deadline_reason(PRETRAIN, finalists(), 0).text
    assert text == (
        "The run is expected to take 5 of the 14 days allowed (8 days at 80 % confidence). This includes 1.5 expected "
        "interruptions."
    )
    short = deadline_reason(replace(PRETRAIN, deadline_s=36 * 3600.0), finalists(), 0).text
    assert short.startswith("The run is expected to take 120 of the 36 hours allowed (192 hours at 80 % confidence)")
    brief = finalists(outcome=row(days=col(0.01)), assurance=row(wall_s=col(0.07 * 86400)))
    text = deadline_reason(PRETRAIN, brief, 0).text
    assert text.startswith("The run is expected to take 14.4 minutes of the 14 days allowed (1.68 hours at 80 %")


def test_times_in_two_units_each_show_their_unit() -> None:
    found = finalists(outcome=row(days=col(0.9)), assurance=row(wall_s=col(1.2 * 86400)))
    text = deadline_reason(PRETRAIN, found, 0).text
    assert text.startswith("The run is expected to take 21.6 hours of the 14 days allowed (28.8 hours at 80 %")


RUN = training_setting(PRETRAIN, BIG, "megatron", 64.0)
MEASURED = setting()
FAR = setting(engine="llama.cpp", family="apple", format_class="weight_only", accelerator="bolt-desk", load="open")
# Nine results in ten are at most 0.8 worse and 0.4 better, next to many sources.
WORSE = (-0.6, -0.4, -0.2, 0.0, 0.3, 0.8, 1.2)
KNOWN = snapshot(
    spreads=[Spread("throughput", 3.0, 0.5, 2.0, WORSE, 60, 3), Spread("tpot", 3.0, 0.5, 2.0, WORSE, 60, 3)],
    published=[
        result("m0"),
        result("m1", source="b", params=60e9),
        result("m2", source="c", in_flight=32.0),
        result("m3", source="c", family="nvidia_ada", engine="sglang", params=8e9),
    ],
)


def sure(setting: Setting, known: Catalog = KNOWN) -> Certainty:
    return build_certainty(setting, known, Assumptions())


def test_a_setting_says_what_a_run_is_compared_by() -> None:
    assert (RUN.engine, RUN.family, RUN.format_class, RUN.accelerator) == (
        "megatron",
        "nvidia_hopper",
        "16bit",
        "acme-big",
    )
    # 64 accelerators, 512 sequences of 4096 tokens a step, trained whole
    assert (RUN.devices, RUN.in_flight, RUN.input_tokens, RUN.load) == (64.0, 512.0, 4096.0, "full")
    assert RUN.params == pytest.approx(8.03e9, rel=1e-3)


def test_a_result_of_the_same_setting_makes_an_answer_measured() -> None:
    found = sure(MEASURED)
    assert (found.evidence_basis, found.near) == ("measured", Familiarity.STACK)
    assert found.neighbours[0].distance == 0
    assert len({n.compared.measurement for n in found.neighbours}) == 3


def test_parts_that_were_seen_make_it_calibrated_and_nothing_seen_a_roofline() -> None:
    larger = replace(MEASURED, params=400e9, devices=8.0, in_flight=1.0, input_tokens=8.0, output_tokens=2048.0)
    assert sure(larger).evidence_basis == "calibrated"
    assert sure(FAR).evidence_basis == "roofline"
    assert sure(MEASURED, SMALL).evidence_basis == "roofline"
    assert sure(MEASURED, SMALL).neighbours == ()


def test_sources_of_a_runtime_count_only_for_engines_that_were_measured_on_the_family() -> None:
    other = sure(replace(MEASURED, engine="sglang"))
    pool = evidence_pool("throughput")
    assert other.neighbourhood[pool].sources == sure(MEASURED).neighbourhood[pool].sources > 1
    assert other.near is Familiarity.ENGINE_AND_FAMILY
    assert other.source_count == 0 < sure(MEASURED).source_count


def test_an_interval_of_a_time_reads_the_quantiles_and_that_of_a_rate_is_their_inverse() -> None:
    # three sources of the runtime on the family, at distance 0: 1 + 3 / (1 + 3)
    scale = math.sqrt(1.75)
    low, high = math.exp(-0.4 * scale), math.exp(0.8 * scale)
    time = sure(MEASURED).predict_interval("tpot_s", 0.02, "tpot", "p50")
    assert (time.quantity, time.statistic) == ("tpot_s", "p50")
    assert (time.low, time.high) == pytest.approx((0.02 * low, 0.02 * high))
    rate = sure(MEASURED).predict_interval("output_tokens_per_s", 200.0, "throughput")
    assert (rate.low, rate.high) == pytest.approx((200 / high, 200 / low))
    assert rate.statistic == "mean"


def test_an_interval_holds_the_value_and_widens_with_the_distance_from_data() -> None:
    near, far = (sure(s).predict_interval("output_tokens_per_s", 200.0, "throughput") for s in (MEASURED, FAR))
    assert near.quantity == "output_tokens_per_s"
    assert far.low < near.low < 200.0 < near.high < far.high


def test_an_interval_grows_with_its_value_and_a_quantity_never_compared_is_off_by_two() -> None:
    known = sure(MEASURED)
    once, twice = (known.predict_interval("output_tokens_per_s", v, "throughput") for v in (1.0, 2.0))
    assert (twice.low, twice.high) == pytest.approx((2 * once.low, 2 * once.high))
    other = known.predict_interval("ttft_s", 1.0, "ttft")
    assert (other.low, other.high) == pytest.approx((math.exp(-0.7), math.exp(0.7)))


def test_training_certainty_uses_training_evidence_and_every_rate_kind_is_known(catalog: Catalog) -> None:
    assert build_certainty(RUN, KNOWN, Assumptions(), training=True).near is Familiarity.FAR
    rates = {r.kind for r in catalog.evidence.rows if r.metric.endswith("per_s")}
    assert rates | {"samples"} == RATES


def test_settings_name_the_accelerator_and_its_family_as_results_do() -> None:
    found = training_setting(PRETRAIN, BIG, "megatron", 8.0)
    assert (found.accelerator, found.family, found.devices) == (BIG.slug, BIG.family, 8.0)
    assert found.accelerator != BIG.name
    assert (found.in_flight, found.input_tokens) == (PRETRAIN.global_batch, PRETRAIN.units_per_sequence)


@pytest.mark.parametrize(
    ("expected", "text"),
    [
        (0.0124, "interruptions (1 % likely)"),
        (0.6931, "interruptions (50 % likely)"),
        (12.0, "12 expected interruptions"),
    ],
)
def test_less_than_one_interruption_is_a_probability(expected: float, text: str) -> None:
    assert describe_interruptions(expected) == text


@pytest.mark.parametrize(
    ("whole", "machines", "near"),
    [
        (1.04, 2, " From 4 % more load on, another machine is needed."),
        (1.0, 1, " With any more load, another machine is needed."),
        (1.04, 4, ""),  # one more of five costs a quarter
        (1.5, 1, ""),
    ],
)
def test_a_bill_says_how_near_the_next_machine_is(whole: float, machines: int, near: str) -> None:
    lines = [(BillFactor.PREDICTED, 1.0, 4 / whole), (BillFactor.WHOLE_MACHINES, whole, 4.0)]
    bill = [CertaintyFactor(factor, times, total, None, "") for factor, times, total in lines if total < 4 or times > 1]
    text = bill_sentence(bill or [CertaintyFactor(BillFactor.PREDICTED, 1.0, 4.0, None, "")], machines)
    factor = f" × {whole:.2f} (whole machines)" if whole > 1 else ""
    predicted = f"{4 / whole:.3g} predicted at full load"
    assert text == f"Accelerators for the peak: {predicted}{factor}, 4 in all.{near}"
