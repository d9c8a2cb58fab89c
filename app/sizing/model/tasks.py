"""What kind of work a model does: which engines serve it depends on it."""

from __future__ import annotations

from enum import StrEnum

from app.sizing.model.sample import Network, SampleLaw


class ModelTask(StrEnum):
    """Kinds of model that software tells apart."""

    DECODER = "decoder"
    EMBEDDING = "embedding"
    RERANKER = "reranker"
    SPEECH = "speech"
    DIFFUSION = "diffusion"
    VISION = "vision"


TASKS = tuple(ModelTask)


def task_of(kind: str, law: SampleLaw | None, *, reranks: bool) -> ModelTask:
    """The task of a model, by what it does with a request and by the law of its samples.

    Check: a network that is known only by the FLOPs of a sample sees.
        >>> task_of("samples", None, reranks=False).value
        'vision'
    """
    if kind == "decoder":
        return ModelTask.DECODER
    if kind == "encoder":
        return ModelTask.RERANKER if reranks else ModelTask.EMBEDDING
    if law is not None and law.network is Network.DENOISER:
        return ModelTask.DIFFUSION
    return ModelTask.SPEECH if law is not None and law.unit == "speech" else ModelTask.VISION
