"""Work and its refusal as text."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from app.sizing.hardware.support.records import PRETRAINING, Work
from app.sizing.model.tasks import ModelTask
from app.sizing.product_names import product_name

MODELS: Mapping[ModelTask, str] = MappingProxyType(
    {
        ModelTask.DECODER: "text generation models",
        ModelTask.EMBEDDING: "embedding models",
        ModelTask.RERANKER: "rerankers",
        ModelTask.SPEECH: "speech models",
        ModelTask.DIFFUSION: "diffusion models",
        ModelTask.VISION: "vision models",
    }
)
_HOW: Mapping[str, str] = MappingProxyType({"full": "full ", "lora": "LoRA ", "qlora": "QLoRA "})


def work_name(work: Work) -> str:
    """Name of a piece of work.

    Check:
        >>> work_name(Work("fine_tuning", "qlora")), work_name(Work("inference"))
        ('QLoRA fine-tuning', 'serving')
    """
    if not work.is_training:
        return "serving"
    if work.phase == PRETRAINING:
        return "training"
    return f"{_HOW.get(work.method, '')}fine-tuning"


def unsupported_text(engine: str, work: Work) -> str:
    """Sentence part that an engine, or without a name any engine, does not support a piece of work.

    Check:
        >>> unsupported_text("tgi", Work("inference", task=ModelTask.SPEECH))
        'TGI does not serve speech models'
        >>> unsupported_text("", Work("fine_tuning", "qlora"))
        'No known framework supports QLoRA fine-tuning of text generation models'
    """
    models, name = MODELS[work.task], product_name(engine)
    if work.is_training:
        return (
            f"{f'{name} does not support' if engine else 'No known framework supports'} {work_name(work)} of {models}"
        )
    return f"{f'{name} does not serve' if engine else 'No known engine serves'} {models}"
