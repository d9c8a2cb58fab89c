"""How a checkpoint is stored: the bits of every matrix, from the quantization that its configuration states.

Each method has a reader that returns rules: how linear matrices are stored, and which modules differ. The rules are
applied to the counted matrices layer by layer.
Sources: the quantization configurations of the transformers, compressed-tensors, ModelOpt, torchao, AutoGPTQ, AutoAWQ,
HQQ, AQLM and MLX libraries.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from app.errors import UnreadableConfiguration
from app.sizing.model.architecture import ModelArchitecture
from app.sizing.model.counting.configuration import Config
from app.sizing.model.counting.module_patterns import ModulePatterns
from app.sizing.model.formats import (
    MXFP4_BITS,
    NF4_BITS,
    NF4_DOUBLE_QUANTIZED_BITS,
    NVFP4_BITS,
    NativeQuantization,
    StoredTensor,
)
from app.sizing.model.tensors import Part, Tensor

KEY = "quantization_config"


@dataclass(frozen=True, slots=True)
class Storage:
    """How a matrix is stored.

    `bits` are per element, with the scales of its groups. `row_bits` are added per output row, `matrix_bits` per
    matrix, and one 32-bit scale per square of `block` elements.
    """

    format: str
    bits: float
    block: int = 0
    row_bits: float = 0.0
    matrix_bits: float = 0.0

    def matrix_size(self, tensor: Tensor) -> tuple[float, float]:
        """Bits of one matrix, and bits of its block scales."""
        side = self.block
        squares = math.ceil(tensor.outputs / side) * math.ceil(tensor.inputs / side) if side else 0
        return tensor.size * self.bits + tensor.outputs * self.row_bits + self.matrix_bits, 32.0 * squares


WIDE = Storage("bf16", 16.0)
Rule = tuple[str, Storage]


@dataclass(frozen=True, slots=True)
class Scheme:
    """Rules of a checkpoint: storage of linear matrices, exceptions by module pattern, and storage of other matrices.

    The first exception that matches a module counts. `experts` holds for routed experts that no exception names,
    `tables` for embeddings and the output head, `only_experts` leaves all other matrices in 16 bit.
    """

    linear: Storage
    exceptions: tuple[Rule, ...] = ()
    experts: Storage | None = None
    tables: Storage | None = None
    only_experts: bool = False


def native_quantization(config: Config, model: ModelArchitecture) -> NativeQuantization | None:
    """The quantization of a checkpoint, or None if it is published in 16 bit.

    Raises UnreadableConfiguration for a method that is not known, and names it.
    """
    scheme = _read_scheme(config)
    return None if scheme is None else apply_scheme(scheme, model)


def _read_scheme(config: Config) -> Scheme | None:
    stated = _stated_quantization(config)
    if not stated:
        return None
    method = _method_of(stated)
    if method in UNQUANTIZED:
        return None
    reader = READERS.get(method)
    if reader is None:
        raise UnreadableConfiguration(
            f"The quantization method {method[:40]!r} is not known, so the weights cannot be sized. Known methods: "
            f"{', '.join(sorted(READERS))}. Remove {KEY!r} to size the model in 16 bit.",
            key=KEY,
        )
    return reader(stated, config)


def stated_cache_format(config: Config) -> str:
    """The KV cache format that a checkpoint states; empty if it states none, or one that engines do not follow.

    ModelOpt writes an algorithm (`kv_cache_quant_algo`) or a scheme, compressed-tensors a scheme (`kv_cache_scheme`).
    Source: vllm/utils/torch_utils.py, get_kv_cache_quant_algo_string; vllm/attention/layer.py (any scheme of
    compressed-tensors makes the cache FP8); sglang/srt/model_executor/model_runner.py, configure_kv_cache_dtype;
    2026-11-26.
    Check:
        >>> scheme = {"num_bits": 8, "type": "float", "dynamic": False}
        >>> method = {"quant_method": "compressed-tensors", "kv_cache_scheme": scheme}
        >>> stated_cache_format({"quantization_config": method})
        'fp8'
    """
    stated = _stated_quantization(config)
    inner = stated.get("quantization")
    for part in (inner, stated):
        if not isinstance(part, Mapping):
            continue
        scheme = part.get("kv_cache_scheme")
        if isinstance(scheme, Mapping) and scheme.get("type") == "float" and scheme.get("num_bits") == 8:
            return "fp8"
        algorithm = scheme if isinstance(scheme, str) else part.get("kv_cache_quant_algo")
        if str(algorithm).lower().startswith("fp8"):
            return "fp8"
    return ""


def _stated_quantization(config: Config) -> Mapping[str, Any]:
    named = (config.get(key) for key in (KEY, "compression_config", "quantization", "hf_quant_config"))
    return next((each for each in named if each and isinstance(each, Mapping)), {})


UNQUANTIZED = ("none", "null", "bf16", "fp16")


def _method_of(stated: Mapping[str, Any]) -> str:
    """The method that a configuration names, in lower case with underscores as hyphens."""
    inner = stated.get("quantization")
    keys = ("quant_method", "quant_type_name", "quant_library", "method")
    named = next((stated[key] for key in keys if stated.get(key)), None)
    if named is None and (stated.get("quant_algo") or (isinstance(inner, Mapping) and inner.get("quant_algo"))):
        named = "modelopt"
    if named is None and (stated.get("load_in_4bit") or stated.get("load_in_8bit")):
        named = "bitsandbytes"
    if named is None and "config_groups" in stated:
        named = "compressed-tensors"
    if named is None and "bits" in stated:
        named = "mlx"
    return str(named or "none").lower().replace("_", "-").rpartition("/")[2]


def apply_scheme(scheme: Scheme, model: ModelArchitecture) -> NativeQuantization:
    """The stored size of every matrix of a model.

    The format is that of most quantized elements; if the method stores experts in their own format, that of the method.
    """
    scheme = replace(scheme, only_experts=scheme.only_experts and model.is_moe)
    patterns = ModulePatterns([pattern for pattern, _ in scheme.exceptions])
    shares: dict[str, float] = {}
    stored = []
    dense = {layer for t in model.tensors if t.part is Part.MLP for layer in t.layers}
    for tensor in model.tensors:
        total = scale_total = 0.0
        besides = tensor.part is Part.ROUTED_EXPERTS and tensor.layers[0] in dense
        for storage, layers in _storages(scheme, patterns, tensor, besides_mlp=besides):
            size, scales = storage.matrix_size(tensor)
            total, scale_total = total + size * layers, scale_total + scales * layers
            if storage is not WIDE:
                shares[storage.format] = shares.get(storage.format, 0.0) + tensor.size * tensor.copies * layers
        count = len(tensor.layers)
        if total != 16.0 * tensor.size * count:
            stored.append(StoredTensor(tensor.part, tensor.role, tensor.layers, total / count, scale_total / count))
    if not shares:
        return NativeQuantization("bf16")
    most = max(shares, key=lambda key: (shares[key], key == scheme.linear.format))
    name = scheme.linear.format if scheme.experts is not None else most
    return NativeQuantization(name, tuple(stored))


def _storages(
    scheme: Scheme, patterns: ModulePatterns, tensor: Tensor, *, besides_mlp: bool
) -> Iterator[tuple[Storage, int]]:
    """How a tensor is stored, with the number of its layers that are stored so."""
    usual = _usual_storage(scheme, tensor)
    linear = tensor.quantized or tensor.part in (Part.HEAD, Part.EMBEDDING)
    if not linear or not scheme.exceptions or tensor.inputs == 1:
        yield usual, len(tensor.layers)
        return
    for index, layers in patterns.count_layers(tensor, besides_mlp=besides_mlp).items():
        yield (usual if index is None else scheme.exceptions[index][1]), layers


def _usual_storage(scheme: Scheme, tensor: Tensor) -> Storage:
    if not tensor.quantized:
        table = tensor.part in (Part.HEAD, Part.EMBEDDING) and tensor.inputs > 1
        return (scheme.tables if table else None) or WIDE
    if tensor.part is Part.ROUTED_EXPERTS:
        return scheme.experts or scheme.linear
    return WIDE if scheme.only_experts else scheme.linear


def _integer(value: Any, default: int) -> int:
    """A whole number from 1 to 4096, or the default."""
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 < value <= 4096 else default


def _number(value: Any, default: float) -> float:
    """A width in bits, also as text, or the default if none is given.

    Raises UnreadableConfiguration for anything else, such as "mixed": a default would be an invented size.
    """
    if value is None:
        return default
    try:
        bits = math.nan if isinstance(value, bool) else float(value)
    except (TypeError, ValueError):
        bits = math.nan
    if not 0 < bits <= 32:
        raise UnreadableConfiguration(f"A width of {str(value)[:40]!r} bits cannot be sized.", key=KEY)
    return bits


def _texts(*values: Any) -> list[str]:
    """The texts of the first of several lists that has any."""
    for value in values:
        found = [str(each) for each in value] if isinstance(value, list) else [value] if isinstance(value, str) else []
        if found:
            return found
    return []


SKIP_KEYS = (
    "modules_to_not_convert",
    "ignore",
    "ignored_layers",
    "exclude_modules",
    "skip_modules",
    "llm_int8_skip_modules",
    "linear_weights_not_to_quantize",
    "exclude",
)


def _skipped(stated: Mapping[str, Any]) -> tuple[Rule, ...]:
    """Modules that stay in 16 bit. Those of a nested part count too."""
    inner = stated.get("quantization")
    outer = _texts(*(stated.get(key) for key in SKIP_KEYS))
    nested = _texts(*(inner.get(key) for key in SKIP_KEYS)) if isinstance(inner, Mapping) else []
    return tuple((pattern, WIDE) for pattern in (*outer, *nested))


def _read_fp8(stated: Mapping[str, Any], config: Config) -> Scheme:
    block = stated.get("weight_block_size")
    side = _integer(block[0], 0) if isinstance(block, list) and block else 0
    stored = stated.get("expert_dtype", config.get("expert_dtype"))
    experts = Storage("mxfp4", MXFP4_BITS) if stored == "fp4" else None
    by_row = "fbgemm" in _method_of(stated) or "ptpc" in _method_of(stated)
    linear = Storage("fp8", 8.0, block=side, row_bits=32.0 * by_row)
    narrower = stated.get("quantized_layers")  # modules that ModelOpt converted further; its other lists concern those
    if isinstance(narrower, Mapping):
        return Scheme(linear, _by_module(narrower), experts)
    return Scheme(linear, _skipped(stated), experts)


def _by_module(layers: Mapping[str, Any]) -> tuple[Rule, ...]:
    """ModelOpt's algorithm of every module that it names."""
    return tuple((name, _algorithm_storage(_algorithm_of(own), own)) for name, own in layers.items())


