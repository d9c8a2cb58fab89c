"""What was read of each engine's scheduler, and that it says where."""

from __future__ import annotations

from dataclasses import fields
from itertools import pairwise

import pytest

from app.sizing.columns import GIB
from app.sizing.hardware.engines import ENGINES, engine_named
from app.sizing.hardware.engines.record import Policy, Preemption, Scheduling

RULES = {
    f"{engine.name} {'.'.join(map(str, first))}": rule
    for engine in ENGINES.values()
    for first, rule in (*engine.scheduling_since, ((), engine.scheduling))
}
CARD_BYTES, A100_BYTES, H100_BYTES, MI300_BYTES = 24 * GIB, 79.2 * GIB, 79.6 * GIB, 191.5 * GIB


@pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
def test_every_field_that_is_not_the_usual_says_where_it_was_read(rule: Scheduling) -> None:
    named = {f.name for f in fields(Scheduling)} - {"sources", "read"}
    assert rule.sources.keys() <= named
    if rule.read:
        usual = Scheduling()
        stated = {name for name in named if getattr(rule, name) != getattr(usual, name)}
        assert stated <= rule.sources.keys()


@pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
def test_step_sizes_grow_with_memory_and_begin_at_none(rule: Scheduling) -> None:
    for sizes in (rule.steps, *rule.steps_of.values()):
        assert sizes[0].from_gib == 0
        for smaller, larger in pairwise(sizes):
            assert smaller.from_gib < larger.from_gib
            assert smaller.max_batched_tokens <= larger.max_batched_tokens
            assert smaller.max_sequences <= larger.max_sequences


def test_who_reserves_the_whole_output_never_preempts() -> None:
    for name, rule in RULES.items():
        assert (rule.preemption is Preemption.NONE) == (rule.output_reserve_share == 1), name


def test_the_newest_release_schedules_as_today() -> None:
    for engine in ENGINES.values():
        if engine.scheduling_since:
            assert engine.scheduling_at("99.0") == engine.scheduling_at(None) == engine.scheduling
            releases = [first for first, _ in engine.scheduling_since]
            assert releases == sorted(releases) and releases[0] == (0, 0)


def test_vllm_by_version_device_and_use() -> None:
    vllm = engine_named("vllm")
    first, second, today = (vllm.scheduling_at(v) for v in ("0.6.3", "0.11.0", "0.19.0"))
    assert (first.policy, first.chunked, first.prefix_cache) == (Policy.PREFILL_FIRST, False, False)
    assert (second.policy, second.planning_lag_steps, today.planning_lag_steps) == (Policy.MIXED, 0, 1)
    served = today.for_device(H100_BYTES, "nvidia_hopper")
    assert (served.max_batched_tokens, served.max_sequences) == (8192, 1024)
    assert today.for_device(H100_BYTES, "nvidia_hopper", offline=True).max_batched_tokens == 16384
    assert today.for_device(A100_BYTES, "nvidia_ampere") == today.for_device(CARD_BYTES, "nvidia_ada")
    assert today.for_device(A100_BYTES, "nvidia_ampere", offline=True).max_batched_tokens == 8192
    largest = [vllm.scheduling_at(v).for_device(MI300_BYTES, "amd_cdna3") for v in ("0.27.1", "0.28.0")]
    assert [(s.max_batched_tokens, s.max_sequences) for s in largest] == [(8192, 1024), (16384, 1024)]
    newest = vllm.scheduling
    assert newest.for_device(H100_BYTES, "nvidia_hopper").max_batched_tokens == 8192
    assert newest.for_device(A100_BYTES, "nvidia_ampere").max_batched_tokens == 2048


def test_sglangs_chunks_grow_with_memory() -> None:
    sglang = engine_named("sglang")
    chunks = [
        sglang.scheduling.for_device(b).max_batched_tokens for b in (CARD_BYTES, 44 * GIB, H100_BYTES, MI300_BYTES)
    ]
    assert chunks == [2048, 4096, 8192, 16384]
    assert sglang.scheduling_at("0.4.6").for_device(44 * GIB).max_batched_tokens == 8192
    assert (sglang.scheduling.policy, sglang.scheduling.receive_interval_steps) == (Policy.PREFILL_FIRST, 1)


def test_tensorrt_llm_batches_whole_prompts_with_decodes() -> None:
    trt = engine_named("tensorrt-llm").scheduling
    assert (trt.policy, trt.chunked, trt.preemption) == (Policy.MIXED, False, Preemption.NONE)
    assert (trt.for_device(CARD_BYTES).max_batched_tokens, trt.for_device(CARD_BYTES).max_sequences) == (8192, 2048)


def test_tgi_joins_prompts_to_the_batch_since_its_third_version() -> None:
    tgi = engine_named("tgi")
    policies = [tgi.scheduling_at(v).policy for v in ("1.4.0", "2.4.1", "3.3.7")]
    assert policies == [Policy.PREFILL_FIRST, Policy.PREFILL_FIRST, Policy.MIXED]


def test_a_front_schedules_as_what_works_underneath() -> None:
    assert engine_named("llm-d").scheduling_at("0.4") == engine_named("vllm").scheduling
    assert engine_named("lm-studio").scheduling.slots
