"""Published results compared with predictions: their subject, their distance and their error."""

from __future__ import annotations

import math

import pytest

from app.sizing.evidence import Evidence, Near, is_cost, reported_quantity, nearness, runtime_on, word_of
from tests.sizing.published import result, setting


def test_neighbours_are_near_and_each_measurement_comes_once() -> None:
    rows = [
        result("m0"),
        result("m0", metric="tpot_s"),
        result("m1", params=8e9),
        result("m2", family="apple", engine="mlx"),
    ]
    found = Evidence(rows).neighbours(setting())
    assert [n.compared.measurement for n in found] == ["m0", "m1", "m2"]
    assert found[0].distance == 0
    assert found[1].distance == pytest.approx(0.4 * math.log2(70 / 8))
    assert found[2].distance > 1.5


def test_how_much_of_a_stack_is_known() -> None:
    seen = {("vllm", "nvidia_hopper", "fp8"), ("mlx", "apple", "weight_only")}
    assert nearness("vllm", "nvidia_hopper", "fp8", seen) is Near.STACK
    assert nearness("vllm", "nvidia_hopper", "16bit", seen) is Near.ENGINE_ON_FAMILY
    assert nearness("vllm", "apple", "fp8", seen) is Near.ENGINE_AND_FAMILY
    assert nearness("sglang", "gaudi", "fp8", seen) is Near.FAR


def test_training_and_serving_tell_nothing_of_one_another() -> None:
    evidence = Evidence([result("s"), result("t", metric="training_tokens_per_s", engine="megatron")])
    assert [n.compared.measurement for n in evidence.neighbours(setting())] == ["s"]
    assert [n.compared.measurement for n in evidence.neighbours(setting(), training=True)] == ["t"]
    assert evidence.near(setting()) is Near.STACK
    assert evidence.near(setting(), training=True) is Near.FAR


def test_excluded_results_are_neighbours_but_count_as_unseen() -> None:
    evidence = Evidence([result("m", set_aside=True)])
    assert evidence.near(setting()) is Near.FAR
    assert evidence.neighbours(setting())[0].distance == 0


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
    assert result(measured=50.0).worse == pytest.approx(math.log(2))
    assert result(measured=200.0, metric="ttft_s").worse == pytest.approx(math.log(2))
    assert result(measured=200.0, metric="peak_memory_bytes").worse == pytest.approx(math.log(2))
    assert [is_cost(m) for m in ("tpot_s", "peak_memory_bytes", "training_tokens_per_s", "prefill_tokens_per_s")] == [
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
    assert [word_of(w, "llama.cpp", "amd_rdna", "weight_only") for w in words] == [
        "amd",
        "amd_rdna",
        "ggml",
        "llama.cpp",
        "weight_only",
    ]
    assert runtime_on("vllm", "gaudi") == runtime_on("sglang", "gaudi") != runtime_on("vllm", "apple")
