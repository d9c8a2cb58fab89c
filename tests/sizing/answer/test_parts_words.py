"""How loaded adapters change an answer: the stated memory and compute, the cost and the supported engines. Weights
in the host's memory, read out.
"""

from __future__ import annotations

import subprocess
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml

from app.sizing.answer.parts_words import (
    adapter_reasons,
    adapter_settings,
    describe_host_parts,
    host_memory_fields,
    host_weight_reasons,
    llama_cpp_layers,
    out_of_host_memory,
    share_on_host,
)
from app.sizing.columns import GIB
from app.sizing.decisions.search import Search
from app.sizing.estimate import estimate_deployment
from app.sizing.hardware.benchmarks import ADAPTED_MODULES, BENCHMARKS, fill_template
from app.sizing.model.adapted import with_adapters
from app.sizing.question import Constraints, Deployment, Question
from app.sizing.recommend import recommend_hardware
from app.sizing.result import Estimate
from app.sizing.serving.host_weights import HostMemory, HostOffload
from app.sizing.serving.search import enumerate_allowed_plans
from app.sizing.snapshot import Catalog
from app.sizing.workload import InferenceWorkload
from tests.examples import CHAT, LLAMA_8B, col, present, row
from tests.sizing.serving.given import MIXTURE

H100 = "nvidia-h100-sxm5-80gb"
ON_ONE = Deployment(H100, engine="vllm", weight_format="bf16", accelerators_per_replica=1, replicas=1)


def served(loaded: int, rank: int = 16) -> InferenceWorkload:
    return replace(CHAT, model=with_adapters(LLAMA_8B, rank=rank, loaded=loaded))


def figures(found: Estimate) -> tuple[float, float, float]:
    assert found.memory is not None
    assert found.performance is not None
    assert found.performance.tpot is not None
    capacity = found.performance.requests_per_s_capacity or 0.0
    return found.memory.weights_bytes, found.performance.tpot.p50_s or 0.0, -capacity


def test_each_adapter_more_takes_memory_and_time(catalog: Catalog) -> None:
    found = [
        figures(estimate_deployment(Question(w), ON_ONE, catalog)) for w in (CHAT, served(1), served(8), served(32))
    ]
    for fewer, more in pairwise(found):
        assert all(a < b for a, b in zip(fewer, more, strict=True))


def test_adapters_never_cost_less(catalog: Catalog) -> None:
    usd = []
    for workload in (CHAT, served(8), served(64), served(64, 64)):
        cost = present(recommend_hardware(Question(workload, limit=1), catalog).recommendations[0].estimate.cost)
        usd.append(cost.usd_per_hour or 0.0)
    assert usd == sorted(usd)


def test_an_engine_without_a_record_of_adapters_is_refused_them(catalog: Catalog) -> None:
    found = estimate_deployment(Question(served(4)), replace(ON_ONE, engine="llama.cpp", weight_format=None), catalog)
    assert not found.fits
    assert "known to serve its adapters" in found.explanation[0].text


def test_an_engine_whose_start_command_loads_no_adapters_counts_as_without_recipes(catalog: Catalog) -> None:
    starts = dict(zip(catalog.engines, catalog.starts_adapters.tolist(), strict=True))
    assert starts["vllm"] and starts["tensorrt-llm"] and not starts["lmdeploy"]
    for workload, counted in ((CHAT, True), (served(8), False)):
        work = Question(workload, constraints=Constraints(engines=("lmdeploy", "vllm")))
        plans = enumerate_allowed_plans(Search.start(work, catalog).of(workload))
        of = plans.engine == catalog.engines.index("lmdeploy")
        assert of.any() and bool(plans.published_use.recipes[of].any()) is counted
        assert plans.published_use.recipes[~of].any()


def test_the_answer_states_memory_and_compute_of_adapters() -> None:
    (why,) = adapter_reasons(served(8).model)
    assert why.text.startswith("With 8 adapters loaded, each replica needs 0.62 GiB more memory and 0.6 % more compute")
    assert why.value == pytest.approx(8 * 2 * 41_943_040 / 2**30)
    assert not list(adapter_reasons(LLAMA_8B))


@pytest.mark.parametrize(("rank", "room"), [(16, 16), (20, 32), (1, 1)])
def test_engine_flags_use_a_supported_adapter_rank(rank: int, room: int) -> None:
    vllm, file = BENCHMARKS["vllm"], "trtllm.yaml"
    assert adapter_settings(served(8, rank).model, vllm, file, begun=False) == {"adapters": 8, "adapter_rank": room}
    assert adapter_settings(LLAMA_8B, vllm, file, begun=False) == {}


