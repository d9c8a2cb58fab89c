"""The quantization that a configuration states for its published checkpoint."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from app.sizing.model.counting.configuration import Config
from app.sizing.model.formats import MXFP4_BITS, NF4_BITS, NF4_DOUBLE_QUANTIZED_BITS, NVFP4_BITS, NativeQuantization

# Roles that quantized repositories can leave in 16 bit, in addition to norms, routers, embeddings and the head.
_ATTENTION = r"^attention\."
_DENSE = r"^mlp\."
_SHARED = r"^shared_experts\."


def _bounded_integer(value: Any, default: int) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 < value <= 4096 else default


def _unquantized_roles(patterns: Any) -> tuple[str, ...]:
    """Roles that a list of module names excludes from quantization."""
    text = " ".join(str(p) for p in patterns) if isinstance(patterns, list) else ""
    roles = []
    if "self_attn" in text or "attention" in text:
        roles.append(_ATTENTION)
    if "shared_expert" in text:
        roles.append(_SHARED)
    if "mlp\\.(gate" in text or "mlp.gate_proj" in text or ".mlp.down_proj" in text:
        roles.append(_DENSE)
    return tuple(roles)


def native_quantization(config: Config) -> NativeQuantization | None:
    """The quantization of the checkpoint, or None if it is published in 16 bit.

    Known methods are fp8 (per tensor or in blocks), mxfp4, compressed-tensors, awq, gptq, modelopt and bitsandbytes.
    For another method, the stated number of bits is used.
    """
    stated: Any = config.get("quantization_config")
    if not isinstance(stated, Mapping):
        return None
    method = str(stated.get("quant_method", stated.get("quant_algo", ""))).lower()
    group, bits = (
        _bounded_integer(stated.get("group_size"), 128),
        _bounded_integer(stated.get("bits", stated.get("num_bits")), 4),
    )
    unquantized_roles = _unquantized_roles(
        stated.get("modules_to_not_convert")
        or stated.get("ignore")
        or stated.get("ignored_layers")
        or stated.get("exclude_modules")
    )
    if method in {"fp8", "fbgemm_fp8"}:
        block = stated.get("weight_block_size")
        side = _bounded_integer(block[0], 0) if isinstance(block, list) and block else 0
        experts_in_4 = str(config.get("expert_dtype", "")) == "fp4"
        return NativeQuantization(
            "fp8",
            8.0,
            block=side,
            unquantized_roles=unquantized_roles,
            experts_bits=MXFP4_BITS if experts_in_4 else None,
        )
    if method == "mxfp4":
        return NativeQuantization("mxfp4", MXFP4_BITS, unquantized_roles=(*unquantized_roles, _ATTENTION, _DENSE))
    if method == "awq":
        return NativeQuantization("int4-awq", bits + 16 / group + bits / group, unquantized_roles=unquantized_roles)
    if method == "gptq":
        name = "int4-gptq" if bits <= 4 else "int8"
        return NativeQuantization(name, bits + 16 / group + bits / group, unquantized_roles=unquantized_roles)
    if method == "bitsandbytes":
        four = bool(stated.get("load_in_4bit") or stated.get("_load_in_4bit"))
        double = bool(stated.get("bnb_4bit_use_double_quant"))
        return (
            NativeQuantization("nf4", NF4_DOUBLE_QUANTIZED_BITS if double else NF4_BITS)
            if four
            else NativeQuantization("int8", 8.0)
        )
    if method == "compressed-tensors":
        return _read_compressed_tensors(stated, unquantized_roles)
    if "modelopt" in method or method == "nvfp4":
        return _read_modelopt(stated, unquantized_roles)
    if not method:
        return None
    return NativeQuantization(
        "int8" if bits >= 8 else "int4-gptq", bits + 16 / group, unquantized_roles=unquantized_roles
    )


def _read_compressed_tensors(stated: Mapping[str, Any], unquantized_roles: tuple[str, ...]) -> NativeQuantization:
    """Quantization of compressed-tensors: the weights of the first group state width, type and scales."""
    weights: Any = stated
    groups = stated.get("config_groups")
    if isinstance(groups, Mapping) and groups:
        first = next(iter(groups.values()))
        weights = first.get("weights") or {} if isinstance(first, Mapping) else {}
    bits = _bounded_integer(weights.get("num_bits"), 8)
    group = _bounded_integer(weights.get("group_size"), 0)
    floating = weights.get("type") == "float"
    if bits == 4 and floating:
        mx = "mx" in str(stated.get("format", "")) or group == 32
        return NativeQuantization(
            "mxfp4" if mx else "nvfp4", MXFP4_BITS if mx else NVFP4_BITS, unquantized_roles=unquantized_roles
        )
    if bits == 8:
        return NativeQuantization("fp8" if floating else "int8", 8.0, unquantized_roles=unquantized_roles)
    return NativeQuantization("int4-awq", bits + (16 / group if group else 0.0), unquantized_roles=unquantized_roles)


def _read_modelopt(stated: Mapping[str, Any], unquantized_roles: tuple[str, ...]) -> NativeQuantization:
    inner = stated.get("quantization")
    algorithm = str(
        stated.get("quant_algo") or (inner.get("quant_algo") if isinstance(inner, Mapping) else "") or ""
    ).upper()
    return (
        NativeQuantization("nvfp4", NVFP4_BITS, unquantized_roles=unquantized_roles)
        if "FP4" in algorithm
        else NativeQuantization("fp8", 8.0, unquantized_roles=unquantized_roles)
    )