def _read_mxfp4(stated: Mapping[str, Any], _: Config) -> Scheme:
    return Scheme(Storage("mxfp4", MXFP4_BITS), _skipped(stated), only_experts=True)


def _grouped(name: str, bits: float, group: int, *, zeros: bool = True) -> Storage:
    """Integers in groups along the inputs, with a 16-bit scale and a packed zero point each; a scale per row if the
    group is 0.
    """
    if not group:
        return Storage(name, bits, row_bits=16.0)
    return Storage(name, bits + 16 / group + (bits / group if zeros else 0.0))


def _group_of(stated: Mapping[str, Any], default: int = 128) -> int:
    """Elements of a group; 0 if the whole row is one."""
    value = next((stated[key] for key in ("group_size", "q_group_size", "block_size") if key in stated), default)
    return 0 if value == -1 else _integer(value, default)


def _read_awq(stated: Mapping[str, Any], _: Config) -> Scheme:
    bits = _number(stated.get("bits", stated.get("w_bit")), 4.0)
    return Scheme(_grouped(_integer_format(bits, "int4-awq"), bits, _group_of(stated)), _skipped(stated))


def _integer_format(bits: float, narrow: str) -> str:
    return narrow if bits <= 4 else "int8"


def _read_gptq(stated: Mapping[str, Any], _: Config) -> Scheme:
    """GPTQ and its relatives. `dynamic` and `extra_config` hold other bits by module; "-:" marks modules left out."""
    bits, group = _number(stated.get("bits", stated.get("w_bit")), 4.0), _group_of(stated)
    kind = str(stated.get("data_type", "int"))
    rules: list[Rule] = []
    dynamic = stated.get("dynamic")
    for pattern, own in dynamic.items() if isinstance(dynamic, Mapping) else ():
        kept = WIDE if pattern.startswith("-") else _gptq_storage(own, bits, group, kind)
        rules.append((f"re:{re.sub('^[-+]:', '', pattern)}", kept))
    extra = stated.get("extra_config")
    for pattern, own in extra.items() if isinstance(extra, Mapping) else ():
        literal = re.fullmatch(r"[\w.-]+", pattern) is not None
        rules.append((pattern if literal else f"re:{pattern}", _gptq_storage(own, bits, group, kind)))
    inside = stated.get("modules_in_block_to_quantize")
    named = [name for part in inside for name in _texts(part)] if isinstance(inside, list) else []
    linear = _gptq_storage({}, bits, group, kind)
    tables = linear if stated.get("lm_head") is True else None
    if named:
        rules = [*rules, *((name, linear) for name in named), ("*", WIDE)]
    return Scheme(linear, (*_skipped(stated), *rules, *((("embed_tokens", WIDE),) if tables else ())), tables=tables)


