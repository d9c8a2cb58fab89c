"""Schemas of GET /catalog/support: whether an engine or framework runs on an accelerator."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from app.api.schemas.base import Component, PrintableText, ResponseModel, with_examples
from app.api.schemas.names import KvFormatName, MethodName, PhaseName
from app.sizing.hardware.answered import PairVerdict
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
    """An accelerator and an engine or framework. The answer covers every value of each omitted filter."""

    model_config = ConfigDict(extra="forbid")

    accelerator: PrintableText
    engine: PrintableText
    format: FormatName | None = Field(None, description="Number format of the weights; for training, the precision.")
    phase: PhaseName | None = None
    method: MethodName | None = Field(None, description="Training only: fine-tuning method.")
    kind: TaskName | None = Field(None, description="Only this kind of model.")


_EXAMPLE: dict[str, Any] = {
    "format": "fp8",
    "phase": "inference",
    "kind": "decoder",
    "verdict": "refused",
    "rule": "NVIDIA T4 has compute capability 7.5; FP8 requires 8.9 or higher, and vLLM converts it to 16 bits only "
    "from 8.0.",
    "source": "vLLM docs: installation pages",
    "native": False,
    "kv_formats": [],
}


class SupportShown(ResponseModel):
    """One format and kind of work.

    `native`: the hardware multiplies the format directly; otherwise it is converted to 16 bit first.
    """

    model_config = with_examples(_EXAMPLE)

    format: FormatName
    phase: PhaseName
    method: MethodName | None = None
    kind: TaskName
    verdict: LevelName
    rule: str
    source: str
    native: bool
    kv_formats: list[KvFormatName]


class SupportAnswer(ResponseModel):
    """The accelerator and engine, with a verdict for each format and kind of work."""

    model_config = with_examples({"accelerator": "nvidia-t4", "engine": "vllm", "items": [_EXAMPLE]})

    accelerator: str
    engine: str
    items: list[SupportShown]


def support_json(pair: PairVerdict) -> dict[str, Any]:
    work, verdict = pair.work, pair.verdict
    return {
        "format": pair.weight_format,
        "phase": work.phase,
        **({"method": work.method} if work.method else {}),
        "kind": work.task.value,
        "verdict": verdict.level.value,
        "rule": verdict.rule,
        "source": verdict.source,
        "native": verdict.native,
        "kv_formats": list(verdict.kv_formats),
    }
