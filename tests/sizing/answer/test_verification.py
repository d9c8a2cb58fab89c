"""The benchmark commands that measure a deployment, against commands written by hand. The benchmark of two pools.
What starts an option: of replicas, of two pools, and of a run. The most decisive benchmark and the text about
it, on estimates made by hand.
"""

from __future__ import annotations

import math
import random
import re
import shlex
import subprocess
from dataclasses import replace
from typing import Any

import pytest

from app.sizing.answer.decision_value import (
    DecisionValue,
    benchmark_outcomes,
    benchmark_speed,
    break_even_speed,
    choose_verification,
    decision_text,
    decision_value,
    drafting_note,
    saving_over_first,
)
from app.sizing.answer.pipelines import pipeline_layout, shape_places
from app.sizing.answer.verification import (
    ONE_HOST,
    file_name,
    hosts_per_replica,
    launch_specs,
    machines_per_replica,
    plan_benchmark,
    plan_pools_benchmark,
    pool_pair_share,
    rent_usd,
    repository_name,
    serving_benchmark,
    training_benchmark,
    uniform_spread,
    weight_places,
    work_share,
)
from app.sizing.assumptions import Assumptions
from app.sizing.columns import GIB
from app.sizing.hardware.benchmarks import BENCHMARKS, FRAGMENTS, SERVERS, Places, fill_template
from app.sizing.hardware.engines import ENGINES
from app.sizing.model.architecture import ModelArchitecture
from app.sizing.model.formats import NativeQuantization
from app.sizing.model.sample import SampleShape
from app.sizing.question import Deployment, DraftMethod, Objective, Pools, Question, Speculative
from app.sizing.result import Assurance, DeviceMemory, Estimate, Interval, Level, Outcome, Performance, Ranked
from app.sizing.uncertainty import NORMAL, outcome_levels
from app.sizing.workload import Lengths, Load, Method
from tests.examples import CHAT, LLAMA_8B, PRETRAIN, present, registered
from tests.sizing.answer.given import COST, DEPLOYMENT, RUN, SPEED, estimated, ranked
from tests.sizing.pools.given import ONE, parts, pools_of, speed, split
from tests.sizing.serving.given import STEADY
from tests.sizing.small import BIG, CARD

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
    trial = present(plan_benchmark(Question(workload), estimated(performance=performance, **deployment)))
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
    trial = present(plan_benchmark(question, estimated(performance=SERVED, nodes=4, total_accelerators=8)))
    assert (trial.minutes, trial.accelerators) == (17, 2)
    assert trial.usd == pytest.approx(40 / 4 * 17 / 60, abs=0.005)
    run = present(plan_benchmark(Question(PRETRAIN), estimated(performance=TRAINED, **LAYOUT)))
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


RACK = {"rack": 18}  # hosts of the rack, 4 accelerators each


@pytest.mark.parametrize(("size", "hosts"), [(1, 1), (4, 1), (6, 2), (8, 2), (72, 18)])
def test_a_replica_in_a_rack_spans_hosts(size: int, hosts: int) -> None:
    placed = replace(DEPLOYMENT, system="rack", accelerators_per_replica=size, total_accelerators=72, nodes=1)
    assert hosts_per_replica(placed, RACK) == hosts
    assert hosts_per_replica(placed, ONE_HOST) == machines_per_replica(placed) == 1


def test_commands_start_every_host_of_a_rack_and_the_rack_is_rented_once() -> None:
    layout: dict[str, Any] = {"accelerators_per_replica": 8, "tensor_parallel": 8, "total_accelerators": 72, "nodes": 1}
    found = estimated(performance=SERVED, system="rack", **layout)
    one, rack = (plan_benchmark(Question(CHAT), found, counts) for counts in (ONE_HOST, RACK))
    assert one is not None
    assert rack is not None
    assert "--nnodes" not in one.command
    assert "--nnodes 2 --node-rank $NODE_RANK" in rack.command
    assert (rack.usd, rack.accelerators) == (one.usd, one.accelerators)
    (start,) = launch_specs(Question(CHAT), found, RACK)
    assert (start.machines, start.hosts) == (2, 18)


def test_a_run_on_a_rack_starts_on_each_host() -> None:
    layout = {**LAYOUT, "accelerators_per_replica": 72, "total_accelerators": 72, "data_parallel": 36, "system": "rack"}
    plan = present(plan_benchmark(Question(PRETRAIN), estimated(performance=TRAINED, **layout), RACK))
    assert "--nproc-per-node 4 --nnodes 18 " in plan.command


def weights(model: ModelArchitecture, stored: str, engine: str) -> Places:
    return weight_places(model, replace(DEPLOYMENT, weight_format=stored, engine=engine), BENCHMARKS[engine])