def _gptq_storage(own: Any, bits: float, group: int, kind: str) -> Storage:
    """Integers, or the floating-point types of AutoRound: mx_fp, nv_fp, fp8."""
    own = own if isinstance(own, Mapping) else {}
    bits, kind = _number(own.get("bits"), bits), str(own.get("data_type", kind))
    if bits >= 16:
        return WIDE
    if "mx" in kind:
        return Storage("mxfp4", MXFP4_BITS) if bits <= 4 else Storage("fp8", 8.25)
    if "fp" in kind or "float" in kind:
        return Storage("nvfp4", NVFP4_BITS) if bits <= 4 else Storage("fp8", 8.0, row_bits=16.0)
    return _grouped(_integer_format(bits, "int4-gptq"), bits, _group_of(own, group) if own else group)


def _read_bitsandbytes(stated: Mapping[str, Any], _: Config) -> Scheme:
    narrow = stated.get("load_in_4bit") or stated.get("_load_in_4bit") or "4bit" in _method_of(stated)
    double = bool(stated.get("bnb_4bit_use_double_quant"))
    four = Storage("nf4", NF4_DOUBLE_QUANTIZED_BITS if double else NF4_BITS)
    return Scheme(four if narrow else Storage("int8", 8.0, row_bits=32.0), _skipped(stated))


