"""Training recipes for models on samples (vision, speech and diffusion models), by framework and kind of model."""

from __future__ import annotations

from dataclasses import dataclass, replace

from app.sizing.model.tasks import ModelTask

# Where 32 bits are used: everywhere, in the weights of 16-bit computation, or only in adapters of a 16-bit base.
SAMPLE_PRECISIONS = ("fp32", "amp", "16bit")
_AS_OF = "2026-11-22"


@dataclass(frozen=True, slots=True)
class SampleRecipe:
    """Default behavior of a framework with a kind of sample model."""

    framework: str
    task: ModelTask
    source: str
    as_of: str
    precision: str = "amp"  # of SAMPLE_PRECISIONS
    optimizer: str = "adamw"
    optimizer_implementation: str = "foreach"
    channels_last: bool = False
    recomputation: str = "none"  # of RECOMPUTATIONS
    averaged: bool = False  # keeps an additional 32-bit average of the weights (EMA)
    frozen_bytes_per_param: float = 2.0  # bytes per parameter of frozen parts: text encoders, autoencoder

    @property
    def name(self) -> str:
        """Framework and kind of model."""
        return f"{self.framework} {self.task.value}"


_TORCHVISION = SampleRecipe(
    "pytorch",
    ModelTask.VISION,
    "torchvision references/classification/train.py: SGD, --amp and --channels-last off",
    _AS_OF,
    precision="fp32",
    optimizer="sgd",
)
_NVIDIA = SampleRecipe(
    "nvidia",
    ModelTask.VISION,
    "NVIDIA DeepLearningExamples, PyTorch/Classification/ConvNets: AMP, NHWC, SGD; Detection/SSD: AMP",
    "2024-04-04",
    optimizer="sgd",
    optimizer_implementation="fused",
    channels_last=True,
)
_DIFFUSERS = SampleRecipe(
    "diffusers",
    ModelTask.DIFFUSION,
    "diffusers examples/text_to_image/README.md: mixed_precision fp16, gradient_checkpointing, use_ema; AdamW",
    "2026-08-23",
    recomputation="full",
    averaged=True,
)
_SPEECH = SampleRecipe(
    "transformers",
    ModelTask.SPEECH,
    "recall: transformers' run_speech_recognition_seq2seq: fp16, gradient_checkpointing, adamw_torch",
    _AS_OF,
    recomputation="full",
)

SAMPLE_RECIPES: tuple[SampleRecipe, ...] = (
    _TORCHVISION,
    replace(_TORCHVISION, framework="timm", source="timm train.py: --opt sgd, --amp and --channels-last off (recall)"),
    _NVIDIA,
    _DIFFUSERS,
    replace(
        _DIFFUSERS,
        framework="kohya",
        averaged=False,
        source="recall: sd-scripts: mixed_precision, gradient_checkpointing, AdamW8bit in its guides",
        as_of=_AS_OF,
    ),
    replace(
        _DIFFUSERS,
        framework="simpletuner",
        precision="16bit",
        averaged=False,
        source="recall: SimpleTuner: bf16 weights with stochastic rounding, gradient checkpointing",
        as_of=_AS_OF,
    ),
    replace(
        _DIFFUSERS,
        framework="maxdiffusion",
        averaged=False,
        recomputation="none",
        optimizer_implementation="fused",
        source="recall: MaxDiffusion: 32-bit weights, bfloat16 activations, compiled AdamW",
        as_of=_AS_OF,
    ),
    _SPEECH,
)

# Default recipe of each kind of model.
_USUAL = {ModelTask.VISION: _NVIDIA, ModelTask.DIFFUSION: _DIFFUSERS, ModelTask.SPEECH: _SPEECH}


def sample_recipe_of(framework: str, task: ModelTask) -> SampleRecipe:
    """Recipe of a framework for a kind of model; the usual recipe of that kind if the framework has none.

    Check:
        >>> sample_recipe_of("diffusers", ModelTask.DIFFUSION).recomputation
        'full'
    """
    own = (r for r in SAMPLE_RECIPES if (r.framework, r.task) == (framework, task))
    return next(own, _USUAL.get(task, _NVIDIA))
