"""Pairs of requests that differ in one respect: a sample of the benchmark, and how its pairs are judged."""

from __future__ import annotations

import math
import random
from dataclasses import replace
from itertools import islice
from typing import Any

import pytest

from app.catalog.snapshot import CatalogStore
from app.sizing.question import Deployment
from app.sizing.recommend import recommend_hardware
from benchmarks.pairs import (
    SMALL_STEP,
    Body,
    Compared,
    Outcome,
    Pair,
    PairRunner,
    compare_pair,
    explain_cliff,
    is_near_tie,
    random_pairs,
    run_pairs,
    scaled,
)

TWO = Deployment("nvidia-l4", replicas=2, nodes=2, tensor_parallel=1, engine="vllm")
CHEAP = Outcome(2.0, TWO)
PAIR = Pair("more load", {}, {}, is_small=True)


def test_a_sample_of_pairs_keeps_every_relation(
    catalog_store: CatalogStore, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_pairs(PairRunner(catalog_store), count=10, seed=7) == 0
    assert "violations: none" in capsys.readouterr().out


def test_a_choice_of_hardware_counts_prices_of_one_age() -> None:
    """A maker whose only prices are old is answered with them; next to makers with new prices, it is not."""
    pairs = [p for p in islice(random_pairs(random.Random(3)), 800) if p.relation in ("more vendors", "more providers")]
    ages = [body["constraints"]["max_price_age_days"] for p in pairs for body in (p.less, p.more)]
    assert ages and len({*ages}) == 1


def test_a_violation_is_a_lower_cost_beyond_rounding() -> None:
    assert not Compared(PAIR, CHEAP, replace(CHEAP, usd=1.995)).is_violated
    assert Compared(PAIR, CHEAP, replace(CHEAP, usd=1.98)).is_violated
    assert Compared(PAIR, Outcome(math.inf), CHEAP).is_violated
    # Twice the load at most costs twice 2 USD, and one machine of 1 USD.
    twice = replace(PAIR, times=2.0, machines=1)
    assert not Compared(twice, Outcome(5.0, TWO), CHEAP).is_violated
    assert Compared(twice, Outcome(5.1, TWO), CHEAP).is_violated


def test_a_cliff_is_a_small_step_with_a_large_cost(catalog_store: CatalogStore) -> None:
    three = Outcome(3.0, replace(TWO, replicas=3, nodes=3))
    cliff = Compared(PAIR, CHEAP, three)
    assert cliff.is_cliff
    assert explain_cliff(PairRunner(catalog_store), cliff) == ("one machine more", "")
    four = Outcome(4.0, replace(TWO, replicas=4, nodes=4))
    assert explain_cliff(PairRunner(catalog_store), replace(cliff, more=four)) == ("several machines more", "")
    assert not replace(cliff, pair=replace(PAIR, is_small=False)).is_cliff
    assert not replace(cliff, more=Outcome(2.6, TWO)).is_cliff
    assert not replace(cliff, more=Outcome(math.inf)).is_cliff


def service(model: str, slo: Body, limits: Body | None = None, **traffic: Any) -> Body:
    return {
        "workload": {"phase": "inference", "model": model, "traffic": traffic, "slo": slo},
        "constraints": limits or {},
    }


PRO = {"accelerators": ["nvidia-rtx-pro-6000-blackwell-ws"]}
TIED: Body = {"input_tokens": 9320, "peak_requests_per_s": 18.0, "burstiness": 0.5, "cached_prefix_fraction": 0.66}
TIED |= {"shared_prefix_fraction": 0.66, "turn_gap_s": 1.04}
CLOSED: Body = {"input_tokens": 3160, "output_tokens": {"mean": 68, "p95": 152}}
RENTED = {"accelerators": ["nvidia-b200-sxm-180gb", "nvidia-h100-sxm5-80gb"], "pricing_models": ["on_demand"]}
FAST = {"ttft_ms": 326.0, "tpot_ms": 23.6, "percentile": 99}
POOL: Body = {"input_tokens": 27_200, "peak_requests_per_s": 58.8}
EIGHT = {"accelerators": ["nvidia-b200-sxm-180gb"], "confidence": 0.8}
FIRST = {"ttft_ms": 1300.0, "percentile": 90}
VOLUME: Body = {
    "input_tokens": 223,
    "output_tokens": {"mean": 56, "p95": 86},
    "volume_requests": 1.74e6,
    "deadline_hours": 12.5,
}
AGENTS: Body = {"concurrent_requests": 187, "input_tokens": {"mean": 7900, "p95": 16889}}
AGENTS |= {"output_tokens": {"mean": 860, "p95": 2032}, "cached_prefix_fraction": 0.65, "turn_gap_s": 9.17}
EARLY = {"ttft_ms": 446.0, "tpot_ms": 73.7, "percentile": 90}
B200 = {"accelerators": ["nvidia-b200-sxm-180gb"], "pricing_models": ["on_demand"]}
H200 = {"accelerators": ["nvidia-h200-sxm-141gb"], "pricing_models": ["on_demand"]}
QUESTION: Body = {"peak_requests_per_s": 0.12, "input_tokens": {"mean": 3100, "p95": 4557}, "output_tokens": 31}
HALF = {"ttft_ms": 6470.0, "tpot_ms": 42.0}
CARDS = {"accelerators": ["amd-mi300x", "nvidia-a100-sxm4-40gb"], "confidence": 0.8}
LONG: Body = {"peak_requests_per_s": 0.5, "input_tokens": {"mean": 100_000, "p95": 128_000}}
LONG |= {"output_tokens": {"mean": 500, "p95": 1000}}
H100 = {"accelerators": ["nvidia-h100-sxm5-80gb"], "environments": ["cloud"]}
TURNS: Body = {"peak_requests_per_s": 9.11, "input_tokens": 15_100, "output_tokens": 562}
KEPT: Body = {"cached_prefix_fraction": 0.34, "turn_gap_s": 40.4}
SHORT: Body = {"peak_requests_per_s": 39.9, "input_tokens": {"mean": 440, "p95": 876}}
SHORT |= {"output_tokens": {"mean": 40, "p95": 95}}
TIES: Body = {"peak_requests_per_s": 38.8, "input_tokens": 1520, "output_tokens": {"mean": 481, "p95": 766}}
TIES |= {"cached_prefix_fraction": 0.86, "shared_prefix_fraction": 0.26, "turn_gap_s": 1.06}
WHOLE: Body = {"peak_requests_per_s": 52.4, "output_tokens": {"mean": 188, "p95": 606}, "cached_prefix_fraction": 0.43}
WHOLE |= {"turn_gap_s": 7.65}
BATCH = service("deepseek-ai/DeepSeek-V3", {}, offline=True, **VOLUME)
HELD: dict[str, tuple[Body, ...]] = {
    "a layout that ties by formulas": (
        service("openai/gpt-oss-20b", {"ttft_ms": 1020.0, "percentile": 90}, PRO, output_tokens=638, **TIED),
        service("openai/gpt-oss-20b", {"ttft_ms": 1020.0, "percentile": 90}, PRO, output_tokens=670, **TIED),
    ),
    "a layout that simulations prefer in a closed loop": (
        service("Llama-3.2-3B-Instruct", FAST, RENTED, concurrent_requests=29, **CLOSED),
        service("Llama-3.2-3B-Instruct", FAST, RENTED, concurrent_requests=31, **CLOSED),
    ),
    "a limit that a pool reaches between two loads": (
        service("Qwen2.5-14B-Instruct", FIRST, EIGHT, output_tokens=111, **POOL),
        service("Qwen2.5-14B-Instruct", FIRST, EIGHT, output_tokens=225, **POOL),
    ),
    "prefixes in host memory that take longer to load than to keep": (
        service("Llama-3.3-70B-Instruct", EARLY, {**B200, "prefix_cache_tiers": ["gpu", "host"]}, **AGENTS),
        service("Llama-3.3-70B-Instruct", EARLY, B200, **AGENTS),
    ),
    "a limit that is met only at loads far below saturation": (
        service(
            "Qwen2.5-72B-Instruct", HALF, CARDS, cached_prefix_fraction=0.65, shared_prefix_fraction=0.65, **QUESTION
        ),
        service("Qwen2.5-72B-Instruct", HALF, CARDS, **QUESTION),
    ),
    "long prompts that formulas fit into too small replicas": tuple(
        service("Llama-3.3-70B-Instruct", {"ttft_ms": 20_000, "tpot_ms": 60}, {**H100, "confidence": share}, **LONG)
        for share in (0.5, 0.8)
    ),
    "prefixes of sessions that formulas find worth keeping": tuple(
        service("Qwen2.5-14B-Instruct", {"ttft_ms": 1040.0, "tpot_ms": 79.2, "percentile": 99}, **TURNS, **hits)
        for hits in (KEPT, Body())
    ),
    "one pool that simulations find more expensive than formulas": tuple(
        service("Qwen/Qwen3-235B-A22B", {"ttft_ms": 6490.0, "tpot_ms": 30.1, "percentile": 50}, limits, **SHORT)
        for limits in ({"confidence": 0.65}, {"confidence": 0.95})
    ),
    "pools whose caches tie by formulas": tuple(
        service("deepseek-ai/DeepSeek-V3", {"tpot_ms": 23.3, "percentile": 50}, {"kv_formats": kept}, **TIES)
        for kept in (["fp16", "fp8"], ["fp8"])
    ),
    "pools on equally many machines by formulas, of which one needs nearly all": tuple(
        service(
            "mistralai/Mixtral-8x7B-Instruct-v0.1",
            {"ttft_ms": 2180.0, "tpot_ms": 19.6, "percentile": 50},
            input_tokens=prompt,
            **WHOLE,
        )
        for prompt in (18_500, 19_425)
    ),
    "work that ends, ranked at its confidence": tuple(
        {**BATCH, "constraints": {"confidence": confidence}} for confidence in (0.9, 0.95)
    ),
}


@pytest.mark.parametrize("name", HELD)
def test_pairs_that_were_violated_hold(catalog_store: CatalogStore, name: str) -> None:
    less, more = HELD[name]
    compared = compare_pair(PairRunner(catalog_store), Pair(name, less, more))
    assert compared is not None and compared.less.usd < math.inf
    assert not compared.is_violated, f"{compared.less}; {compared.more}"


def test_a_confidence_that_costs_far_more_names_the_layout_that_a_search_finds_for_it(
    catalog_store: CatalogStore,
) -> None:
    slow: Body = {"concurrent_requests": 80, "input_tokens": 16000, "output_tokens": 300}
    body = service("Qwen2.5-32B-Instruct", {"ttft_ms": 4000.0, "tpot_ms": 20.0}, {**H200, "confidence": 0.8}, **slow)
    runner = PairRunner(catalog_store)
    sure = recommend_hardware(runner.question(body), catalog_store.catalog()).recommendations[0].estimate.assurance
    assert sure is not None
    own, next_level = (next(x for x in sure.by_level if x.confidence == p) for p in (0.8, 0.9))
    higher = runner.outcome({**body, "constraints": {**H200, "confidence": 0.9}})
    assert next_level.deployment is not None and higher.deployment is not None
    assert next_level.deployment.tensor_parallel == higher.deployment.tensor_parallel
    assert own.cost < next_level.cost <= 2 * own.cost


def test_published_use_may_raise_a_cost_by_a_near_tie(catalog_store: CatalogStore) -> None:
    """A higher cost is a near tie only up to that share, and only if it vanishes without published use."""
    body = {"constraints": {"confidence": 0.8}, **{k: v for k, v in BATCH.items() if k != "constraints"}}
    compared = compare_pair(PairRunner(catalog_store), Pair("same", body, body))
    assert compared is not None
    for times, near in ((1.34, True), (1.36, False)):
        dearer = replace(compared, less=replace(compared.less, usd=times * compared.less.usd))
        assert dearer.is_violated
        assert is_near_tie(PairRunner(catalog_store), dearer) is near


def test_random_pairs_differ_and_repeat_with_their_seed() -> None:
    pairs = list(islice(random_pairs(random.Random(3)), 200))
    assert pairs == list(islice(random_pairs(random.Random(3)), 200))
    assert all(pair.less != pair.more for pair in pairs)
    assert len({pair.relation for pair in pairs}) > 15
    assert scaled({"mean": 100, "p95": 300}, SMALL_STEP) == {"mean": 105, "p95": 315}
