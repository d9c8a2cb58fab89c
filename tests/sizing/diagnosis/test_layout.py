"""Settings that cost speed by themselves, judged by the core without them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from app.sizing.diagnosis.diagnose import diagnose
from app.sizing.diagnosis.layout import describe_settings
from app.sizing.diagnosis.observed import Observations, TrainingObservation
from app.sizing.estimate import estimate_deployment
from app.sizing.question import Deployment, Question
from app.sizing.snapshot import Catalog
from tests.examples import PRETRAIN, registered
from tests.sizing.comparing.given import HEAVY
from tests.sizing.diagnosis.given import RUNS, SERVES, codes, expected, first, training
from tests.sizing.diagnosis.given import serving as served
from tests.sizing.small import SMALL

SLOW = {"step_time_s": None, "compute_s": None, "communication_s": None, "tokens_per_s": 1000.0, "input_s": None}
LATE = {"ttft_p50_s": None, "tpot_p50_s": None, "queue_p50_s": None}


def test_the_layout_that_the_core_chose_is_no_finding() -> None:
    complete = expected(False).deployment
    assert codes(training(asked=complete)) == []
    assert codes(served(expected(True).deployment)) == []


def test_recomputation_that_memory_does_not_need_is_found_with_its_gain() -> None:
    asked = replace(RUNS, activation_checkpointing="full")
    found = next(f for f in training(asked=asked, **SLOW).findings if f.code == "needless_recomputation")
    now = estimate_deployment(Question(PRETRAIN), asked, SMALL)
    then = estimate_deployment(Question(PRETRAIN), replace(now.deployment, **found.settings), SMALL)
    assert now.performance is not None and then.performance is not None
    assert now.performance.tokens_per_s and then.performance.tokens_per_s
    assert found.gain == pytest.approx(1 - now.performance.tokens_per_s / then.performance.tokens_per_s)


def test_recomputation_stays_where_the_memory_seen_leaves_no_room() -> None:
    asked = replace(RUNS, activation_checkpointing="full")
    full = training(asked=asked, **SLOW, memory_peak_bytes=80 * 2**30)
    assert "needless_recomputation" not in codes(full)


def test_an_optimizer_in_the_hosts_memory_is_brought_back() -> None:
    assert "needless_offload" in codes(training(asked=replace(RUNS, optimizer_offload=True), **SLOW))


def test_degrees_that_do_not_suit_are_found() -> None:
    asked = replace(RUNS, tensor_parallel=8, pipeline_parallel=4)
    found = next(f for f in training(asked=asked, **SLOW).findings if f.code == "wrong_layout")
    assert found.gain is not None and found.gain > 0.2 and "tensor_parallel" in found.settings
    cards = replace(SERVES, total_accelerators=4, tensor_parallel=4)
    light = replace(HEAVY, peak_per_s=10.0, average_per_s=5.0)
    assert "wrong_layout" in codes(served(cards, light, requests_per_s=10.0, **LATE))


SPEED = Observations(training=TrainingObservation(tokens_per_s=1000.0))


def test_micro_batches_that_are_too_small_are_found(catalog: Catalog) -> None:
    tiny = replace(PRETRAIN, model=registered("HuggingFaceTB/SmolLM2-135M-Instruct"))
    asked = Deployment("nvidia-a100-sxm4-80gb", total_accelerators=8, micro_batch_sequences=1)
    found = diagnose(Question(tiny), asked, catalog, SPEED).findings
    assert next(f for f in found if f.code == "micro_batch").settings["micro_batch_sequences"] > 1


def test_recomputation_that_would_make_room_is_found(catalog: Catalog) -> None:
    large = replace(PRETRAIN, model=registered("meta-llama/Llama-3.1-70B-Instruct"))
    asked = Deployment(
        "nvidia-h200-sxm-141gb", total_accelerators=128, activation_checkpointing="none", framework="fsdp"
    )
    found = diagnose(Question(large), asked, catalog, SPEED).findings
    missing = next(f for f in found if f.code == "missing_recomputation")
    assert missing.settings["activation_checkpointing"] in ("selective", "full") and missing.known_cost_share > 0.3


def test_settings_are_said_in_words() -> None:
    assert describe_settings({"tensor_parallel": 2, "zero_stage": 1}) == "tensor parallelism to 2 and ZeRO stage to 1"


def test_without_a_reported_speed_settings_are_not_judged() -> None:
    nothing = dict.fromkeys(("step_time_s", "compute_s", "communication_s", "input_s"))
    assert codes(training(asked=replace(RUNS, activation_checkpointing="full"), **nothing)) == []
    assert first(training(asked=replace(RUNS, activation_checkpointing="full"), **SLOW)).share is not None
