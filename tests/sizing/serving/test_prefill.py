"""The work of a prompt and the time it takes, worked by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from app.sizing.hardware.engines import ENGINES
from app.sizing.hardware.parts import all_reduce_s
from app.sizing.question import Deployment
from app.sizing.serving.collectives import ExpertExchange, LinkUse
from app.sizing.serving.prefill import (
    PrefillTerms,
    PrefillWork,
    attention_length_factor,
    expert_flops_share,
    isolated_prompt_s,
    pipeline_bubble_s,
    prefill_terms,
    seconds_per_prompt,
)
from app.sizing.serving.step import DeviceRates, expert_copies
from app.sizing.workload import Lengths
from tests.examples import col
from tests.sizing.serving.given import DENSE, MIXTURE, achieved, on_big, planned, prompt_of

LINK = LinkUse(np.array([False, False]), col(450e9, 450e9), np.array([True, False]), col(50e9, 50e9), col(4, 1), 0.7)
# A prompt of 1024 tokens, 256 of them cached, on 4 x 3 devices; and the same on one.
WORK = PrefillWork(
    prompt_linear_flops=col(14e12, 14e12),
    expert_flops_share=col(0.5, 0.0),
    dense_bytes=col(16e9, 16e9),
    routed_bytes=col(4e9, 4e9),
    expert_share=col(0.25, 0.25),
    score_flops=col(1e12, 1e12),
    fp8_attention=np.array([False, True]),
    prompt_tokens=col(1024, 1024),
    new_tokens=col(768, 768),
    layers=col(32, 32),
    moe_layers=col(0, 30),
    expert_copies=col(0, 0),
    graph_tokens=col(0, 512),
    reductions=col(64, 64),
    hidden_bytes=col(8192, 8192),
    tensor_parallel=col(4, 1),
    pipeline_parallel=col(3, 1),
    data_parallel=col(1, 1),
    exchange=ExpertExchange(col(0, 0), col(0, 0), col(0, 0)),
    overlapped_stages=col(1, 1),
    rates=DeviceRates(col(2e15, 2e15), col(1e15, 1e15), col(3.2e12, 3.2e12), col(0, 0)),
    link=LINK,
)


def test_terms_of_a_prompt_are_its_work_over_what_the_device_achieves() -> None:
    found = prefill_terms(WORK, achieved(2))
    # half of it in experts, which achieve eight tenths of what the rest does
    assert found.prompt_linear_s[0] == pytest.approx(14e12 * (0.5 + 0.5 / 0.8) / (2e15 * 0.8 * 0.7))
    assert found.prompt_linear_s[1] == pytest.approx(14e12 / (2e15 * 0.8 * 0.7))
    # attention reaches two thirds of its share at 1024 tokens, being half of it at 512
    assert found.prompt_attention_s[0] == pytest.approx(1e12 / (1e15 * 0.4 * 2 / 3))
    assert found.prompt_attention_s[1] == pytest.approx(found.prompt_attention_s[0] / 1.25)  # from an FP8 cache
    message = 768 * 8192
    reduced = 2 * 3 / 4 * message / (450e9 * 0.78)
    assert found.prompt_links_s[0] == pytest.approx(2 * 32 * reduced + 2 * message / (50e9 * 0.9))
    assert all_reduce_s(col(message), col(4), col(450e9 * 0.78))[0] == pytest.approx(reduced)
    assert found.dense_s[0] == pytest.approx(16e9 / (3.2e12 * 0.85))
    assert found.experts_s[0] == pytest.approx(4e9 / (3.2e12 * 0.85 * 0.75))
    assert found.prefill_links_s[0] == pytest.approx(2 * 32 * 8e-6 + 2 * 15e-6)
    assert found.dispatch_s[0] == pytest.approx(32 * 40e-6)
    assert found.tokenise_s[0] == pytest.approx(1024 * 2e-6)
    assert prefill_terms(WORK, achieved(2), served=0.0).tokenise_s[0] == 0
    assert (found.request_s[0], found.exponent[0]) == (5e-3, 3.0)
    assert (found.new_tokens[0], found.expert_share[0], found.overlapped_stages[0]) == (768, 0.25, 1)


def test_a_single_device_has_no_communication() -> None:
    found = prefill_terms(WORK, achieved(2))
    assert found.prompt_links_s[1] == 0
    assert found.prefill_links_s[1] == 0


def test_work_of_a_prompt() -> None:
    """Four layers of 1024 x 1024, twice 1024 x 512, 1024 x 1024 and thrice 1024 x 4096; a head of 1024 x 32000."""
    work = prompt_of(
        replace(DENSE, recurrent_flops_per_token=1e6),
        on_big(tensor_parallel=2),
        prompt_tokens=1000.0,
        cached_tokens=400.0,
        encoder_flops=5e9,
    )
    layer = 2 * 1024 * 1024 + 2 * 1024 * 512 + 3 * 1024 * 4096
    assert work.prompt_linear_flops[0] == pytest.approx((2 * 4 * layer * 600 + 2 * 1024 * 32000 + 1e6 * 600 + 5e9) / 2)
    # scores and sums over half of the pairs: 2 * 2 * 8 heads * 128 * s (s + 1) / 2 in 4 layers, less the cached part
    pairs = (1000 * 1001 - 400 * 401) / 2
    assert work.score_flops[0] == pytest.approx(4 * 4 * 8 * 128 * pairs / 2)
    assert (work.prompt_tokens[0], work.new_tokens[0], work.layers[0]) == (1000, 600, 4)
    assert (work.hidden_bytes[0], work.tensor_parallel[0], work.pipeline_parallel[0]) == (2048, 2, 1)
    assert work.dense_bytes[0] == pytest.approx((DENSE.total_params - 1024 * 32000) * 2 / 2)  # the table is looked up
    assert (work.routed_bytes[0], work.expert_share[0]) == (0, 0)
    rates = work.rates
    assert (rates.linear_flops_per_s[0], rates.bit16_flops_per_s[0], rates.bytes_per_s[0]) == (1e15, 1e15, 3.2e12)


def test_a_prompt_is_at_least_a_token_and_experts_are_shared() -> None:
    work = prompt_of(MIXTURE, on_big(MIXTURE, tensor_parallel=4), prompt_tokens=500.0, cached_tokens=500.0)
    assert work.new_tokens[0] == 1
    assert work.expert_share[0] == 2 / 8
    assert work.routed_bytes[0] == pytest.approx(4 * 8 * 3 * 1024 * 512 * 2 / 4)
    whole = prompt_of(MIXTURE, on_big(MIXTURE), prompt_tokens=0.0)
    assert (whole.prompt_tokens[0], whole.new_tokens[0]) == (1, 1)
    assert whole.overlapped_stages[0] == 1


def test_stages_work_on_different_chunks_only_where_the_engine_has_a_source_for_it() -> None:
    layout = Deployment("bolt-desk", pipeline_parallel=1, engine="llama.cpp", weight_format="gguf-q4_k_m")
    plans = planned(fixed=layout)
    found = prompt_of(DENSE, replace(plans, pipeline_parallel=np.full(len(plans), 2.0)), prompt_tokens=100.0)
    assert found.overlapped_stages.tolist() == [2]
    assert prompt_of(DENSE, on_big(pipeline_parallel=2), prompt_tokens=100.0).overlapped_stages.tolist() == [2]
    assert {name for name, engine in ENGINES.items() if engine.pipelines_chunks} >= {"vllm", "sglang", "tensorrt-llm"}
    assert not ENGINES["lmdeploy"].pipelines_chunks
    assert all(", 2026-" in e.pipelines_chunks for e in ENGINES.values() if e.pipelines_chunks)


def terms(**changed: float) -> PrefillTerms:
    """A prompt of 300 tokens; an exponent of one adds multiplying and reading up."""
    known: dict[str, float] = {
        "prompt_linear_s": 0.1,
        "padding_s": 0.0,
        "prompt_attention_s": 0.02,
        "prompt_links_s": 0.01,
        "dense_s": 0.03,
        "experts_s": 0.0,
        "prefill_links_s": 0.004,
        "dispatch_s": 0.001,
        "graph_dispatch_s": 0.0,
        "graph_tokens": 0.0,
        "request_s": 0.005,
        "tokenise_s": 0.0,
        "new_tokens": 300.0,
        "expert_share": 0.0,
        "data_parallel": 1.0,
        "pooled_share": 0.0,
        "overlapped_stages": 1.0,
        "exponent": 1.0,
    }
    columns: dict[str, Any] = {name: col(value) for name, value in (known | changed).items()}
    return PrefillTerms(**columns)


@pytest.mark.parametrize(
    ("changed", "chunk", "together", "seconds"),
    [
        # three steps of a third of the prompt each
        ({}, 100, None, 3 * (0.1 / 3 + 0.03 + 0.03 / 3 + 0.004)),
        # as many prompts as fit: 3.33 in a step of 1000 tokens
        ({}, 1000, None, (10 / 3 * 0.1 + 0.03 + 10 / 3 * 0.03 + 0.004) * 0.3),
        # two wait, and share a step
        ({}, 1000, 2.0, (2 * 0.1 + 0.03 + 2 * 0.03 + 0.004) / 2),
        ({}, 1000, 0.2, 0.1 + 0.03 + 0.03 + 0.004),
        ({}, 1000, 9.0, (10 / 3 * 0.1 + 0.03 + 10 / 3 * 0.03 + 0.004) * 0.3),
        # launching takes longer than the step
        ({"dispatch_s": 0.9}, 1000, 2.0, 0.45),
        # stages in a row are not faster for the replica as a whole
        ({"overlapped_stages": 2.0}, 100, None, 3 * (0.1 / 3 + 0.03 + 0.03 / 3 + 0.004)),
        # two tokens touch three quarters of the experts where each takes half of them
        ({"experts_s": 0.08, "expert_share": 0.5, "new_tokens": 2.0}, 2, None, 0.1 + 0.03 + 0.06 + 0.03 + 0.004),
    ],
)
def test_seconds_of_a_prompt(changed: dict[str, float], chunk: float, together: float | None, seconds: float) -> None:
    assert seconds_per_prompt(terms(**changed), col(chunk), together)[0] == pytest.approx(seconds)


def test_chunks_of_a_prompt_follow_each_other_through_the_stages() -> None:
    whole = 3.1 * (0.1 / 3.1 + 0.03 + 0.03 / 3.1 + 0.004)  # 310 tokens in steps of 100 are four chunks
    last = 1 + 0.02 / whole * 3 / 4  # in chunks of mean length: its attention takes 7/4 of the mean
    in_two = terms(new_tokens=310.0, overlapped_stages=2.0)
    assert isolated_prompt_s(in_two, col(100))[0] == pytest.approx(whole * (4 + last) / 8)
    assert isolated_prompt_s(terms(new_tokens=310.0), col(100))[0] == pytest.approx(whole)
    # attention of the chunks 1, 3, 5 and 7 sixteenths of 20 ms; the first stage waits for the second
    assert pipeline_bubble_s(in_two, col(100))[0] == pytest.approx(0.02 * (7 - 1) / 16 / 2)
    assert pipeline_bubble_s(in_two, col(400))[0] == 0


def test_attention_of_prompts_that_vary_is_more_than_that_of_the_mean_one() -> None:
    assert attention_length_factor(DENSE, Lengths(1000.0)) == 1
    spread = Lengths(1000.0, 2000.0)
    assert attention_length_factor(DENSE, spread) == pytest.approx(1 + spread.squared_variation, rel=0.05)


def test_routed_experts_slow_their_share_of_a_prompt() -> None:
    """Two experts of three matrices of 1024 x 512 in each of four layers, of all that a prompt multiplies."""
    share = 4 * 2 * 3 * 1024 * 512 / MIXTURE.prompt_matmul_params
    assert expert_flops_share(MIXTURE) == pytest.approx(share)
    assert 0 < share < 1 and expert_flops_share(DENSE) == 0
    for model, part in ((MIXTURE, share), (DENSE, 0.0)):
        work = prompt_of(model, on_big(model), prompt_tokens=800)
        usual, half = (
            prefill_terms(work, achieved(prefill_expert_fraction=f, expert_copy_passes=0.0)).prompt_linear_s[0]
            for f in (1.0, 0.5)
        )
        assert half / usual == pytest.approx(1 + part)  # their part takes twice as long


def test_copies_of_tokens_take_the_same_time_on_experts_of_any_width() -> None:
    """Ranks of one group multiply a part of each expert, but move all copies; whole experts divide the copies."""
    split = replace(WORK, expert_copies=col(8, 0))
    without, found = prefill_terms(WORK, achieved(2)), prefill_terms(split, achieved(2))
    assert found.prompt_linear_s[1] == without.prompt_linear_s[1]
    layers = replace(split, moe_layers=col(30, 30))
    copied = prefill_terms(layers, achieved(2)).prompt_linear_s[0] - without.prompt_linear_s[0]
    assert copied == pytest.approx(768 * 30 * 8 * 8192 * 4 / 3.2e12)
    assert expert_copies(MIXTURE, col(4, 4), col(1, 2)).tolist() == [2, 0.5]
    assert expert_copies(DENSE, col(4), col(1)).tolist() == [0]


def test_a_prompt_that_comes_with_its_cache_is_neither_ingested_nor_launched() -> None:
    """It joins the next decode step; what it multiplies, reads and sends stays."""
    fitted = replace(achieved(2), prefill_layer_overhead_s=col(1e-3, 1e-3), request_overhead_s=col(0.01, 0.01))
    fitted = replace(fitted, tokenise_token_s=col(1e-5, 1e-5), prefill_moe_layer_overhead_s=col(2e-3, 2e-3))
    usual, read = prefill_terms(WORK, fitted), prefill_terms(WORK, fitted, comes_read=True)
    assert usual.dispatch_s.tolist() == pytest.approx([0.032, 0.092])
    assert usual.request_s.tolist() == [0.01, 0.01] and usual.tokenise_s.tolist() == pytest.approx([0.01024] * 2)
    zeros = np.zeros(2)
    assert all(np.array_equal(part, zeros) for part in (read.dispatch_s, read.request_s, read.tokenise_s))
    for name in ("prompt_linear_s", "prompt_attention_s", "prompt_links_s", "prefill_links_s", "dense_s"):
        assert getattr(read, name).tolist() == getattr(usual, name).tolist()
