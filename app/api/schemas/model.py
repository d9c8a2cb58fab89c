"""How a request names a model, what comes with its prompts, how large its samples are, and what adapters touch."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag

from app.api.schemas.base import Name, Wire
from app.errors import Unanswerable
from app.sizing.model.architecture import ModelArchitecture
from app.sizing.model.sample import SampleShape
from app.sizing.model.tensors import Per
from app.sizing.workload import Lengths


class ConfigModel(Wire):
    """Any config.json, pasted."""

    huggingface_config: dict[str, Any]
    name: Name = "own-model"


class SizedModel(Wire):
    """Only the size is known. With gflops_per_sample it is a model that works on samples."""

    parameters_billion: Annotated[float, Field(ge=0.001, le=20000)]
    gflops_per_sample: Annotated[float, Field(gt=0, le=1e9)] | None = None
    activation_mib_per_sample: Annotated[float, Field(gt=0, le=1e7)] | None = None


def _model_kind(value: Any) -> str:
    if isinstance(value, dict):
        return "config" if "huggingface_config" in value else "size"
    return "config" if isinstance(value, ConfigModel) else "size" if isinstance(value, SizedModel) else "name"


ModelReference = Annotated[
    Annotated[Name, Tag("name")] | Annotated[ConfigModel, Tag("config")] | Annotated[SizedModel, Tag("size")],
    Discriminator(_model_kind),
]


class ImageSize(Wire):
    """Pixels of an image."""

    width: Annotated[int, Field(ge=1, le=32768)]
    height: Annotated[int, Field(ge=1, le=32768)]


class Images(ImageSize):
    """Images that come with every request to a vision-language model."""

    per_request: Annotated[float, Field(gt=0, le=1000)] = 1.0


class SampleSpec(Wire):
    """How large one sample is, for a model that works on samples; what is left out is the model's usual size."""

    width: Annotated[int, Field(ge=8, le=32768)] | None = None
    height: Annotated[int, Field(ge=8, le=32768)] | None = None
    frames: Annotated[int, Field(ge=1, le=100_000)] | None = None
    audio_s: Annotated[float, Field(gt=0, le=100_000)] | None = None
    steps: Annotated[int, Field(ge=1, le=10_000)] | None = None
    text_tokens: Annotated[int, Field(ge=1, le=1_000_000)] | None = None

    def applied_to(self, model: ModelArchitecture) -> ModelArchitecture:
        """The model on samples of this size; raises Unanswerable for a size it does not depend on."""
        given = self.model_dump(exclude_none=True)
        accepted = model.law.sizes if model.law is not None else ()
        for name in given:
            if name not in accepted:
                words = (
                    f"it depends on {', '.join(accepted)}"
                    if accepted
                    else "its work does not follow from the size of a sample"
                )
                raise Unanswerable(f"sample.{name} does not apply to {model.name}: {words}.")
        return model.sized(SampleShape(**given))


def with_images(
    model: ModelArchitecture, prompt: Lengths, images: Images | None
) -> tuple[ModelArchitecture, Lengths, float]:
    """The model and prompt with the images of a request, and the FLOPs of reading them.

    Tokens of the images join the prompt; where layers cross to the image instead, its keys and values are kept
    for the whole sequence. Raises Unanswerable for a model that takes no images.
    """
    if images is None:
        return model, prompt, 0.0
    if model.images is None:
        raise Unanswerable(f"{model.name} takes no images; traffic.images is for vision-language models.")
    width, height, count = images.width, images.height, images.per_request
    tokens = count * model.images.tokens(width, height)
    kept = count * model.images.patches(width, height) * model.cross_kv_bytes_per_source_token
    note = f"{count:g} image{'' if count == 1 else 's'} of {width} x {height} pixels add{'s' if count == 1 else ''} {tokens:,.0f} tokens to a prompt"
    model = replace(
        model, state_bytes_per_sequence=model.state_bytes_per_sequence + kept, assumed=(*model.assumed, note)
    )
    longer = Lengths(prompt.mean + tokens, None if prompt.p95 is None else prompt.p95 + tokens)
    return model, longer, count * model.image_flops(width, height)


class LoraSpec(Wire):
    """Adapters: their rank and the matrices they touch."""

    rank: Annotated[int, Field(ge=1, le=4096)] = 16
    target_modules: (
        Literal["all-linear", "attention", "q_v"] | Annotated[list[Name], Field(min_length=1, max_length=40)]
    ) = Field("all-linear", description="A preset, or names of matrices such as q_proj and down_proj.")


def lora_targets(lora: LoraSpec, model: ModelArchitecture) -> str | tuple[str, ...]:
    """The adapted matrices; raises Unanswerable for a name the model has no matrix of."""
    if isinstance(lora.target_modules, str):
        return lora.target_modules
    roles = sorted({t.role for t in model.tensors if t.per is Per.TOKEN and t.inputs > 1})
    for name in lora.target_modules:
        if name not in roles:
            raise Unanswerable(f"{model.name} has no matrix {name!r} to adapt; it has {', '.join(roles)}.")
    return tuple(lora.target_modules)
