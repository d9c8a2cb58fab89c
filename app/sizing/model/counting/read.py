"""Entry point: a configuration of any known model type becomes the counts of a model.

A type is counted only if its blocks are known. An unknown type is rejected with a message about the missing
information; it is never treated as a Llama. Formulas and switches come from the model definitions of the
transformers and diffusers libraries. Tests compare them with instantiated models and registered totals.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace

from app.errors import UnreadableConfiguration
from app.sizing.model.architecture import ModelArchitecture, ModelKind
from app.sizing.model.counting import convolutions, denoisers, encoders, image_encoders
from app.sizing.model.counting.configuration import Config, find_text_part
from app.sizing.model.counting.decoder import read_decoder
from app.sizing.model.counting.families import FAMILIES, MINICPM_TYPES, MINICPM_V, TEXT_OF, UNCOUNTED_TOWERS
from app.sizing.model.counting.quantization import native_quantization, stated_cache_format
from app.sizing.model.counting.speech import OMNI_TYPES, SPEECH_TYPES, read_speech_tower
from app.sizing.model.counting.towers import read_gemma3n_towers, read_tower
from app.sizing.model.tensors import Part, Per

READERS: Mapping[str, Callable[[Config, str], ModelArchitecture]] = {
    **dict.fromkeys(encoders.ENCODER_FAMILIES, encoders.read_encoder),
    **dict.fromkeys(encoders.PAIR_FAMILIES, encoders.read_bart),
    **dict.fromkeys(("t5", "mt5", "umt5"), encoders.read_t5),
    "vit": image_encoders.read_vit,
    "dinov2": image_encoders.read_dinov2,
    "clip": image_encoders.read_clip,
    "siglip": image_encoders.read_siglip,
    "resnet": convolutions.read_resnet,
    "efficientnet": convolutions.read_efficientnet,
    "stages": convolutions.read_stages,
    **dict.fromkeys(("wav2vec2", "hubert"), encoders.read_wav2vec2),
    "flux": denoisers.read_flux,
    "sd3": denoisers.read_sd3,
}
# Model classes that files of the diffusers library name instead of a type.
_CLASSES = {"FluxTransformer2DModel": "flux", "SD3Transformer2DModel": "sd3"}


_TOWER = re.compile(r"vision|visual|audio|speech|img_processor")
_NAMED_TOWER = re.compile(r"(vision|audio|speech)_(tower|encoder)$")
VISION_PARTS = frozenset({"vision_config", "img_processor"})
COUNTED_PARTS = {  # by the wrapping model's type, if they differ
    **dict.fromkeys(SPEECH_TYPES, frozenset({"audio_config"})),
    **dict.fromkeys(
        ("gemma3n", "gemma4", "muse_spark", "phi4_multimodal", "dots3_note", *OMNI_TYPES),
        VISION_PARTS | {"audio_config"},
    ),
    "deepseek_vl_hybrid": VISION_PARTS | {"high_res_vision_config"},
}
_SPEAKING = re.compile(r"talker|token2wav|code2wav")  # parts that engines of text do not load

MAX_PARAMETERS = 10**15
MAX_ATTENTION_KINDS = (
    8  # maximum kinds of attention layer, each evaluated for every plan; published models have up to 5
)
MAX_TENSOR_KINDS = 1024  # maximum kinds of tensor; published models have up to 60


def known_types() -> list[str]:
    """Every `model_type` that can be counted, sorted."""
    return sorted({*FAMILIES, *TEXT_OF, *MINICPM_TYPES, *READERS})


def _model_type(config: Config) -> str | None:
    """The type that a file states, or that of the class it names, such as qwen3_moe of Qwen3MoeForCausalLM."""
    stated = config.get("model_type", _CLASSES.get(str(config.get("_class_name"))))
    if stated is None and isinstance(classes := config.get("architectures"), list) and classes:
        words = re.sub(r"For[A-Z]\w*$|Model$|LMHeadModel$", "", str(classes[0]))
        derived = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", words).lower()
        stated = derived if derived in known_types() else None
    return stated if isinstance(stated, str) else None


def is_known_type(config: Config) -> bool:
    """Whether the blocks of a configuration's model type are known."""
    return _model_type(config) in known_types()


