"""The way in: a configuration of any known model type becomes the counts of a model.

A type is counted only where its blocks are known; an unknown one is refused with what is missing,
never taken for a Llama. Formulas and switches come from the model definitions of the transformers
and diffusers libraries; tests hold them against instantiated models and registered totals.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from app.errors import UnreadableConfiguration
from app.sizing.model.architecture import ModelArchitecture, ModelKind
from app.sizing.model.counting import convolutional, denoisers, encoders, images, pairs, speech, stages
from app.sizing.model.counting.configuration import Config, text_part
from app.sizing.model.counting.decoder import read_decoder
from app.sizing.model.counting.families import FAMILIES, TEXT_OF
from app.sizing.model.counting.quantisation import native_quantisation
from app.sizing.model.counting.towers import read_tower
from app.sizing.model.tensors import Part, Per

READERS: Mapping[str, Callable[[Config, str], ModelArchitecture]] = {
    **dict.fromkeys(encoders.FAMILIES, encoders.read_encoder),
    **dict.fromkeys(pairs.FAMILIES, pairs.read_bart),
    **dict.fromkeys(("t5", "mt5", "umt5"), pairs.read_t5),
    "vit": images.read_vit,
    "dinov2": images.read_dinov2,
    "clip": images.read_clip,
    "siglip": images.read_siglip,
    "resnet": convolutional.read_resnet,
    "efficientnet": convolutional.read_efficientnet,
    "stages": stages.read_stages,
    **dict.fromkeys(("wav2vec2", "hubert"), speech.read_wav2vec2),
    "flux": denoisers.read_flux,
    "sd3": denoisers.read_sd3,
}
# Files of the diffusers library name a class instead of a type.
_CLASSES = {"FluxTransformer2DModel": "flux", "SD3Transformer2DModel": "sd3"}


MAX_PARAMETERS = 10**15
MOST_KINDS = 8  # of attention layers; each is worked out for every plan, published models have up to 5
MOST_TENSORS = 1024  # published models have up to 60


def known_types() -> list[str]:
    """Every `model_type` that can be counted."""
    return sorted({*FAMILIES, *TEXT_OF, *READERS})


def _type_of(config: Config) -> str | None:
    stated = config.get("model_type", _CLASSES.get(str(config.get("_class_name"))))
    return stated if isinstance(stated, str) else None


def is_known(config: Config) -> bool:
    """Whether the blocks of a configuration's model type are known."""
    return _type_of(config) in {*FAMILIES, *TEXT_OF, *READERS}


def read_architecture(config: Config, *, name: str) -> ModelArchitecture:
    """Counts of a model from its configuration.

    A value of a kind that no file of its type holds (a word where a list belongs) may surface anywhere in
    the reading; whatever it breaks there is the file's fault, and said so. Raises UnreadableConfiguration naming the
    key or the model type that stands in the way.

    Source: the model definitions of the transformers and diffusers libraries.
    Check: Llama-3.1-70B.
        >>> LLAMA_70B.total_params
        70553706496
    """
    try:
        model = _read(config, name)
    except (TypeError, ValueError, KeyError, IndexError, AttributeError, ArithmeticError) as error:
        raise UnreadableConfiguration(
            f"The configuration has a value of a kind that files of type {str(_type_of(config))[:60]!r} do not have "
            f"({type(error).__name__}: {str(error)[:80]}). Paste the file as it is published.",
            key="huggingface_config",
        ) from error
    if not isinstance(model.total_params, int) or not 1 <= model.total_params + model.mtp_params <= MAX_PARAMETERS:
        raise UnreadableConfiguration(
            f"The configuration describes a model of {model.total_params:,} parameters; from 1 to {MAX_PARAMETERS:,} "
            "can be sized.",
            key="huggingface_config",
        )
    if len(model.attention) > MOST_KINDS or len(model.tensors) > MOST_TENSORS:
        raise UnreadableConfiguration(
            f"The configuration describes {len(model.attention):,} different kinds of attention layer in "
            f"{len(model.tensors):,} kinds of tensor; up to {MOST_KINDS} in {MOST_TENSORS:,} can be sized.",
            key="huggingface_config",
        )
    return replace(model, reranks=True) if _scores_pairs(config) else model


def _scores_pairs(config: Config) -> bool:
    """Whether a file is of a model that gives one score: a classifier of a single class."""
    heads = config.get("architectures")
    named = isinstance(heads, list) and any("SequenceClassification" in str(head) for head in heads)
    return named and config.get("num_labels", 1) == 1


def _read(config: Config, name: str) -> ModelArchitecture:
    outer = _type_of(config)
    if outer is not None and outer in READERS:
        return READERS[outer](config, name)
    text, nested = text_part(config)
    family = text.get("model_type", outer)
    if not isinstance(family, str):
        raise UnreadableConfiguration(
            "The configuration lacks 'model_type', without which its blocks are unknown. Accepted: "
            f"{', '.join(known_types())}.",
            key="model_type",
        )
    family = TEXT_OF.get(family, family)
    if family not in FAMILIES:
        raise UnreadableConfiguration(
            f"The model type {family[:60]!r} is not one whose blocks are known, and guessing them would give wrong "
            f"counts. Give a configuration of a known type ({', '.join(known_types())}), or only the size as "
            "parameters_billion.",
            key="model_type",
        )
    model = read_decoder(text, family, name, nested=nested)
    if isinstance(config.get("vision_config"), Mapping) or isinstance(config.get("img_processor"), Mapping):
        model = read_tower(config, model)
    model = replace(model, native=native_quantisation(text))
    return model if model.head_matmul_params else without_generation(model)


def without_generation(model: ModelArchitecture) -> ModelArchitecture:
    """A decoder that reads its input once and generates nothing: embeddings and rerankers keep no cache and skip the
    head.
    """
    tensors = tuple(replace(t, per=Per.NEVER) if t.part is Part.HEAD else t for t in model.tensors)
    groups = tuple(replace(g, kv_elements=0.0, index_elements=0.0) for g in model.attention)
    return replace(model, kind=ModelKind.ENCODER, tensors=tensors, attention=groups, state_bytes_per_sequence=0.0)
