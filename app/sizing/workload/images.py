"""Images in prompts: their tokens join the prompt, and an encoder processes them before prefill."""

from __future__ import annotations

from dataclasses import dataclass, replace

from app.errors import Unanswerable
from app.sizing.model.architecture import ModelArchitecture
from app.sizing.workload.lengths import Lengths


@dataclass(frozen=True, slots=True)
class PromptImages:
    """Images in each request: `width` and `height` in pixels, and the number of images."""

    width: int
    height: int
    per_request: float = 1.0  # images per request


def add_images(
    model: ModelArchitecture, prompt: Lengths, images: PromptImages | None
) -> tuple[ModelArchitecture, Lengths, float]:
    """The model and prompt lengths with the images of a request, and the FLOPs of the image encoder per request.

    Image tokens join the prompt. If layers cross-attend to the images instead, their keys and values are kept for the
    whole sequence. Raises Unanswerable if the model accepts no images.
    """
    if images is None:
        return model, prompt, 0.0
    if model.images is None:
        raise Unanswerable(f"{model.name} accepts no images. Use traffic.images only with vision-language models.")
    width, height, count = images.width, images.height, images.per_request
    tokens = count * model.images.token_count(width, height)
    kept = count * model.images.patch_count(width, height) * model.cross_kv_bytes_per_source_token
    one = count == 1
    note = (
        f"{count:g} image{'' if one else 's'} of {width} x {height} pixels add{'s' if one else ''} "
        f"{tokens:,.0f} tokens to each prompt"
    )
    model = replace(
        model, state_bytes_per_sequence=model.state_bytes_per_sequence + kept, assumed=(*model.assumed, note)
    )
    return model, prompt.add_tokens(tokens), count * model.image_flops(width, height)
