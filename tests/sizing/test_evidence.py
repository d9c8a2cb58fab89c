"""Published results compared with predictions: their subject, their distance and their error."""

from __future__ import annotations

import math

import pytest

from app.sizing.evidence import (
    Evidence,
    Familiarity,
    lower_is_better,
    reported_quantity,
    runtime_and_family,
    stack_attribute,
    stack_familiarity,
)
from tests.sizing.published import result, setting


def test_neighbours_are_near_and_each_measurement_comes_once() -> None:
    rows = [
        result("m0"),
        result("m0", metric="tpot_s"),
        result("m1", params=8e9),
        result("m2", family="apple", engine="mlx"),
    ]
    found = Evidence(rows).find_neighbors(setting())
    assert [n.compared.measurement for n in found] == ["m0", "m1", "m2"]
    assert found[0].distance == 0
    assert found[1].distance == pytest.approx(0.4 * math.log2(70 / 8))
    assert found[2].distance > 1.5


def test_how_much_of_a_stack_is_known() -> None:
    seen = {("vllm", "nvidia_hopper", "fp8"), ("mlx", "apple", "weight_only")}
    assert stack_familiarity("vllm", "nvidia_hopper", "fp8", seen) is Familiarity.STACK
    assert stack_familiarity("vllm", "nvidia_hopper", "16bit", seen) is Familiarity.ENGINE_ON_FAMILY
    assert stack_familiarity("vllm", "apple", "fp8", seen) is Familiarity.ENGINE_AND_FAMILY
    assert stack_familiarity("sglang", "gaudi", "fp8", seen) is Familiarity.FAR


def test_training_and_serving_tell_nothing_of_one_another() -> None:
    evidence = Evidence([result("s"), result("t", metric="training_tokens_per_s", engine="megatron")])
    assert [n.compared.measurement for n in evidence.find_neighbors(setting())] == ["s"]
    assert [n.compared.measurement for n in evidence.find_neighbors(setting(), training=True)] == ["t"]
    assert evidence.get_familiarity(setting()) is Familiarity.STACK
    assert evidence.get_familiarity(setting(), training=True) is Familiarity.FAR


def test_excluded_results_are_neighbours_but_count_as_unseen() -> None:
    evidence = Evidence([result("m", excluded=True)])
    assert evidence.get_familiarity(setting()) is Familiarity.FAR
    assert evidence.find_neighbors(setting())[0].distance == 0


@pytest.mark.parametrize(
    ("metric", "in_flight", "kind"),
    [
        ("output_tokens_per_s", 16.0, "throughput"),
        ("decode_tokens_per_s", 1.0, "single_stream"),
        ("prefill_tokens_per_s", 1.0, "prefill"),
        ("tpot_s", 16.0, "tpot"),
        ("e2e_s", 16.0, "e2e"),
        ("training_samples_per_s", 16.0, "training_samples"),
        ("peak_memory_bytes", 16.0, "training_memory"),
    ],
)
def test_one_stream_and_many_are_distinguished(metric: str, in_flight: float, kind: str) -> None:
    assert reported_quantity(metric, setting(in_flight=in_flight)) == kind


def test_worse_is_slower_or_larger() -> None:
    # half the rate, twice the time and twice the memory are equally much worse than predicted
    assert result(measured=50.0).log_shortfall == pytest.approx(math.log(2))
    assert result(measured=200.0, metric="ttft_s").log_shortfall == pytest.approx(math.log(2))
    assert result(measured=200.0, metric="peak_memory_bytes").log_shortfall == pytest.approx(math.log(2))
    assert [
        lower_is_better(m) for m in ("tpot_s", "peak_memory_bytes", "training_tokens_per_s", "prefill_tokens_per_s")
    ] == [
        True,
        True,
        False,
        False,
    ]
    assert [result(metric=m).unit for m in ("tpot_s", "peak_memory_bytes", "output_tokens_per_s")] == [
        "s",
        "B",
        "tokens/s",
    ]


def test_words_of_a_stack_come_from_its_records() -> None:
    words = ("vendor", "family", "runtime", "engine", "format_class")
    assert [stack_attribute(w, "llama.cpp", "amd_rdna", "weight_only") for w in words] == [
        "amd",
        "amd_rdna",
        "ggml",
        "llama.cpp",
        "weight_only",
    ]
    assert (
        runtime_and_family("vllm", "gaudi")
        == runtime_and_family("sglang", "gaudi")
        != runtime_and_family("vllm", "apple")
    )
