"""What does not run although a row of its family, or a build, might say so."""

from __future__ import annotations

from app.sizing.hardware.support.records import SERVING, Forbidden
from app.sizing.model.tasks import ModelTask

_AS_OF = "2026-11-22"

FORBIDDEN: tuple[Forbidden, ...] = (
    Forbidden(
        "{name} runs compiled networks of fixed shape; nobody's engine generates text on it.",
        "AWS Neuron SDK docs: model architecture fit, Inf1",
        _AS_OF,
        generations=("Inferentia 1",),
        tasks=(ModelTask.DECODER,),
        phases=(SERVING,),
    ),
)