def test_weights_in_another_format_are_published_or_made_by_the_engine_or_a_file_of_the_users_own() -> None:
    hub = replace(LLAMA_8B, name="org/Model-8B")
    assert weights(hub, "bf16", "vllm")["model"] == "org/Model-8B"
    made = weights(hub, "fp8", "vllm")  # while it loads
    assert (made["model"], made["conversion"]) == ("org/Model-8B", "fp8")
    assert weights(hub, "fp8", "tensorrt-llm")["model"] == "./Model-8B-fp8"
    assert weights(hub, "int4-awq", "vllm")["model"] == "./Model-8B-int4-awq"
    native = replace(hub, native=NativeQuantization("fp8"))
    assert weights(native, "fp8", "vllm")["model"] == "org/Model-8B"
    assert weights(native, "bf16", "vllm")["model"] == "./Model-8B-bf16"
    assert weights(hub, "gguf-q4_k_m", "llama.cpp")["gguf_file"] == "./Model-8B-q4_k_m.gguf"


def test_a_published_checkpoint_that_the_engine_loads_comes_first() -> None:
    hub = replace(LLAMA_8B, name="meta-llama/Llama-3.1-8B-Instruct")
    for engine in ("vllm", "tensorrt-llm"):
        found = weights(hub, "fp8", engine)
        assert (found["model"], found["conversion"]) == ("nvidia/Llama-3.1-8B-Instruct-FP8", None)
    assert weights(hub, "int8", "tensorrt-llm")["model"] == "./Llama-3.1-8B-Instruct-int8"  # compressed-tensors
    gguf = weights(hub, "gguf-q4_k_m", "llama.cpp")
    assert gguf["gguf_repository"] == "bartowski/Meta-Llama-3.1-8B-Instruct-GGUF:Q4_K_M"
    assert gguf["gguf_file"] is None
    assert weights(hub, "gguf-iq2_xxs", "llama.cpp")["gguf_file"] == "./Llama-3.1-8B-Instruct-iq2_xxs.gguf"
    assert weights(hub, "int4-mlx", "mlx")["model"] == "mlx-community/Llama-3.1-8B-Instruct-4bit"


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


def test_servers_on_neuron_split_over_the_cores_of_a_chip() -> None:
    assert "--tensor-parallel-size 32 " in command(accelerator="aws-trainium1", tensor_parallel=16, engine="vllm")
    assert "--tensor-parallel-size 64 " in command(accelerator="aws-trainium2", tensor_parallel=16, engine="vllm")
    assert "--tensor-parallel-size 64 " in command(accelerator="aws-trainium3", tensor_parallel=16, engine="vllm")
    assert "--tensor-parallel-size 16 " in command(accelerator="acme-big", tensor_parallel=16, engine="vllm")


def test_tgi_on_neuron_keeps_the_whole_length_for_every_request_of_a_batch() -> None:
    memory = DeviceMemory(1.0, 1.0, 0.0, 0.0, 0.0, 0.0, 3.0, 3.0, kv_cache_tokens=800_000)
    found = replace(estimated(engine="tgi", accelerator="aws-inferentia2", max_batch=64), memory=memory)
    trial = plan_benchmark(Question(CHAT), found)
    assert trial is not None
    length = int(re.search(r"--max-total-tokens (\d+) ", trial.command)[1])  # type: ignore[index]
    assert CHAT.max_context_tokens <= length <= 800_000 / 64


def test_vllm_on_neuron_loads_converted_weights() -> None:
    at_start: dict[str, Any] = {"engine": "vllm", "weight_format": "fp8"}
    assert "--quantization fp8" in command(**at_start)
    assert "--quantization" not in command(accelerator="aws-trainium2", **at_start)


def test_adapters_are_trained_as_such() -> None:
    adapters = replace(PRETRAIN, method=Method.QLORA, phase="fine_tuning", lora_rank=16)
    line = command(adapters, TRAINED, **{**LAYOUT, "framework": "unsloth"})
    assert "--load_in_4bit --r 16" in line
    assert training_benchmark(adapters, replace(DEPLOYMENT, framework="megatron")) is BENCHMARKS["nemo"]
    assert training_benchmark(PRETRAIN, replace(DEPLOYMENT, framework="megatron")) is BENCHMARKS["megatron"]


def test_megatron_is_measured_with_what_fine_tunes() -> None:
    tuned = replace(PRETRAIN, phase="fine_tuning")
    assert training_benchmark(tuned, replace(DEPLOYMENT, framework="megatron")) is BENCHMARKS["nemo"]
    line = command(tuned, TRAINED, **{**LAYOUT, "framework": "nemo"})
    assert "run_recipe.py --recipe $RECIPE --mode sft --dataset squad" in line
    assert "checkpoint.pretrained_checkpoint=$CONVERTED_DIR" in line
    line = command(PRETRAIN, TRAINED, **{**LAYOUT, "framework": "nemo"})
    assert "--mode pretrain --dataset mock" in line
    assert "CONVERTED_DIR" not in line


