"""Vision towers and the projectors that lead to the language model: tensors, work per patch, tokens per image."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from app.errors import UnreadableConfiguration
from app.sizing.model.architecture import ModelArchitecture
from app.sizing.model.counting import projectors
from app.sizing.model.counting.configuration import Config, Reader
from app.sizing.model.counting.image_inputs import image_input
from app.sizing.model.counting.tower import PART, Tower, attention_pool
from app.sizing.model.encoder import EncoderPass
from app.sizing.model.tensors import Inventory


def _clip(t: Tower) -> None:
    """OpenAI's tower: class token, learned positions, a norm before and after."""
    positions = t.positions
    t.patches(bias=False)
    t.small("class_and_positions", t.width + (positions + 1) * t.width)
    t.small("pre_and_post_norm", 4 * t.width)
    t.blocks()


def _siglip(t: Tower) -> None:
    t.patches(bias=True)
    t.small("positions", t.positions * t.width)
    t.small("post_norm", 2 * t.width)
    t.blocks()
    if t.reader.flag("vision_use_head", default=False):
        attention_pool(t.inventory, t.width, t.mlp_width)


def _pixtral(t: Tower) -> None:
    t.patches(bias=False)
    t.small("pre_norm", t.width)
    t.blocks(attention_bias=False, out_bias=False, mlp_bias=False, gated=True, norms=2)


def _llama4(t: Tower) -> None:
    positions = t.positions
    out, inner = t.reader.size("vision_output_dim", 4096), t.reader.size("projector_input_dim", 4096)
    shuffled = round(t.width / t.reader.number("pixel_shuffle_ratio", 0.5) ** 2)
    t.patches(bias=False)
    t.small("class_and_positions", t.width + (positions + 1) * t.width)
    t.small("pre_and_post_norm", 4 * t.width)
    t.blocks()
    t.matrix("adapter.1", shuffled, inner, bias=False)
    t.matrix("adapter.2", inner, t.reader.size("projector_output_dim", 4096), bias=False)
    t.matrix("projector", out, t.text_width, bias=False)


def _mllama(t: Tower) -> None:
    """Tiles with learned positions per aspect ratio; the last layers are gated; five layers' states are kept beside the
    last.
    """
    reader, h = t.reader, t.width
    tiles, extra = reader.size("max_num_tiles", 4), reader.size("num_global_layers", 8)
    ratios = reader.find("supported_aspect_ratios")
    ratio_rows = (len(ratios) if isinstance(ratios, list) else 8) + 1
    positions = t.positions + 1
    t.patches(bias=False)
    t.small("class_and_norms", h + 4 * h)
    t.small("positions", 1 + positions * h + ratio_rows * tiles * positions * h)
    t.small("tile_positions", 2 * (1 + ratio_rows * tiles * h))
    t.blocks(attention_bias=False, out_bias=False)
    t.blocks(attention_bias=False, out_bias=False, layers=extra, extra=2)
    t.matrix("projector", reader.size("vision_output_dim", 7680), t.text_width)


def _qwen2_vl(t: Tower) -> None:
    t.patches(bias=False, frames=t.reader.size("temporal_patch_size", 2))
    t.blocks()
    t.small("merger.norm", 2 * t.width)
    projectors.merger(t, t.reader.size("spatial_merge_size", 2), t.text_width)


def _qwen2_5_vl(t: Tower) -> None:
    t.patches(bias=False, frames=t.reader.size("temporal_patch_size", 2))
    t.blocks(gated=True, norms=2)
    t.small("merger.norm", t.width)
    projectors.merger(t, t.reader.size("spatial_merge_size", 2), t.reader.size("out_hidden_size", t.text_width))


def _qwen3_vl(t: Tower) -> None:
    merge, out = t.reader.size("spatial_merge_size", 2), t.reader.size("out_hidden_size", t.text_width)
    deep = t.reader.find("deepstack_visual_indexes")
    copies = len(deep) if isinstance(deep, list) else 3
    t.patches(bias=True, frames=t.reader.size("temporal_patch_size", 2))
    t.small("positions", t.reader.size("num_position_embeddings", 2304) * t.width)
    t.blocks()
    t.small("merger.norms", 2 * t.width + copies * 2 * t.width * merge**2)
    projectors.merger(t, merge, out, copies=1 + copies)