def _weights_storage(weights: Mapping[str, Any], layout: str = "") -> Storage:
    """Storage of a group of compressed-tensors or ModelOpt: width, type and granularity of its weights."""
    bits, floating = _integer(weights.get("num_bits"), 8), weights.get("type") == "float"
    group, strategy = _integer(weights.get("group_size"), 0), str(weights.get("strategy", ""))
    block = weights.get("block_structure")
    by_row = 16.0 * (strategy == "channel")
    if floating and bits == 4:
        mx = "mx" in layout or group == 32
        return Storage("mxfp4", MXFP4_BITS) if mx else Storage("nvfp4", NVFP4_BITS)
    if bits == 8:
        side = _integer(block[0], 0) if isinstance(block, list) and block else 0
        scales = (8.0 if floating else 16.0) / group if group else 0.0
        return Storage("fp8" if floating else "int8", 8.0 + scales, block=side, row_bits=by_row)
    if bits > 8:
        return WIDE
    zeros = bits / group if group and weights.get("symmetric") is False else 0.0
    return Storage("int4-awq", bits + (16 / group if group else 0.0) + zeros, row_bits=by_row)


def _read_groups(stated: Mapping[str, Any]) -> list[tuple[list[str], Storage]]:
    """Groups of a configuration: the modules of each, and how they are stored."""
    groups = stated.get("config_groups")
    found = []
    for group in groups.values() if isinstance(groups, Mapping) else ():
        if not isinstance(group, Mapping):
            continue
        weights = group.get("weights")
        layout = str(group.get("format") or stated.get("format") or "")
        kept = _weights_storage(weights, layout) if isinstance(weights, Mapping) else WIDE
        found.append((_texts(group.get("targets")) or ["Linear"], kept))
    return found


