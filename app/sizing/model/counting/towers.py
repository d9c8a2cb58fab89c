"""Vision towers and their projectors to the language model: tensors, work per patch, tokens per image."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from app.errors import UnreadableConfiguration
from app.sizing.model.architecture import ModelArchitecture
from app.sizing.model.counting import projectors
from app.sizing.model.counting.configuration import Config, Reader
from app.sizing.model.counting.image_inputs import read_image_input
from app.sizing.model.counting.tower import PART, Tower, add_attention_pool
from app.sizing.model.encoder import EncoderPass
from app.sizing.model.tensors import Inventory


def _add_clip_tower(tower: Tower) -> None:
    """Add OpenAI's CLIP tower: class token, learned positions, a norm before and after."""
    positions = tower.patch_positions
    tower.add_patch_embedding(bias=False)
    tower.add_vector("class_and_positions", tower.width + (positions + 1) * tower.width)
    tower.add_vector("pre_and_post_norm", 4 * tower.width)
    tower.add_blocks()


def _add_siglip_tower(tower: Tower) -> None:
    tower.add_patch_embedding(bias=True)
    tower.add_vector("positions", tower.patch_positions * tower.width)
    tower.add_vector("post_norm", 2 * tower.width)
    tower.add_blocks()
    if tower.reader.flag("vision_use_head", default=False):
        add_attention_pool(tower.inventory, tower.width, tower.mlp_width)


def _add_pixtral_tower(tower: Tower) -> None:
    tower.add_patch_embedding(bias=False)
    tower.add_vector("pre_norm", tower.width)
    tower.add_blocks(attention_bias=False, out_bias=False, mlp_bias=False, gated=True, norms=2)


def _add_llama4_tower(tower: Tower) -> None:
    positions = tower.patch_positions
    out, inner = tower.reader.size("vision_output_dim", 4096), tower.reader.size("projector_input_dim", 4096)
    shuffled = round(tower.width / tower.reader.number("pixel_shuffle_ratio", 0.5) ** 2)
    tower.add_patch_embedding(bias=False)
    tower.add_vector("class_and_positions", tower.width + (positions + 1) * tower.width)
    tower.add_vector("pre_and_post_norm", 4 * tower.width)
    tower.add_blocks()
    tower.add_projector_matrix("adapter.1", shuffled, inner, bias=False)
    tower.add_projector_matrix("adapter.2", inner, tower.reader.size("projector_output_dim", 4096), bias=False)
    tower.add_projector_matrix("projector", out, tower.text_width, bias=False)


def _add_mllama_tower(tower: Tower) -> None:
    """Add the tower of Llama 3.2 Vision.

    Tiles have learned positions per aspect ratio. The last layers are gated. The states of five layers are kept in
    addition to the last.
    """
    reader, width = tower.reader, tower.width
    tiles, extra = reader.size("max_num_tiles", 4), reader.size("num_global_layers", 8)
    ratios = reader.find_value("supported_aspect_ratios")
    ratio_rows = (len(ratios) if isinstance(ratios, list) else 8) + 1
    positions = tower.patch_positions + 1
    tower.add_patch_embedding(bias=False)
    tower.add_vector("class_and_norms", width + 4 * width)
    tower.add_vector("positions", 1 + positions * width + ratio_rows * tiles * positions * width)
    tower.add_vector("tile_positions", 2 * (1 + ratio_rows * tiles * width))
    tower.add_blocks(attention_bias=False, out_bias=False)
    tower.add_blocks(attention_bias=False, out_bias=False, layers=extra, extra=2)
    tower.add_projector_matrix("projector", reader.size("vision_output_dim", 7680), tower.text_width)


def _add_qwen2_vl_tower(tower: Tower) -> None:
    tower.add_patch_embedding(bias=False, frames=tower.reader.size("temporal_patch_size", 2))
    tower.add_blocks()
    tower.add_vector("merger.norm", 2 * tower.width)
    projectors.add_patch_merger(tower, tower.reader.size("spatial_merge_size", 2), tower.text_width)


