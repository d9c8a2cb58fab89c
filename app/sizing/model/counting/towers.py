"""Vision towers and the projectors that lead to the language model: tensors, work per patch, tokens per image."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from app.errors import UnreadableConfiguration
from app.sizing.model.architecture import ModelArchitecture
from app.sizing.model.counting.configuration import Config, Reader
from app.sizing.model.encoder import EncoderPass, ImageInput
from app.sizing.model.tensors import ONCE, Inventory, Part, Per

PART = Part.ENCODER_TOWER


@dataclass(slots=True)
class Tower:
    """One tower under count: h wide, f inside, `layers` deep, patches of `patch` pixels a side; `text` is the model's
    width.
    """

    inventory: Inventory
    reader: Reader
    config: Config
    h: int
    f: int
    layers: int
    heads: int
    patch: int
    text: int

    def matrix(self, role: str, inputs: int, outputs: int, *, bias: bool = True, copies: int = 1) -> None:
        """One of the projector: multiplied once per image token."""
        self.inventory.linear(
            role, PART, inputs, outputs, ONCE, bias=bias, quantised=False, per=Per.IMAGE_TOKEN, copies=copies
        )

    def small(self, role: str, size: int) -> None:
        self.inventory.vector(role, PART, size)

    def patches(self, *, bias: bool, frames: int = 1, channels: int = 3) -> None:
        """The convolution that turns a patch into a vector."""
        size = channels * frames * self.patch**2
        self.inventory.linear("patch_embedding", PART, size, self.h, ONCE, bias=bias, quantised=False, per=Per.NEVER)

    def blocks(
        self,
        *,
        attention_bias: bool = True,
        out_bias: bool = True,
        mlp_bias: bool = True,
        gated: bool = False,
        norms: int = 4,
        extra: int = 0,
        layers: int | None = None,
        width: int | None = None,
    ) -> None:
        """Transformer blocks; `norms` counts normalisation vectors a block, `extra` other elements of it.

        Check: CLIP ViT-L/14 multiplies 24 * (4 * 1024^2 + 2 * 1024 * 4096) = 301 989 888 elements a patch.
        """
        every = tuple(range(self.layers if layers is None else layers))
        h, f, inner = self.h, self.f, width or self.h
        into = self.inventory

        def block(role: str, inputs: int, outputs: int, bias: bool) -> None:
            into.linear(role, PART, inputs, outputs, every, bias=bias, quantised=False, per=Per.SOURCE)

        for role in ("q", "k", "v"):
            block(f"tower.{role}_proj", h, inner, attention_bias)
        block("tower.o_proj", inner, h, out_bias)
        for role in ("up", "gate")[: 2 if gated else 1]:
            block(f"tower.{role}_proj", h, f, mlp_bias)
        block("tower.down_proj", f, h, mlp_bias)
        into.vector("tower.norms", PART, norms * h + extra, every)


def _image_positions(reader: Reader, patch: int) -> int:
    size = reader.find("image_size")
    side = size[0] if isinstance(size, list) and size else reader.size("image_size")
    return (int(side) // patch) ** 2


def _clip(t: Tower) -> None:
    """OpenAI's tower: class token, learned positions, a norm before and after."""
    positions = _image_positions(t.reader, t.patch)
    t.patches(bias=False)
    t.small("class_and_positions", t.h + (positions + 1) * t.h)
    t.small("pre_and_post_norm", 4 * t.h)
    t.blocks()


def _siglip(t: Tower) -> None:
    t.patches(bias=True)
    t.small("positions", _image_positions(t.reader, t.patch) * t.h)
    t.small("post_norm", 2 * t.h)
    t.blocks()
    if t.reader.flag("vision_use_head", default=False):
        attention_pool(t.inventory, t.h, t.f)


def attention_pool(inventory: Inventory, h: int, f: int) -> None:
    """SigLIP's pooling head: one learned query attends to all patches."""
    inventory.vector("pool", PART, h + 4 * (h * h + h) + 2 * h + 2 * h * f + f + h)


def _llava(t: Tower) -> None:
    t.matrix("projector.1", t.h, t.text)
    t.matrix("projector.2", t.text, t.text)


def _newline(t: Tower) -> None:
    _llava(t)
    t.small("image_newline", t.text)


