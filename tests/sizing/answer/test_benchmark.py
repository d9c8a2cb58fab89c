"""The benchmark commands that measure a deployment, against commands written by hand."""

from __future__ import annotations

import random
import shlex
from dataclasses import replace
from typing import Any

import pytest

from app.sizing.answer.benchmark import (
    checkpoint_to_load,
    file_name,
    local_checkpoint_path,
    machines_per_replica,
    plan_benchmark,
    rent_usd,
    repository_name,
    serving_benchmark,
    training_benchmark,
    uniform_spread,
)
from app.sizing.assumptions import Assumptions
from app.sizing.hardware import benchmarks
from app.sizing.hardware.engines import ENGINES
from app.sizing.model.formats import NativeQuantization
from app.sizing.question import DraftMethod, Question, Speculative
from app.sizing.result import Interval, Performance
from app.sizing.workload import Lengths, Load, Method
from tests.examples import CHAT, LLAMA_8B, PRETRAIN, registered
from tests.sizing.answer.given import COST, DEPLOYMENT, estimated

SERVED = Performance(
    Interval("output_tokens_per_s", 2000.0, 4000.0),
    "measured",
    output_tokens_per_s=3000.0,
    requests_per_s_capacity=12.0,
    batch_at_peak=40.0,
    cold_start_s=120.0,
)
TRAINED = Performance(Interval("tokens_per_s", 8e4, 1.2e5), "measured", tokens_per_s=1e5, step_time_s=6.0, days=5.0)
LAYOUT: dict[str, Any] = {
    "framework": "megatron",
    "accelerators_per_replica": 8,
    "total_accelerators": 8,
    "nodes": 1,
    "tensor_parallel": 2,
    "pipeline_parallel": 1,
    "data_parallel": 4,
    "micro_batch_sequences": 2,
    "activation_checkpointing": "full",
    "zero_stage": 1,
}


def command(workload: Any = CHAT, performance: Performance = SERVED, **deployment: Any) -> str:
    trial = plan_benchmark(Question(workload), estimated(performance=performance, **deployment))
    assert trial is not None
    return trial.command


def test_one_replica_is_loaded_with_what_it_is_predicted_to_carry() -> None:
    # three replicas carry 12 requests/s: 4 of them on one, for ten minutes
    line = command(tensor_parallel=2, max_batch=64, memory_fraction=0.9, kv_format="fp8")
    assert line.startswith("vllm serve ./Llama-3.1-8B --tensor-parallel-size 2 --kv-cache-dtype fp8 --max-model-len ")
    assert "--max-num-seqs 64 --gpu-memory-utilization 0.9 & until curl" in line
    assert "--request-rate 4 --num-prompts 2400 --ignore-eos" in line
    assert "--max-concurrency" not in line
    assert line.endswith("; kill $!")


def test_requests_in_flight_are_shared_by_the_replicas() -> None:
    closed = replace(CHAT, load=Load.CLOSED, peak_per_s=0.0, in_flight=100.0)
    line = command(closed)
    assert "--max-concurrency 34" in line  # a third of 100
    assert "--request-rate" not in line


def test_a_run_that_ends_is_run_as_it_is() -> None:
    line = command(replace(CHAT, load=Load.CLOSED, peak_per_s=0.0, in_flight=100.0, requests=1000.0))
    assert "--num-prompts 334" in line  # a third of 1,000


def test_minutes_and_rent() -> None:
    # two minutes to start, five to warm up, ten of load; one of the four machines at 40 USD an hour for all
    question = Question(CHAT)
    trial = plan_benchmark(question, estimated(performance=SERVED, nodes=4, total_accelerators=8))
    assert trial is not None
    assert (trial.minutes, trial.accelerators) == (17, 2)
    assert trial.usd == pytest.approx(40 / 4 * 17 / 60, abs=0.005)
    run = plan_benchmark(Question(PRETRAIN), estimated(performance=TRAINED, **LAYOUT))
    assert run is not None
    assert run.minutes == 5 + 50 * 6 / 60
    assert run.accelerators == 8
    assert run.usd == pytest.approx(40 * 10 / 60, abs=0.005)


def test_what_is_owned_has_no_rent() -> None:
    assert rent_usd(estimated(cost=replace(COST, purchase_usd=1e6)), 1, 10) is None
    assert rent_usd(estimated(cost=None), 1, 10) is None


