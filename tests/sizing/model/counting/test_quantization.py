"""Checkpoints by method: which modules are narrow, how wide they are, and which methods are refused."""

from __future__ import annotations

import time
from typing import Any

import pytest

from app.errors import UnreadableConfiguration
from app.sizing.columns import GIB
from app.sizing.model.architecture import ModelArchitecture
from app.sizing.model.counting.quantization import READERS
from app.sizing.model.counting.read import read_architecture
from app.sizing.model.formats import WEIGHT_FORMATS, native_bits
from app.sizing.model.tensors import Part
from tests.examples import LLAMA_8B_CONFIG
from tests.sizing.model.counting.bases import ENTRIES

PLAIN = read_architecture(LLAMA_8B_CONFIG, name="x")
MATRICES = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")
# AMD Quark clips to FP8 first; the files hold integers of 4 bits with a scale per row.
TWO_STAGES = [
    {"dtype": "fp8_e4m3", "qscheme": "per_tensor"},
    {"dtype": "int4", "qscheme": "per_channel", "ch_axis": 0},
]
INT4 = {"num_bits": 4, "type": "int", "strategy": "group", "group_size": 128, "symmetric": True}
FP8 = {"num_bits": 8, "type": "float", "strategy": "tensor"}


def quantized(**stated: Any) -> ModelArchitecture:
    return read_architecture({**LLAMA_8B_CONFIG, "quantization_config": stated}, name="x")


def params(*roles: str, layers: int = 32) -> int:
    """Elements of matrices in some layers of Llama-3.1-8B."""
    return sum(t.size * layers for t in PLAIN.tensors if t.role in roles)


def saved_bits(model: ModelArchitecture) -> float:
    """Bits by which the checkpoint is smaller than in 16 bit."""
    return 8 * (PLAIN.published_bytes() - model.published_bytes())


@pytest.mark.parametrize(
    ("stated", "format_name", "bits"),
    [
        ({"quant_method": "fbgemm_fp8"}, "fp8", 8.0),
        ({"quant_method": "eetq", "weights": "int8"}, "int8", 8.0),
        ({"quant_method": "quanto", "weights": "int8"}, "int8", 8.0),
        ({"quant_method": "quanto", "weights": "float8"}, "fp8", 8.0),
        ({"quant_method": "fp_quant", "forward_dtype": "mxfp4"}, "mxfp4", 4.25),
        ({"quant_method": "sinq", "nbits": 4, "group_size": 64}, "int4-gptq", 4.5),
        (
            {
                "quant_method": "compressed-tensors",
                "sparsity_config": {"format": "sparse-24-bitmask"},
                "config_groups": {"0": {"targets": ["Linear"], "weights": {"num_bits": 8, "type": "float"}}},
            },
            "fp8",
            5.0,
        ),
        ({"quant_method": "torchao", "quant_type": "int8_weight_only"}, "int8", 8.0),
        ({"quant_method": "torchao", "quant_type": {"default": {"_type": "Int8WeightOnlyConfig"}}}, "int8", 8.0),
        (
            {"quant_method": "torchao", "quant_type": "int4_weight_only", "quant_type_kwargs": {"group_size": 64}},
            "int4-awq",
            4.5,
        ),
        (
            {"quant_method": "torchao", "quant_type": {"default": {"_type": "Float8DynamicActivationFloat8Weight"}}},
            "fp8",
            8.0,
        ),
        (
            {"quant_method": "hqq", "quant_config": {"weight_quant_params": {"nbits": 4, "group_size": 64}}},
            "int4-gptq",
            4.5,
        ),
        ({"quant_method": "bitsandbytes", "load_in_8bit": True}, "int8", 8.0),
        ({"quant_method": "gptq", "bits": 4, "group_size": -1}, "int4-gptq", 4.0),
        ({"quant_method": "intel/auto-round", "bits": 4, "group_size": 128}, "int4-gptq", 4.15625),
        ({"quant_method": "bitnet"}, "int4-gptq", 2.0),
        ({"quant_method": "exl2", "bits": 4.25, "head_bits": 16}, "int4-gptq", 4.25),
        ({"quant_method": "modelopt", "quant_algo": "FP8"}, "fp8", 8.0),
        ({"quant_method": "quark", "global_quant_config": {"weight": {"dtype": "fp8_e4m3"}}}, "fp8", 8.0),
        ({"quant_method": "quark", "global_quant_config": {"weight": TWO_STAGES}}, "int4-awq", 4.0),
        (
            {"quant_method": "quark", "global_quant_config": {"weight": {"dtype": "fp4", "group_size": 16}}},
            "nvfp4",
            4.5,
        ),
        ({"quant_method": "auto-round", "bits": 4, "group_size": 32, "data_type": "mx_fp"}, "mxfp4", 4.25),
        ({"quant_method": "auto-round", "bits": 4, "group_size": 16, "data_type": "nv_fp"}, "nvfp4", 4.5),
        ({"quant_method": "auto-round", "bits": "8", "group_size": 128}, "int8", 8.1875),
        ({"quant_method": "exl3", "bits": 3, "module_include": [r"^model\.layers\.\d+\."]}, "int4-gptq", 3.0),
        ({"quant_method": "compressed-tensors", "config_groups": {"g": {"weights": INT4}}}, "int4-awq", 4.125),
        ({"quant_method": "compressed-tensors", "config_groups": {}}, "bf16", 16.0),
        ({"quant_method": "compressed-tensors", "sparsity_config": {"format": "sparse-24-bitmask"}}, "bf16", 9.0),
        ({"quant_method": "gptq_marlin_24", "bits": 4, "group_size": 128}, "int4-gptq", 3.125),
    ],
)
def test_methods_store_linear_matrices_in_their_bits(stated: dict[str, Any], format_name: str, bits: float) -> None:
    model = quantized(**stated)
    assert model.native_format == format_name
    # scales of rows are below 0.4 % of a matrix
    assert saved_bits(model) == pytest.approx(PLAIN.linear_params * (16 - bits), rel=0.008)


