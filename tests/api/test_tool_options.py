"""Options in the spelling of the tools that people copy them from: trainers, PEFT, vLLM, SGLang, llama.cpp."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import TypeAdapter
from starlette.testclient import TestClient

from app.api.schemas.base import MethodName, OptimizerName, PrecisionName, WeightFormatName
from tests.examples import answer_of

LORA = {
    "phase": "fine_tuning",
    "method": "lora",
    "model": "meta-llama/Llama-3.1-8B",
    "training_tokens": 1e7,
    "sequence_length": 512,
    "global_batch_sequences": 8,
}
SERVING = {
    "phase": "inference",
    "model": "meta-llama/Llama-3.1-8B-Instruct",
    "traffic": {"concurrent_requests": 1, "input_tokens": 1000, "output_tokens": 200},
}
H100 = {"accelerator": "nvidia-h100-sxm5-80gb", "total_accelerators": 1}


def estimate(client: TestClient, workload: dict[str, Any], **deployment: Any) -> dict[str, Any]:
    return answer_of(client.post("/estimate", json={"workload": workload, "deployment": {**H100, **deployment}}))


def lora_params(client: TestClient, **lora: Any) -> int:
    answer = answer_of(
        client.post("/catalog/models/inspect", json={"model": LORA["model"], "lora": {"rank": 16, **lora}})
    )
    counts: dict[str, int] = answer["lora"]["parameters"]
    return counts.get("chosen", counts.get("all-linear", 0))


# Names of transformers, OptimizerNames (training_args.py, read 2026-11-27), and of axolotl, DeepSpeed and torchtune.
OPTIMIZER_NAMES = {
    "adamw": "adamw_torch adamw_torch_fused adamw_torch_xla adamw_torch_npu_fused adamw_apex_fused adamw_anyprecision "
    "paged_adamw_32bit schedule_free_adamw schedule_free_radam stable_adamw torch.optim.AdamW FusedAdam cpu_adam",
    "adamw-8bit": "adamw_torch_8bit adamw_bnb_8bit adamw_8bit paged_adamw_8bit bitsandbytes.optim.PagedAdamW8bit",
    "adamw-4bit": "adamw_torch_4bit ao_adamw_4bit",
    "ademamix": "ademamix paged_ademamix_32bit",
    "ademamix-8bit": "ademamix_8bit paged_ademamix_8bit",
    "lion": "lion_32bit paged_lion_32bit",
    "lion-8bit": "lion_8bit paged_lion_8bit",
    "rmsprop": "rmsprop rmsprop_bnb rmsprop_bnb_32bit",
    "rmsprop-8bit": "rmsprop_bnb_8bit",
    "sgd": "sgd schedule_free_sgd",
    "adafactor": "adafactor",
    "adagrad": "adagrad",
    "grokadamw": "grokadamw",
    "lomo": "lomo",
    "adalomo": "adalomo",
    "galore-adamw": "galore_adamw",
    "galore-adamw-layerwise": "galore_adamw_layerwise",
    "galore-adamw-8bit": "galore_adamw_8bit",
    "galore-adamw-8bit-layerwise": "galore_adamw_8bit_layerwise",
    "galore-adafactor": "galore_adafactor",
    "galore-adafactor-layerwise": "galore_adafactor_layerwise",
    "apollo-adamw": "apollo_adamw",
    "apollo-adamw-layerwise": "apollo_adamw_layerwise",
    "muon": "muon",
    "came": "came_pytorch",
    "adam-mini": "adam_mini",
}


@pytest.mark.parametrize("known", OPTIMIZER_NAMES)
def test_optimizers_of_tools_are_the_one_with_the_same_states(known: str) -> None:
    read = TypeAdapter(OptimizerName).validate_python
    assert {read(name) for name in OPTIMIZER_NAMES[known].split()} == {known}


def test_an_optimizer_of_a_tool_is_estimated(client: TestClient) -> None:
    memory = [estimate(client, {**LORA, "optimizer": name})["memory"] for name in ("paged_lion_8bit", "lion-8bit")]
    assert memory[0] == memory[1]


@pytest.mark.parametrize(
    ("typed", "known"),
    [
        ("fp8_e5m2", "fp8"),
        ("fp8_e4m3", "fp8"),
        ("fp8_per_token_head", "fp8"),
        ("bfloat16", "bf16"),
        ("FP8", "fp8"),
        ("auto", "bf16"),
    ],
)
def test_cache_formats_of_engines_are_read(client: TestClient, typed: str, known: str) -> None:
    shown = estimate(client, SERVING, engine="vllm", weight_format="bf16", kv_format=typed)
    assert shown["deployment"]["kv_format"] == known


def test_cache_types_of_llama_cpp_are_read(client: TestClient) -> None:
    shown = estimate(client, SERVING, engine="llama.cpp", weight_format="Q8_0", kv_format="f16")
    assert shown["deployment"]["kv_format"] == "fp16"


def test_a_precision_of_a_tool_is_estimated(client: TestClient) -> None:
    assert estimate(client, {**LORA, "precision": "bf16-mixed"}) == estimate(client, {**LORA, "precision": "bf16"})


# Names of accelerate, Lightning, Composer, Megatron Bridge and PyTorch; of vLLM, torchao and compressed-tensors; of the
# GGUF files of Bartowski and Unsloth.
OPTION_NAMES = [
    (PrecisionName, "bf16", "bfloat16 BF16 bf16-mixed amp_bf16 torch.bfloat16"),
    (PrecisionName, "fp32", "32-true 32 no float32"),
    (PrecisionName, "fp8", "amp_fp8 transformer-engine fp8_delayed bf16_with_fp8"),
    (PrecisionName, "bf16-true", "bf16_full"),
    (MethodName, "full", "full_parameter fft finetune"),
    (WeightFormatName, "fp8", "fp8_w8a8 fp8-dynamic FP8 float8dq"),
    (WeightFormatName, "int4-gptq", "gptq_marlin marlin auto-round"),
    (WeightFormatName, "gguf-q4_k_m", "Q4_K_M Q4_K_L UD-Q4_K_XL q4_k"),
    (WeightFormatName, "gguf-iq2_xxs", "UD-IQ2_XXS"),
    (WeightFormatName, "fp32", "F32"),
]


@pytest.mark.parametrize(("option", "known", "typed"), OPTION_NAMES)
def test_options_are_read_as_tools_name_them(option: Any, known: str, typed: str) -> None:
    assert {TypeAdapter(option).validate_python(name) for name in typed.split()} == {known}


@pytest.mark.parametrize(
    ("typed", "advice"),
    [
        ("DPO", "reference model are not counted"),
        ("orpo", "two sequences for each pair"),
        ("grpo", "phase inference"),
        ("oft", "Size it as lora"),
        ("freeze", "Size it as full for an upper bound"),
    ],
)
def test_a_method_that_is_not_sized_is_refused_with_what_is(client: TestClient, typed: str, advice: str) -> None:
    answer = client.post("/estimate", json={"workload": {**LORA, "method": typed}, "deployment": H100})
    (problem,) = answer.json()["errors"]
    assert (answer.status_code, problem["pointer"]) == (422, "#/workload/method")
    assert problem["detail"].startswith(f"'{typed}' is not sized.")
    assert advice in problem["detail"]


@pytest.mark.parametrize("typed", ["FULL_SHARD", "zero3", "stage-3", 3.0])
def test_stages_of_sharding_are_read(client: TestClient, typed: Any) -> None:
    shown = estimate(client, {**LORA, "method": "full"}, total_accelerators=8, framework="fsdp", zero_stage=typed)
    assert shown["deployment"]["zero_stage"] == 3


TARGETS = [
    "q_proj,v_proj",
    "q_proj v_proj",
    "['q_proj', 'v_proj']",
    ["wq", "wv"],
    r".*\.(q|v)_proj",
    r"^(?!.*vision).*(?:q_proj|v_proj)$",
]


@pytest.mark.parametrize("typed", TARGETS)
def test_lora_targets_are_read_as_files_write_them(client: TestClient, typed: str | list[str]) -> None:
    # rank 16 * 32 layers * ((4096 + 4096) for queries + (4096 + 1024) for values)
    assert lora_params(client, target_modules=typed) == 16 * 32 * (8192 + 5120)


def test_a_fused_projection_names_its_parts(client: TestClient) -> None:
    parts = lora_params(client, target_modules=["q_proj", "k_proj", "v_proj", "gate_proj", "up_proj"])
    assert lora_params(client, target_modules=["linear_qkv", "linear_fc1"]) == parts
    assert lora_params(client, target_modules=["qkv_proj", "gate_up_proj"]) == parts


@pytest.mark.parametrize(("typed", "known"), [(True, "full"), ("true", "full"), ("unsloth", "full"), (False, "none")])
def test_recomputation_of_tools_is_read(client: TestClient, typed: bool | str, known: str) -> None:
    shown = estimate(client, LORA, activation_checkpointing=typed)
    assert shown["deployment"]["activation_checkpointing"] == known


@pytest.mark.parametrize("typed", ["all-linear", "all", "all_linear"])
def test_every_matrix_is_a_target_by_any_name(client: TestClient, typed: str) -> None:
    assert lora_params(client, target_modules=typed) == 41_943_040


def test_dora_trains_one_more_element_per_row(client: TestClient) -> None:
    # outputs of the seven matrices: queries, keys, values, output, gate, up, down
    rows = 32 * (4096 + 1024 + 1024 + 4096 + 14336 + 14336 + 4096)
    assert lora_params(client, use_dora=True) == 41_943_040 + rows


@pytest.mark.parametrize(("named", "plain"), [("dora", "lora"), ("qdora", "qlora")])
def test_dora_is_lora_with_magnitudes(client: TestClient, named: str, plain: str) -> None:
    by_name = estimate(client, {**LORA, "method": named})
    assert by_name == estimate(client, {**LORA, "method": plain, "lora": {"use_dora": True}})
    without = estimate(client, {**LORA, "method": plain})
    assert by_name["memory"]["per_accelerator_gib"]["total"] > without["memory"]["per_accelerator_gib"]["total"]


def test_an_unknown_option_is_still_refused(client: TestClient) -> None:
    body = {"workload": {**LORA, "optimizer": "adamw_16bit"}, "deployment": H100}
    assert client.post("/estimate", json=body).status_code == 422
