"""What runs where on the wire: the pair question and its answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from app.api.schemas.base import Component, Shown, Words, shown_as
from app.api.schemas.names import KvFormatName, MethodName, PhaseName
from app.sizing.hardware.answered import PairAnswered
from app.sizing.hardware.support.records import LEVELS
from app.sizing.model.formats import WEIGHT_FORMATS
from app.sizing.model.tasks import TASKS
from app.sizing.training.recipes import PRECISIONS

if TYPE_CHECKING:
    FormatName = str
    LevelName = str
    TaskName = str
else:
    FormatName = Annotated[
        Literal[tuple(dict.fromkeys((*WEIGHT_FORMATS, *PRECISIONS)))], Component("FormatOrPrecision")
    ]
    LevelName = Annotated[Literal[tuple(level.value for level in LEVELS)], Component("Verdict")]
    TaskName = Annotated[Literal[tuple(task.value for task in TASKS)], Component("ModelTask")]


class SupportQuery(BaseModel):
    """An accelerator and an engine or framework; what else is not said is answered for all of it."""

    model_config = ConfigDict(extra="forbid")

    accelerator: Words
    engine: Words
    format: FormatName | None = Field(None, description="Of weights; of training its precision.")
    phase: PhaseName | None = None
    method: MethodName | None = Field(None, description="Of training: only this method.")
    kind: TaskName | None = Field(None, description="Of the model: only what it is for.")


_EXAMPLE: dict[str, Any] = {
    "format": "fp8",
    "phase": "inference",
    "kind": "decoder",
    "verdict": "refused",
    "rule": "NVIDIA T4 has compute capability 7.5; FP8 needs 8.9, and vllm widens it from 8.0 on.",
    "source": "vLLM docs: installation pages",
    "native": False,
    "kv_formats": [],
}


class SupportShown(Shown):
    """One format and way. `native`: multiplied as it is; otherwise it is widened to 16 bits first."""

    model_config = shown_as(_EXAMPLE)

    format: FormatName
    phase: PhaseName
    method: MethodName | None = None
    kind: TaskName
    verdict: LevelName
    rule: str
    source: str
    native: bool
    kv_formats: list[KvFormatName]


class SupportAnswer(Shown):
    """What was asked, and a verdict for each format and way of it."""

    model_config = shown_as({"accelerator": "nvidia-t4", "engine": "vllm", "items": [_EXAMPLE]})

    accelerator: str
    engine: str
    items: list[SupportShown]


def support_json(found: PairAnswered) -> dict[str, Any]:
    work, said = found.work, found.verdict
    return {
        "format": found.weight_format,
        "phase": work.phase,
        **({"method": work.method} if work.method else {}),
        "kind": work.task.value,
        "verdict": said.level.value,
        "rule": said.rule,
        "source": said.source,
        "native": said.native,
        "kv_formats": list(said.kv_formats),
    }
