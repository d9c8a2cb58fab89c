"""Pasted text on the wire: metrics and logs as they are written, and what was read of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

from app.api.schemas.base import Component, Shown, Wire, present, rounded
from app.observed.figures import SHOWN, Figure, Reading
from app.sizing.units import GIB

# Fields whose strings may have lines.
PASTED = frozenset({"exposition", "text", "log"})
Text = Annotated[str, Field(min_length=1, max_length=2_000_000)]
LogFormat = Annotated[
    Literal["torchtitan", "megatron", "nemo", "maxtext", "deepspeed", "lightning", "huggingface", "vllm", "sglang"],
    Component("LogFormat"),
]
Moment = Annotated[float, Field(ge=0, le=1e11)]
SIMPLE_UNITS = {
    "requests_per_s": "requests/s",
    "output_tokens_per_s": "tokens/s",
    "input_tokens_mean": "tokens",
    "output_tokens_mean": "tokens",
    "running": "requests",
    "waiting": "requests",
    "tokens_per_s": "tokens/s",
}
UNITS = (("_ms", "ms"), ("_per_day", "1/day"), ("_s", "s"), ("_c", "C"), ("_w", "W"), ("_gib", "GiB"))


class ScrapeSpec(Wire):
    """Metrics at one moment; those of one moment are of several replicas."""

    text: Text = Field(description="Prometheus or OpenMetrics text.")
    at_s: Moment = Field(description="When it was read: seconds since 1970, or since any moment all share.")


class PastedSpec(Wire):
    """Text in the place of figures."""

    exposition: Text | None = Field(
        None, description="Prometheus text of vLLM, SGLang, TGI, TensorRT-LLM, Triton or the DCGM exporter."
    )
    at_s: Moment | None = Field(
        None, description="When `exposition` was read, in seconds since 1970: rates need it, or two scrapes."
    )
    expositions: Annotated[list[ScrapeSpec], Field(max_length=20)] = Field(
        [], description="Several scrapes: rates are what came between them."
    )
    of_replicas: Annotated[float, Field(gt=0, le=1e6)] | None = Field(
        None, description="Replicas that the metrics are of; as many as their labels tell where absent."
    )

    log: Text | None = Field(
        None,
        description="Log of torchtitan, Megatron-LM, NeMo, the Hugging Face Trainer (axolotl, LLaMA-Factory, TRL), "
        "DeepSpeed, PyTorch Lightning or MaxText, or of vLLM or SGLang.",
    )
    format: LogFormat | None = Field(None, description="Whose log it is; found out where absent.")

    @property
    def scrapes(self) -> list[tuple[str, float | None]]:
        """Texts with their moments."""
        alone = [] if self.exposition is None else [(self.exposition, self.at_s)]
        return [*alone, *((s.text, s.at_s) for s in self.expositions)]


class ReadShown(Shown):
    """Figures that were read from what was pasted."""

    quantity: str = Field(description="By its name in `observed`.")
    value: float = Field(description="What was read, in `unit`.")
    unit: str = Field(description="As in the names of a request.")
    source: str = Field(alias="from", description="Metrics or lines that say it.")
    low: float | None = Field(None, description="Of a histogram, where its bucket begins.")
    high: float | None = Field(None, description="Of a histogram, where its bucket ends.")


class NotReadShown(Shown):
    """What was pasted and says nothing here."""

    metrics: int = Field(description="Metrics that mean nothing here.")
    lines: int = Field(description="Lines that could not be read.")
    first: list[str] = Field(description="The first of both.")


def reading_json(reading: Reading, notes: Sequence[str], groups: dict[str, type[BaseModel]]) -> dict[str, Any]:
    """What was read."""
    unread = reading.unread
    return {
        "read": [
            *(figure_json(f, groups[f.group]) for f in reading.figures),
            *(
                figure_json(
                    Figure("service", name, value, "what came between two scrapes"), groups["service"], f"by_load.{i}."
                )
                for i, point in enumerate(reading.by_load)
                for name, value in asdict(point).items()
                if value is not None
            ),
        ],
        "not_read": {
            "metrics": len(unread.metrics),
            "lines": unread.lines,
            "first": [*unread.metrics[:SHOWN], *unread.first],
        },
        "notes": [*notes, *reading.notes],
    }


def wire_name(figure: Figure, spec: type[BaseModel]) -> tuple[str, float]:
    """A figure's name on the wire, and what its value is multiplied with there."""
    for end, base, times in (("_ms", "_s", 1e3), ("_gib", "_bytes", 1 / GIB)):
        name = figure.quantity.removesuffix(base) + end
        if name in spec.model_fields:
            return name, times
    return figure.quantity, 1.0


def figure_json(f: Figure, spec: type[BaseModel], within: str = "") -> dict[str, Any]:
    """One figure in the unit it has in a request."""
    name, times = wire_name(f, spec)
    return {
        "quantity": f"{f.group}.{within}{name}",
        "value": rounded(f.value * times),
        "unit": unit_of(name),
        "from": f.source,
        **present(low=None if f.low is None else f.low * times, high=None if f.high is None else f.high * times),
    }


def unit_of(name: str) -> str:
    """The unit that stands in a name."""
    return SIMPLE_UNITS.get(name) or next((unit for end, unit in UNITS if name.endswith(end)), "1")
