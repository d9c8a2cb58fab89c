"""Vision towers and their projectors to the language model: tensors, work per patch, tokens per image.

Source: the image processors of the transformers library; the maximum tiles and tokens are their defaults.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from app.errors import UnreadableConfiguration
from app.sizing.model.architecture import EncoderPass, ImageInput, ModelArchitecture
from app.sizing.model.counting.configuration import Config, Reader, find_text_part
from app.sizing.model.counting.image_encoders import add_attention_pool
from app.sizing.model.counting.speech import (
    add_conformer,
    add_dots3_encoder,
    add_muse_encoder,
    add_phi4_encoder,
)
from app.sizing.model.tensors import ONCE, Inventory, Part, Per

PART = Part.ENCODER_TOWER


@dataclass(slots=True)
class Tower:
    """Shape and counted tensors of a vision tower. `text_width` is the hidden size of the language model that reads its
    output.
    """

    inventory: Inventory
    reader: Reader
    config: Config
    width: int
    mlp_width: int
    layers: int
    heads: int
    patch_pixels: int
    text_width: int

    @property
    def outer_reader(self) -> Reader:
        """Reader of the whole file."""
        return Reader(self.config)

    @property
    def patch_positions(self) -> int:
        """Patches of an image of the tower's own size."""
        size = self.reader.find_value("image_size")
        side = size[0] if isinstance(size, list) and size else self.reader.size("image_size")
        return (int(side) // self.patch_pixels) ** 2

    def add_projector_matrix(self, role: str, inputs: int, outputs: int, *, bias: bool = True, copies: int = 1) -> None:
        """Add a matrix of the projector, multiplied once per image token."""
        self.inventory.add_linear(
            role, PART, inputs, outputs, ONCE, bias=bias, quantized=False, per=Per.IMAGE_TOKEN, copies=copies
        )

    def add_vector(self, role: str, size: int) -> None:
        """Add learnable elements that nothing multiplies."""
        self.inventory.add_vector(role, PART, size)

    def add_patch_embedding(self, *, bias: bool, frames: int = 1) -> None:
        """Add the convolution that turns a patch of RGB pixels into a vector."""
        size = 3 * frames * self.patch_pixels**2
        self.inventory.add_linear(
            "patch_embedding", PART, size, self.width, ONCE, bias=bias, quantized=False, per=Per.NEVER
        )

    def add_blocks(
        self,
        *,
        attention_bias: bool = True,
        out_bias: bool = True,
        mlp_bias: bool = True,
        gated: bool = False,
        norms: int = 4,
        extra: int = 0,
        layers: int | None = None,
        heads_width: int | None = None,
        kv_width: int | None = None,
    ) -> None:
        """Add transformer blocks. `norms` counts normalization vectors per block, and `extra` other elements per block.
        `kv_width` is the width of keys and values if heads share them.

        Check: CLIP ViT-L/14 multiplies 24 * (4 * 1024^2 + 2 * 1024 * 4096) elements per patch.
            >>> registered("llava-hf/llava-1.5-7b-hf").source_matmul_params
            301989888.0
        """
        every = tuple(range(self.layers if layers is None else layers))
        h, f, inner = self.width, self.mlp_width, heads_width or self.width
        into = self.inventory

        def add_matrix(role: str, inputs: int, outputs: int, bias: bool) -> None:
            into.add_linear(role, PART, inputs, outputs, every, bias=bias, quantized=False, per=Per.SOURCE)

        for role, width in (("q", inner), ("k", kv_width or inner), ("v", kv_width or inner)):
            add_matrix(f"tower.{role}_proj", h, width, attention_bias)
        add_matrix("tower.o_proj", inner, h, out_bias)
        for role in ("up", "gate")[: 2 if gated else 1]:
            add_matrix(f"tower.{role}_proj", h, f, mlp_bias)
        add_matrix("tower.down_proj", f, h, mlp_bias)
        into.add_vector("tower.norms", PART, norms * h + extra, every)


MAX_IMAGE_TOKENS = 16_384  # maximum tokens of an image that is read at its own size


def _image_side(tower: Tower) -> int:
    """Side of the image that the file states, pixels; 0 if it states none."""
    size = tower.reader.find_value("image_size")
    return int(size[0]) if isinstance(size, list) and size else int(size) if isinstance(size, int) else 0


def _whole_image_input(tower: Tower) -> ImageInput:
    return ImageInput(tower.patch_pixels, tile_pixels=_image_side(tower))


def _gemma3_input(tower: Tower) -> ImageInput:
    own = tower.outer_reader.integer("mm_tokens_per_image", 256)
    return ImageInput(tower.patch_pixels, tile_pixels=_image_side(tower) or 896, tokens_per_tile=own)


def _gemma4_input(tower: Tower) -> ImageInput:
    merge = tower.reader.size("pooling_kernel_size", 3)
    return ImageInput(
        tower.patch_pixels, merge, max_tokens=tower.outer_reader.integer("vision_soft_tokens_per_image", 280)
    )


def _internvl_input(tower: Tower) -> ImageInput:
    own = tower.outer_reader.integer("image_seq_length", 256)
    return ImageInput(tower.patch_pixels, tile_pixels=_image_side(tower) or 448, max_tiles=12, tokens_per_tile=own)


def _idefics3_input(tower: Tower) -> ImageInput:
    return ImageInput(
        tower.patch_pixels, tower.outer_reader.size("scale_factor", 2), tile_pixels=_image_side(tower), max_tiles=16
    )


def _mistral3_input(tower: Tower) -> ImageInput:
    most = (_image_side(tower) // (2 * tower.patch_pixels)) ** 2 or None
    return ImageInput(
        tower.patch_pixels, tower.outer_reader.size("spatial_merge_size", 2), row_breaks=True, max_tokens=most
    )


def _native_size_input(tower: Tower) -> ImageInput:
    """Image input of models that read an image at its own size (Qwen-VL, Kimi, Muse)."""
    merge = tower.reader.find_value("merge_size") or tower.reader.find_value("spatial_merge_size")
    return ImageInput(tower.patch_pixels, merge if isinstance(merge, int) else 2, max_tokens=MAX_IMAGE_TOKENS)


PROFILED_FRAMES = 14  # vLLM: model_executor/models/qwen2_vl.py, _MAX_FRAMES_PER_VIDEO, 2026-11-26


def _qwen2_input(tower: Tower) -> ImageInput:
    """Image input of Qwen2-VL and Qwen2.5-VL, whose videos have as many tokens per pair of frames as an image."""
    return replace(_native_size_input(tower), video_frames=PROFILED_FRAMES)


_INPUT_BY_TYPE: Mapping[str, Callable[[Tower], ImageInput]] = {
    **dict.fromkeys(("gemma3", "shieldgemma2"), _gemma3_input),
    "gemma4": _gemma4_input,
    "llama4": lambda tower: ImageInput(tower.patch_pixels, 2, tile_pixels=_image_side(tower), max_tiles=16),
    "mllama": lambda tower: ImageInput(
        tower.patch_pixels, tile_pixels=_image_side(tower), max_tiles=4, tokens_per_tile=0
    ),
    "internvl": _internvl_input,
    "internvl_chat": _internvl_input,
    "qianfan_ocr": _internvl_input,
    "idefics3": _idefics3_input,
    "smolvlm": _idefics3_input,
    "phi3_v": lambda tower: ImageInput(tower.patch_pixels, 2, tile_pixels=336, max_tiles=16),
    **dict.fromkeys(
        ("llava_next", "llava_next_video"),
        lambda tower: ImageInput(tower.patch_pixels, tile_pixels=_image_side(tower), max_tiles=4),
    ),
    **dict.fromkeys(
        ("aya_vision", "cohere2_vision"),
        lambda tower: ImageInput(
            tower.patch_pixels,
            tower.outer_reader.size("downsample_factor", 2),
            tile_pixels=_image_side(tower),
            max_tiles=12,
        ),
    ),
    "llava_onevision": lambda tower: ImageInput(tower.patch_pixels, tile_pixels=_image_side(tower), max_tiles=9),
    "minicpmv": lambda tower: ImageInput(
        tower.patch_pixels, tile_pixels=448, max_tiles=9, tokens_per_tile=tower.outer_reader.size("query_num", 64)
    ),
    **dict.fromkeys(
        ("llava", "vipllava", "video_llava", "deepseek_vl", "deepseek_vl_hybrid", "paligemma"), _whole_image_input
    ),
    "got_ocr2": lambda tower: ImageInput(
        tower.patch_pixels,
        tile_pixels=_image_side(tower) or 1024,
        tokens_per_tile=tower.outer_reader.size("image_seq_length", 256),
    ),
    "idefics2": lambda tower: ImageInput(
        tower.patch_pixels, tile_pixels=_image_side(tower) or 980, max_tiles=4, tokens_per_tile=64
    ),
    "molmo2": lambda tower: ImageInput(tower.patch_pixels, 2, tile_pixels=378, max_tiles=8),
    "phi4_multimodal": lambda tower: ImageInput(
        tower.patch_pixels, 2, tile_pixels=_image_side(tower) or 448, max_tiles=36
    ),
    **dict.fromkeys(("mistral3", "lighton_ocr", "mistral_large4"), _mistral3_input),
    "qwen2_vl": _qwen2_input,
    "qwen2_5_vl": _qwen2_input,
    "lfm2_vl": lambda tower: ImageInput(
        tower.patch_pixels,
        tower.outer_reader.size("downsample_factor", 2),
        tile_pixels=tower.outer_reader.size("tile_size", 512),
        max_tiles=tower.outer_reader.size("max_tiles", 10),
    ),
}


def read_image_input(kind: str, tower: Tower) -> ImageInput:
    """Rule for the patches and tokens of an image, by the type of the wrapping model."""
    return _INPUT_BY_TYPE.get(kind, _native_size_input)(tower)


def _feature_layers(tower: Tower, usual: int = 1) -> int:
    """Layers of the tower whose states the projector reads next to each other."""
    outer = tower.outer_reader
    layers = outer.find_value("vision_feature_layers") or outer.find_value("vision_feature_layer")
    return usual if layers is None else len(layers) if isinstance(layers, list) else 1


def add_llava_projector(tower: Tower) -> None:
    """Add two matrices with an activation between them."""
    tower.add_projector_matrix("projector.1", tower.width * _feature_layers(tower), tower.text_width)
    tower.add_projector_matrix("projector.2", tower.text_width, tower.text_width)


def add_llava_next_projector(tower: Tower) -> None:
    """Add LLaVA's projector and a learned vector that ends each row of patches."""
    add_llava_projector(tower)
    tower.add_vector("image_newline", tower.text_width)


def add_vipllava_projector(tower: Tower) -> None:
    """Add a norm over the states of several layers, then LLaVA's projector of them."""
    wide = tower.width * _feature_layers(tower, 5)
    tower.add_vector("projector.norm", 2 * wide)
    tower.add_projector_matrix("projector.1", wide, tower.text_width)
    tower.add_projector_matrix("projector.2", tower.text_width, tower.text_width)


def add_cohere_projector(tower: Tower) -> None:
    """Add Cohere's gated projector of concatenated patches, which Aya Vision precedes with a norm."""
    outer = tower.outer_reader
    wide = tower.width * outer.size("downsample_factor", 2) ** 2
    inner = outer.size("alignment_intermediate_size", tower.text_width)
    if tower.config.get("model_type") == "aya_vision":
        tower.add_vector("projector.norm", 2 * wide)
    tower.add_projector_matrix("projector.1", wide, inner)
    tower.add_projector_matrix("projector.2", inner // 2, tower.text_width)


def add_gemma3_projector(tower: Tower) -> None:
    """Add a norm and one matrix."""
    tower.add_vector("projector.norm", tower.width)
    tower.add_projector_matrix("projector", tower.width, tower.text_width, bias=False)


def add_paligemma_projector(tower: Tower) -> None:
    """Add one matrix with a bias."""
    tower.add_projector_matrix("projector", tower.width, tower.text_width)


def add_mistral3_projector(tower: Tower) -> None:
    """Add a matrix that merges patches, then two matrices."""
    merge = tower.outer_reader.size("spatial_merge_size", 2)
    bias = tower.outer_reader.flag("multimodal_projector_bias")
    tower.add_vector("projector.norm", tower.width)
    tower.add_projector_matrix("patch_merger", tower.width * merge**2, tower.width, bias=False)
    tower.add_projector_matrix("projector.1", tower.width, tower.text_width, bias=bias)
    tower.add_projector_matrix("projector.2", tower.text_width, tower.text_width, bias=bias)


def add_patch_merger(tower: Tower, merge: int, out: int, *, copies: int = 1) -> None:
    """Add two matrices that `merge` x `merge` concatenated patches pass."""
    wide = tower.width * merge**2
    tower.add_projector_matrix("merger.1", wide, wide, copies=copies)
    tower.add_projector_matrix("merger.2", wide, out, copies=copies)


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


def _add_video_llava_tower(tower: Tower) -> None:
    """Add one CLIP tower for images and one for videos."""
    _add_clip_tower(tower)
    _add_clip_tower(tower)


def _add_paddle_ocr_tower(tower: Tower) -> None:
    """Add a SigLIP tower at the image's own size and a projector of concatenated patches."""
    wide = tower.width * tower.reader.size("spatial_merge_size", 2) ** 2
    _add_siglip_tower(tower)
    tower.add_vector("projector.norm", 2 * tower.width)
    tower.add_projector_matrix("projector.1", wide, wide)
    tower.add_projector_matrix("projector.2", wide, tower.text_width)


def _add_minicpm_tower(tower: Tower) -> None:
    """Add a SigLIP tower and the resampler, in which learned queries attend to the patches of a tile."""
    tower.layers -= tower.outer_reader.flag("drop_vision_last_layer")
    _add_siglip_tower(tower)
    h = tower.text_width
    tower.add_vector("resampler.query_and_norms", (tower.outer_reader.size("query_num", 64) + 6) * h)
    tower.add_projector_matrix("resampler.kv_proj", tower.width, h, bias=False)
    tower.add_projector_matrix("resampler.attn", h, h, copies=4)
    tower.add_projector_matrix("resampler.proj", h, h, bias=False)


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
    add_patch_merger(tower, tower.reader.size("spatial_merge_size", 2), tower.text_width)


def _add_qwen2_5_vl_tower(tower: Tower) -> None:
    tower.add_patch_embedding(bias=False, frames=tower.reader.size("temporal_patch_size", 2))
    tower.add_blocks(gated=True, norms=2)
    tower.add_vector("merger.norm", tower.width)
    add_patch_merger(
        tower, tower.reader.size("spatial_merge_size", 2), tower.reader.size("out_hidden_size", tower.text_width)
    )


def _add_hyperclovax_tower(tower: Tower) -> None:
    """Add Qwen2.5-VL's tower and one matrix."""
    _add_qwen2_5_vl_tower(tower)
    tower.add_projector_matrix("projector", tower.reader.size("out_hidden_size", tower.text_width), tower.text_width)


def _add_exaone_tower(tower: Tower) -> None:
    """Add Qwen2.5-VL's tower with grouped keys and values."""
    merge, out = tower.reader.size("spatial_merge_size", 2), tower.reader.size("out_hidden_size", tower.text_width)
    kv_heads = tower.reader.size("num_key_value_heads", tower.heads)
    tower.add_patch_embedding(bias=False, frames=tower.reader.size("temporal_patch_size", 2))
    tower.add_blocks(gated=True, norms=2, kv_width=tower.width // tower.heads * kv_heads)
    tower.add_vector("merger.norm", tower.width)
    add_patch_merger(tower, merge, out)


def _add_glm4v_tower(tower: Tower) -> None:
    """Add GLM's tower: blocks whose MLP is as wide as its output, a convolution that merges patches, a gated merger."""
    merge, out = tower.reader.size("spatial_merge_size", 2), tower.reader.size("out_hidden_size", tower.text_width)
    inner, tower.mlp_width = tower.mlp_width, out
    bias = tower.reader.flag("attention_bias")
    tower.add_patch_embedding(bias=True, frames=tower.reader.size("temporal_patch_size", 2))
    tower.add_vector("positions_and_norms", (tower.patch_positions + 2) * tower.width)
    tower.add_blocks(attention_bias=bias, out_bias=False, mlp_bias=False, gated=True, norms=2)
    tower.add_projector_matrix("downsample", tower.width * merge**2, out)
    tower.add_vector("merger.norm", 2 * out)
    tower.add_projector_matrix("merger.proj", out, out, bias=False)
    tower.add_projector_matrix("merger.up_and_gate", out, inner, bias=False, copies=2)
    tower.add_projector_matrix("merger.down", inner, out, bias=False)


def _add_lfm2_vl_tower(tower: Tower) -> None:
    """Add a SigLIP 2 tower and a projector of concatenated patches."""
    outer, wide = tower.outer_reader, tower.width * tower.outer_reader.size("downsample_factor", 2) ** 2
    inner, bias = outer.size("projector_hidden_size", 2560), outer.flag("projector_bias", default=True)
    tower.add_patch_embedding(bias=True)
    tower.add_vector("positions_and_post_norm", (tower.reader.size("num_patches", 256) + 2) * tower.width)
    tower.add_blocks()
    if outer.flag("projector_use_layernorm", default=True):
        tower.add_vector("projector.norm", 2 * wide)
    tower.add_projector_matrix("projector.1", wide, inner, bias=bias)
    tower.add_projector_matrix("projector.2", inner, tower.text_width, bias=bias)


def _add_qwen3_vl_tower(tower: Tower) -> None:
    merge, out = tower.reader.size("spatial_merge_size", 2), tower.reader.size("out_hidden_size", tower.text_width)
    deep = tower.reader.find_value("deepstack_visual_indexes")
    copies = len(deep) if isinstance(deep, list) else 3
    tower.add_patch_embedding(bias=True, frames=tower.reader.size("temporal_patch_size", 2))
    tower.add_vector("positions", tower.reader.size("num_position_embeddings", 2304) * tower.width)
    tower.add_blocks()
    tower.add_vector("merger.norms", 2 * tower.width + copies * 2 * tower.width * merge**2)
    add_patch_merger(tower, merge, out, copies=1 + copies)


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
    """Add the small model's encoder of speech."""
    width, out = audio.size("hidden_size", 1024), audio.size("output_proj_dims", 1536)
    add_conformer(
        tower.inventory,
        width,
        audio.size("num_hidden_layers", 12),
        audio.size("num_attention_heads", 8),
        audio.size("conv_kernel_size", 5),
        audio.find_value("subsampling_conv_channels") or (128, 32),
    )
    tower.add_vector("audio.projection", width * out + out + out * tower.text_width)


MOBILENET_V5_ELEMENTS = 294_126_912  # mobilenetv5_300m_enc of timm, instantiated; the file names it only


def read_gemma3n_towers(config: Config, model: ModelArchitecture) -> ModelArchitecture:
    """The model with its encoders of images and speech, each with its own vocabulary and projection.

    Check: the published checkpoints of Gemma 3n are that much larger than their text models.
        >>> file = {"vision_config": {"hidden_size": 2048}, "audio_config": {"hidden_size": 1536}}
        >>> text = registered("google/gemma-2-2b-it")
        >>> read_gemma3n_towers(file, replace(text, hidden_size=2048)).total_params - text.total_params
        983281504
    """
    outer, into = Reader(config), Inventory()
    vision, audio = outer.nested_part("vision_config"), outer.nested_part("audio_config")
    if vision.config:
        into.add_vector("vision.encoder", PART, MOBILENET_V5_ELEMENTS)
    if audio.config:
        add_conformer(
            into,
            audio.size("hidden_size", 1536),
            audio.size("conf_num_hidden_layers", 12),
            audio.size("conf_num_attention_heads", 8),
            audio.size("conf_conv_kernel_size", 5),
            audio.find_value("sscp_conv_channel_size") or (128, 32),
        )
    for name, part, usual in (("vision", vision, 2048), ("audio", audio, 1536)):
        if part.config:
            width = part.size("hidden_size", usual)
            own = part.size("vocab_size", 128) + 2 + model.hidden_size
            into.add_vector(f"{name}.embedder", PART, own * width)
    return replace(model, tensors=(*model.tensors, *into.tensors))


def _add_glm_ocr_tower(tower: Tower) -> None:
    """Add the tower of GLM-OCR: gated blocks with norms of queries and keys, and a merger, usually three times as
    wide.
    """
    merge, out = tower.reader.size("spatial_merge_size", 2), tower.reader.size("out_hidden_size", tower.text_width)
    tower.add_patch_embedding(bias=True, frames=tower.reader.size("temporal_patch_size", 2))
    tower.add_vector("norm", tower.width)
    tower.add_blocks(gated=True, norms=2, extra=2 * (tower.width // tower.heads))
    tower.add_projector_matrix("downsample", tower.width * merge**2, out)
    tower.add_vector("merger.norm", 2 * out)
    tower.add_projector_matrix("merger.proj", out, out, bias=False)
    inner = tower.reader.size("projection_intermediate_size", 3 * out)
    tower.add_projector_matrix("merger.mlp", out, inner, bias=False, copies=3)


def _add_ernie_vl_tower(tower: Tower) -> None:
    """Add the tower of ERNIE-4.5-VL, the resampler over space and time, and the experts that only images reach."""
    merge, text = tower.reader.size("spatial_merge_size", 2), Reader(find_text_part(tower.config)[0])
    frames, wide = tower.reader.size("temporal_merge_size", 2), tower.width * merge**2
    tower.add_patch_embedding(bias=False)
    tower.add_blocks()
    tower.add_vector("final_norm", 2 * tower.width)
    tower.add_projector_matrix("resampler.spatial", wide, wide, copies=2)
    tower.add_projector_matrix("resampler.temporal.1", wide * frames, wide)
    tower.add_projector_matrix("resampler.temporal.2", wide, wide)
    tower.add_projector_matrix("resampler.mlp", wide, tower.text_width)
    tower.add_vector("resampler.norms", 4 * wide + tower.text_width)
    widths, first = text.find_value("moe_intermediate_size"), text.find_value("moe_layer_start_index") or 1
    if isinstance(widths, list) and len(widths) > 1:
        begin = int(first[-1] if isinstance(first, list) else first)
        every = tuple(range(begin, text.size("num_hidden_layers")))
        counts = text.find_value("num_experts")
        experts = int(counts[-1] if isinstance(counts, list) else counts)
        for role in ("gate", "up", "down"):
            into, out = (widths[-1], tower.text_width) if role == "down" else (tower.text_width, widths[-1])
            tower.inventory.add_linear(
                f"image_experts.{role}_proj", Part.ROUTED_EXPERTS, into, out, every, copies=experts, used=0
            )
        tower.inventory.add_linear(
            "image_router", Part.ROUTER, tower.text_width, experts, every, quantized=False, per=Per.NEVER
        )
        tower.inventory.add_vector("image_router.correction_bias", Part.ROUTER, experts, every)


def _add_plain_siglip_tower(tower: Tower) -> None:
    """Add a SigLIP tower that reads images at their own size, without learned positions."""
    tower.add_patch_embedding(bias=True)
    tower.add_vector("post_norm", 2 * tower.width)
    tower.add_blocks()


def _add_idefics2_tower(tower: Tower) -> None:
    """Add a SigLIP tower, a gated projector as wide as the text model's MLP, and the resampler: learned queries that
    attend to the patches.
    """
    text, h = Reader(find_text_part(tower.config)[0], nested=True), tower.text_width
    resampler = tower.outer_reader.nested_part("perceiver_config", "idefics2_perceiver")
    depth, size = resampler.size("resampler_depth", 3), resampler.size("resampler_head_dim", 96)
    queries, keys = resampler.size("resampler_n_heads", 16) * size, resampler.size("num_key_value_heads", 4) * size
    _add_siglip_tower(tower)
    inner = text.size("intermediate_size")
    tower.add_projector_matrix("projector.up_and_gate", tower.width, inner, bias=False, copies=2)
    tower.add_projector_matrix("projector.down", inner, h, bias=False)
    tower.add_vector("resampler.latents_and_norms", (resampler.size("resampler_n_latents", 64) + 3 * depth + 1) * h)
    for role, inputs, outputs in (
        ("q_and_o", h, queries),
        ("k_and_v", h, keys),
        ("mlp.up_and_gate", h, 4 * h),
    ):
        tower.add_projector_matrix(f"resampler.{role}", inputs, outputs, bias=False, copies=2 * depth)
    tower.add_projector_matrix("resampler.mlp.down", 4 * h, h, bias=False, copies=depth)


def _add_molmo2_tower(tower: Tower) -> None:
    """Add the tower of Molmo 2, an attention that pools patches of several layers' states, and a gated projector."""
    adapter, width = tower.outer_reader.nested_part("adapter_config", "molmo2_adapter"), tower.width
    layers = adapter.find_value("vision_feature_layer") or adapter.find_value("vit_layers")
    wide = width * (len(layers) if isinstance(layers, list) else 2)
    inner = adapter.size("num_attention_heads", tower.heads) * adapter.size("head_dim", width // tower.heads)
    bias, mlp = adapter.flag("attention_bias!"), adapter.size("intermediate_size", 18944)
    tower.add_patch_embedding(bias=True)
    tower.add_vector("positions", tower.reader.size("num_position_embeddings", 729) * width)
    tower.add_blocks()
    tower.add_projector_matrix("pooling.qkv", wide, inner, bias=bias, copies=3)
    tower.add_projector_matrix("pooling.o_proj", inner, width, bias=bias)
    tower.add_projector_matrix("projector.up_and_gate", width, mlp, bias=False, copies=2)
    tower.add_projector_matrix("projector.down", mlp, adapter.size("text_hidden_size", tower.text_width), bias=False)


def _add_cosmos3_edge_tower(tower: Tower) -> None:
    """Add a SigLIP 2 tower and a projector of concatenated patches, each of which is normalized first."""
    wide = tower.width * tower.reader.size("spatial_merge_size", 2) ** 2
    inner = tower.outer_reader.size("projector_hidden_size", 11520)
    tower.add_patch_embedding(bias=True)
    tower.add_vector("positions_and_norms", (tower.reader.size("num_patches", 256) + 4) * tower.width)
    tower.add_blocks()
    tower.add_projector_matrix("projector.1", wide, inner)
    tower.add_projector_matrix("projector.2", inner, tower.text_width)


def _add_minicpm4_tower(tower: Tower) -> None:
    """Add a SigLIP tower with a block in its middle that merges patches, and the mergers in front of the text model."""
    outer, wide = tower.outer_reader, 4 * tower.width
    times = outer.size("merger_times", 1)
    tower.layers -= outer.flag("drop_vision_last_layer")
    _add_siglip_tower(tower)
    tower.add_projector_matrix("window_merger.attn", tower.width, tower.width, copies=4)
    tower.add_vector("window_merger.norms", 2 * tower.width + 2 * wide)
    tower.add_projector_matrix("window_merger.1", wide, 4 * wide)
    tower.add_projector_matrix("window_merger.2", 4 * wide, tower.width)
    tower.add_vector("merger.norms", 2 * times * wide)
    tower.add_projector_matrix("merger.1", wide, wide, copies=times)
    if times > 1:
        tower.add_projector_matrix("merger.between", wide, tower.width, copies=times - 1)
    tower.add_projector_matrix("merger.2", wide, tower.text_width)


def _add_sam_tower(tower: Tower, reader: Reader) -> int:
    """Add SAM's tower: learned positions, relative positions of windows and of the whole image in every block, and a
    neck of two convolutions. Returns the channels of the neck.
    """
    width, layers = reader.size("hidden_size", 768), reader.size("num_hidden_layers", 12)
    mlp, patch = reader.size("mlp_dim", 4 * width), reader.size("patch_size", 16)
    side, size = reader.size("image_size", 1024) // patch, width // reader.size("num_attention_heads", 12)
    whole = reader.find_value("global_attn_indexes")
    full = len(whole) if isinstance(whole, list) else 4
    window, out = reader.size("window_size", 14), reader.size("output_channels", 256)
    block = 4 * width * width + 4 * width + 2 * width * mlp + mlp + width + 4 * width
    relative = 2 * size * (full * (2 * side - 1) + (layers - full) * (2 * window - 1))
    tower.add_vector("sam.blocks", layers * block + relative)
    tower.add_vector("sam.front", 3 * patch**2 * width + width + side**2 * width)
    tower.add_vector("sam.neck", width * out + 9 * out * out + 4 * out)
    return out


def _add_got_ocr_tower(tower: Tower) -> None:
    """Add SAM's tower, two convolutions that halve the image, and one matrix."""
    out, width = _add_sam_tower(tower, tower.reader), tower.text_width
    tower.add_vector("projector.convolutions", 9 * 2 * out * out + 9 * 2 * out * 4 * out)
    tower.add_projector_matrix("projector", 4 * out, width)


def _add_deepseek_hybrid_tower(tower: Tower) -> None:
    """Add a SigLIP tower, SAM's tower for the image in high resolution, and the aligner of both."""
    high = tower.outer_reader.nested_part("high_res_vision_config", "sam_vision_model")
    _add_siglip_tower(tower)
    out, half = _add_sam_tower(tower, high), tower.text_width // 2
    again = high.size("hidden_size", 768) * out + 9 * out * out + 4 * out  # the neck for the states of an earlier layer
    tower.add_vector("high_res.neck_and_projector", again + 9 * 2 * out * out + 9 * 2 * out * 4 * out + 1)
    tower.add_projector_matrix("aligner.vision", tower.width, half)
    tower.add_projector_matrix("aligner.high_res", 4 * out, half)
    tower.add_projector_matrix("aligner", tower.text_width, tower.text_width)


def _add_dots3_tower(tower: Tower) -> None:
    """Add the tower of dots3, whose later blocks route each patch to two of several experts as wide as half of the
    dense MLP, and its encoder of speech.
    """
    reader, width = tower.reader, tower.width
    merge = reader.size("adapter_merge_size", 2)
    routed = [i for i, kind in enumerate(reader.layer_list("mlp_layer_types", tower.layers) or []) if kind == "sparse"]
    counts, most = reader.nested_part("per_layer_config"), reader.size("num_local_experts", 64)
    experts = [counts.nested_part(str(i)).integer("num_local_experts", most) for i in routed]
    resting = sum(experts) - len(routed) * reader.size("num_experts_per_tok", 2)
    tower.add_patch_embedding(bias=True)
    tower.add_vector("norms", 4 * width)
    tower.add_blocks(
        attention_bias=False, out_bias=False, mlp_bias=False, gated=True, norms=2, extra=2 * (width // tower.heads)
    )
    expert = 3 * width * reader.size("moe_intermediate_size", 2112)
    tower.add_vector("experts_not_chosen_and_routers", resting * expert + sum(experts) * width)
    add_patch_merger(tower, merge, reader.size("adapter_out_dim", tower.text_width))
    audio = tower.outer_reader.nested_part("audio_config", "dots3_note_audio_encoder")
    if audio.config:
        add_dots3_encoder(tower.inventory, audio, tower.text_width)


def _add_phi4_tower(tower: Tower) -> None:
    """Add a SigLIP tower with its pooling head, two learned separators, and two matrices."""
    _add_siglip_tower(tower)
    add_attention_pool(tower.inventory, tower.width, tower.mlp_width)
    tower.add_vector("separators", 2 * tower.width)
    add_llava_projector(tower)
    audio = tower.outer_reader.nested_part("audio_config", "phi4_multimodal_audio")
    if audio.config:
        add_phi4_encoder(tower.inventory, audio, tower.text_width)


def _add_muse_tower(tower: Tower) -> None:
    merge = tower.reader.size("merge_size", 2)
    adapter = tower.reader.size("projector_hidden_size", tower.reader.size("adapter_size", 4096))
    tower.add_patch_embedding(bias=False, frames=tower.reader.size("patch_temporal", 2))
    tower.add_vector("positions", tower.reader.size("max_position_embeddings", 1024) * tower.width)
    tower.add_vector("pre_and_post_norm", 4 * tower.width)
    tower.add_blocks()
    tower.add_projector_matrix("adapter.1", tower.width * merge**2, adapter, bias=False)
    tower.add_projector_matrix("adapter.2", adapter, adapter, bias=False)
    tower.add_projector_matrix("projector", adapter, tower.text_width, bias=False)
    audio = tower.outer_reader.nested_part("audio_config", "muse_spark_audio")
    if audio.config:
        add_muse_encoder(tower.inventory, audio, tower.text_width)


def _add_phi3_v_tower(tower: Tower) -> None:
    _add_clip_tower(tower)
    tower.add_vector("separators", 2 * 4 * tower.width)
    tower.add_projector_matrix("projector.1", 4 * tower.width, tower.text_width)
    tower.add_projector_matrix("projector.2", tower.text_width, tower.text_width)


Build = Callable[[Tower], None]
# By the wrapping model's type: the tower (None: selected by its own type) and its projector.
_BY_TYPE: Mapping[str, tuple[Build | None, Build | None]] = {
    "llava": (None, add_llava_projector),
    "llava_next": (None, add_llava_next_projector),
    "llava_onevision": (None, add_llava_next_projector),
    "llava_next_video": (None, add_llava_next_projector),
    "vipllava": (None, add_vipllava_projector),
    "video_llava": (_add_video_llava_tower, add_llava_projector),
    "aya_vision": (None, add_cohere_projector),
    "cohere2_vision": (None, add_cohere_projector),
    "deepseek_vl": (None, add_llava_projector),
    "paddleocr_vl": (_add_paddle_ocr_tower, None),
    "gemma3": (None, add_gemma3_projector),
    "paligemma": (None, add_paligemma_projector),
    "mistral3": (_add_pixtral_tower, add_mistral3_projector),
    "lighton_ocr": (_add_pixtral_tower, add_mistral3_projector),
    "mistral_large4": (_add_pixtral_tower, add_mistral3_projector),
    "llama4": (_add_llama4_tower, None),
    "mllama": (_add_mllama_tower, None),
    "qwen2_vl": (_add_qwen2_vl_tower, None),
    "qwen2_5_vl": (_add_qwen2_5_vl_tower, None),
    "qwen3_vl": (_add_qwen3_vl_tower, None),
    "cohere_compass": (_add_qwen3_vl_tower, None),
    "qwen3_vl_moe": (_add_qwen3_vl_tower, None),
    "qwen3_5": (_add_qwen3_vl_tower, None),
    "qwen3_5_moe": (_add_qwen3_vl_tower, None),
    "internvl": (_add_internvl_tower, None),
    "internvl_chat": (_add_internvl_tower, None),
    "qianfan_ocr": (_add_internvl_tower, None),
    "hyperclovax_vision_v2": (_add_hyperclovax_tower, None),
    "idefics3": (_add_idefics3_tower, None),
    "smolvlm": (_add_idefics3_tower, None),
    "kimi_k25": (_add_moonvit_tower, None),
    "kimi_k3": (_add_moonvit_tower, None),
    "gemma4": (_add_gemma4_tower, None),
    **dict.fromkeys(("muse_glimmer", "muse_spark"), (_add_muse_tower, None)),
    "phi4_multimodal": (_add_phi4_tower, None),
    "dots3_note": (_add_dots3_tower, None),
    "idefics2": (_add_idefics2_tower, None),
    "video_llama_3": (_add_plain_siglip_tower, add_llava_projector),
    "molmo2": (_add_molmo2_tower, None),
    "cosmos3_edge": (_add_cosmos3_edge_tower, None),
    "cosmos3_omni": (_add_qwen3_vl_tower, None),
    **dict.fromkeys(("minicpmv4_6", "minicpmv4_7"), (_add_minicpm4_tower, None)),
    "got_ocr2": (_add_got_ocr_tower, None),
    "deepseek_vl_hybrid": (_add_deepseek_hybrid_tower, None),
    "shieldgemma2": (None, add_gemma3_projector),
    "phi3_v": (_add_phi3_v_tower, None),
    "minicpmv": (_add_minicpm_tower, None),
    "exaone4_5": (_add_exaone_tower, None),
    "glm4v": (_add_glm4v_tower, None),
    "glm4v_moe": (_add_glm4v_tower, None),
    "glm46v": (_add_glm4v_tower, None),
    "glmga": (_add_glm4v_tower, None),
    **dict.fromkeys(("glm_ocr", "glm5_next"), (_add_glm_ocr_tower, None)),
    "lfm2_vl": (_add_lfm2_vl_tower, None),
    "ernie4_5_vl_moe": (_add_ernie_vl_tower, None),
    "ernie4_5_moe_vl": (_add_ernie_vl_tower, None),
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
    **dict.fromkeys(("llava_next_video", "vipllava", "video_llava"), "clip_vision_model"),
    **dict.fromkeys(
        ("aya_vision", "cohere2_vision", "deepseek_vl", "deepseek_vl_hybrid", "shieldgemma2"), "siglip_vision_model"
    ),
    "mistral3": "pixtral",
    "llama4": "llama4_vision_model",
    "mllama": "mllama_vision_model",
    "internvl": "internvl_vision",
    "idefics3": "idefics3_vision",
    "smolvlm": "idefics3_vision",
    "gemma4": "gemma4_vision",
    "muse_glimmer": "muse_glimmer_vision",
    "minicpmv": "siglip_vision_model",
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
