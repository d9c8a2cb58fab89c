"""How sure an answer is: its interval, what it rests on, and which results are near."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from app.sizing.answer.certainty import RATES, Certainty, build_certainty, training_setting
from app.sizing.assumptions import Assumptions
from app.sizing.evidence import Familiarity, Setting
from app.sizing.snapshot import Catalog
from app.sizing.uncertainty import Spread
from tests.examples import PRETRAIN
from tests.sizing.published import result, setting
from tests.sizing.small import BIG, SMALL, snapshot

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