def _read_compressed_tensors(stated: Mapping[str, Any], _: Config) -> Scheme:
    """Groups of compressed-tensors. Matrices that no group targets stay in 16 bit. Sparse ones keep half of the values
    and a mask. A name in its lists is that of one matrix: the tool also lists modules whose matrices it converted. In
    the groups of ModelOpt it may be that of a module.
    """
    sparsity = stated.get("sparsity_config")
    layout = str(sparsity.get("format", "") if isinstance(sparsity, Mapping) else "") + str(stated.get("format", ""))
    groups = [(targets, _sparse_storage(kept) if "24" in layout else kept) for targets, kept in _read_groups(stated)]
    if not groups:  # only the cache is quantized, or the weights are only sparse
        dense = "config_groups" in stated or isinstance(sparsity, Mapping)
        kept = WIDE if dense else _weights_storage(stated, str(stated.get("format", "")))
        return Scheme(_sparse_storage(kept) if "24" in layout else kept, _skipped(stated))
    exact = not _method_of(stated).startswith("modelopt")
    rules, whole = list(_skipped(stated)), None
    for targets, kept in groups:
        for target in targets:
            if target in LINEAR_CLASSES:
                whole = whole or kept
            else:
                rules.append((target, kept))
    rules = [(f"={name}" if exact and not name.startswith("re:") else name, kept) for name, kept in rules]
    if whole is None:
        rules.append(("*", WIDE))
    return Scheme(whole or groups[0][1], tuple(rules))


def _sparse_storage(kept: Storage) -> Storage:
    """Storage of matrices with two zeros in every four values (sparse-24-bitmask, marlin-24): half of the values, and
    a bit per element that says where they are.

    Check:
        >>> _sparse_storage(Storage("fp8", 8.0)).bits
        5.0
    """
    return replace(kept, bits=kept.bits - math.floor(kept.bits) / 2 + 1)


LINEAR_CLASSES = ("Linear", "FusedMoE", "LinearBase", "MoEGate")


def _read_modelopt(stated: Mapping[str, Any], config: Config) -> Scheme:
    """ModelOpt: one algorithm, groups, or (MIXED_PRECISION) an algorithm per module."""
    inner = stated.get("quantization")
    inner = inner if isinstance(inner, Mapping) else stated
    by_module = inner.get("quantized_layers") or stated.get("quantized_layers")
    if isinstance(by_module, Mapping) and by_module:
        rules = _by_module(by_module)
        return Scheme(rules[0][1], (*_skipped(stated), *rules, ("*", WIDE)))
    if _read_groups(stated):
        return _read_compressed_tensors(stated, config)
    return Scheme(_algorithm_storage(_algorithm_of(inner) or _algorithm_of(stated), inner), _skipped(stated))


def _algorithm_of(stated: Any) -> str:
    return str(stated.get("quant_algo") or "").upper() if isinstance(stated, Mapping) else ""


def _algorithm_storage(algorithm: str, stated: Any) -> Storage:
    """Storage of a ModelOpt or TensorRT-LLM algorithm."""
    group = _group_of(stated) if isinstance(stated, Mapping) else 128
    if "MXFP4" in algorithm:
        return Storage("mxfp4", MXFP4_BITS)
    if "FP4" in algorithm:
        return Storage("nvfp4", NVFP4_BITS)
    if "W4A16" in algorithm or "W4A8" in algorithm or "INT4" in algorithm:
        return _grouped("int4-awq", 4.0, group, zeros=False)
    if "W8A8_SQ" in algorithm or "INT8" in algorithm or "W8A16" in algorithm:
        return Storage("int8", 8.0, row_bits=16.0)
    if "MXFP8" in algorithm:
        return Storage("fp8", 8.25)
    if "BLOCK" in algorithm or "PB_WO" in algorithm:
        return Storage("fp8", 8.0, block=128)
    if "FP8" in algorithm or not algorithm:
        return Storage("fp8", 8.0)
    raise UnreadableConfiguration(
        f"The ModelOpt algorithm {algorithm[:40]!r} is not known, so the weights cannot be sized.", key=KEY
    )


