"""From a registered model to the counts sizing needs.

Where the closed form of a configuration equals the registered total, it is used. Otherwise the
registered facts are (total, active, cache bytes and multiplied parameters per token, counted on the
instantiated model), and where a model works on samples its FLOPs per sample are.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from app.errors import UnreadableConfiguration
from app.sizing.architecture import read_architecture
from app.sizing.model import AttentionGroup, ModelArchitecture, ModelKind, ParameterParts, SampleWork

# FLOPs a network does per element of activation it writes: convolutions (ResNet-50: 8.18 GFLOP for
# 11.1 M elements), vision transformers (ViT-B/16: 35 GFLOP for 30 M) and large denoisers.
FLOPS_PER_ACTIVATION = {"convolution": 740.0, "transformer": 1200.0, "diffusion": 5000.0}
CONVOLUTIONAL = (
    "resnet", "efficientnet", "efficientnetv2", "convnext", "mobilenet_v2", "mobilenet_v3", "densenet", "vgg",
    "yolov8", "yolo11",
)  # fmt: skip

# Denoising steps and guidance factor usual for a family (guidance evaluates the network twice).
DENOISING = {
    "unet2d_condition": (30.0, 2.0), "sd3": (28.0, 2.0), "flux": (28.0, 1.0), "flux2": (28.0, 1.0),
    "qwen_image": (50.0, 2.0), "z_image": (8.0, 1.0), "wan": (50.0, 2.0), "hunyuan_video": (50.0, 1.0),
}  # fmt: skip
LARGEST_LIVE_BYTES = 8e9  # a video denoiser keeps ten tensors of 75 600 tokens x 5120 alive, not all its layers
VAE_DECODE_FLOPS_AT_1024 = 10.47e12
IMAGE_TOKENS_AT_1024 = 4096.0
WHISPER_SOURCE_TOKENS = 1500.0
WHISPER_TEXT_TOKENS = 64.0
WAV2VEC_TOKENS = 1499.0


def architecture_of(entry: Mapping[str, Any]) -> ModelArchitecture:
    """The counts of a registry entry."""
    modality = entry["modality"]
    if modality in ("vision", "diffusion", "speech"):
        return _sample_model(entry)
    model = _closed_form(entry) or _from_facts(entry)
    if modality in ("embedding", "reranker"):
        groups = tuple(replace(g, kv_elements=0.0) for g in model.attention)
        body = model.matmul_params - (model.head_matmul_params if model.kind is ModelKind.DECODER else 0.0)
        model = replace(model, kind=ModelKind.ENCODER, attention=groups, matmul_params=max(body, 1.0))
    return model


def _closed_form(entry: Mapping[str, Any]) -> ModelArchitecture | None:
    try:
        model = read_architecture(entry["config"], name=entry["hf_id"])
    except UnreadableConfiguration:
        return None
    agrees = (model.total_params, model.active_params) == (entry["total_params"], entry["active_params"])
    return model if agrees else None


def _text(config: Mapping[str, Any]) -> Mapping[str, Any]:
    for key in ("text_config", "llm_config", "language_config"):
        inner = config.get(key)
        if isinstance(inner, Mapping):
            return inner
    return config


def _first(config: Mapping[str, Any], *names: str, default: int) -> int:
    """The first whole number among keys; lists count by their first entry."""
    for name in names:
        value = config.get(name)
        if isinstance(value, list) and value:
            value = value[0]
        if isinstance(value, int) and not isinstance(value, bool) and value > 0:
            return value
    return default


def _from_facts(entry: Mapping[str, Any]) -> ModelArchitecture:
    """Counts from the registered facts of a model whose blocks have no closed form here."""
    config, derived = _text(entry["config"]), entry.get("derived") or {}
    h = _first(config, "hidden_size", "d_model", "n_embd", "dim", default=1024)
    layers = _first(config, "num_hidden_layers", "num_layers", "n_layer", "n_layers", "encoder_layers", default=24)
    heads = _first(config, "num_attention_heads", "num_heads", "n_head", "n_heads", default=max(1, h // 64))
    kv_heads = _first(config, "num_key_value_heads", "num_kv_heads", "multi_query_group_num", default=heads)
    if config.get("kv_lora_rank"):
        kv_heads = 1
    d = _first(config, "head_dim", "d_kv", default=max(1, h // heads))
    vocab = _first(config, "vocab_size", "padded_vocab_size", default=0)
    total, active = int(entry["total_params"]), int(entry["active_params"])
    experts = _first(config, "num_local_experts", "num_experts", "n_routed_experts", "moe_num_experts", default=0)
    per_token = _first(
        config, "num_experts_per_tok", "moe_topk", "moe_k", "top_k_experts", "num_experts_per_token", "experts_per_token", default=0
    )
    inactive = total - active
    routed = inactive * experts // (experts - per_token) if inactive and experts > per_token > 0 else 0
    tower = int(entry.get("encoder_tower_params") or 0)
    embedding = int(entry.get("embedding_params") or vocab * h)
    head = vocab * h if total - embedding - tower - routed > 2 * vocab * h and not config.get("tie_word_embeddings", True) else 0
    matmul = float(derived.get("matmul_params_per_token") or active - embedding - tower)
    if entry["modality"] in ("embedding", "reranker") and not derived:
        matmul = float(total - embedding)
    linear = min(max(int(matmul) - vocab * h, 0) + inactive, total - embedding - head - tower)
    rest = total - embedding - head - tower - routed
    kv = float(derived.get("kv_bytes_per_token_bf16", 0.0)) / 2
    beyond = float(derived.get("kv_bytes_per_token_bf16_beyond_window", derived.get("kv_bytes_per_token_bf16", 0.0))) / 2
    window = _first(config, "sliding_window", "attention_chunk_size", default=0)
    per_layer = 2.0 * max(1, kv_heads) * d
    groups = [
        AttentionGroup(
            layers=1, kv_elements=elements, kv_heads=kv_heads, prefill_macs=2.0 * heads * d * max(1.0, elements / per_layer),
            decode_macs=2.0 * heads * d * max(1.0, elements / per_layer), window_tokens=limit,
        )
        for elements, limit in ((beyond, None), (kv - beyond, float(window) if window else None))
        if elements > 0
    ]  # fmt: skip
    if not groups:
        groups = [AttentionGroup(layers=layers, kv_elements=0.0, kv_heads=heads, prefill_macs=2.0 * h, decode_macs=2.0 * h)]
    width = _first(config, "moe_intermediate_size", "intermediate_size", "ffn_dim", "d_ff", "encoder_ffn_dim", default=4 * h)
    return ModelArchitecture(
        name=entry["hf_id"],
        kind=ModelKind.DECODER,
        family=str(entry["config"].get("model_type", entry["family"])),
        num_layers=layers,
        hidden_size=h,
        num_heads=heads,
        head_dim=d,
        mlp_width=float(width * max(1, per_token)),
        vocab_size=vocab,
        parts=ParameterParts(embedding=embedding, head=head, mlp=rest, routed_experts=routed, encoder_tower=tower),
        linear_params=linear,
        active_params=active,
        matmul_params=matmul,
        attention=tuple(groups),
        state_bytes_per_sequence=float(derived.get("recurrent_state_bytes_per_sequence", 0.0)),
        num_experts=experts if routed else 0,
        experts_per_token=per_token if routed else 0,
        moe_layers=layers if routed else 0,
        max_context_tokens=_first(config, "max_position_embeddings", "n_positions", "max_seq_len", default=0) or None,
        tied_head=head == 0,
        source=f"registered facts ({entry['counted_by']})",
    )


def _sample_model(entry: Mapping[str, Any]) -> ModelArchitecture:
    """Vision, speech and diffusion: work per sample from the model's own facts."""
    config, total = entry["config"], int(entry["total_params"])
    family = str(config.get("model_type", entry["family"]))
    parts_elsewhere = sum(v for k, v in (entry.get("components") or {}).items() if k not in ("unet", "transformer", "denoiser"))
    assumed: list[str] = []
    if entry["modality"] == "vision":
        flops = float(entry["flops"]["forward_flops_per_image"])
        conv = family in CONVOLUTIONAL
        ratio = FLOPS_PER_ACTIVATION["convolution" if conv else "transformer"]
        depth = sum(config["depths"]) if isinstance(config.get("depths"), list) else _first(config, "num_hidden_layers", default=24)
        work = SampleWork(
            flops=flops, activation_bytes=2 * flops / ratio, layers=depth * (3 if conv else 1), convolutional=conv, unit="image"
        )
        assumed.append(f"one image at {entry.get('resolution')} pixels a side is a sample")
    elif entry["modality"] == "diffusion":
        steps, guidance = DENOISING.get(family, (30.0, 1.0))
        resolution = float(entry.get("resolution") or 1024)
        measured = (entry.get("flops") or {}).get("forward_flops_per_step")
        tokens = IMAGE_TOKENS_AT_1024 * (resolution / 1024) ** 2
        flops = float(measured) if measured else 2.0 * total * tokens
        text = 2.0 * max(parts_elsewhere, 0) * 77
        work = SampleWork(
            flops=flops * guidance, passes=steps, extra_flops=VAE_DECODE_FLOPS_AT_1024 * (resolution / 1024) ** 2 + text,
            activation_bytes=min(2 * flops / FLOPS_PER_ACTIVATION["diffusion"], LARGEST_LIVE_BYTES), layers=_first(config, "num_layers", default=70), unit="picture",
        )  # fmt: skip
        assumed.append(f"{steps:g} denoising steps{' with guidance' if guidance > 1 else ''} at {resolution:g} pixels make a sample")
        if not measured:
            assumed.append("work of one denoising step estimated from parameters and image tokens")
    else:
        derived = entry.get("derived") or {}
        if "matmul_params_per_encoder_token" in derived:
            encoder = 2.0 * float(derived["matmul_params_per_encoder_token"]) * WHISPER_SOURCE_TOKENS
            work = SampleWork(
                flops=2.0 * float(derived["matmul_params_per_token"]), passes=WHISPER_TEXT_TOKENS, extra_flops=encoder,
                activation_bytes=64e6, layers=_first(config, "decoder_layers", default=12), unit="30 s of speech",
            )  # fmt: skip
            assumed.append(f"30 s of speech and {WHISPER_TEXT_TOKENS:g} text tokens make a sample")
        else:
            work = SampleWork(
                flops=2.0 * total * WAV2VEC_TOKENS, activation_bytes=2.0 * WAV2VEC_TOKENS * 2e5,
                layers=_first(config, "num_hidden_layers", default=12), unit="30 s of speech",
            )  # fmt: skip
            assumed.append("30 s of speech make a sample")
    return ModelArchitecture(
        name=entry["hf_id"],
        kind=ModelKind.SAMPLES,
        family=family,
        num_layers=1,
        hidden_size=1,
        num_heads=1,
        head_dim=1,
        mlp_width=0.0,
        vocab_size=0,
        parts=ParameterParts(mlp=total, encoder_tower=int(parts_elsewhere)),
        linear_params=total,
        active_params=total,
        matmul_params=float(total),
        sample=work,
        assumed=tuple(assumed),
        source=f"registered facts ({entry['counted_by']})",
    )