def test_the_quantization_file_of_modelopt_is_read_with_the_configuration() -> None:
    stated = {"producer": {"name": "modelopt"}, "quantization": {"quant_algo": "NVFP4", "kv_cache_quant_algo": "FP8"}}
    model = read_architecture({**LLAMA_8B_CONFIG, "hf_quant_config": stated}, name="x")
    assert (model.native_format, model.cache_format) == ("nvfp4", "fp8")
    assert model.published_bytes() == quantized(**stated).published_bytes()


def test_experts_of_w4afp8_are_narrower_than_the_other_matrices() -> None:
    config = {**ENTRIES["Qwen/Qwen3-30B-A3B"]["config"], "quantization_config": {"quant_method": "w4afp8"}}
    model = read_architecture(config, name="x")
    assert model.native is not None
    widths = {t.part: native_bits(model.native, t, scales=False) / t.size for t in model.tensors if t.quantized}
    assert (widths[Part.ROUTED_EXPERTS], widths[Part.ATTENTION]) == (4.125, 8.0)


def test_aqlm_keeps_a_codebook_for_each_matrix() -> None:
    model = quantized(quant_method="aqlm", in_group_size=8, nbits_per_codebook=16, num_codebooks=1, out_group_size=1)
    codebooks = 7 * 32 * 65_536 * 8 * 16
    rows = sum(t.outputs * t.count for t in PLAIN.tensors if t.quantized) * 16
    assert saved_bits(model) == pytest.approx(PLAIN.linear_params * 14 - codebooks - rows)