_WIDTH = re.compile(r"(?:int|float|uint|fp|nf|w|q)_?(\d)")


def _read_quanto(stated: Mapping[str, Any], _: Config) -> Scheme:
    weights = str(stated.get("weights") or stated.get("weights_dtype") or "int8").lower()
    return Scheme(_typed_storage(weights, group=128), _skipped(stated))


def _typed_storage(name: str, *, group: int) -> Storage:
    """Storage of weights whose type is named: int8, float8, int4, int2."""
    width = _WIDTH.search(name)
    bits = int(width[1]) if width else 8
    if bits == 8:
        return Storage("fp8" if "float" in name or "fp8" in name else "int8", 8.0, row_bits=16.0)
    return Storage("int4-gptq", bits + 24 / group)


def _read_eetq(stated: Mapping[str, Any], _: Config) -> Scheme:
    return Scheme(Storage("int8", 8.0, row_bits=16.0), _skipped(stated))


def _read_aqlm(stated: Mapping[str, Any], _: Config) -> Scheme:
    """AQLM: codes of groups, a 16-bit scale per row and group of rows, and 16-bit codebooks per matrix."""
    books, wide = _integer(stated.get("num_codebooks"), 1), _integer(stated.get("nbits_per_codebook"), 16)
    inputs, outputs = _integer(stated.get("in_group_size"), 8), _integer(stated.get("out_group_size"), 1)
    if wide > 16:
        raise UnreadableConfiguration("AQLM codebooks have at most 16 bits per code.", key=KEY)
    codebooks = 16.0 * books * 2**wide * inputs * outputs
    bits = books * wide / (inputs * outputs)
    return Scheme(Storage("int4-gptq", bits, row_bits=16.0 / outputs, matrix_bits=codebooks), _skipped(stated))


def _read_hqq(stated: Mapping[str, Any], _: Config) -> Scheme:
    """HQQ: one setting, or one per name of a matrix; 16-bit scale and zero per group."""
    settings = stated.get("quant_config")
    settings = settings if isinstance(settings, Mapping) else stated
    if "weight_quant_params" in settings or "nbits" in settings:
        return Scheme(_hqq_storage(settings), _skipped(stated))
    named = [(name, _hqq_storage(own)) for name, own in settings.items() if isinstance(own, Mapping)]
    if not named:
        return Scheme(_hqq_storage(stated), _skipped(stated))
    return Scheme(named[0][1], (*_skipped(stated), *named, ("*", WIDE)))


def _hqq_storage(settings: Mapping[str, Any]) -> Storage:
    params = settings.get("weight_quant_params")
    params = params if isinstance(params, Mapping) else settings
    bits, group = _number(params.get("nbits", params.get("bits")), 4.0), _group_of(params, 64)
    name = _integer_format(bits, "int4-gptq")
    return Storage(name, bits + 32 / group) if group else Storage(name, bits, row_bits=32.0)


def _read_torchao(stated: Mapping[str, Any], _: Config) -> Scheme:
    """torchao: a type or its serialized configuration, or one per module (ModuleFqnToConfig)."""
    kind: Any = stated.get("quant_type")
    while isinstance(kind, Mapping) and "default" in kind and "_type" not in kind:
        kind = kind["default"]
    args = stated.get("quant_type_kwargs")
    rules: list[Rule] = list(_skipped(stated))
    data = kind.get("_data") if isinstance(kind, Mapping) else None
    by_module = data.get("module_fqn_to_config", data.get("fqn_to_config")) if isinstance(data, Mapping) else None
    if isinstance(by_module, Mapping):
        default = by_module.get("_default")
        rules += [
            (n, WIDE if own is None else _torchao_storage(own, {}))
            for n, own in by_module.items()
            if not n.startswith("_")
        ]
        linear = WIDE if default is None else _torchao_storage(default, {})
    else:
        linear = _torchao_storage(kind, args if isinstance(args, Mapping) else {})
    return Scheme(linear, tuple(rules), tables=linear if stated.get("include_input_output_embeddings") else None)