def _gemma3(t: Tower) -> None:
    t.small("projector.norm", t.h)
    t.matrix("projector", t.h, t.text, bias=False)


def _paligemma(t: Tower) -> None:
    t.matrix("projector", t.h, t.text)


def _pixtral(t: Tower) -> None:
    t.patches(bias=False)
    t.small("pre_norm", t.h)
    t.blocks(attention_bias=False, out_bias=False, mlp_bias=False, gated=True, norms=2)


def _mistral3(t: Tower) -> None:
    merge = Reader(t.config).size("spatial_merge_size", 2)
    bias = Reader(t.config).flag("multimodal_projector_bias")
    t.small("projector.norm", t.h)
    t.matrix("patch_merger", t.h * merge**2, t.h, bias=False)
    t.matrix("projector.1", t.h, t.text, bias=bias)
    t.matrix("projector.2", t.text, t.text, bias=bias)


def _llama4(t: Tower) -> None:
    positions = _image_positions(t.reader, t.patch)
    out, inner = t.reader.size("vision_output_dim", 4096), t.reader.size("projector_input_dim", 4096)
    shuffled = round(t.h / t.reader.number("pixel_shuffle_ratio", 0.5) ** 2)
    t.patches(bias=False)
    t.small("class_and_positions", t.h + (positions + 1) * t.h)
    t.small("pre_and_post_norm", 4 * t.h)
    t.blocks()
    t.matrix("adapter.1", shuffled, inner, bias=False)
    t.matrix("adapter.2", inner, t.reader.size("projector_output_dim", 4096), bias=False)
    t.matrix("projector", out, t.text, bias=False)


def _mllama(t: Tower) -> None:
    """Tiles with learned positions per aspect ratio; the last layers are gated; five layers' states are kept beside the
    last.
    """
    reader, h = t.reader, t.h
    tiles, extra = reader.size("max_num_tiles", 4), reader.size("num_global_layers", 8)
    ratios = reader.find("supported_aspect_ratios")
    ratio_rows = (len(ratios) if isinstance(ratios, list) else 8) + 1
    positions = _image_positions(reader, t.patch) + 1
    t.patches(bias=False)
    t.small("class_and_norms", h + 4 * h)
    t.small("positions", 1 + positions * h + ratio_rows * tiles * positions * h)
    t.small("tile_positions", 2 * (1 + ratio_rows * tiles * h))
    t.blocks(attention_bias=False, out_bias=False)
    t.blocks(attention_bias=False, out_bias=False, layers=extra, extra=2)
    t.matrix("projector", reader.size("vision_output_dim", 7680), t.text)


def _qwen2_vl(t: Tower) -> None:
    t.patches(bias=False, frames=t.reader.size("temporal_patch_size", 2))
    t.blocks()
    t.small("merger.norm", 2 * t.h)
    _merger(t, t.reader.size("spatial_merge_size", 2), t.text)


def _qwen2_5_vl(t: Tower) -> None:
    t.patches(bias=False, frames=t.reader.size("temporal_patch_size", 2))
    t.blocks(gated=True, norms=2)
    t.small("merger.norm", t.h)
    _merger(t, t.reader.size("spatial_merge_size", 2), t.reader.size("out_hidden_size", t.text))


def _merger(t: Tower, merge: int, out: int, *, copies: int = 1) -> None:
    wide = t.h * merge**2
    t.matrix("merger.1", wide, wide, copies=copies)
    t.matrix("merger.2", wide, out, copies=copies)


def _qwen3_vl(t: Tower) -> None:
    merge, out = t.reader.size("spatial_merge_size", 2), t.reader.size("out_hidden_size", t.text)
    deep = t.reader.find("deepstack_visual_indexes")
    copies = len(deep) if isinstance(deep, list) else 3
    t.patches(bias=True, frames=t.reader.size("temporal_patch_size", 2))
    t.small("positions", t.reader.size("num_position_embeddings", 2304) * t.h)
    t.blocks()
    t.small("merger.norms", 2 * t.h + copies * 2 * t.h * merge**2)
    _merger(t, merge, out, copies=1 + copies)