def test_single_passes_are_measured_by_what_the_model_is() -> None:
    def used(name: str, engine: str) -> Any:
        return serving_benchmark(replace(CHAT, model=registered(name)), replace(DEPLOYMENT, engine=engine))

    assert used("BAAI/bge-large-en-v1.5", "pytorch") is BENCHMARKS["embeddings"]
    assert used("BAAI/bge-reranker-v2-m3", "pytorch").load == BENCHMARKS["embeddings"].reranks
    assert "/v1/embeddings" in used("BAAI/bge-large-en-v1.5", "text-embeddings-inference").load
    assert "hf_tei_rankings" in used("BAAI/bge-reranker-v2-m3", "text-embeddings-inference").load
    assert used("stabilityai/stable-diffusion-xl-base-1.0", "pytorch") is BENCHMARKS["pictures"]
    assert used("microsoft/resnet-50", "pytorch") is BENCHMARKS["passes"]
    assert used("microsoft/resnet-50", "tensorrt") is BENCHMARKS["tensorrt"]


def test_pictures_and_videos_are_generated_in_the_size_of_the_answer() -> None:
    def line(name: str, **size: int) -> str:
        model = registered(name).with_sample_shape(SampleShape(**size))
        return command(replace(CHAT, model=model), engine="diffusers", weight_format="bf16")

    assert line("stabilityai/stable-diffusion-xl-base-1.0", width=512, height=768, steps=20).endswith(" 20 60 512 768")
    assert line("Wan-AI/Wan2.1-T2V-14B-Diffusers", frames=33).endswith(" 832 480 33")


def test_nothing_is_run_of_what_does_not_run() -> None:
    question = Question(CHAT)
    assert plan_benchmark(question, estimated(performance=None)) is None
    assert plan_benchmark(question, replace(estimated(performance=SERVED), fits=False)) is None
    drafted = Speculative(DraftMethod.MTP, draft_tokens=2, acceptance_rate=0.8)
    for engine in ("tgi", "llama.cpp", "ollama"):
        assert plan_benchmark(question, estimated(performance=SERVED, speculative=drafted, engine=engine)) is None


@pytest.mark.parametrize("engine", ["vllm", "sglang", "tensorrt-llm"])
@pytest.mark.parametrize("method", list(DraftMethod))
def test_drafting_is_measured_with_prompts_of_the_user(engine: str, method: DraftMethod) -> None:
    drafted = Speculative(method, draft_tokens=3, acceptance_rate=0.6, draft_parameters=1e9)
    workload = replace(CHAT, model=replace(LLAMA_8B, name="Qwen/Qwen3-32B"))
    plan = present(
        plan_benchmark(Question(workload), estimated(performance=SERVED, speculative=drafted, engine=engine))
    )
    line, server = plan.command, SERVERS[engine]
    assert server.drafting[method] in line
    assert "--dataset-name custom --dataset-path $PROMPTS_FILE" in line and "random" not in line
    assert ("AngelSlim/Qwen3-32B_eagle3" in line) == (method is DraftMethod.EAGLE)
    assert ("./draft" in line) == (method is DraftMethod.DRAFT_MODEL)
    plain = present(plan_benchmark(Question(workload), estimated(performance=SERVED, engine=engine)))
    assert "random" in plain.command and server.drafting[method] not in plain.command


def test_the_configuration_of_drafting_keeps_that_of_ranks() -> None:
    drafted = Speculative(DraftMethod.EAGLE, draft_tokens=3, acceptance_rate=0.6)
    layout: dict[str, Any] = {"engine": "tensorrt-llm", "speculative": drafted}
    for ranks in (1, 2):
        plan = present(plan_benchmark(Question(CHAT), estimated(performance=SERVED, **layout, data_parallel=ranks)))
        files = re.findall(r"(>>?) config.yaml", plan.command)
        assert files[0] == ">" and {*files[1:]} == {">>"}
        assert ("enable_attention_dp" in plan.command) == (ranks > 1)
        assert plan.command.count("--config config.yaml") == 1


def test_the_verification_of_drafting_says_that_random_prompts_show_no_acceptance() -> None:
    assert drafting_note(DEPLOYMENT) == ""
    note = drafting_note(replace(DEPLOYMENT, speculative=Speculative(DraftMethod.MTP, 1, 0.85)))
    assert "Random prompts show no acceptance" in note and "1.85" in note


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
    trial = present(plan_benchmark(longer, estimated(performance=SERVED)))
    assert trial.minutes == 27
    assert "--num-prompts 4800" in trial.command


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
    trial = present(plan_pools_benchmark(Question(STEADY), pooled(engine)))
    assert all(flag in trial.command for flag in flags), trial.command
    assert trial.command.startswith("case $ROLE in prefill) ") and trial.command.count(" ;;") == 3
    assert subprocess.run(["bash", "-n", "-c", trial.command], check=False).returncode == 0
    assert trial.accelerators == 1 + 2


