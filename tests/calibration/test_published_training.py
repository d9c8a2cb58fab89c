"""How rows of published training results are read."""

from __future__ import annotations

from typing import Any

import pytest

from app.catalog.files import read_rows
from app.catalog.snapshot import CatalogStore
from app.sizing.model.tasks import ModelTask
from app.sizing.snapshot import Catalog
from app.sizing.workload import Method
from calibration.training.cases import TrainingCases
from calibration.training.published import (
    Run,
    coefficient_framework,
    optimizer_of,
    precision_of,
    shape_of,
    trainer_of,
    with_layers,
)

ROWS: dict[str, dict[str, Any]] = {r["id"]: dict(r) for r in read_rows("measurements_training.csv")}


EMPTY = dict.fromkeys(next(iter(ROWS.values())), "")


@pytest.mark.parametrize(
    ("row", "precision", "optimizer"),
    [
        ({"precision": "bf16-mixed", "method": "pretrain", "optimizer": "Adam (distributed)"}, "bf16", "adamw"),
        ({"precision": "nf4+bf16", "method": "qlora", "optimizer": "adamw_8bit"}, "bf16", "adamw-8bit"),
        ({"precision": "mxfp8", "method": "pretrain", "optimizer": "Muon"}, "mxfp8", "muon"),
        ({"precision": "bf16", "method": "full_ft", "source_key": "litgpt_config_hub"}, "bf16-true", "adamw"),
        ({"precision": "", "method": "pretrain"}, None, "adamw"),
        ({"precision": "", "method": "pretrain", "source_key": "mlperf_training_v3.0"}, "fp16", "adamw"),
        ({"precision": "bf16", "method": "full_ft", "optimizer": "GaLore AdamW"}, "bf16", None),
    ],
)
def test_precisions_and_optimizers_are_read(row: dict[str, str], precision: str | None, optimizer: str | None) -> None:
    whole = {**EMPTY, "framework": "PyTorch", **row}
    assert precision_of(whole) == precision
    assert optimizer_of(whole) == optimizer


@pytest.mark.parametrize(
    ("framework", "accelerator", "method", "name"),
    [
        ("Megatron-Bridge/Megatron-Core", "nvidia-h100-sxm5-80gb", Method.FULL, "megatron"),
        ("DeepSpeed ZeRO-3 (Megatron-DeepSpeed)", "nvidia-a100-sxm4-80gb", Method.FULL, "deepspeed"),
        ("MaxText (JAX)", "google-tpu-v6e", Method.FULL, "maxtext"),
        ("torchtitan+torchao (FSDP2)", "nvidia-h100-sxm5-80gb", Method.FULL, "torchtitan"),
        ("torchtitan FSDP2", "nvidia-a100-sxm4-80gb", Method.FULL, "torchtitan"),
        ("HF transformers/PEFT", "nvidia-l40s", Method.LORA, "peft+bitsandbytes"),
        ("LitGPT", "nvidia-a10g", Method.LORA, "peft+bitsandbytes"),
        ("ms-swift (HF transformers)", "nvidia-a100-sxm4-80gb", Method.FULL, "fsdp"),
        ("PyTorch Neuron (torch-neuronx)", "aws-trainium1", Method.FULL, "neuronx"),
    ],
)
def test_frameworks_are_named_as_the_catalogue_does(
    catalog: Catalog, framework: str, accelerator: str, method: Method, name: str
) -> None:
    row = {**EMPTY, "framework": framework, "accelerator": accelerator}
    phase = "training" if method is Method.FULL else "fine_tuning"
    assert trainer_of(row, phase, method, "bf16", ModelTask.DECODER, catalog) == name


@pytest.mark.parametrize(
    ("interconnect", "bytes_per_s"),
    [
        ("NVLink+8x400Gb IB", 400e9),
        ("NVLink+4x100Gb Omni-Path", 50e9),
        ("NVLink+8x200Gb HDR IB (Selene)", 200e9),
        ("NVLink", None),
    ],
)
def test_networks_are_read(interconnect: str, bytes_per_s: float | None) -> None:
    row = {
        **EMPTY,
        "accelerator": "x",
        "num_accelerators": "64",
        "accelerators_per_node": "8",
        "interconnect": interconnect,
    }
    assert Run.from_row(row).network_bytes_per_s == bytes_per_s


