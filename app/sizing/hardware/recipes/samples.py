"""Recipes of training on samples: pictures, speech and images, by who does it and what the model is."""

from __future__ import annotations

from dataclasses import dataclass, replace

from app.sizing.model.tasks import ModelTask

# Where the weights' 32 bits lie: everywhere, beside 16-bit computation, or only in what adapts a 16-bit base.
SAMPLE_PRECISIONS = ("fp32", "amp", "16bit")
_AS_OF = "2026-11-22"


@dataclass(frozen=True, slots=True)
class SampleRecipe:
    """What a framework does, where nobody says otherwise, with a kind of model that works on samples."""

    framework: str
    task: ModelTask
    source: str
    as_of: str
    precision: str = "amp"  # of SAMPLE_PRECISIONS
    optimizer: str = "adamw"
    optimizer_implementation: str = "foreach"
    channels_last: bool = False
    recomputation: str = "none"  # of RECOMPUTATIONS
    averaged: bool = False  # a 32-bit average of the weights beside them
    frozen_bytes_per_param: float = 2.0  # of what is run and not trained: text encoders, autoencoder

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

# Which of them a kind of model has where a framework has none of its own.
_USUAL = {ModelTask.VISION: _NVIDIA, ModelTask.DIFFUSION: _DIFFUSERS, ModelTask.SPEECH: _SPEECH}


def sample_recipe_of(framework: str, task: ModelTask) -> SampleRecipe:
    """What a framework does with a kind of model; what is usual of the kind where nobody described it.

    Check:
        >>> sample_recipe_of("diffusers", ModelTask.DIFFUSION).recomputation
        'full'
    """
    own = (r for r in SAMPLE_RECIPES if (r.framework, r.task) == (framework, task))
    return next(own, _USUAL.get(task, _NVIDIA))