def _add_qwen2_5_vl_tower(tower: Tower) -> None:
    tower.add_patch_embedding(bias=False, frames=tower.reader.size("temporal_patch_size", 2))
    tower.add_blocks(gated=True, norms=2)
    tower.add_vector("merger.norm", tower.width)
    projectors.add_patch_merger(
        tower, tower.reader.size("spatial_merge_size", 2), tower.reader.size("out_hidden_size", tower.text_width)
    )


def _add_qwen3_vl_tower(tower: Tower) -> None:
    merge, out = tower.reader.size("spatial_merge_size", 2), tower.reader.size("out_hidden_size", tower.text_width)
    deep = tower.reader.find_value("deepstack_visual_indexes")
    copies = len(deep) if isinstance(deep, list) else 3
    tower.add_patch_embedding(bias=True, frames=tower.reader.size("temporal_patch_size", 2))
    tower.add_vector("positions", tower.reader.size("num_position_embeddings", 2304) * tower.width)
    tower.add_blocks()
    tower.add_vector("merger.norms", 2 * tower.width + copies * 2 * tower.width * merge**2)
    projectors.add_patch_merger(tower, merge, out, copies=1 + copies)


def _add_internvl_tower(tower: Tower) -> None:
    positions, bias = tower.patch_positions, tower.reader.flag("attention_bias") or tower.reader.flag("qkv_bias")
    rms = tower.reader.find_value("norm_type") == "rms_norm"
    qk_norm = 2 * tower.width if tower.reader.flag("use_qk_norm") or tower.reader.flag("qk_normalization") else 0
    tower.add_patch_embedding(bias=True)
    tower.add_vector("class_and_positions", tower.width + (positions + 1) * tower.width)
    tower.add_blocks(attention_bias=bias, norms=2 if rms else 4, extra=2 * tower.width + qk_norm)
    wide = round(tower.width / tower.outer_reader.number("downsample_ratio", 0.5) ** 2)
    tower.add_vector("projector.norm", 2 * wide)
    tower.add_projector_matrix("projector.1", wide, tower.text_width)
    tower.add_projector_matrix("projector.2", tower.text_width, tower.text_width)


def _add_idefics3_tower(tower: Tower) -> None:
    scale = tower.outer_reader.size("scale_factor", 2)
    tower.add_patch_embedding(bias=True)
    tower.add_vector("positions", tower.patch_positions * tower.width)
    tower.add_vector("post_norm", 2 * tower.width)
    tower.add_blocks()
    tower.add_projector_matrix("projector", tower.width * scale**2, tower.text_width, bias=False)


def _add_moonvit_tower(tower: Tower) -> None:
    rms = tower.reader.find_value("norm_type") == "rmsnorm"
    bias, inner = (
        tower.reader.flag("attn_bias", default=True),
        tower.reader.integer("qkv_hidden_size", 0) or tower.width,
    )
    linear = tower.reader.flag("linear_bias", default=True)
    vectors = 1 if rms else 2
    tower.add_patch_embedding(bias=tower.reader.flag("patch_embed_proj_bias", default=True))
    tower.add_vector(
        "positions",
        tower.reader.size("init_pos_emb_height", 64) * tower.reader.size("init_pos_emb_width", 64) * tower.width,
    )
    tower.add_blocks(attention_bias=bias, out_bias=bias, mlp_bias=linear, norms=2 * vectors, heads_width=inner)
    tower.add_vector("final_norm", vectors * tower.width)
    tower.add_vector("projector.norm", vectors * tower.width)
    tower.add_projector_matrix("projector.1", tower.width * 4, tower.width * 4, bias=not rms)
    tower.add_projector_matrix("projector.2", tower.width * 4, tower.text_width, bias=not rms)