def test_shapes_stand_in_for_names(catalog_store: CatalogStore) -> None:
    shape = {"hidden": "12288", "layers": "96", "heads": "96", "kv_heads": "96", "ffn": "49152", "vocab": "51200"}
    gpt = shape_of({**EMPTY, "model": "GPT 175B (x)", **shape}, lambda _: None)
    assert gpt is not None
    assert gpt.total_params == pytest.approx(174.6e9, rel=0.01)
    assert not gpt.is_gated
    assumed = shape_of({**EMPTY, "model": "GPT 52B (BigScience)", "model_params_b": "52"}, lambda _: None)
    assert assumed is not None
    assert assumed.shape_is_assumed
    whole = catalog_store.find_model("meta-llama/Llama-3.1-405B")
    proxy = shape_of(
        {**EMPTY, "model": "meta-llama/Llama-3.1-405B (proxy, 21 layers)"},
        lambda name: whole if "proxy" not in name else None,
    )
    assert proxy is not None
    per_layer = (whole.total_params - whole.parts["embedding"] - whole.parts["head"]) / 126
    assert proxy.total_params == pytest.approx(whole.total_params - 105 * per_layer, rel=1e-3)
    assert with_layers(whole, 126).total_params == whole.total_params


def test_a_base_model_has_the_shape_of_its_tuned_sibling(catalog_store: CatalogStore) -> None:
    """Read from its row alone, experts would be left out: 39 billion parameters in place of a thousand."""
    known = {"moonshotai/Kimi-K2-Instruct": catalog_store.find_model("moonshotai/Kimi-K2-Instruct")}
    found = shape_of({**EMPTY, "model": "moonshotai/Kimi-K2-Base", "hidden": "7168"}, known.get)
    assert found is not None
    assert found.total_params == pytest.approx(1.03e12, rel=0.01)


@pytest.mark.parametrize(
    ("framework", "name"),
    [("TensorFlow 2", "tensorflow"), ("PaddlePaddle", "paddlepaddle"), ("PyTorch", "fsdp"), ("", "fsdp")],
)
def test_a_framework_of_another_kind_tells_of_itself_alone(framework: str, name: str) -> None:
    row = {**EMPTY, "framework": framework, "source_key": "nvidia_dle"}
    assert coefficient_framework(row, "fsdp") == name
    assert coefficient_framework(row | {"source_key": "mlperf_training_v4.0"}, "megatron") == "megatron"


def test_experts_are_spread_over_the_ranks_there_are(training_cases: TrainingCases) -> None:
    row = next(r for r in ROWS.values() if r["model"] == "openai/gpt-oss-20b" and r["num_accelerators"] == "8")
    asked = training_cases.read_question(row)
    plans, degree = training_cases.choose_layout(asked.workload, asked.deployment, asked.run)
    assert 8 % float(plans.expert_parallel[0]) == 0
    assert float((plans.ranks * degree)[0]) == 8


def test_a_run_offloads_what_it_says(training_cases: TrainingCases) -> None:
    row = next(r for r in ROWS.values() if r["source_key"] == "tinyllama_readme" and r["num_accelerators"] == "16")
    deployment = training_cases.read_question(row).deployment
    assert not (deployment.optimizer_offload or deployment.parameter_offload or deployment.activation_offload)


def test_samples_of_many_lengths_are_no_rate_of_tokens(training_cases: TrainingCases) -> None:
    """BERT's second phase sorts its samples into bins of 64 tokens up to 512; its first is 128 long."""
    bert = [r for r in ROWS.values() if r["source_key"] == "nvidia_dle" and r["model"] == "bert-large-uncased"]
    for framework, length, rate in (("PyTorch", "512", False), ("PyTorch", "128", True), ("TensorFlow 2", "512", True)):
        row = next(
            r
            for r in bert
            if r["framework"] == framework and r["seq_len"] == length and r["method"] == "pretrain" and r["precision"]
        )
        assert (training_cases.read_question(row).units_per_s is not None) is rate