def test_pools_of_different_weights_serve_one_name() -> None:
    found = pooled()
    model = replace(STEADY.model, name="meta-llama/Llama-3.1-8B-Instruct")
    assert found.deployment.pools is not None
    decode = replace(found.deployment.pools.decode, weight_format="bf16")
    prefill = replace(found.deployment.pools.prefill, weight_format="fp8")
    mixed = replace(found, deployment=replace(found.deployment, pools=Pools(prefill, decode)))
    trial = present(plan_pools_benchmark(Question(replace(STEADY, model=model)), mixed))
    assert trial.command.count(f"--served-model-name {model.name} ") == 2
    assert trial.command.count('"enforce_handshake_compat": false') == 2
    assert f"--model {model.name} " in trial.command.partition("vllm bench")[2]


def test_a_pair_is_asked_for_what_its_slower_pool_carries() -> None:
    found = pooled()
    pools = parts(found)
    each = (pools.prefill.requests_per_s_capacity / 2, pools.decode.requests_per_s_capacity / 3)
    whole = speed(found).requests_per_s_capacity or 0.0
    assert pool_pair_share(found) == pytest.approx(min(each) / whole)
    trial = present(plan_pools_benchmark(Question(STEADY), found))
    assert f"--request-rate {min(each):.3g} " in trial.command


def test_of_so_many_in_flight_a_pair_holds_its_share() -> None:
    some = replace(STEADY, load=Load.CLOSED, in_flight=60.0)
    trial = present(plan_pools_benchmark(Question(some), split(TWO_AND_THREE, workload=some, engine="vllm")))
    assert "--request-rate" not in trial.command
    held = int(trial.command.split("--max-concurrency ")[1].split()[0])
    assert 20 <= held <= 31  # of the 60 that two and three replicas hold


def test_what_no_flags_say_has_no_benchmark() -> None:
    drafted = Speculative(DraftMethod.EAGLE, 3, 0.7)
    by_file = pooled(speculative=drafted, engine="tensorrt-llm")
    assert plan_pools_benchmark(Question(STEADY), by_file) is None
    assert plan_pools_benchmark(Question(STEADY), replace(pooled(), fits=False)) is None


def test_replicas_are_started_as_the_benchmark_starts_them() -> None:
    question, estimate = Question(CHAT), estimated(performance=SERVED, tensor_parallel=2, max_batch=64)
    (start,) = launch_specs(question, estimate)
    trial = present(plan_benchmark(question, estimate))
    assert start.benchmark.fill_places(start.places) == trial.command
    assert start.places["served"] == CHAT.model.max_context_tokens
    assert (
        f"--max-model-len {start.places['served']} " in trial.command
    )  # the server that is measured is the one that runs
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
    assert prefill.benchmark is BENCHMARKS["sglang"]


def test_a_run_knows_all_its_steps() -> None:
    (start,) = launch_specs(Question(PRETRAIN), estimated(performance=TRAINED, **LAYOUT))
    tokens = PRETRAIN.global_batch * PRETRAIN.units_per_sequence
    assert start.benchmark is BENCHMARKS["megatron"]
    assert start.places["all_steps"] == pytest.approx(PRETRAIN.units / tokens, rel=1e-3)
    assert start.role == "train"


def test_the_batch_of_a_run_divides_evenly_over_its_ranks() -> None:
    three = {**LAYOUT, "tensor_parallel": 1, "data_parallel": 3, "accelerators_per_replica": 3, "total_accelerators": 3}
    (start,) = launch_specs(Question(PRETRAIN), estimated(performance=TRAINED, **three))
    batch, accumulated = start.places["global_batch"], start.places["accumulated"]
    assert batch == 3 * 2 * int(str(accumulated)) != PRETRAIN.global_batch
    assert start.places["all_steps"] == math.ceil(PRETRAIN.units / (int(str(batch)) * PRETRAIN.units_per_sequence))
    (tie,) = launch_specs(Question(replace(PRETRAIN, global_batch=15)), estimated(performance=TRAINED, **three))
    assert tie.places["global_batch"] == 18  # the prediction, too, makes 3 of 2.5 micro-batches


def test_a_pipeline_is_cut_into_the_sized_chunks() -> None:
    staged = {**LAYOUT, "pipeline_parallel": 4, "virtual_pipeline": 3, "tensor_parallel": 2, "data_parallel": 1}
    (start,) = launch_specs(Question(PRETRAIN), estimated(performance=TRAINED, **staged))
    assert PRETRAIN.model.num_layers == 32  # a third round of 12 chunks would need 36
    assert start.places["pipeline_layout"] == pipeline_layout(32, 4, 3)
    assert "chunk" not in {name for name, value in start.places.items() if value is not None}
    even = {**staged, "virtual_pipeline": 2}
    (start,) = launch_specs(Question(PRETRAIN), estimated(performance=TRAINED, **even))
    assert (start.places["chunk"], start.places["pipeline_layout"]) == (4, None)
    (start,) = launch_specs(Question(replace(PRETRAIN, global_batch=4)), estimated(performance=TRAINED, **even))
    assert start.places["chunk"] is None  # two micro-batches cannot fill the chunks of four stages