def _internvl(t: Tower) -> None:
    positions, bias = _image_positions(t.reader, t.patch), t.reader.flag("attention_bias") or t.reader.flag("qkv_bias")
    rms = t.reader.find("norm_type") == "rms_norm"
    qk_norm = 2 * t.h if t.reader.flag("use_qk_norm") or t.reader.flag("qk_normalization") else 0
    t.patches(bias=True)
    t.small("class_and_positions", t.h + (positions + 1) * t.h)
    t.blocks(attention_bias=bias, norms=2 if rms else 4, extra=2 * t.h + qk_norm)
    wide = round(t.h / Reader(t.config).number("downsample_ratio", 0.5) ** 2)
    t.small("projector.norm", 2 * wide)
    t.matrix("projector.1", wide, t.text)
    t.matrix("projector.2", t.text, t.text)


def _idefics3(t: Tower) -> None:
    scale = Reader(t.config).size("scale_factor", 2)
    t.patches(bias=True)
    t.small("positions", _image_positions(t.reader, t.patch) * t.h)
    t.small("post_norm", 2 * t.h)
    t.blocks()
    t.matrix("projector", t.h * scale**2, t.text, bias=False)


def _moonvit(t: Tower) -> None:
    rms = t.reader.find("norm_type") == "rmsnorm"
    bias, inner = t.reader.flag("attn_bias", default=True), t.reader.integer("qkv_hidden_size", 0) or t.h
    linear = t.reader.flag("linear_bias", default=True)
    vectors = 1 if rms else 2
    t.patches(bias=t.reader.flag("patch_embed_proj_bias", default=True))
    t.small("positions", t.reader.size("init_pos_emb_height", 64) * t.reader.size("init_pos_emb_width", 64) * t.h)
    t.blocks(attention_bias=bias, out_bias=bias, mlp_bias=linear, norms=2 * vectors, width=inner)
    t.small("final_norm", vectors * t.h)
    t.small("projector.norm", vectors * t.h)
    t.matrix("projector.1", t.h * 4, t.h * 4, bias=not rms)
    t.matrix("projector.2", t.h * 4, t.text, bias=not rms)


