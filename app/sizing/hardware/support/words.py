"""What software does, in words."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from app.sizing.hardware.support.records import PRETRAINING, Work
from app.sizing.model.tasks import ModelTask

MODELS: Mapping[ModelTask, str] = MappingProxyType(
    {
        ModelTask.DECODER: "models that generate text",
        ModelTask.EMBEDDING: "embedding models",
        ModelTask.RERANKER: "rerankers",
        ModelTask.SPEECH: "speech models",
        ModelTask.DIFFUSION: "diffusion models",
        ModelTask.VISION: "vision models",
    }
)
_HOW: Mapping[str, str] = MappingProxyType({"full": "full ", "lora": "LoRA ", "qlora": "QLoRA "})


def way(work: Work) -> str:
    """What is done.

    Check:
        >>> way(Work("fine_tuning", "qlora")), way(Work("inference"))
        ('QLoRA fine-tuning', 'serving')
    """
    if not work.trains:
        return "serving"
    if work.phase == PRETRAINING:
        return "training"
    return f"{_HOW.get(work.method, '')}fine-tuning"


def not_done(engine: str, work: Work) -> str:
    """That an engine, or without a name nothing, does a piece of work.

    Check:
        >>> not_done("tgi", Work("inference", task=ModelTask.SPEECH))
        'tgi does not serve speech models'
        >>> not_done("", Work("fine_tuning", "qlora"))
        'No framework does QLoRA fine-tuning of models that generate text'
    """
    models = MODELS[work.task]
    if work.trains:
        return f"{f'{engine} does not do' if engine else 'No framework does'} {way(work)} of {models}"
    return f"{f'{engine} does not serve' if engine else 'No engine serves'} {models}"
