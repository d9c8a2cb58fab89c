"""The benchmark of two pools."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from typing import Any

import pytest

from app.sizing.answer.pools_trial import plan_pools_benchmark, pool_pair_share
from app.sizing.question import DraftMethod, Question, Speculative
from app.sizing.result import Estimate
from app.sizing.workload import Load
from tests.sizing.pools.given import ONE, parts, pools_of, speed, split
from tests.sizing.serving.given import STEADY

TWO_AND_THREE = pools_of({**ONE, "replicas": 2}, {**ONE, "tensor_parallel": 2, "replicas": 3})


def pooled(engine: str = "vllm", **said: Any) -> Estimate:
    return split(TWO_AND_THREE, engine=engine, **said)


@pytest.mark.parametrize(
    ("engine", "flags"),
    [
        ("vllm", ("NixlConnector", "vllm-router --policy round_robin --vllm-pd-disaggregation")),
        ("sglang", ("--disaggregation-mode prefill", "--disaggregation-mode decode", "--pd-disaggregation")),
        ("tensorrt-llm", ("cache_transceiver_config", "trtllm-serve disaggregated -c router.yaml", "--config config")),
    ],
)
def test_one_line_starts_a_server_of_each_pool_a_router_and_the_load(engine: str, flags: tuple[str, ...]) -> None:
    trial = plan_pools_benchmark(Question(STEADY), pooled(engine))
    assert trial is not None
    assert all(flag in trial.command for flag in flags), trial.command
    assert trial.command.startswith("case $ROLE in prefill) ") and trial.command.count(" ;;") == 3
    assert subprocess.run(["bash", "-n", "-c", trial.command], check=False).returncode == 0
    assert trial.accelerators == 1 + 2


def test_a_pair_is_asked_for_what_its_slower_pool_carries() -> None:
    found = pooled()
    pools = parts(found)
    each = (pools.prefill.requests_per_s_capacity / 2, pools.decode.requests_per_s_capacity / 3)
    whole = speed(found).requests_per_s_capacity or 0.0
    assert pool_pair_share(found) == pytest.approx(min(each) / whole)
    trial = plan_pools_benchmark(Question(STEADY), found)
    assert trial is not None and f"--request-rate {min(each):.3g} " in trial.command


def test_of_so_many_in_flight_a_pair_holds_its_share() -> None:
    some = replace(STEADY, load=Load.CLOSED, in_flight=60.0)
    trial = plan_pools_benchmark(Question(some), split(TWO_AND_THREE, workload=some, engine="vllm"))
    assert trial is not None and "--request-rate" not in trial.command
    held = int(trial.command.split("--max-concurrency ")[1].split()[0])
    assert 20 <= held <= 31  # of the 60 that two and three replicas hold


def test_what_no_flags_say_has_no_benchmark() -> None:
    assert plan_pools_benchmark(Question(STEADY), pooled(speculative=Speculative(DraftMethod.EAGLE, 3, 0.7))) is None
    assert plan_pools_benchmark(Question(STEADY), replace(pooled(), fits=False)) is None