def _torchao_storage(kind: Any, args: Mapping[str, Any]) -> Storage:
    name = str(kind.get("_type", "") if isinstance(kind, Mapping) else kind or "")
    data = kind.get("_data", {}) if isinstance(kind, Mapping) else args
    group = _group_of(data if isinstance(data, Mapping) else {}, 128)
    key = name.lower().replace("_", "")
    if "nvfp4" in key:
        return Storage("nvfp4", NVFP4_BITS)
    if "mxfp4" in key or ("mx" in key and "4" in str(data)):
        return Storage("mxfp4", MXFP4_BITS)
    if "int4weightonly" in key or "activationint4weight" in key or "uint4" in key or "intxweightonly" in key:
        unpacked = "int8dynamicactivationint4" in key  # int4 values are stored in bytes
        return Storage("int4-awq", (8.0 if unpacked else 4.0) + 32 / (group or 128))
    if "float8" in key:
        return Storage("fp8", 8.0, row_bits=32.0)
    if "int8" in key:
        return Storage("int8", 8.0, row_bits=16.0)
    raise UnreadableConfiguration(
        f"The torchao type {name[:40]!r} is not known, so the weights cannot be sized.", key=KEY
    )


def _read_mlx(stated: Mapping[str, Any], _: Config) -> Scheme:
    """MLX: bits and group of all matrices, embeddings and head included, with own settings (or false) by module."""
    default = _mlx_storage(stated)
    rules = [
        (name, _mlx_storage({**stated, **own}) if isinstance(own, Mapping) else WIDE)
        for name, own in stated.items()
        if isinstance(own, Mapping) or (own is False and "." in name)
    ]
    return Scheme(default, tuple(rules), tables=default)


def _mlx_storage(stated: Mapping[str, Any]) -> Storage:
    bits, group, mode = _integer(stated.get("bits"), 4), _group_of(stated, 64), str(stated.get("mode", "affine"))
    if mode == "affine":
        return Storage("int4-mlx" if bits <= 6 else "int8-mlx", bits + 32 / (group or 64))
    return Storage("int4-mlx" if bits <= 6 else "int8-mlx", bits + 8 / (group or 32))


def _read_quark(stated: Mapping[str, Any], _: Config) -> Scheme:
    """AMD Quark: a global setting, settings by layer, and excluded layers."""
    layers = stated.get("layer_quant_config")
    own = [(n, _quark_storage(c)) for n, c in layers.items()] if isinstance(layers, Mapping) else []
    return Scheme(_quark_storage(stated.get("global_quant_config")), (*_skipped(stated), *own))


def _quark_storage(setting: Any) -> Storage:
    weight = setting.get("weight") if isinstance(setting, Mapping) else None
    if isinstance(weight, list):  # stages of one quantization, of which the narrowest type is stored
        stages = [_quark_storage({"weight": each}) for each in weight]
        return min(stages, key=lambda kept: kept.bits, default=WIDE)
    if not isinstance(weight, Mapping):
        return WIDE
    kind, group = str(weight.get("dtype", "")).lower(), _integer(weight.get("group_size"), 0)
    if "fp4" in kind:
        return Storage("nvfp4", NVFP4_BITS) if group == 16 else Storage("mxfp4", MXFP4_BITS)
    if "8" in kind:
        return Storage("fp8" if "fp8" in kind else "int8", 8.0 + (8 / group if group else 0.0))
    by_row = str(weight.get("qscheme", "")) in ("per_channel", "per_tensor")
    bits = float((_WIDTH.search(kind) or ("", 4))[1])
    return _grouped("int4-awq", bits, 0 if by_row else group or 128, zeros=False)


def _read_exl(stated: Mapping[str, Any], _: Config) -> Scheme:
    linear = Storage("int4-gptq", _number(stated.get("bits"), 4.0))
    included = _texts(stated.get("module_include"))
    if included:  # regular expressions of the modules that were converted
        return Scheme(linear, (*((f"re:{pattern}", linear) for pattern in included), ("*", WIDE)))
    head = Storage("int4-gptq", _number(stated.get("head_bits"), 6.0))
    return Scheme(linear, (*_skipped(stated), ("embed_tokens", WIDE)), tables=head)