@pytest.mark.parametrize("begun", [False, True])
def test_tensorrt_llm_reads_adapters_from_its_configuration_file(begun: bool, tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text("enable_attention_dp: true\n")
    used = BENCHMARKS["tensorrt-llm"]
    places = adapter_settings(served(8, 20).model, used, str(file), begun=begun)
    assert used.server is not None
    start = fill_template(used.server.command, {"model": "m", "stage": 1, "served": 4096, **places})
    written, _, command = start.partition("trtllm-serve")
    subprocess.run(["bash", "-c", written], check=True)
    settings = yaml.safe_load(file.read_text())
    assert settings["lora_config"] == {
        "max_lora_rank": 32,
        "max_loras": 8,
        "max_cpu_loras": 8,
        "lora_target_modules": list(ADAPTED_MODULES),
    }
    assert ("enable_attention_dp" in settings) is begun
    assert f"--config {file}" in command


DESK = Deployment("bolt-desk", engine="llama.cpp", weight_format="gguf-q4_k_m")


def judged(**on: float) -> Any:
    """A row with 10 GiB with its host, of which 15 GiB may be filled."""
    known = HostOffload.without_offload(1)
    values = {"weights_share": 0.5, "weights_bytes": 10 * GIB, "bytes_per_s": 45e9} | on
    host = replace(known, **{name: col(value) for name, value in values.items()})
    memory = HostMemory(col(10 * GIB), col(GIB), col(15 * GIB))
    return row(plans=row(on_host=host), memory=row(host=memory))


def test_the_answer_states_the_host_share_and_its_memory() -> None:
    found = judged()
    assert share_on_host(found.plans, 0) == 0.5
    assert list(host_memory_fields(found, 0).values()) == [10 * GIB, GIB, 15 * GIB]
    found.memory.host = HostMemory(col(0), col(0), col(0))
    assert host_memory_fields(found, 0) == {}
    bare: Any = row(on_host=None)
    assert share_on_host(bare, 0) == 0.0


def test_a_sentence_says_how_much_lies_where_and_what_it_takes() -> None:
    (reason,) = host_weight_reasons(CHAT, judged(layers_share=0.5), 0, 0.9)
    assert reason.text.startswith(
        "10.0 GiB of the weights (50 %) are in host memory: 16 of 32 layers with their KV cache. "
        "The host reads them at about 45 GB/s and takes 90 % of each step."
    )
    assert reason.quantity == "weights_on_host_gib"
    assert reason.value == pytest.approx(10)
    assert list(host_weight_reasons(CHAT, judged(weights_share=0.0), 0, 0.0)) == []


def test_offloaded_experts_and_layers_are_named_separately() -> None:
    work = replace(CHAT, model=MIXTURE)
    assert describe_host_parts(work, judged(experts_share=0.5).plans, 0) == "the routed experts of 2 layers"
    both = judged(experts_share=1.0, layers_share=0.25)
    assert (
        describe_host_parts(work, both.plans, 0)
        == "the routed experts of 4 layers and 1 of 4 layers with their KV cache"
    )
    whole = judged(experts_share=0.5, layers_share=0.5)
    assert describe_host_parts(work, whole.plans, 0) == "2 of 4 layers with their KV cache"


def test_insufficient_host_memory_is_reported() -> None:
    found = judged()
    assert out_of_host_memory(found, 0) is None
    found.memory.host = HostMemory(col(20 * GIB), col(0), col(15 * GIB))
    short = present(out_of_host_memory(found, 0))
    assert short.text == "It does not fit: 20.0 GiB of host memory are needed, but only 15.0 GiB are usable."


def test_llama_cpp_flags_set_the_number_of_device_layers() -> None:
    assert llama_cpp_layers(LLAMA_8B, DESK) == {"device_layers": 99, "host_expert_layers": None}
    half = llama_cpp_layers(LLAMA_8B, replace(DESK, weights_on_host=0.5))
    assert half == {"device_layers": 16, "host_expert_layers": None}
    stored = llama_cpp_layers(MIXTURE, replace(DESK, weights_on_host=1e-6))
    assert stored == {"device_layers": 99, "host_expert_layers": None}
    everything = llama_cpp_layers(MIXTURE, replace(DESK, weights_on_host=1.0))
    assert everything == {"device_layers": 0, "host_expert_layers": 4}