@pytest.mark.parametrize(("stage", "shards", "copies"), [(0, 1, 4), (1, 4, 1), (3, 4, 1)])
def test_copies_of_the_weights(stage: int, shards: int, copies: int) -> None:
    (start,) = launch_specs(Question(PRETRAIN), estimated(performance=TRAINED, **{**LAYOUT, "zero_stage": stage}))
    assert (start.places["shards"], start.places["copies"]) == (shards, copies)


def test_what_does_not_run_is_not_started() -> None:
    assert launch_specs(Question(CHAT), estimated(performance=None)) == ()
    assert DEPLOYMENT.pools is None


VERIFICATION_SERVED = Performance(
    Interval("output_tokens_per_s", 2000.0, 4000.0),
    "measured",
    output_tokens_per_s=3000.0,
    requests_per_s_capacity=12.0,
)
VERIFICATION_TRAINED = replace(RUN, interval=Interval("tokens_per_s", 6e4, 1.4e5), tokens_per_s=1e5, step_time_s=6.0)


def sure(*levels: tuple[float, int | None, float | None], asked: float = 0.8, run: bool = False) -> Assurance:
    """Confidence, accelerators, and USD per hour or of the run."""
    found = (Level(c, n, usd_total=usd) if run else Level(c, n, usd_per_hour=usd) for c, n, usd in levels)
    return Assurance(asked, 0.99, 0.9, None, tuple(found))


def candidate(rank: int, *levels: tuple[float, int | None, float | None], run: bool = False, **given: Any) -> Ranked:
    found = ranked(rank, **({"performance": VERIFICATION_TRAINED if run else VERIFICATION_SERVED} | given))
    return replace(found, estimate=replace(found.estimate, assurance=sure(*levels, run=run)))


# 24 at 50 %, 32 at 80 %: 8 USD an hour less if the prediction holds
FIRST = candidate(1, (0.5, 24, 24.0), (0.8, 32, 32.0), (0.9, 40, 40.0))


def test_the_first_where_it_saves_most() -> None:
    steady = candidate(2, (0.5, 8, 30.0), (0.8, 8, 36.0), accelerator=CARD)
    found = present(choose_verification(Question(CHAT), (FIRST, steady)))
    assert found.accelerator == "acme-big"
    # a third of 3,000 on each of three replicas; 8 USD of 730 hours; 24 / 36 of 1,000 where the other costs as much
    assert found.decides == (
        "If the benchmark shows at least 1,000 output tokens/s per replica, 24 accelerators are enough instead of 32. "
        "This saves 5,840 USD per month."
    )


def test_the_runner_up_is_cheaper_below_where_costs_meet() -> None:
    near = candidate(2, (0.5, 8, 30.0), (0.8, 8, 33.0), accelerator=CARD)
    found = present(choose_verification(Question(CHAT), (FIRST, near)))
    # 24 / 33 of 1,000 is above the low end, two thirds of the prediction
    assert found.decides.endswith(" Below 727 output tokens/s, 8 × Acme Card is cheaper.")


def test_a_runner_up_with_one_level_is_cheaper_below() -> None:
    found = present(choose_verification(Question(CHAT), (FIRST, candidate(2, (0.8, 8, 33.0), accelerator=CARD))))
    assert found.decides.endswith(" Below 727 output tokens/s, 8 × Acme Card is cheaper.")


def test_another_where_that_saves_more() -> None:
    unsure = candidate(2, (0.5, 4, 10.0), (0.8, 16, 40.0), accelerator=CARD)
    found = present(choose_verification(Question(CHAT), (FIRST, unsure)))
    assert found.accelerator == "acme-card"
    assert (
        "choose 4 × Acme Card instead of 32 × Acme Big. This saves 16,060 USD per month compared with " in found.decides
    )
    assert "Below" not in found.decides  # 10 / 32 of the speed is below the expected speed


def test_of_equals_the_first() -> None:
    same = candidate(2, (0.5, 24, 24.0), (0.8, 32, 32.0), accelerator=CARD)
    found = present(choose_verification(Question(CHAT), (FIRST, same)))
    assert found.accelerator == "acme-big"


def test_where_nothing_changes_it_confirms() -> None:
    alone = candidate(1, (0.5, 8, 20.0), (0.8, 8, 20.0))
    found = present(choose_verification(Question(CHAT), (alone,)))
    assert found.decides == (
        "The benchmark checks the predicted 1,000 output tokens/s per replica. If it confirms this rate, the "
        "recommendation stays 8 × Acme Big (80 % confidence)."
    )


def test_as_many_accelerators_of_the_first_are_no_decision() -> None:
    # a run lasts as long as it lasts
    run = candidate(1, (0.5, 8, 700.0), (0.8, 8, 900.0), run=True)
    found = present(choose_verification(Question(PRETRAIN), (run,)))
    assert found.decides == (
        "The benchmark checks the predicted 100,000 tokens/s. If it confirms this rate, the recommendation stays "
        "8 × Acme Big (80 % confidence)."
    )


