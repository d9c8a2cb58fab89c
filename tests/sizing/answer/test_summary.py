"""The sentences a buyer reads first."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from app.sizing.answer.summary import (
    describe_hardware,
    describe_load,
    describe_question,
    impossible_estimate,
    write_summary,
)
from app.sizing.hardware.parts import PricingModel
from app.sizing.question import Deployment, Objective, Question
from app.sizing.result import Rejection
from app.sizing.workload import Load, Method, Trace
from tests.examples import CHAT, LLAMA_8B, PRETRAIN
from tests.sizing.answer.given import COST, RUN, ranked
from tests.sizing.small import BIG, CARD

TRACE = Trace(np.arange(2.0), np.full(2, 900), np.full(2, 90), np.zeros(2, np.int64))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, "at up to 5 requests/s"),
        ({"load": Load.OFFLINE}, "offline without latency limits"),
        ({"load": Load.CLOSED, "in_flight": 1.0}, "to one user at a time"),
        ({"load": Load.CLOSED, "in_flight": 12.0}, "with 12 requests in flight"),
        ({"load": Load.CLOSED, "in_flight": 64.0, "requests": 640.0}, "for a run of 640 requests with 64 in flight"),
        ({"trace": TRACE}, "at up to 5 requests/s (recorded traffic)"),
        ({"load": Load.BATCH, "in_flight": 32.0}, "in static batches of 32 requests"),
    ],
)
def test_a_load_in_words(changes: dict[str, Any], words: str) -> None:
    assert describe_load(replace(CHAT, **changes)) == words


@pytest.mark.parametrize(
    ("question", "words"),
    [
        (
            Question(CHAT),
            "Serving Llama-3.1-8B at up to 5 requests/s, cheapest option first",
        ),
        (
            Question(PRETRAIN, objective=Objective.LATENCY),
            "Training Llama-3.1-8B on 100 billion tokens within 14 days, lowest latency first",
        ),
        (
            Question(replace(PRETRAIN, phase="fine_tuning", method=Method.LORA, units=2e6, deadline_s=36 * 3600.0)),
            "LoRA fine-tuning of Llama-3.1-8B on 2 million tokens within 36 hours, cheapest option first",
        ),
    ],
)
def test_the_three_questions_before_buying(question: Question, words: str) -> None:
    assert describe_question(question) == words


def test_hardware_is_named_with_its_number_and_its_seller() -> None:
    assert describe_hardware(ranked()) == "8 × Acme Big from sky (us-1, on demand)"
    assert (
        describe_hardware(ranked(region="unspecified", total_accelerators=1024))
        == "1,024 × Acme Big from sky (on demand)"
    )
    assert describe_hardware(ranked(pricing_model=PricingModel.OWNED)) == "8 × Acme Big (purchase, system big-8)"
    listed = replace(ranked(pricing_model=PricingModel.OWNED), names={"big-8": "Acme Server 8x Big"})
    assert describe_hardware(listed) == "8 × Acme Big (purchase, Acme Server 8x Big)"
    unlisted = ranked(provider=None, region=None, pricing_model=None)
    assert describe_hardware(unlisted) == "8 × Acme Big (no listed price)"


def test_a_summary_of_serving_names_hardware_replicas_format_and_price() -> None:
    second = ranked(2, CARD, cost=replace(COST, usd_per_hour=50.0), total_accelerators=24)
    text = write_summary(Question(CHAT), (ranked(), second), ())
    assert text == (
        f"{describe_question(Question(CHAT))}. "
        "Recommended: 8 × Acme Big from sky (us-1, on demand): 3 replicas and 1 spare, 2 GPUs each, BF16, vLLM. "
        "Cost: 40.00 USD/h, 0.25 USD per million tokens. At least 80 % likely to meet every limit. "
        "Next best: 24 × Acme Card from sky (us-1, on demand), 50.00 USD/h, 0.25 USD per million tokens."
    )
    alone = write_summary(Question(CHAT), (ranked(replicas=1, spare_replicas=0),), ())
    assert ": 1 replica on 2 GPUs, BF16, vLLM." in alone
    assert "Next best" not in alone


@pytest.mark.parametrize(("days", "words"), [(5.0, "5 days"), (0.5, "12 hours")])
def test_a_summary_of_training_names_layout_duration_and_money(days: float, words: str) -> None:
    run = ranked(cost=replace(COST, usd_total=4800.0), performance=replace(RUN, days=days), framework="fsdp")
    text = write_summary(Question(PRETRAIN), (run,), ())
    assert text.endswith(
        f"Recommended: 8 × Acme Big from sky (us-1, on demand): FSDP on 2 GPUs. Duration: {words}. "
        "Cost: 4,800 USD for the run (40.00 USD/h). At least 80 % likely to meet every limit."
    )


def test_without_a_feasible_option_the_closest_one_is_named() -> None:
    miss = Rejection("acme-card", "Acme Card", "out_of_memory", "{name} needs {needed} of {available}.", 30.0, 24.0)
    assert write_summary(Question(CHAT), (), (miss,)).endswith("Closest option: Acme Card needs 30 of 24.")
    assert write_summary(Question(CHAT), (), ()).endswith("Closest option: The catalog is empty.")


@pytest.mark.parametrize(
    ("known", "code", "words"),
    [
        (None, "no_layout", "tensor_parallel must divide 32 attention heads and 8 key/value heads"),
        (Rejection("acme-big", "Acme Big", "missing_data", "No bandwidth of {name}."), "missing_data", "of Acme Big."),
        (
            Rejection("acme-big", "Acme Big", "no_engine", "vllm does not run on {name}.", rule="It has no FP8."),
            "unsupported",
            "vllm does not run on Acme Big. It has no FP8.",
        ),
    ],
)
def test_what_cannot_run_together_says_why(known: Rejection | None, code: str, words: str) -> None:
    found = impossible_estimate(Deployment("acme-big", engine="vllm", weight_format="fp8"), LLAMA_8B, BIG, known)
    (reason,) = found.explanation
    assert (found.fits, reason.code) == (False, code)
    assert words in reason.text