def _read_int8(stated: Mapping[str, Any], _: Config) -> Scheme:
    return Scheme(Storage("int8", 8.0, row_bits=32.0), _skipped(stated))


def _read_bitnet(stated: Mapping[str, Any], _: Config) -> Scheme:
    return Scheme(Storage("int4-gptq", 2.0), _skipped(stated))


def _read_higgs(stated: Mapping[str, Any], _: Config) -> Scheme:
    bits = _number(stated.get("bits"), 4.0)
    return Scheme(_grouped("int4-gptq", bits, _group_of(stated, 256), zeros=False), _skipped(stated))


def _read_fp4(stated: Mapping[str, Any], _: Config) -> Scheme:
    """NVFP4, or MXFP4 where FP-Quant states it."""
    if str(stated.get("forward_dtype", "")).lower() == "mxfp4":
        return Scheme(Storage("mxfp4", MXFP4_BITS), _skipped(stated))
    return Scheme(Storage("nvfp4", NVFP4_BITS), _skipped(stated))


def _read_w4a_fp8(stated: Mapping[str, Any], _: Config) -> Scheme:
    """SGLang's w4afp8: experts in groups of int4, other matrices in blocks of FP8."""
    experts = _grouped("int4-gptq", 4.0, _group_of(stated), zeros=False)
    return Scheme(Storage("fp8", 8.0, block=128), _skipped(stated), experts)


def _read_marlin_24(stated: Mapping[str, Any], _: Config) -> Scheme:
    bits = _number(stated.get("bits"), 4.0)
    whole = _grouped(_integer_format(bits, "int4-gptq"), bits, _group_of(stated), zeros=False)
    return Scheme(_sparse_storage(whole), _skipped(stated))


def _read_mxfp8(stated: Mapping[str, Any], _: Config) -> Scheme:
    return Scheme(Storage("fp8", 8.25), _skipped(stated))


READERS: Mapping[str, Callable[[Mapping[str, Any], Config], Scheme]] = {
    **dict.fromkeys(("fp8", "fbgemm-fp8", "finegrained-fp8", "ptpc-fp8", "w8a8-fp8", "deepseek-v4-fp8"), _read_fp8),
    **dict.fromkeys(("mxfp4", "gpt-oss-mxfp4"), _read_mxfp4),
    **dict.fromkeys(("awq", "auto-awq", "awq-marlin"), _read_awq),
    **dict.fromkeys(
        (
            "gptq",
            "auto-gptq",
            "gptqmodel",
            "gptq-marlin",
            "auto-round",
            "autoround",
            "marlin",
            "moe-wna16",
            "rtn",
            "bitblas",
            "gptq-bitblas",
            "qqq",
        ),
        _read_gptq,
    ),
    **dict.fromkeys(("bitsandbytes", "bitsandbytes-4bit", "bitsandbytes-8bit", "bnb"), _read_bitsandbytes),
    **dict.fromkeys(("compressed-tensors", "sparseml"), _read_compressed_tensors),
    **dict.fromkeys(("modelopt", "modelopt-fp4", "modelopt-fp8", "modelopt-mixed", "modelopt-mxfp8"), _read_modelopt),
    "quanto": _read_quanto,
    "eetq": _read_eetq,
    "aqlm": _read_aqlm,
    **dict.fromkeys(("hqq", "sinq"), _read_hqq),
    "torchao": _read_torchao,
    "mlx": _read_mlx,
    "quark": _read_quark,
    **dict.fromkeys(("exl2", "exl3"), _read_exl),
    **dict.fromkeys(("w8a8-int8", "experts-int8", "tpu-int8", "smoothquant"), _read_int8),
    "bitnet": _read_bitnet,
    "higgs": _read_higgs,
    **dict.fromkeys(("nvfp4", "petit-nvfp4", "fp-quant", "fouroversix"), _read_fp4),
    "w4afp8": _read_w4a_fp8,
    "gptq-marlin-24": _read_marlin_24,
    "mxfp8": _read_mxfp8,
}