def test_groups_store_modules_in_their_own_bits() -> None:
    groups = {
        "group_0": {"targets": ["re:.*mlp.*"], "weights": INT4},
        "group_1": {"targets": ["re:.*self_attn.*"], "weights": FP8},
    }
    model = quantized(quant_method="compressed-tensors", config_groups=groups, ignore=["lm_head"])
    assert model.native_format == "int4-awq"
    narrow, half = params("gate_proj", "up_proj", "down_proj"), params("q_proj", "k_proj", "v_proj", "o_proj")
    assert saved_bits(model) == pytest.approx(narrow * (16 - 4.125) + half * 8)


def test_modules_that_no_group_targets_stay_wide() -> None:
    groups = {"group_0": {"targets": ["re:.*down_proj$"], "weights": FP8}}
    model = quantized(quant_method="compressed-tensors", config_groups=groups)
    assert saved_bits(model) == params("down_proj") * 8


@pytest.mark.parametrize(
    ("left_out", "wide"),
    [
        (["model.layers.0.mlp.gate_proj"], params("gate_proj", layers=1)),
        (["model.layers.1.self_attn"], params("q_proj", "k_proj", "v_proj", "o_proj", layers=1)),
        ([f"model.layers.{i}.self_attn.q_proj" for i in range(8)], params("q_proj", layers=8)),
        (["re:.*layers\\.(0|31)\\..*"], params(*MATRICES, layers=2)),
        (["model.layers.3.*"], params(*MATRICES, layers=1)),
        (["model.layers.30*"], params(*MATRICES, layers=1)),
        (["model.layers.1*"], params(*MATRICES, layers=11)),
        (["*self_attn*"], params("q_proj", "k_proj", "v_proj", "o_proj")),
        (["model.layers.*.mlp"], params("gate_proj", "up_proj", "down_proj")),
        (["k_proj", "v_proj"], params("k_proj", "v_proj")),
        (["lm_head", "model.embed_tokens", "gate", "visual", "model.vision_tower.layers.0.mlp"], 0),
        (["model.layers.61.self_attn.q_proj", "mtp.layers.0.mlp"], 0),
    ],
)
@pytest.mark.parametrize("key", ["modules_to_not_convert", "ignore", "exclude_modules"])
def test_only_named_modules_are_left_wide(left_out: list[str], wide: int, key: str) -> None:
    model = quantized(quant_method="fp8", **{key: left_out})
    assert saved_bits(model) == (PLAIN.linear_params - wide) * 8


def test_compressed_tensors_names_matrices_not_the_modules_around_them() -> None:
    groups = {"0": {"targets": ["Linear"], "weights": INT4}}
    ignored = [f"model.layers.{layer}.{name}" for layer in range(32) for name in ("self_attn", "mlp.down_proj")]
    model = quantized(quant_method="compressed-tensors", config_groups=groups, ignore=[*ignored, "lm_head"])
    narrow = tuple(name for name in MATRICES if name != "down_proj")
    assert saved_bits(model) == pytest.approx((16 - 4.125) * params(*narrow), rel=1e-3)


def test_gptq_has_other_bits_for_some_modules() -> None:
    dynamic = {"-:.*\\.layers\\.0\\..*": {}, "+:.*down_proj": {"bits": 8, "group_size": 64}}
    model = quantized(quant_method="gptq", bits=4, group_size=128, dynamic=dynamic)
    usual, down = PLAIN.linear_params - params(*MATRICES, layers=1), params("down_proj", layers=31)
    assert saved_bits(model) == pytest.approx((usual - down) * (16 - 4.15625) + down * (16 - 8.375))


def test_mixed_precision_has_an_algorithm_for_each_module() -> None:
    layers = {f"model.layers.{i}.mlp.{role}": {"quant_algo": "NVFP4"} for i in range(32) for role in MATRICES[4:]}
    layers |= {f"model.layers.{i}.self_attn.q_proj": {"quant_algo": "FP8"} for i in range(32)}
    model = quantized(quant_method="modelopt", quant_algo="MIXED_PRECISION", quantized_layers=layers)
    assert model.native_format == "nvfp4"
    assert saved_bits(model) == pytest.approx(params(*MATRICES[4:]) * 11.5 + params("q_proj") * 8)


