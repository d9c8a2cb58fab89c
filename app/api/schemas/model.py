"""Schemas of models: references, images in prompts, sample sizes and adapters."""

from __future__ import annotations

import math
import re
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Discriminator, Field, Tag

from app.api.schemas.base import INTEGER_VALUED, Component, LoraPreset, Name, RequestModel
from app.catalog.names import NAME_TABLES, option_slug
from app.errors import Unanswerable
from app.sizing.assumptions import Assumptions
from app.sizing.columns import GIGA, MIB
from app.sizing.model.architecture import ModelArchitecture
from app.sizing.model.counting.registered import assumed_architecture, sample_architecture
from app.sizing.model.counts import LORA_TARGET_NAMES
from app.sizing.workload import PromptImages, resize_samples


def as_plain_json(value: Any) -> Any:
    """The document as standard JSON: integers beyond 64 bits as floats (configurations use them for "no limit"), and
    NaN and Infinity as null.
    """
    if isinstance(value, dict):
        return {name: as_plain_json(item) for name, item in value.items()}
    if isinstance(value, list):
        return [as_plain_json(item) for item in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return float(value) if isinstance(value, int) and not -(2**63) <= value < 2**63 else value


class ConfigModel(RequestModel):
    """Any pasted config.json."""

    huggingface_config: Annotated[dict[str, Any], AfterValidator(as_plain_json)]
    name: Name = "own-model"


class SizedModel(RequestModel):
    """A model of which only the size is known. With gflops_per_sample it processes samples instead of tokens."""

    parameters_billion: Annotated[float, Field(ge=0.001, le=20000)]
    gflops_per_sample: Annotated[float, Field(gt=0, le=1e9)] | None = None
    activation_mib_per_sample: Annotated[float, Field(gt=0, le=1e7)] | None = None

    def to_architecture(self, assumed: Assumptions) -> ModelArchitecture:
        """An architecture of this size. Raises Unanswerable for activations without FLOPs."""
        activation_mib = self.activation_mib_per_sample
        if self.gflops_per_sample is not None:
            activation_bytes = None if activation_mib is None else activation_mib * MIB
            return sample_architecture(
                self.parameters_billion * 1e9, self.gflops_per_sample * GIGA, activation_bytes, assumed
            )
        if activation_mib is not None:
            raise Unanswerable.at(
                "#/workload/model/activation_mib_per_sample",
                "activation_mib_per_sample requires gflops_per_sample, for a model that processes samples.",
            )
        return assumed_architecture(self.parameters_billion * 1e9)


def _model_kind(value: Any) -> str:
    if isinstance(value, dict):
        return "config" if "huggingface_config" in value else "size"
    return "config" if isinstance(value, ConfigModel) else "size" if isinstance(value, SizedModel) else "name"


ModelReference = Annotated[
    Annotated[Name, Tag("name")] | Annotated[ConfigModel, Tag("config")] | Annotated[SizedModel, Tag("size")],
    Discriminator(_model_kind),
    Component("ModelReference"),
]


class ImageSize(RequestModel):
    """Size of an image in pixels."""

    width: Annotated[int, Field(ge=1, le=32768), INTEGER_VALUED]
    height: Annotated[int, Field(ge=1, le=32768), INTEGER_VALUED]


class Images(ImageSize):
    """Images in every request to a vision-language model."""

    per_request: Annotated[float, Field(gt=0, le=1000)] = 1.0

    def to_images(self) -> PromptImages:
        return PromptImages(self.width, self.height, self.per_request)


class SampleSpec(RequestModel):
    """Size of one sample, for a model that processes samples. Omitted fields use the model's usual size."""

    width: Annotated[int, Field(ge=8, le=32768), INTEGER_VALUED] | None = None
    height: Annotated[int, Field(ge=8, le=32768), INTEGER_VALUED] | None = None
    frames: Annotated[int, Field(ge=1, le=100_000), INTEGER_VALUED] | None = None
    audio_s: Annotated[float, Field(gt=0, le=100_000)] | None = None
    steps: Annotated[int, Field(ge=1, le=10_000), INTEGER_VALUED] | None = None
    text_tokens: Annotated[int, Field(ge=1, le=1_000_000), INTEGER_VALUED] | None = None

    def apply_to(self, model: ModelArchitecture) -> ModelArchitecture:
        """The model with samples of this size. Raises Unanswerable for a size that does not apply to the model."""
        return resize_samples(model, self.model_dump(exclude_none=True))


def _pattern_targets(pattern: str) -> list[str]:
    """Names of matrices at the end of a pattern, as PEFT takes one; the layers and towers that it selects are not read.

    Check:
        >>> _pattern_targets(r".*\\.(q|v)_proj"), _pattern_targets(r"^(?!.*vision).*(?:q_proj|v_proj)$")
        (['q_proj', 'v_proj'], ['q_proj', 'v_proj'])
        >>> _pattern_targets(r"model\\.layers\\.\\d+\\.self_attn\\.q_proj")
        ['q_proj']
    """
    groups = re.findall(r"\((?:\?:)?([a-zA-Z0-9_|]+)\)([a-zA-Z0-9_]*)", pattern)
    if groups:
        return [name + groups[-1][1] for name in groups[-1][0].split("|") if name]
    return re.findall(r"[a-zA-Z0-9_]+", pattern)[-1:]


def _split_targets(value: Any) -> Any:
    """The preset that a text means, or the names that it lists, as configuration files and command lines do."""
    if not isinstance(value, str):
        return value
    if re.search(r"[(|*^$\\]", value):
        return _pattern_targets(value)
    preset = option_slug(value, NAME_TABLES.lora_targets)
    return preset if preset in LORA_TARGET_NAMES or not value.strip() else re.findall(r"[^\s,'\"\[\]]+", value)


LoraTargets = Annotated[
    LoraPreset | Annotated[list[Name], Field(min_length=1, max_length=40)],
    BeforeValidator(_split_targets),
    Component("LoraTargets"),
]


class LoraSpec(RequestModel):
    """Adapters: their rank and target matrices."""

    rank: Annotated[int, Field(ge=1, le=4096), INTEGER_VALUED] | None = Field(
        None, description="Rank of the adapters. Default: the assumption default_lora_rank, 16."
    )
    target_modules: LoraTargets = Field(
        "all-linear", description="A preset, or names of matrices such as q_proj and down_proj."
    )
    use_dora: bool = Field(
        False, description="Whether each adapted matrix also trains the magnitude of its rows (DoRA)."
    )