def _internvl(t: Tower) -> None:
    positions, bias = t.positions, t.reader.flag("attention_bias") or t.reader.flag("qkv_bias")
    rms = t.reader.find("norm_type") == "rms_norm"
    qk_norm = 2 * t.width if t.reader.flag("use_qk_norm") or t.reader.flag("qk_normalization") else 0
    t.patches(bias=True)
    t.small("class_and_positions", t.width + (positions + 1) * t.width)
    t.blocks(attention_bias=bias, norms=2 if rms else 4, extra=2 * t.width + qk_norm)
    wide = round(t.width / t.outer.number("downsample_ratio", 0.5) ** 2)
    t.small("projector.norm", 2 * wide)
    t.matrix("projector.1", wide, t.text_width)
    t.matrix("projector.2", t.text_width, t.text_width)


def _idefics3(t: Tower) -> None:
    scale = t.outer.size("scale_factor", 2)
    t.patches(bias=True)
    t.small("positions", t.positions * t.width)
    t.small("post_norm", 2 * t.width)
    t.blocks()
    t.matrix("projector", t.width * scale**2, t.text_width, bias=False)


def _moonvit(t: Tower) -> None:
    rms = t.reader.find("norm_type") == "rmsnorm"
    bias, inner = t.reader.flag("attn_bias", default=True), t.reader.integer("qkv_hidden_size", 0) or t.width
    linear = t.reader.flag("linear_bias", default=True)
    vectors = 1 if rms else 2
    t.patches(bias=t.reader.flag("patch_embed_proj_bias", default=True))
    t.small("positions", t.reader.size("init_pos_emb_height", 64) * t.reader.size("init_pos_emb_width", 64) * t.width)
    t.blocks(attention_bias=bias, out_bias=bias, mlp_bias=linear, norms=2 * vectors, heads_width=inner)
    t.small("final_norm", vectors * t.width)
    t.small("projector.norm", vectors * t.width)
    t.matrix("projector.1", t.width * 4, t.width * 4, bias=not rms)
    t.matrix("projector.2", t.width * 4, t.text_width, bias=not rms)


