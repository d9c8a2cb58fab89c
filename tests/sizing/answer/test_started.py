"""What starts an option: of replicas, of two pools, and of a run."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from app.sizing.answer.benchmark import plan_benchmark
from app.sizing.answer.started import launch_specs
from app.sizing.hardware import benchmarks
from app.sizing.question import Deployment, Pools, Question
from tests.examples import CHAT, PRETRAIN
from tests.sizing.answer.given import DEPLOYMENT, estimated
from tests.sizing.answer.test_benchmark import LAYOUT, SERVED, TRAINED


def test_replicas_are_started_as_the_benchmark_starts_them() -> None:
    question, estimate = Question(CHAT), estimated(performance=SERVED, tensor_parallel=2, max_batch=64)
    (start,) = launch_specs(question, estimate)
    trial = plan_benchmark(question, estimate)
    assert trial is not None
    assert start.benchmark.fill_places(start.places) == trial.command
    d = estimate.deployment
    assert (start.role, start.software) == ("serve", "vllm")
    assert start.replicas == (d.replicas or 0) + (d.spare_replicas or 0)


def test_pools_are_two_kinds_under_the_load_of_the_whole() -> None:
    shape: dict[str, Any] = {"accelerators_per_replica": 4, "total_accelerators": 16, "nodes": 2, "replicas": 4}
    pools = Pools(Deployment("a", tensor_parallel=4, **shape), Deployment("b", tensor_parallel=2, **shape))
    both = estimated(performance=SERVED)
    both = replace(both, deployment=Deployment("a", engine="sglang", engine_version="0.5.9", pools=pools))
    prefill, decode = launch_specs(Question(CHAT), both)
    assert (prefill.role, decode.role) == ("prefill", "decode")
    assert (prefill.places["tensor"], decode.places["tensor"]) == (4, 2)
    assert prefill.software == decode.software == "sglang"
    assert prefill.places["rate"] == decode.places["rate"] == pytest.approx(12.0)
    assert prefill.benchmark is benchmarks.SGLANG


def test_a_run_knows_all_its_steps() -> None:
    (start,) = launch_specs(Question(PRETRAIN), estimated(performance=TRAINED, **LAYOUT))
    tokens = PRETRAIN.global_batch * PRETRAIN.units_per_sequence
    assert start.benchmark is benchmarks.MEGATRON
    assert start.places["all_steps"] == pytest.approx(PRETRAIN.units / tokens, rel=1e-3)
    assert start.role == "train"


@pytest.mark.parametrize(("stage", "shards", "copies"), [(0, 1, 4), (1, 4, 1), (3, 4, 1)])
def test_copies_of_the_weights(stage: int, shards: int, copies: int) -> None:
    (start,) = launch_specs(Question(PRETRAIN), estimated(performance=TRAINED, **{**LAYOUT, "zero_stage": stage}))
    assert (start.places["shards"], start.places["copies"]) == (shards, copies)


def test_what_does_not_run_is_not_started() -> None:
    assert launch_specs(Question(CHAT), estimated(performance=None)) == ()
    assert DEPLOYMENT.pools is None