def test_a_run_saves_its_money() -> None:
    run = candidate(1, (0.5, 6, 700.0), (0.8, 8, 900.0), run=True)
    found = present(choose_verification(Question(PRETRAIN), (run,)))
    assert found.decides == (
        "If the benchmark shows at least 100,000 tokens/s, 6 accelerators are enough instead of 8. This saves 200 USD."
    )


def test_without_a_price_accelerators_count() -> None:
    free = candidate(1, (0.5, 24, None), (0.8, 32, None), cost=None)
    priced = candidate(2, (0.5, 1, 1.0), (0.8, 1, 1.0), accelerator=CARD)
    found = present(choose_verification(Question(CHAT), (free, priced)))
    assert found.decides.endswith("24 accelerators are enough instead of 32. This saves 8 accelerators.")
    assert found.usd is None


def test_limits_are_named_where_a_request_has_a_duration() -> None:
    limited = replace(FIRST.estimate, performance=replace(VERIFICATION_SERVED, e2e=ranked().estimate.performance.e2e))  # type: ignore[union-attr]
    stake = present(decision_value(replace(FIRST, estimate=limited)))
    assert decision_text(stake, stake, None, "in its table").startswith(
        "If the benchmark shows at least 1,000 output tokens/s per replica within the limits (computed as in its "
        "table), 24 accelerators are enough instead of 32."
    )


def test_nothing_is_said_without_other_confidences() -> None:
    question = Question(CHAT)
    assert choose_verification(question, ()) is None
    assert choose_verification(question, (ranked(1, performance=VERIFICATION_SERVED),)) is None
    assert choose_verification(question, (ranked(1, performance=VERIFICATION_SERVED), FIRST)) is None
    assert choose_verification(question, (candidate(1, (0.8, 8, 8.0)),)) is None
    assert choose_verification(question, (candidate(1, (0.5, 8, 8.0), (0.8, 8, 8.0), performance=None),)) is None


def test_what_cannot_be_had_saves_nothing() -> None:
    never = present(decision_value(candidate(1, (0.5, None, None), (0.8, None, None), cost=COST)))
    first = present(decision_value(FIRST))
    assert saving_over_first(never, first) == 0.0
    assert break_even_speed(1000.0, first, never) is None
    assert break_even_speed(1000.0, first, None) is None
    assert (
        break_even_speed(
            1000.0,
            DecisionValue(ranked(performance=None), first.at_confidence, first.at_prediction, priced=True),
            first,
        )
        is None
    )


def test_a_candidate_without_a_speed_is_only_confirmed() -> None:
    silent = present(
        decision_value(
            candidate(
                1, (0.5, 8, 8.0), (0.8, 16, 16.0), performance=replace(VERIFICATION_SERVED, output_tokens_per_s=None)
            )
        )
    )
    assert decision_text(silent, silent, None) == f"The benchmark confirms 16 × {BIG.name}."


def test_a_single_pair_carries_all_of_its_deployment() -> None:
    alone = split(pools_of(), engine="vllm")
    assert pool_pair_share(alone) == 1
    assert pool_pair_share(estimated()) == 1
    pools = present(alone.deployment.pools)
    unknown = Pools(replace(pools.prefill, replicas=None), replace(pools.decode, replicas=None))
    assert pool_pair_share(replace(alone, deployment=replace(alone.deployment, pools=unknown))) == 1


def test_a_benchmark_reports_the_rate_of_a_replica_in_its_own_unit() -> None:
    """Of 120 output tokens a second three replicas write 40 each; a text that is read in one pass is a request."""
    rate = replace(SPEED, output_tokens_per_s=120.0)
    assert benchmark_speed(estimated(performance=rate)) == (40.0, "output tokens/s", " per replica")
    read = replace(rate, total_tokens_per_s=900.0)
    assert benchmark_speed(estimated(performance=read)) == (40.0, "output tokens/s", " per replica")
    samples = replace(SPEED, interval=Interval("samples_per_s", 80.0, 120.0), samples_per_s=90.0)
    assert benchmark_speed(estimated(performance=samples)) == (30.0, "samples/s", " per replica")
    texts = replace(samples, total_tokens_per_s=900.0)
    assert benchmark_speed(estimated(performance=texts)) == (30.0, "requests/s", " per replica")
    assert benchmark_speed(estimated(performance=rate, replicas=None)) == (120.0, "output tokens/s", " per replica")
    assert benchmark_speed(estimated(performance=replace(RUN, tokens_per_s=500.0))) == (500.0, "tokens/s", "")
    assert benchmark_speed(estimated(performance=None)) is None
    assert benchmark_speed(estimated()) is None  # its rate is not known