def test_mlx_quantizes_embeddings_and_head_too() -> None:
    stated = {"group_size": 64, "bits": 4, "model.layers.0.mlp.down_proj": {"group_size": 64, "bits": 8}}
    model = read_architecture({**LLAMA_8B_CONFIG, "quantization": stated}, name="x")
    tables = PLAIN.parts["embedding"] + PLAIN.parts["head"]
    eight = params("down_proj", layers=1)
    assert model.native_format == "int4-mlx"
    assert saved_bits(model) == (PLAIN.linear_params + tables - eight) * 11.5 + eight * 7.5


def test_experts_are_named_apart_from_the_dense_mlp() -> None:
    config = {
        **LLAMA_8B_CONFIG,
        "model_type": "qwen3_moe",
        "num_experts": 8,
        "num_experts_per_tok": 2,
        "moe_intermediate_size": 1024,
        "mlp_only_layers": [0],
        "quantization_config": {"quant_method": "fp8", "modules_to_not_convert": ["model.layers.5.mlp.experts"]},
    }
    model = read_architecture(config, name="x")
    wide = next(t.size * 8 * 3 for t in model.tensors if t.part is Part.ROUTED_EXPERTS)
    assert 2 * model.total_params - model.published_bytes() == model.linear_params - wide


def test_a_checkpoint_weighs_the_same_in_its_own_format() -> None:
    model = quantized(quant_method="fp8", modules_to_not_convert=["re:.*self_attn.*"])
    assert model.weights_bytes(WEIGHT_FORMATS["fp8"]) == model.published_bytes()
    assert model.weights_bytes(WEIGHT_FORMATS["bf16"]) == 2 * model.total_params


def test_an_unknown_method_is_refused_by_name() -> None:
    with pytest.raises(UnreadableConfiguration, match=r"'weird-4' is not known.*awq"):
        quantized(quant_method="weird_4", bits=4)
    with pytest.raises(UnreadableConfiguration, match="'svdquant' is not known"):
        quantized(method="svdquant", rank=32, weight={"dtype": "int4", "group_size": 64})
    with pytest.raises(UnreadableConfiguration, match="'mixed' bits cannot be sized"):
        quantized(quant_method="exl3", bits="mixed")
    with pytest.raises(UnreadableConfiguration, match="'W3A3' is not known"):
        quantized(quant_method="modelopt", quant_algo="W3A3")


@pytest.mark.parametrize("method", sorted(READERS))
def test_every_method_reads_a_bare_statement(method: str) -> None:
    stated: dict[str, Any] = {"quant_method": method, "quant_type": "int8_weight_only", "bits": 4}
    if method == "quark":
        stated["global_quant_config"] = {"weight": {"dtype": "int4", "group_size": 128}}
    model = quantized(**stated)
    assert PLAIN.published_bytes() / 8 < model.published_bytes() < PLAIN.published_bytes()


TOO_COMPLEX = {
    "(a+)+$": "a repeat of a repeat",
    "(.*)*x": "a repeat of a repeat",
    "(?:.|.)*Q": "a repeat of a choice",
    "(?:.|..)*Q": "a repeat of a choice",
    "x?(?:(?:.|..)*Q)*": "a choice in what may be absent",
    "(?:.?){25}Q": "a repeat of what may be absent",
    r"(?:\b){1000000000}Q": "a repeat without characters",
    ".?" * 40 + "Q": "many options",
    "(?:.|.)" * 40 + "Q": "many choices",
    "(?:ab|ab)" * 40 + "Q": "many choices of equal texts",
    "(?i:ab|AB)" * 40 + "Q": "many choices of texts that differ in case",
    ".*[a-z]*" * 4 + "[Qq]": "many stars",
    "(?!.*.*.*Q).*.*Q": "stars behind a condition with stars",
    ".*.*.*" + r"\b\b" * 1000 + "[Qq]": "many conditions in each way",
    "a" * 5000: "a long text",
    "[": "no pattern",
    "a{99999999999999999999}": "a number that is too large",
    "(" * 900 + ")" * 900: "a deep nesting",
}


