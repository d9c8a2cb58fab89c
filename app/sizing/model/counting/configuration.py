"""Reads a `config.json`: spellings of keys, nested parts, defaults of absent keys, quantization, wrong types.

The library saves files without the values that equal the class defaults of a nested part. Counting such a file
therefore requires the defaults. `app/sizing/data/model_defaults.csv` lists the shape keys.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from app.errors import UnreadableConfiguration
from app.sizing.facts import InvalidFact, parse_number, read_rows
from app.sizing.model.sample import Network

FILE = "model_defaults.csv"


def read_defaults(rows: Iterable[Mapping[str, str]]) -> dict[str, Mapping[str, Any]]:
    """Class defaults by model type. A row with `like` has those of a row above: vision parts that files name by the
    type of the wrapping model.
    """
    found: dict[str, Mapping[str, Any]] = {}
    for line, row in enumerate(rows, start=2):
        where = f"{FILE}, row {line}"
        cells = {key: text for key, text in row.items() if text and key not in ("model_type", "like")}
        if row["like"] and (cells or row["like"] not in found):
            raise InvalidFact(f"{where}: 'like' must name a row above, and stands alone.")
        found[row["model_type"]] = (
            found[row["like"]] if row["like"] else {k: _parse(v, where) for k, v in cells.items()}
        )
    return found


def _parse(text: str, where: str) -> int | bool:
    """A size or a switch."""
    return text == "true" if text in ("true", "false") else int(parse_number(text, where=where))


DEFAULTS: Mapping[str, Mapping[str, Any]] = read_defaults(read_rows(FILE))

Config = Mapping[str, Any]

# Spellings of each key; the first one present in the file applies.
SYNONYMS: Mapping[str, tuple[str, ...]] = {
    "hidden_size": ("hidden_size", "n_embd", "n_embed", "d_model", "dim"),
    "num_hidden_layers": ("num_hidden_layers", "n_layer", "num_layers", "n_layers"),
    "num_attention_heads": ("num_attention_heads", "n_head", "num_heads", "n_heads", "attention_heads"),
    "num_key_value_heads": (
        "num_key_value_heads",
        "num_kv_heads",
        "kv_n_heads",
        "multi_query_group_num",
        "num_attention_groups",
    ),
    "head_dim": ("head_dim", "attention_head_dim", "kv_channels"),
    "intermediate_size": (
        "dense_intermediate_size",  # Inkling, MiniMax M3: "intermediate_size" is then the width of an expert
        "intermediate_size",
        "ffn_hidden_size",
        "ffn_dim",
        "n_inner",
        "d_ff",
        "ff_intermediate_size",
        "hidden_dim",
    ),
    "moe_intermediate_size": ("moe_intermediate_size", "expert_ffn_hidden_size"),
    "vocab_size": ("vocab_size", "padded_vocab_size"),
    "sliding_window": ("sliding_window", "sliding_window_size"),
    "num_experts": ("num_local_experts", "num_experts", "n_routed_experts", "moe_num_experts"),
    "experts_per_token": (
        "num_experts_per_tok",
        "num_experts_per_token",
        "experts_per_token",
        "moe_topk",
        "moe_k",
        "top_k_experts",
        "moe_top_k",
    ),
    "num_shared_experts": ("n_shared_experts", "num_shared_experts", "num_shared_expert", "moe_num_shared_experts"),
    "max_position_embeddings": ("max_position_embeddings", "n_positions", "max_seq_len", "seq_length", "n_ctx"),
    "sliding_window_pattern": ("sliding_window_pattern", "_sliding_window_pattern"),
    "mtp_layers": ("num_nextn_predict_layers", "mtp_num_hidden_layers"),
}

# Nested parts in which a file stores the keys of its text model; dots separate the steps of a path.
_TEXT_KEYS = ("text_config", "llm_config", "language_config", "thinker_config.text_config", "decoder_config")
_OUTER_KEYS = ("tie_word_embeddings", "quantization_config", "quantization", "compression_config", "architectures")


# Keys that state a number of layers, which may be at most MAX_LAYERS.
_DEPTH_KEYS = (
    "num_hidden_layers",
    "encoder_layers",
    "decoder_layers",
    "num_layers",
    "num_decoder_layers",
    "num_single_layers",
    "num_global_layers",
    "depth",
    "mtp_layers",
)
MAX_LAYERS = 4096


class Reader:
    """Typed access to one configuration. Errors name the missing or malformed key.

    In a nested part (`nested`), absent keys mean the library's defaults of that model type, because files are saved
    without them. `defaults_used` records the defaults that were taken. At the top level, a missing shape key is an
    error.
    """

    def __init__(self, config: Config, model_type: str = "", *, nested: bool = False) -> None:
        self.config, self.model_type, self.nested = config, model_type, nested
        self.defaults_used: dict[str, Any] = {}

    def find_value(self, name: str) -> Any:
        for key in SYNONYMS.get(name, (name,)):
            if self.config.get(key) is not None:
                return self.config[key]
        default = DEFAULTS.get(self.model_type, {}).get(name) if self.nested else None
        if default is not None:
            self.defaults_used[name] = default
        return default

    @property
    def architecture_class(self) -> str:
        """The model class that the file names; the output head depends on it."""
        named = self.config.get("architectures")
        return str(named[0]) if isinstance(named, list) and named else ""

    def integer(self, name: str, default: int | None = None) -> int:
        """A whole number. A list of equal values counts as that value.

        Raises UnreadableConfiguration for anything else and names the accepted spellings.
        """
        value = self.find_value(name)
        if value is None and default is not None:
            return default
        if isinstance(value, list) and value and len(set(map(str, value))) == 1:
            value = value[0]
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        most = MAX_LAYERS if name in _DEPTH_KEYS else 10**9 - 1
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= most:
            missing = value is None
            raise UnreadableConfiguration(
                f"The configuration {'lacks' if missing else 'has an invalid value for'} "
                f"{' or '.join(map(repr, SYNONYMS.get(name, (name,))))}. A model of type "
                f"{self.model_type or 'unknown'!r} needs a whole number from 0 to {most}.",
                key=name,
            )
        return value

    def size(self, name: str, default: int | None = None) -> int:
        """A whole number of at least 1."""
        value = self.integer(name, default)
        if value < 1:
            raise UnreadableConfiguration(f"The configuration sets {name!r} to 0. It must be at least 1.", key=name)
        return value

    def size_list(self, name: str, *, most: int, default: tuple[int, ...] | None = None) -> list[int]:
        """A list of whole numbers, each at least 1."""
        value = self.find_value(name)
        if value is None and default is not None:
            return list(default)
        if not isinstance(value, list) or not value or not all(type(v) is int and 1 <= v <= most for v in value):
            raise UnreadableConfiguration(f"{name!r} must be a list of whole numbers from 1 to {most}.", key=name)
        return value

    def number(self, name: str, default: float) -> float:
        value = self.find_value(name)
        if value is None:
            return default
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e9:
            raise UnreadableConfiguration(
                f"The configuration has an invalid value for {name!r}. It must be a number from 0 to below 1e9.",
                key=name,
            )
        return float(value)

    def flag(self, setting: bool | str, default: bool = False) -> bool:
        """A switch: a fixed value, or the value of a key. A key that ends in "!" is on unless the file turns it off."""
        if not isinstance(setting, str):
            return setting
        value = self.find_value(setting.rstrip("!"))
        return default or setting.endswith("!") if value is None else bool(value)

    def layer_list(self, name: str, layers: int) -> list[Any] | None:
        """A list with one entry per layer, or None. Longer lists are cut, because some files append extra layers."""
        value = self.find_value(name)
        if not isinstance(value, list) or not value:
            return None
        if len(value) < layers:
            raise UnreadableConfiguration(
                f"{name!r} has {len(value)} entries for {layers} layers. It needs one entry per layer.", key=name
            )
        return value[:layers]

    def nested_part(self, name: str, model_type: str = "") -> Reader:
        """The reader of a nested part; it is empty if the file has none."""
        inner = self.config.get(name)
        inner = inner if isinstance(inner, Mapping) else {}
        kind = inner.get("model_type")
        return Reader(inner, kind if isinstance(kind, str) else model_type, nested=True)


def find_text_part(config: Config) -> tuple[Config, bool]:
    """The keys of the text model, and whether they come from a nested part of the file."""
    for path in _TEXT_KEYS:
        inner: Any = config
        for step in path.split("."):
            inner = inner.get(step) if isinstance(inner, Mapping) else None
        if isinstance(inner, Mapping):
            outer = {
                k: config[k] for k in _OUTER_KEYS if k in config and (k not in inner or k == "tie_word_embeddings")
            }
            return {**inner, **outer}, True
    if config.get("model_type") in ("dbrx", "mpt"):
        flat = dict(config)
        for key in ("ffn_config", "attn_config"):
            inner = config.get(key)
            if isinstance(inner, Mapping):
                flat = {**{k: v for k, v in inner.items() if k != "model_type"}, **flat}
        return flat, False
    return config, False


LATENT_PIXELS = 8  # side, in pixels, of the square that an image encoder turns into one latent position
CELL_PIXELS = 16  # side, in pixels, of the square behind one position: a factor 8 of the encoder, 2 of the patch
FRAMES_PER_POSITION = 4  # frames of a clip that the encoder turns into one latent frame
TEXT_ENCODER_TOKENS = 77  # prompt tokens of CLIP
IMAGE_SIDE = 1024  # pixels


@dataclass(frozen=True, slots=True)
class DefaultSettings:
    """Usual denoising steps, guidance, text tokens and sample size of a family.

    With guidance above 1, the network is evaluated twice per step. `cell_pixels` is the side of the square behind one
    position, and `frames_per_position` the frames behind one latent frame.

    Source: the example calls of each model card and the defaults of the diffusers pipelines, 2026-11.
    """

    steps: int
    guidance: float
    text_tokens: int = 512
    width: int = IMAGE_SIDE
    height: int = IMAGE_SIDE
    frames: int = 1
    cell_pixels: int = CELL_PIXELS
    frames_per_position: int = FRAMES_PER_POSITION


FLUX_DISTILLED, FLUX_FAST = DefaultSettings(28, 1.0), DefaultSettings(4, 1.0, text_tokens=256)
SD3 = DefaultSettings(28, 2.0, text_tokens=333)
DENOISERS: Mapping[str, DefaultSettings] = {
    "unet2d_condition": DefaultSettings(30, 2.0, text_tokens=TEXT_ENCODER_TOKENS),
    "flux2": DefaultSettings(28, 1.0),
    "qwen_image": DefaultSettings(50, 2.0),
    "z_image": DefaultSettings(8, 1.0),
    "wan": DefaultSettings(50, 2.0, width=832, height=480, frames=81),
    "wan_ti2v": DefaultSettings(50, 2.0, width=1280, height=704, frames=121, cell_pixels=32),
    "hunyuan_video": DefaultSettings(50, 1.0, width=1280, height=720, frames=129),
    "ltx2": DefaultSettings(
        30, 2.0, text_tokens=1024, width=768, height=512, frames=121, cell_pixels=32, frames_per_position=8
    ),
    "cosmos3": DefaultSettings(35, 2.0, width=1280, height=720, frames=189, cell_pixels=32),
    "cosmos3_text2image": DefaultSettings(35, 2.0, cell_pixels=32),
    "longcat_image": DefaultSettings(50, 2.0),
    "longcat_image_edit": DefaultSettings(50, 2.0, text_tokens=512 + 4096),  # with the positions of the source image
    "glm_image": DefaultSettings(50, 2.0),
}
DEFAULT_DENOISER = DefaultSettings(30, 1.0)

IMAGE_NETWORKS: Mapping[str, Network] = {
    "efficientnet": Network.DEPTHWISE,
    "efficientnetv2": Network.DEPTHWISE,
    "mobilenet_v2": Network.DEPTHWISE,
    "mobilenet_v3": Network.DEPTHWISE,
    "convnext": Network.CONVOLUTION,
    "densenet": Network.CONVOLUTION,
    "vgg": Network.CONVOLUTION,
    "yolov8": Network.CONVOLUTION,
    "yolo11": Network.CONVOLUTION,
    "swin": Network.WINDOWED,
}