def _gemma4(t: Tower) -> None:
    d = t.reader.size("head_dim", t.h // t.heads)
    t.patches(bias=False)
    t.small("positions", 2 * t.reader.size("position_embedding_size", 10240) * t.h)
    t.blocks(attention_bias=False, out_bias=False, mlp_bias=False, gated=True, extra=2 * d, width=t.heads * d)
    t.matrix("projector", t.h, t.text, bias=False)
    audio = Reader(t.config).part("audio_config", "gemma4_audio")
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
    t.small("audio.projection", h * out + out + out * t.text)


def _muse(t: Tower) -> None:
    merge, adapter = t.reader.size("merge_size", 2), t.reader.size("adapter_size", 4096)
    t.patches(bias=False, frames=t.reader.size("patch_temporal", 2))
    t.small("positions", t.reader.size("max_position_embeddings", 1024) * t.h)
    t.small("pre_and_post_norm", 4 * t.h)
    t.blocks()
    t.matrix("adapter.1", t.h * merge**2, adapter, bias=False)
    t.matrix("adapter.2", adapter, adapter, bias=False)
    t.matrix("projector", adapter, t.text, bias=False)


def _phi3_v(t: Tower) -> None:
    _clip(t)
    t.small("separators", 2 * 4 * t.h)
    t.matrix("projector.1", 4 * t.h, t.text)
    t.matrix("projector.2", t.text, t.text)


Build = Callable[[Tower], None]
# By the wrapping model's type: the tower (None: by its own type) and the projector behind it.
_BY_TYPE: Mapping[str, tuple[Build | None, Build | None]] = {
    "llava": (None, _llava),
    "llava_next": (None, _newline),
    "llava_onevision": (None, _newline),
    "gemma3": (None, _gemma3),
    "paligemma": (None, _paligemma),
    "mistral3": (_pixtral, _mistral3),
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


def _image_input(kind: str, t: Tower) -> ImageInput:
    """How each family cuts an image up."""
    own, reader = Reader(t.config), t.reader
    size = reader.find("image_size")
    side = int(size[0]) if isinstance(size, list) and size else int(size) if isinstance(size, int) else 0
    if kind == "gemma3":
        return ImageInput(t.patch, tile_pixels=side or 896, tokens_per_tile=own.integer("mm_tokens_per_image", 256))
    if kind == "gemma4":
        merge = reader.size("pooling_kernel_size", 3)
        return ImageInput(t.patch, merge, max_tokens=own.integer("vision_soft_tokens_per_image", 280))
    if kind == "llama4":
        return ImageInput(t.patch, 2, tile_pixels=side, max_tiles=16)
    if kind == "mllama":
        return ImageInput(t.patch, tile_pixels=side, max_tiles=4, tokens_per_tile=0)
    if kind in ("internvl", "internvl_chat"):
        return ImageInput(
            t.patch, tile_pixels=side or 448, max_tiles=12, tokens_per_tile=own.integer("image_seq_length", 256)
        )
    if kind in ("idefics3", "smolvlm"):
        return ImageInput(t.patch, own.size("scale_factor", 2), tile_pixels=side, max_tiles=16)
    if kind == "phi3_v":
        return ImageInput(t.patch, 2, tile_pixels=336, max_tiles=16)
    if kind == "llava_next":
        return ImageInput(t.patch, tile_pixels=side, max_tiles=4)
    if kind == "llava_onevision":
        return ImageInput(t.patch, tile_pixels=side, max_tiles=9)
    if kind in ("llava", "paligemma"):
        return ImageInput(t.patch, tile_pixels=side)
    if kind == "mistral3":
        return ImageInput(
            t.patch, own.size("spatial_merge_size", 2), row_breaks=True, max_tokens=(side // (2 * t.patch)) ** 2 or None
        )
    merge = reader.find("merge_size") or reader.find("spatial_merge_size")
    return ImageInput(t.patch, merge if isinstance(merge, int) else 2, max_tokens=16384)


def read_tower(config: Config, model: ModelArchitecture) -> ModelArchitecture:
    """The model with its vision tower and projector.

    Raises UnreadableConfiguration for a tower whose blocks are not known.
    """
    kind = str(config.get("model_type"))
    outer = Reader(config, kind)
    reader = outer.part("vision_config", _DEFAULT_TYPE.get(kind, ""))
    own = reader.model_type
    if kind == "phi3_v":
        reader = Reader(
            {
                "hidden_size": 1024,
                "intermediate_size": 4096,
                "num_hidden_layers": 24,
                "num_attention_heads": 16,
                "patch_size": 14,
                "image_size": 336,
            }
        )
    if kind not in _BY_TYPE or (_BY_TYPE[kind][0] is None and own not in _TOWERS):
        raise UnreadableConfiguration(
            f"The vision tower {own[:60]!r} of a {kind[:60]!r} is not one that can be counted. Known wrapping types: "
            f"{', '.join(sorted(_BY_TYPE))}; leave vision_config out to size the language model alone.",
            key="vision_config",
        )
    prefixed = {k.removeprefix("vt_"): v for k, v in reader.config.items() if k.startswith("vt_")}
    if prefixed:
        reader = Reader({**reader.config, **prefixed}, own, nested=True)
    h = reader.find("embed_dim") if own.startswith("qwen2_vl") or kind == "qwen2_vl" else None
    h = h if isinstance(h, int) else reader.size("hidden_size")
    layers = reader.size("num_hidden_layers" if reader.find("depth") is None else "depth")
    heads = reader.find("attention_heads") or reader.size("num_attention_heads", 16)
    patch = reader.find("patch_size")
    patch = int(patch[0]) if isinstance(patch, list) and patch else reader.size("patch_size")
    if patch < 1:
        raise UnreadableConfiguration("'patch_size' must be at least 1.", key="patch_size")
    ratio = reader.number("mlp_ratio", 4.0)
    f = reader.integer("intermediate_size", 0) if reader.config.get("intermediate_size") else 0
    tower = Tower(
        Inventory(),
        reader,
        config,
        h,
        f or reader.integer("intermediate_size", round(h * ratio)),
        layers,
        int(heads),
        patch,
        model.hidden_size,
    )
    if kind == "qwen2_vl":
        tower.f = round(h * ratio)
    vision, projector = _BY_TYPE[kind]
    (vision or _TOWERS[own])(tower)
    if projector is not None:
        projector(tower)
    return replace(
        model,
        tensors=(*model.tensors, *tower.inventory.tensors),
        encoder=EncoderPass(layers=layers, hidden_size=h, attention_macs=2.0 * h, mlp_width=float(tower.f)),
        images=_image_input(kind, tower),
    )