@pytest.mark.parametrize("pattern", TOO_COMPLEX, ids=TOO_COMPLEX.values())
def test_a_pattern_that_could_take_forever_is_refused(pattern: str) -> None:
    """Nothing can interrupt a match: it would stop every request of the process."""
    with pytest.raises(UnreadableConfiguration, match="pattern"):
        quantized(quant_method="compressed-tensors", ignore=[f"re:{pattern}"])


@pytest.mark.parametrize(
    "pattern",
    [
        r".*layers\..*\.mlp\..*experts.*",
        r".*layers\.(0|1|2|10|11)\..*proj.*",
        r"^(?!.*\.31\.).*mlp.*",
        r"(?:model\.)?layers\.(?:[3-9]|[12][0-9])\.(?:mlp|self_attn)\.[a-z_]+",
        "(?i).*MLP.*",
    ],
)
def test_patterns_of_published_forms_are_read(pattern: str) -> None:
    quantized(quant_method="compressed-tensors", ignore=[f"re:{pattern}"])


def test_many_wildcards_are_refused_in_time() -> None:
    started = time.process_time()
    with pytest.raises(UnreadableConfiguration, match="patterns of the quantization are too complex"):
        quantized(quant_method="fp8", ignore=[f"re:.*.*.*{i}Q" for i in range(1000)])
    assert time.process_time() - started < 5


def test_a_list_of_every_module_is_read_quickly() -> None:
    names = [f"model.layers.{i}.mlp.experts.{j}.{role}" for i in range(62) for j in range(128) for role in MATRICES[4:]]
    started = time.process_time()
    assert quantized(quant_method="fp8", ignore=names).published_bytes() < 9 * GIB
    assert time.process_time() - started < 3


def test_the_list_of_a_published_model_of_many_layers_is_read() -> None:
    layers = (f"model.layers.{i}.{part}*" for i in range(3, 78) for part in ("self_attn", "mlp.shared_experts"))
    ignored = ["lm_head", *(f"model.layers.{i}*" for i in ("0", "1.", "2.", "78")), *layers]
    stated = {"quant_method": "modelopt", "quant_algo": "NVFP4", "ignore": ignored}  # nvidia/GLM-5.1-NVFP4
    groups = {"group_0": {"targets": ["Linear"], "weights": {"num_bits": 4, "type": "float", "group_size": 16}}}
    for quantization in (stated, {**stated, "config_groups": groups}):
        config = {**ENTRIES["zai-org/GLM-5.1"]["config"], "quantization_config": quantization}
        assert read_architecture(config, name="x").published_bytes() == pytest.approx(446.0e9, rel=0.001)


FLOAT8_CACHE = {"num_bits": 8, "type": "float", "dynamic": False}


@pytest.mark.parametrize(
    ("stated", "cache"),
    [
        ({"quant_method": "modelopt", "quant_algo": "NVFP4", "kv_cache_quant_algo": "FP8"}, "fp8"),
        ({"quantization": {"quant_algo": "FP8", "kv_cache_quant_algo": "FP8"}}, "fp8"),
        ({"quant_method": "modelopt", "quant_algo": "NVFP4", "kv_cache_scheme": FLOAT8_CACHE}, "fp8"),
        ({"quant_method": "compressed-tensors", "config_groups": {}, "kv_cache_scheme": FLOAT8_CACHE}, "fp8"),
        ({"quant_method": "compressed-tensors", "config_groups": {}, "kv_cache_scheme": None}, ""),
        ({"quant_method": "modelopt", "quant_algo": "NVFP4", "kv_cache_quant_algo": None}, ""),
        ({"quant_method": "fp8"}, ""),
    ],
)
def test_a_checkpoint_states_the_format_of_its_cache(stated: dict[str, Any], cache: str) -> None:
    assert quantized(**stated).cache_format == cache