def test_runs_are_compared_by_their_predicted_costs() -> None:
    """The first costs 100 USD as predicted and 130 at 80 % confidence: a rival predicted at 110 saves nothing."""
    first = candidate(1, (0.5, 8, 100.0), (0.8, 8, 130.0), run=True, cost=replace(COST, usd_total=100.0))
    rival = candidate(
        2, (0.5, 8, 110.0), (0.8, 8, 132.0), run=True, accelerator=CARD, cost=replace(COST, usd_total=110.0)
    )
    found = present(choose_verification(Question(PRETRAIN), (first, rival)))
    assert "the recommendation stays 8 × Acme Big" in found.decides
    cheap = candidate(
        2, (0.5, 8, 90.0), (0.8, 8, 132.0), run=True, accelerator=CARD, cost=replace(COST, usd_total=90.0)
    )
    found = present(choose_verification(Question(PRETRAIN), (first, cheap)))
    assert "This saves 10.00 USD compared with the predicted cost of the first option." in found.decides


def test_speech_on_ctranslate2_is_measured_with_ctranslate2() -> None:
    speech = replace(CHAT, model=registered("openai/whisper-large-v3"))
    used = serving_benchmark(speech, Deployment("a", engine="ctranslate2"))
    assert "faster_whisper" in used.load and "transformers import" not in used.load


def test_speech_on_vllm_is_measured_at_its_server() -> None:
    speech = replace(CHAT, model=registered("openai/whisper-large-v3"))
    used = serving_benchmark(speech, Deployment("a", engine="vllm"))
    assert used.server is SERVERS["vllm"] and "/v1/audio/transcriptions" in used.load


WIDE: dict[str, Any] = {
    **LAYOUT,
    "accelerators_per_replica": 256,
    "total_accelerators": 256,
    "nodes": 32,
    "tensor_parallel": 8,
    "pipeline_parallel": 4,
    "data_parallel": 8,
}
STATES = DeviceMemory(4 * GIB, 0.0, 10 * GIB, 2 * GIB, 8 * GIB, 3 * GIB, 80 * GIB, 72 * GIB)


def wide_run(memory: DeviceMemory, **deployment: Any) -> Estimate:
    return replace(estimated(performance=VERIFICATION_TRAINED, **{**WIDE, **deployment}), memory=memory)