def read_architecture(config: Config, *, name: str) -> ModelArchitecture:
    """Counts of a model from its configuration.

    A value of the wrong type (a word instead of a list) can fail anywhere while the file is read. Such failures are
    reported as errors of the file. Raises UnreadableConfiguration and names the key or the model type that prevents
    the count.

    Source: the model definitions of the transformers and diffusers libraries.
    Check: Llama-3.1-70B.
        >>> LLAMA_70B.total_params
        70553706496
    """
    try:
        model = _read_counts(config, name)
    except (TypeError, ValueError, KeyError, IndexError, AttributeError, ArithmeticError) as error:
        raise UnreadableConfiguration(
            f"The configuration has a value that is invalid for files of type {str(_model_type(config))[:60]!r} "
            f"({type(error).__name__}: {str(error)[:80]}). Send the file exactly as published.",
            key="huggingface_config",
        ) from error
    if not isinstance(model.total_params, int) or not 1 <= model.total_params + model.mtp_params <= MAX_PARAMETERS:
        raise UnreadableConfiguration(
            f"The configuration describes a model of {model.total_params:,} parameters. Models of 1 to "
            f"{MAX_PARAMETERS:,} parameters can be sized.",
            key="huggingface_config",
        )
    if len(model.attention) > MAX_ATTENTION_KINDS or len(model.tensors) > MAX_TENSOR_KINDS:
        raise UnreadableConfiguration(
            f"The configuration describes {len(model.attention):,} kinds of attention layer and "
            f"{len(model.tensors):,} kinds of tensor. At most {MAX_ATTENTION_KINDS} kinds of attention layer and "
            f"{MAX_TENSOR_KINDS:,} kinds of tensor can be sized.",
            key="huggingface_config",
        )
    return replace(model, reranks=True) if _is_reranker(config) else model


def _is_reranker(config: Config) -> bool:
    """Whether the file describes a reranker: a sequence classifier with a single class."""
    heads = config.get("architectures")
    named = isinstance(heads, list) and any("SequenceClassification" in str(head) for head in heads)
    return named and config.get("num_labels", 1) == 1


def _tower_parts(config: Config) -> set[str]:
    """Keys of a file that describe networks for images and audio, or name them."""
    thinker = config.get("thinker_config")
    parts = {**(thinker if isinstance(thinker, Mapping) else {}), **config}
    described = {key for key, part in parts.items() if isinstance(part, Mapping) and _TOWER.search(key)}
    return described | {key for key, part in parts.items() if isinstance(part, str) and _NAMED_TOWER.search(key)}


def _read_counts(config: Config, name: str) -> ModelArchitecture:
    outer = _model_type(config)
    if outer is not None and outer in READERS:
        return READERS[outer](config, name)
    text, nested = find_text_part(config if outer is None else {**config, "model_type": outer})
    family = text.get("model_type", outer)
    if not isinstance(family, str):
        raise UnreadableConfiguration(
            "The configuration lacks 'model_type', which determines the blocks of the model: llama, qwen3, "
            f"deepseek_v3 or another of the {len(known_types())} known types. Send the whole config.json.",
            key="model_type",
        )
    family = MINICPM_V.get(str(text.get("version", "2.0")), "llama") if family in MINICPM_TYPES else family
    family = TEXT_OF.get(family, family)
    if family == "ernie4_5_moe":  # values for text and for images, of which the tower counts the second
        text = {k: v[0] if k.startswith("moe_") and isinstance(v, list) and v else v for k, v in text.items()}
    if family not in FAMILIES:
        raise UnreadableConfiguration(
            f"The blocks of model type {family[:60]!r} are not known, so its tensors cannot be counted. Send a "
            f"configuration of a known type ({', '.join(known_types())}), or only the size as parameters_billion.",
            key="model_type",
        )
    model = read_decoder(text, family, name, nested=nested)
    towers_of_file = _tower_parts(config)
    counted = set() if outer in UNCOUNTED_TOWERS else towers_of_file & COUNTED_PARTS.get(str(outer), VISION_PARTS)
    if outer in SPEECH_TYPES and "audio_config" in counted:
        model = read_speech_tower({**config, "model_type": outer}, model)
    if outer == "gemma3n":
        model = read_gemma3n_towers(config, model)
    elif outer in OMNI_TYPES and "vision_config" in counted:
        thinker = config.get("thinker_config")
        parts = {**config, **(thinker if isinstance(thinker, Mapping) else {})}
        model = read_tower({**parts, "model_type": OMNI_TYPES[outer]}, model)
    elif counted & VISION_PARTS:
        model = read_tower(config, model)
    if towers_of_file - counted:
        note = f"the towers for images and audio of {outer} are not counted, only the language model"
        model = replace(model, assumed=(*model.assumed, note))
    if any(_SPEAKING.match(key) for key in config):
        note = "the parts that speak are not counted: engines that serve text load only the thinker"
        model = replace(model, assumed=(*model.assumed, note))
    model = replace(model, native=native_quantization(text, model), cache_format=stated_cache_format(text))
    return model if model.head_matmul_params and family != "eurobert" else without_generation(model)


def without_generation(model: ModelArchitecture) -> ModelArchitecture:
    """The decoder as a model that reads its input once and generates nothing.

    Embedding models and rerankers keep no cache and skip the output head.
    """
    tensors = tuple(replace(t, per=Per.NEVER) if t.part is Part.HEAD else t for t in model.tensors)
    groups = tuple(replace(g, kv_elements=0.0, index_elements=0.0) for g in model.attention)
    return replace(model, kind=ModelKind.ENCODER, tensors=tensors, attention=groups, state_bytes_per_sequence=0.0)
