"""Images that come with a prompt: their tokens join it, and they are read first."""

from __future__ import annotations

from dataclasses import dataclass, replace

from app.errors import Unanswerable
from app.sizing.model.architecture import ModelArchitecture
from app.sizing.workload.lengths import Lengths


@dataclass(frozen=True, slots=True)
class PromptImages:
    """Images that come with every request, in pixels."""

    width: int
    height: int
    per_request: float = 1.0


def with_images(
    model: ModelArchitecture, prompt: Lengths, images: PromptImages | None
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
    one = count == 1
    note = (
        f"{count:g} image{'' if one else 's'} of {width} x {height} pixels add{'s' if one else ''} "
        f"{tokens:,.0f} tokens to a prompt"
    )
    model = replace(
        model, state_bytes_per_sequence=model.state_bytes_per_sequence + kept, assumed=(*model.assumed, note)
    )
    return model, prompt.longer(tokens), count * model.image_flops(width, height)
