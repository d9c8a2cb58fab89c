"""Tasks of a model, which decide the engines that can serve it."""

from __future__ import annotations

from enum import StrEnum

from app.sizing.model.sample import Network, SampleLaw


class ModelTask(StrEnum):
    """Kinds of model that serving software distinguishes."""

    DECODER = "decoder"
    EMBEDDING = "embedding"
    RERANKER = "reranker"
    SPEECH = "speech"
    DIFFUSION = "diffusion"
    VISION = "vision"


TASKS = tuple(ModelTask)


def classify_task(kind: str, law: SampleLaw | None, *, reranks: bool) -> ModelTask:
    """The task of a model, from its kind and the law of its samples.

    Check: a network of which only the FLOPs of a sample are known counts as vision.
        >>> classify_task("samples", None, reranks=False).value
        'vision'
    """
    if kind == "decoder":
        return ModelTask.DECODER
    if kind == "encoder":
        return ModelTask.RERANKER if reranks else ModelTask.EMBEDDING
    if law is not None and law.network is Network.DENOISER:
        return ModelTask.DIFFUSION
    return ModelTask.SPEECH if law is not None and law.unit == "speech" else ModelTask.VISION