@pytest.mark.parametrize(("size", "total", "nodes", "machines"), [(2, 8, 1, 1), (16, 16, 2, 2), (4, 8, 8, 4)])
def test_machines_of_a_replica(size: int, total: int, nodes: int, machines: int) -> None:
    placed = replace(DEPLOYMENT, accelerators_per_replica=size, total_accelerators=total, nodes=nodes)
    assert machines_per_replica(placed) == machines


def test_weights_in_another_format_are_a_file_of_the_users_own() -> None:
    hub = replace(LLAMA_8B, name="meta-llama/Llama-3.1-8B")
    vllm = benchmarks.VLLM
    assert checkpoint_to_load(hub, "bf16", vllm) == "meta-llama/Llama-3.1-8B"
    assert checkpoint_to_load(hub, "fp8", vllm) == "meta-llama/Llama-3.1-8B"  # made while it loads
    assert checkpoint_to_load(hub, "fp8", benchmarks.TENSORRT_LLM) == "./Llama-3.1-8B-fp8"
    assert checkpoint_to_load(hub, "int4-awq", vllm) == "./Llama-3.1-8B-int4-awq"
    published = replace(hub, native=NativeQuantization("fp8", 8.0, 128))
    assert checkpoint_to_load(published, "fp8", vllm) == "meta-llama/Llama-3.1-8B"
    assert checkpoint_to_load(published, "bf16", vllm) == "./Llama-3.1-8B-bf16"
    assert local_checkpoint_path(hub, "gguf-q4_k_m") == "./Llama-3.1-8B-q4_k_m"


@pytest.mark.parametrize(
    ("name", "repository"),
    [
        ("a/b-1.0_c", "a/b-1.0_c"),
        ("my model", "./my-model"),
        ("-rf/x", "./x"),
        ("$(reboot)", "./reboot"),
        ("'; \n", "./model"),
        ("模型", "./model"),
    ],
)
def test_a_name_that_is_no_repository_is_a_path(name: str, repository: str) -> None:
    assert repository_name(name) == repository


def test_a_quantisation_is_asked_for_only_where_the_engine_makes_it() -> None:
    assert "--quantization fp8" in command(weight_format="fp8")
    assert "--quantization" not in command(weight_format="int4-awq")
    assert "--quantize fp8" in command(weight_format="fp8", engine="tgi")


def test_what_spans_machines_says_so() -> None:
    spread: dict[str, Any] = {
        "accelerators_per_replica": 16,
        "total_accelerators": 64,
        "nodes": 8,
        "tensor_parallel": 8,
    }
    assert "--nnodes 2 --node-rank $NODE_RANK --master-addr $MASTER_ADDR" in command(**spread, pipeline_parallel=2)
    assert "--nnodes 2 --node-rank $NODE_RANK" in command(**spread, engine="sglang")
    assert "srun -N 2 -n 16" in command(**spread, engine="tensorrt-llm")
    assert "--nnodes" not in command()


def test_ranks_of_attention_on_several_machines_say_which_are_where() -> None:
    spread: dict[str, Any] = {
        "accelerators_per_replica": 16,
        "total_accelerators": 16,
        "nodes": 2,
        "tensor_parallel": 1,
        "data_parallel": 16,
        "expert_parallel": 16,
    }
    line = command(**spread)
    assert "--data-parallel-size-local 8 --data-parallel-start-rank $((NODE_RANK*8))" in line
    assert "--nnodes" not in line
    line = command(**spread, engine="tensorrt-llm")
    assert line.startswith("echo enable_attention_dp: true > config.yaml; srun -N 2")
    assert "--config config.yaml" in line


def test_load_generators_vary_lengths_evenly_within_the_context() -> None:
    # a lognormal answer with p95 at 3 times the mean varies by (e^(s^2) - 1); context leaves half again as much room
    assert uniform_spread(replace(CHAT, output_tokens=Lengths(256.0))) is None
    wide = replace(CHAT, input_tokens=Lengths(1000.0), output_tokens=Lengths(1000.0, 3000.0), max_context_tokens=3000.0)
    assert uniform_spread(wide) == pytest.approx(0.5)
    assert uniform_spread(replace(wide, max_context_tokens=2000.0)) is None
    assert uniform_spread(replace(wide, max_context_tokens=9000.0)) == pytest.approx(0.9)


def test_a_cached_prefix_is_shared_by_the_prompts() -> None:
    line = command(replace(CHAT, input_tokens=Lengths(1000.0), cached_prefix_fraction=0.4))
    assert "--random-input-len 600 --random-prefix-len 400" in line