def _add_gemma4_tower(tower: Tower) -> None:
    d = tower.reader.size("head_dim", tower.width // tower.heads)
    tower.add_patch_embedding(bias=False)
    tower.add_vector("positions", 2 * tower.reader.size("position_embedding_size", 10240) * tower.width)
    tower.add_blocks(
        attention_bias=False, out_bias=False, mlp_bias=False, gated=True, extra=2 * d, heads_width=tower.heads * d
    )
    tower.add_projector_matrix("projector", tower.width, tower.text_width, bias=False)
    audio = tower.outer_reader.nested_part("audio_config", "gemma4_audio")
    if audio.config:
        _add_gemma4_audio(tower, audio)


def _add_gemma4_audio(tower: Tower, audio: Reader) -> None:
    """Add the small model's conformer for speech: two half feed-forward parts around attention and a convolution."""
    width, layers, kernel = (
        audio.size("hidden_size", 1024),
        audio.size("num_hidden_layers", 12),
        audio.size("conv_kernel_size", 5),
    )
    d, out = width // audio.size("num_attention_heads", 8), audio.size("output_proj_dims", 1536)
    first, second = audio.find_value("subsampling_conv_channels") or (128, 32)
    attention, feed_forward, convolution = (
        5 * width * width + d,
        2 * (8 * width * width + 2 * width),
        3 * width * width + (kernel + 2) * width,
    )
    tower.inventory.add_vector(
        "audio.layers", PART, attention + feed_forward + convolution + 3 * width, tuple(range(layers))
    )
    tower.add_vector("audio.subsampling", 9 * first + first + 9 * first * second + second + second * 32 * width)
    tower.add_vector("audio.projection", width * out + out + out * tower.text_width)


def _add_muse_tower(tower: Tower) -> None:
    merge, adapter = tower.reader.size("merge_size", 2), tower.reader.size("adapter_size", 4096)
    tower.add_patch_embedding(bias=False, frames=tower.reader.size("patch_temporal", 2))
    tower.add_vector("positions", tower.reader.size("max_position_embeddings", 1024) * tower.width)
    tower.add_vector("pre_and_post_norm", 4 * tower.width)
    tower.add_blocks()
    tower.add_projector_matrix("adapter.1", tower.width * merge**2, adapter, bias=False)
    tower.add_projector_matrix("adapter.2", adapter, adapter, bias=False)
    tower.add_projector_matrix("projector", adapter, tower.text_width, bias=False)


def _add_phi3_v_tower(tower: Tower) -> None:
    _add_clip_tower(tower)
    tower.add_vector("separators", 2 * 4 * tower.width)
    tower.add_projector_matrix("projector.1", 4 * tower.width, tower.text_width)
    tower.add_projector_matrix("projector.2", tower.text_width, tower.text_width)


Build = Callable[[Tower], None]
# By the wrapping model's type: the tower (None: selected by its own type) and its projector.
_BY_TYPE: Mapping[str, tuple[Build | None, Build | None]] = {
    "llava": (None, projectors.add_llava_projector),
    "llava_next": (None, projectors.add_llava_next_projector),
    "llava_onevision": (None, projectors.add_llava_next_projector),
    "gemma3": (None, projectors.add_gemma3_projector),
    "paligemma": (None, projectors.add_paligemma_projector),
    "mistral3": (_add_pixtral_tower, projectors.add_mistral3_projector),
    "llama4": (_add_llama4_tower, None),
    "mllama": (_add_mllama_tower, None),
    "qwen2_vl": (_add_qwen2_vl_tower, None),
    "qwen2_5_vl": (_add_qwen2_5_vl_tower, None),
    "qwen3_vl": (_add_qwen3_vl_tower, None),
    "qwen3_vl_moe": (_add_qwen3_vl_tower, None),
    "qwen3_5": (_add_qwen3_vl_tower, None),
    "qwen3_5_moe": (_add_qwen3_vl_tower, None),
    "internvl": (_add_internvl_tower, None),
    "internvl_chat": (_add_internvl_tower, None),
    "idefics3": (_add_idefics3_tower, None),
    "smolvlm": (_add_idefics3_tower, None),
    "kimi_k25": (_add_moonvit_tower, None),
    "kimi_k3": (_add_moonvit_tower, None),
    "gemma4": (_add_gemma4_tower, None),
    "muse_glimmer": (_add_muse_tower, None),
    "phi3_v": (_add_phi3_v_tower, None),
}
_TOWERS: Mapping[str, Build] = {
    "clip_vision_model": _add_clip_tower,
    "siglip_vision_model": _add_siglip_tower,
    "pixtral": _add_pixtral_tower,
}
# The tower of Phi-3-vision, which its file does not describe: CLIP ViT-L/14 at 336.
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


def _read_vision_part(config: Config, kind: str) -> Reader:
    """Reader of the tower's keys, wherever the file stores them.

    Raises UnreadableConfiguration for a tower whose blocks are not known.
    """
    reader = Reader(config, kind).nested_part("vision_config", _DEFAULT_TYPE.get(kind, ""))
    own = reader.model_type
    if kind == "phi3_v":
        reader = Reader(_PHI3_V)
    if kind not in _BY_TYPE or (_BY_TYPE[kind][0] is None and own not in _TOWERS):
        raise UnreadableConfiguration(
            f"The vision tower {own[:60]!r} of model type {kind[:60]!r} is not supported. Supported model types: "
            f"{', '.join(sorted(_BY_TYPE))}. Omit vision_config to size the language model alone.",
            key="vision_config",
        )
    prefixed = {k.removeprefix("vt_"): v for k, v in reader.config.items() if k.startswith("vt_")}
    return Reader({**reader.config, **prefixed}, own, nested=True) if prefixed else reader


def _build_tower(config: Config, kind: str, reader: Reader, text_width: int) -> Tower:
    """An empty tower of the shape that the file states."""
    width = reader.find_value("embed_dim") if reader.model_type.startswith("qwen2_vl") or kind == "qwen2_vl" else None
    width = width if isinstance(width, int) else reader.size("hidden_size")
    layers = reader.size("num_hidden_layers" if reader.find_value("depth") is None else "depth")
    heads = reader.find_value("attention_heads") or reader.size("num_attention_heads", 16)
    patch = reader.find_value("patch_size")
    patch = int(patch[0]) if isinstance(patch, list) and patch else reader.size("patch_size")
    if patch < 1:
        raise UnreadableConfiguration("'patch_size' must be at least 1.", key="patch_size")
    wide = round(width * reader.number("mlp_ratio", 4.0))
    mlp_width = reader.integer("intermediate_size", 0) if reader.config.get("intermediate_size") else 0
    mlp_width = mlp_width or reader.integer("intermediate_size", wide)
    return Tower(
        Inventory(),
        reader,
        config,
        width,
        wide if kind == "qwen2_vl" else mlp_width,
        layers,
        int(heads),
        patch,
        text_width,
    )


def read_tower(config: Config, model: ModelArchitecture) -> ModelArchitecture:
    """The model with its vision tower and projector.

    Raises UnreadableConfiguration for a tower whose blocks are not known.
    """
    kind = str(config.get("model_type"))
    reader = _read_vision_part(config, kind)
    tower = _build_tower(config, kind, reader, model.hidden_size)
    vision, projector = _BY_TYPE[kind]
    (vision or _TOWERS[reader.model_type])(tower)
    if projector is not None:
        projector(tower)
    width = tower.width
    return replace(
        model,
        tensors=(*model.tensors, *tower.inventory.tensors),
        encoder=EncoderPass(
            layers=tower.layers, hidden_size=width, attention_macs=2.0 * width, mlp_width=float(tower.mlp_width)
        ),
        images=read_image_input(kind, tower),
    )