def test_a_run_on_many_machines_is_measured_on_one() -> None:
    """One machine holds the layers of one of four stages: 4 + 8 + 8 * 3 GiB of states next to 12 of 72 GiB."""
    estimate = wide_run(STATES)
    trial = present(plan_benchmark(Question(PRETRAIN), estimate))
    assert trial.section is not None
    layers = PRETRAIN.model.num_layers
    assert (trial.accelerators, trial.section.layers) == (8, layers // 4)
    assert f"--num-layers {layers // 4} " in trial.command and "--nnodes" not in trial.command
    assert "--pipeline-model-parallel-size" not in trial.command
    assert trial.usd == rent_usd(estimate, 1, trial.minutes)
    kept = work_share(PRETRAIN.model.matmul_params, PRETRAIN.model.head_matmul_params, (layers // 4) / layers)
    assert 1 / 4 < kept < 1
    assert trial.section.rate_share == pytest.approx(1 / kept / 32)
    full = present(plan_benchmark(Question(PRETRAIN), wide_run(replace(STATES, optimizer_bytes=12 * GIB))))
    assert full.section is not None
    assert full.section.layers == math.floor(layers / 4 * 60 / (4 + 8 + 96))  # unsharded optimizer states of 96 GiB


def test_the_decision_of_a_section_says_that_scaling_is_extrapolated() -> None:
    levels = ((0.5, 128, 90.0), (0.8, 256, 130.0))
    first = candidate(1, *levels, run=True, cost=replace(COST, usd_total=100.0))
    first = replace(first, estimate=replace(wide_run(STATES), assurance=first.estimate.assurance))
    found = present(choose_verification(Question(PRETRAIN), (first,)))
    assert found.accelerators == 8
    assert "tokens/s on 8 accelerators, 128 accelerators are enough" in found.decides
    assert found.decides.endswith("layers on one machine; the scaling to 256 accelerators is extrapolated.")


@pytest.mark.parametrize(
    ("model", "flags"),
    [  # examples/megatron_fsdp, examples/rl/model_configs and examples/mixtral of Megatron-LM
        (
            "deepseek-ai/DeepSeek-V3",
            "--ffn-hidden-size 18432 --num-attention-heads 128 --kv-channels 128 --multi-latent-attention "
            "--kv-lora-rank 512 --qk-head-dim 128 --qk-pos-emb-head-dim 64 --v-head-dim 128 --q-lora-rank 1536 "
            "--qk-layernorm --moe-ffn-hidden-size 2048 --moe-shared-expert-intermediate-size 2048 "
            "--moe-layer-freq [0]*3+[1]*58",
        ),
        ("Qwen/Qwen3-30B-A3B", "--kv-channels 128 --num-query-groups 4 --qk-layernorm --moe-ffn-hidden-size 768"),
        ("mistralai/Mixtral-8x7B-v0.1", "--ffn-hidden-size 14336 --moe-ffn-hidden-size 14336 --moe-grouped-gemm"),
        ("Qwen/Qwen2.5-7B", "--ffn-hidden-size 18944 --add-qkv-bias"),
    ],
)
def test_megatron_builds_the_model_that_was_sized(model: str, flags: str) -> None:
    given = shlex.split(fill_template(FRAGMENTS["megatron_shape"], shape_places(registered(model), Deployment("a"))))
    settings = dict(zip(given, [*given[1:], ""], strict=True))
    for flag in re.findall(r"--\S+(?: [^-]\S*)?", flags):
        name, _, value = flag.partition(" ")
        assert settings[name] == value or (not value and name in settings), flag
    assert ("--group-query-attention" in given) != ("--multi-latent-attention" in given)
    assert ("--num-experts" in given) == registered(model).is_moe


@pytest.mark.parametrize("framework", ["megatron", "maxtext", "nemo"])
def test_no_benchmark_of_a_run_takes_more_than_one_machine(framework: str) -> None:
    trial = present(plan_benchmark(Question(PRETRAIN), wide_run(STATES, framework=framework)))
    assert trial.accelerators <= 8
    assert "num_layers=" in trial.command or "decoder_layers=" in trial.command or "--num-layers" in trial.command


@pytest.mark.parametrize(
    ("accelerator", "hardware", "fp8"),
    [
        ("nvidia-h100-sxm5-80gb", "gpu", "fp8_gpu"),
        ("amd-mi300x", "gpu", "fp8_nanoo"),
        ("google-tpu-v6e", None, "fp8"),
    ],
)
def test_maxtext_names_the_hardware_and_the_fp8_kernels_of_its_maker(
    accelerator: str, hardware: str | None, fp8: str
) -> None:
    run = wide_run(STATES, framework="maxtext")
    run = replace(run, deployment=replace(run.deployment, accelerator=accelerator))
    for precision, quantized in (("bf16", False), ("fp8", True)):
        trial = present(plan_benchmark(Question(replace(PRETRAIN, precision=precision)), run))
        given = dict(part.split("=", 1) for part in trial.command.split() if "=" in part)
        assert given.get("hardware") == hardware  # MaxText assumes a TPU
        assert given.get("quantization") == (fp8 if quantized else None)
        assert ("use_qwix_quantization" in given) == quantized


@pytest.mark.parametrize(("stored", "name"), [("fp16", "float16"), ("bf16", "bfloat16"), ("int8", "int8_float16")])
def test_a_speech_model_is_converted_to_the_format_that_was_sized(stored: str, name: str) -> None:
    command = BENCHMARKS["faster-whisper"].fill_places(
        {"model": "openai/whisper-large-v3", "batch": 4, "stored": BENCHMARKS["faster-whisper"].converts[stored]}
    )
    assert f" --quantization {name} " in command


@pytest.mark.parametrize("objective", [each for each in Objective if each is not Objective.COST])
def test_a_benchmark_of_a_cheaper_option_decides_nothing_under_another_objective(objective: Objective) -> None:
    unsure = candidate(2, (0.5, 4, 10.0), (0.8, 16, 40.0), accelerator=CARD)
    found = present(choose_verification(Question(CHAT, objective=objective), (FIRST, unsure)))
    assert found.accelerator == "acme-big"
    assert "Acme Card" not in found.decides


def test_each_outcome_of_a_benchmark_says_what_is_needed_then() -> None:
    after = tuple(Level(c, n, usd_per_hour=4.0 * n) for c, n in zip(outcome_levels(0.8), (12, 8, 6), strict=True))
    sure = Assurance(0.8, fits=1.0, meets_slo=0.9, meets_deadline=None, by_level=(), after=after)
    found = [*benchmark_outcomes(replace(estimated(performance=SERVED), assurance=sure))]
    assert [(f.outcome, f.total_accelerators, f.usd_per_hour) for f in found] == [
        (Outcome.SLOWER, 12, 48.0),
        (Outcome.AS_PREDICTED, 8, 32.0),
        (Outcome.FASTER, 6, 24.0),
    ]
    # three replicas with 3,000 tokens/s; the 80 % interval from 2,000 to 4,000 is 2 * 1.2816 deviations wide
    factor = math.exp(math.log(2) / (2 * 1.2816))
    assert [f.rate for f in found] == pytest.approx([1000 / factor, 1000, 1000 * factor], rel=1e-4)


@pytest.mark.parametrize("asked", [0.5, 0.8, 0.95])
def test_a_benchmark_leaves_a_quarter_of_the_doubt(asked: float) -> None:
    slower, same, faster = (NORMAL.inv_cdf(level) for level in outcome_levels(asked))
    assert (slower - same, same - faster) == pytest.approx((1, 1))
    assert same == pytest.approx(0.24 * NORMAL.inv_cdf(asked), abs=0.01)