def _gemma4(t: Tower) -> None:
    d = t.reader.size("head_dim", t.width // t.heads)
    t.patches(bias=False)
    t.small("positions", 2 * t.reader.size("position_embedding_size", 10240) * t.width)
    t.blocks(attention_bias=False, out_bias=False, mlp_bias=False, gated=True, extra=2 * d, heads_width=t.heads * d)
    t.matrix("projector", t.width, t.text_width, bias=False)
    audio = t.outer.part("audio_config", "gemma4_audio")
    if audio.config:
        _gemma4_audio(t, audio)


def _gemma4_audio(t: Tower, audio: Reader) -> None:
    """The small model's conformer for speech: two half feed-forwards around attention and a convolution."""
    h, layers, kernel = (
        audio.size("hidden_size", 1024),
        audio.size("num_hidden_layers", 12),
        audio.size("conv_kernel_size", 5),
    )
    d, out = h // audio.size("num_attention_heads", 8), audio.size("output_proj_dims", 1536)
    first, second = audio.find("subsampling_conv_channels") or (128, 32)
    attention, feed_forward, convolution = 5 * h * h + d, 2 * (8 * h * h + 2 * h), 3 * h * h + (kernel + 2) * h
    t.inventory.vector("audio.layers", PART, attention + feed_forward + convolution + 3 * h, tuple(range(layers)))
    t.small("audio.subsampling", 9 * first + first + 9 * first * second + second + second * 32 * h)
    t.small("audio.projection", h * out + out + out * t.text_width)


def _muse(t: Tower) -> None:
    merge, adapter = t.reader.size("merge_size", 2), t.reader.size("adapter_size", 4096)
    t.patches(bias=False, frames=t.reader.size("patch_temporal", 2))
    t.small("positions", t.reader.size("max_position_embeddings", 1024) * t.width)
    t.small("pre_and_post_norm", 4 * t.width)
    t.blocks()
    t.matrix("adapter.1", t.width * merge**2, adapter, bias=False)
    t.matrix("adapter.2", adapter, adapter, bias=False)
    t.matrix("projector", adapter, t.text_width, bias=False)


def _phi3_v(t: Tower) -> None:
    _clip(t)
    t.small("separators", 2 * 4 * t.width)
    t.matrix("projector.1", 4 * t.width, t.text_width)
    t.matrix("projector.2", t.text_width, t.text_width)


Build = Callable[[Tower], None]
# By the wrapping model's type: the tower (None: by its own type) and the projector behind it.
_BY_TYPE: Mapping[str, tuple[Build | None, Build | None]] = {
    "llava": (None, projectors.llava),
    "llava_next": (None, projectors.newline),
    "llava_onevision": (None, projectors.newline),
    "gemma3": (None, projectors.gemma3),
    "paligemma": (None, projectors.paligemma),
    "mistral3": (_pixtral, projectors.mistral3),
    "llama4": (_llama4, None),
    "mllama": (_mllama, None),
    "qwen2_vl": (_qwen2_vl, None),
    "qwen2_5_vl": (_qwen2_5_vl, None),
    "qwen3_vl": (_qwen3_vl, None),
    "qwen3_vl_moe": (_qwen3_vl, None),
    "qwen3_5": (_qwen3_vl, None),
    "qwen3_5_moe": (_qwen3_vl, None),
    "internvl": (_internvl, None),
    "internvl_chat": (_internvl, None),
    "idefics3": (_idefics3, None),
    "smolvlm": (_idefics3, None),
    "kimi_k25": (_moonvit, None),
    "kimi_k3": (_moonvit, None),
    "gemma4": (_gemma4, None),
    "muse_glimmer": (_muse, None),
    "phi3_v": (_phi3_v, None),
}
_TOWERS: Mapping[str, Build] = {"clip_vision_model": _clip, "siglip_vision_model": _siglip, "pixtral": _pixtral}
# Phi-3-vision's file leaves its tower out: CLIP ViT-L/14 at 336.
_PHI3_V = {
    "hidden_size": 1024,
    "intermediate_size": 4096,
    "num_hidden_layers": 24,
    "num_attention_heads": 16,
    "patch_size": 14,
    "image_size": 336,
}
_DEFAULT_TYPE = {
    "gemma3": "siglip_vision_model",
    "paligemma": "siglip_vision_model",
    "llava": "clip_vision_model",
    "llava_next": "clip_vision_model",
    "llava_onevision": "siglip_vision_model",
    "mistral3": "pixtral",
    "llama4": "llama4_vision_model",
    "mllama": "mllama_vision_model",
    "internvl": "internvl_vision",
    "idefics3": "idefics3_vision",
    "smolvlm": "idefics3_vision",
    "gemma4": "gemma4_vision",
    "muse_glimmer": "muse_glimmer_vision",
}


def _vision_part(config: Config, kind: str) -> Reader:
    """The tower's own keys, wherever the file keeps them.

    Raises UnreadableConfiguration for a tower whose blocks are not known.
    """
    reader = Reader(config, kind).part("vision_config", _DEFAULT_TYPE.get(kind, ""))
    own = reader.model_type
    if kind == "phi3_v":
        reader = Reader(_PHI3_V)
    if kind not in _BY_TYPE or (_BY_TYPE[kind][0] is None and own not in _TOWERS):
        raise UnreadableConfiguration(
            f"The vision tower {own[:60]!r} of a {kind[:60]!r} is not one that can be counted. Known wrapping types: "
            f"{', '.join(sorted(_BY_TYPE))}; leave vision_config out to size the language model alone.",
            key="vision_config",
        )
    prefixed = {k.removeprefix("vt_"): v for k, v in reader.config.items() if k.startswith("vt_")}
    return Reader({**reader.config, **prefixed}, own, nested=True) if prefixed else reader


def _tower(config: Config, kind: str, reader: Reader, text_width: int) -> Tower:
    """An empty tower of the shape the file states."""
    h = reader.find("embed_dim") if reader.model_type.startswith("qwen2_vl") or kind == "qwen2_vl" else None
    h = h if isinstance(h, int) else reader.size("hidden_size")
    layers = reader.size("num_hidden_layers" if reader.find("depth") is None else "depth")
    heads = reader.find("attention_heads") or reader.size("num_attention_heads", 16)
    patch = reader.find("patch_size")
    patch = int(patch[0]) if isinstance(patch, list) and patch else reader.size("patch_size")
    if patch < 1:
        raise UnreadableConfiguration("'patch_size' must be at least 1.", key="patch_size")
    wide = round(h * reader.number("mlp_ratio", 4.0))
    f = reader.integer("intermediate_size", 0) if reader.config.get("intermediate_size") else 0
    f = f or reader.integer("intermediate_size", wide)
    return Tower(
        Inventory(), reader, config, h, wide if kind == "qwen2_vl" else f, layers, int(heads), patch, text_width
    )


def read_tower(config: Config, model: ModelArchitecture) -> ModelArchitecture:
    """The model with its vision tower and projector.

    Raises UnreadableConfiguration for a tower whose blocks are not known.
    """
    kind = str(config.get("model_type"))
    reader = _vision_part(config, kind)
    tower = _tower(config, kind, reader, model.hidden_size)
    vision, projector = _BY_TYPE[kind]
    (vision or _TOWERS[reader.model_type])(tower)
    if projector is not None:
        projector(tower)
    h = tower.width
    return replace(
        model,
        tensors=(*model.tensors, *tower.inventory.tensors),
        encoder=EncoderPass(
            layers=tower.layers, hidden_size=h, attention_macs=2.0 * h, mlp_width=float(tower.mlp_width)
        ),
        images=image_input(kind, tower),
    )