def test_arrivals_twice_as_uneven_are_a_gamma_of_a_quarter() -> None:
    assert "--burstiness 0.25" in command(replace(CHAT, burstiness=2.0))
    assert "--burstiness 100" in command(replace(CHAT, burstiness=0.0))  # as good as even


def test_steps_of_the_whole_layout() -> None:
    line = command(PRETRAIN, TRAINED, **LAYOUT)
    assert line.startswith("torchrun --nproc-per-node 8 pretrain_gpt.py --mock-data")
    assert "--tensor-model-parallel-size 2 --sequence-parallel" in line
    assert "--train-iters 50" in line
    assert "--recompute-granularity full --recompute-method uniform" in line
    assert "--pipeline-model-parallel-size" not in line
    assert "--nnodes" not in line
    assert f"--global-batch-size {PRETRAIN.global_batch}" in line


@pytest.mark.parametrize(
    ("framework", "stage", "sharding"),
    [("fsdp", 3, "fsdp2"), ("deepspeed", 3, "zero3"), ("deepspeed", 1, "zero1"), ("transformers", 0, "multi_gpu")],
)
def test_states_are_sharded_as_the_layout_has_them(framework: str, stage: int, sharding: str) -> None:
    line = command(PRETRAIN, TRAINED, **{**LAYOUT, "framework": framework, "zero_stage": stage})
    assert f"--accelerate_config {sharding} " in line


def test_adapters_are_trained_as_such() -> None:
    adapters = replace(PRETRAIN, method=Method.QLORA, phase="fine_tuning", lora_rank=16)
    line = command(adapters, TRAINED, **{**LAYOUT, "framework": "unsloth"})
    assert "--load_in_4bit --r 16" in line
    assert training_benchmark(adapters, replace(DEPLOYMENT, framework="megatron")) is benchmarks.NEMO
    assert training_benchmark(PRETRAIN, replace(DEPLOYMENT, framework="megatron")) is benchmarks.MEGATRON


def test_single_passes_are_measured_by_what_the_model_is() -> None:
    def used(name: str, engine: str) -> Any:
        return serving_benchmark(replace(CHAT, model=registered(name)), replace(DEPLOYMENT, engine=engine))

    assert used("BAAI/bge-large-en-v1.5", "pytorch") is benchmarks.EMBEDDINGS
    assert used("stabilityai/stable-diffusion-xl-base-1.0", "pytorch") is benchmarks.PICTURES
    assert used("microsoft/resnet-50", "pytorch") is benchmarks.PASSES
    assert used("microsoft/resnet-50", "tensorrt") is benchmarks.TENSORRT


def test_nothing_is_run_of_what_does_not_run() -> None:
    question = Question(CHAT)
    assert plan_benchmark(question, estimated(performance=None)) is None
    assert plan_benchmark(question, replace(estimated(performance=SERVED), fits=False)) is None
    drafted = Speculative(DraftMethod.MTP, draft_tokens=2, acceptance_rate=0.8)
    assert plan_benchmark(question, estimated(performance=SERVED, speculative=drafted)) is None


@pytest.mark.parametrize("name", sorted(ENGINES))
def test_any_name_of_a_model_gives_one_line_that_a_shell_can_split(name: str) -> None:
    rng = random.Random(name)
    letters = "aZ09-_./ '\"$`\\;&|<>(){}[]!*?~#\n\t\u00e9\u6a21"
    for _ in range(50):
        model = replace(LLAMA_8B, name="".join(rng.choices(letters, k=rng.randint(1, 24))))
        lines = [
            command(replace(CHAT, model=model), engine=name, weight_format=rng.choice(["bf16", "fp8", "int4-awq"])),
            command(replace(PRETRAIN, model=model), TRAINED, **{**LAYOUT, "framework": name}),
        ]
        for line in lines:
            assert "\n" not in line
            assert line.isascii()
            assert shlex.split(line)
            assert (
                file_name(model.name) in line or repository_name(model.name) in line or "$" in line or "vocab" in line
            )


def test_thresholds_are_assumptions() -> None:
    longer = Question(CHAT, assumptions=Assumptions().with_overrides({"benchmark_window_min": 20.0}))
    trial = plan_benchmark(longer, estimated(performance=SERVED))
    assert trial is not None
    assert trial.minutes == 27
    assert "--num-prompts 4800" in trial.command
