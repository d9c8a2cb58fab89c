"""How sure an answer is: its interval, what it rests on, and which results are near."""

from __future__ import annotations

import numpy as np
import pytest

from app.sizing.answer.certainty import Certainty, certainty_of, training_setting
from app.sizing.assumptions import Assumptions
from app.sizing.evidence import Compared, Evidence, Near, Setting
from tests.examples import PRETRAIN
from tests.sizing.small import BIG

RUN = training_setting(PRETRAIN, BIG, "megatron", 64.0)
MEASURED = Setting("vllm", "nvidia_hopper", "16bit", "acme-big", "closed", 8e9, 1.0, 16.0, 1024.0, 256.0)


def published(near: Near, low: float, high: float, setting: Setting) -> list[Compared]:
    """Sixty results of one source whose ratio to the prediction runs from one number to another."""
    return [
        Compared(
            f"{near.name}{i}", "s", "r", "output_tokens_per_s", 100 * ratio, 100.0, 100.0, near, False, "m", setting
        )
        for i, ratio in enumerate(np.linspace(low, high, 60).tolist())
    ]


ELSEWHERE = Setting("sglang", "nvidia_ada", "fp8", "acme-card", "closed", 70e9, 8.0, 64.0, 4096.0, 64.0)
EVIDENCE = Evidence([*published(Near.STACK, 0.9, 1.1, MEASURED), *published(Near.FAR, 0.5, 2.0, ELSEWHERE)])


def sure(setting: Setting, evidence: Evidence = EVIDENCE) -> Certainty:
    return certainty_of(setting, evidence, Assumptions())


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
    assert (found.basis, found.near) == ("measured", Near.STACK)
    assert found.neighbours[0].distance == 0
    assert len({n.compared.measurement for n in found.neighbours}) == 3


def test_parts_that_were_seen_make_it_calibrated_and_nothing_seen_a_roofline() -> None:
    larger = Setting("vllm", "nvidia_hopper", "16bit", "acme-big", "closed", 400e9, 8.0, 1.0, 8.0, 2048.0)
    unseen = Setting("llama.cpp", "apple", "q4", "bolt-desk", "open", 8e9, 1.0, 1.0, 100.0, 100.0)
    assert sure(larger).basis == "calibrated"
    assert sure(unseen).basis == "roofline"
    assert sure(MEASURED, Evidence(())).basis == "roofline"
    assert sure(MEASURED, Evidence(())).neighbours == ()


def test_an_interval_holds_the_value_and_widens_with_the_distance_from_data() -> None:
    unseen = Setting("llama.cpp", "apple", "q4", "bolt-desk", "closed", 8e9, 1.0, 16.0, 100.0, 100.0)
    near, far = (sure(s).interval("output_tokens_per_s", 200.0) for s in (MEASURED, unseen))
    assert near.quantity == "output_tokens_per_s"
    assert far.low < near.low < 200.0 < near.high < far.high
    # ratios from 0.9 to 1.1, a tenth left out on either side, and nothing to widen it for
    assert (near.low, near.high) == pytest.approx((200 * 0.92, 200 * 1.08), rel=0.02)


def test_an_interval_grows_with_its_value_and_is_of_what_it_is_reported_as() -> None:
    known = sure(MEASURED)
    once, twice = known.interval("output_tokens_per_s", 1.0), known.interval("output_tokens_per_s", 2.0)
    assert (twice.low, twice.high) == pytest.approx((2 * once.low, 2 * once.high))
    # nobody published a latency here
    assumed = Assumptions()
    other = known.interval("output_tokens_per_s", 1.0, "ttft")
    assert other.low <= assumed.unmeasured_low * 1.0001 and other.high >= assumed.unmeasured_high * 0.9999
