"""Schemas of pasted metrics and logs, and of the values read from them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

from app.api.schemas.base import Component, RequestModel, ResponseModel, round_value, rounded_fields
from app.observed.figures import MAX_UNREAD_SHOWN, Figure, Reading
from app.sizing.units import GIB

# Fields whose strings may contain line breaks.
PASTED_FIELDS = frozenset({"exposition", "text", "log"})
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


class ScrapeSpec(RequestModel):
    """Metrics scraped at one time; scrapes with the same time are from several replicas."""

    text: Text = Field(description="Prometheus or OpenMetrics text.")
    at_s: Moment = Field(description="Time of the scrape in seconds since 1970, or since any common start.")


class PastedSpec(RequestModel):
    """Text instead of explicit values."""

    exposition: Text | None = Field(
        None, description="Prometheus text of vLLM, SGLang, TGI, TensorRT-LLM, Triton or the DCGM exporter."
    )
    at_s: Moment | None = Field(
        None, description="Time of `exposition` in seconds since 1970. Rates require it, or two scrapes."
    )
    expositions: Annotated[list[ScrapeSpec], Field(max_length=20)] = Field(
        [], description="Several scrapes; rates are computed from the differences between them."
    )
    of_replicas: Annotated[float, Field(gt=0, le=1e6)] | None = Field(
        None, description="Number of replicas in the metrics. Default: derived from their labels."
    )

    log: Text | None = Field(
        None,
        description="Training log of torchtitan, Megatron-LM, NeMo, the Hugging Face Trainer (axolotl, LLaMA-Factory, "
        "TRL), DeepSpeed, PyTorch Lightning or MaxText, or server log of vLLM or SGLang.",
    )
    format: LogFormat | None = Field(None, description="Format of the log. Default: detected.")

    @property
    def timed_scrapes(self) -> list[tuple[str, float | None]]:
        """Pasted metrics with their times; the time is None if unknown."""
        single = [] if self.exposition is None else [(self.exposition, self.at_s)]
        return [*single, *((s.text, s.at_s) for s in self.expositions)]


class ReadShown(ResponseModel):
    """A value read from the pasted text."""

    quantity: str = Field(description="Name of the value in `observed`.")
    value: float = Field(description="The value in `unit`.")
    unit: str = Field(description="Unit of the value, as in the request field.")
    source: str = Field(alias="from", description="Metrics or lines that the value comes from.")
    low: float | None = Field(None, description="Lower end of the histogram bucket.")
    high: float | None = Field(None, description="Upper end of the histogram bucket.")


class NotReadShown(ResponseModel):
    """Pasted text that was not used."""

    metrics: int = Field(description="Number of unused metrics.")
    lines: int = Field(description="Number of lines that could not be parsed.")
    first: list[str] = Field(description="The first metrics and lines that were not used.")


def reading_json(reading: Reading, notes: Sequence[str], groups: dict[str, type[BaseModel]]) -> dict[str, Any]:
    """The values read from pasted text as JSON."""
    unread = reading.unread
    return {
        "read": [
            *(figure_json(f, groups[f.group]) for f in reading.figures),
            *(
                figure_json(
                    Figure("service", name, value, "difference of two scrapes"), groups["service"], f"by_load.{i}."
                )
                for i, point in enumerate(reading.by_load)
                for name, value in asdict(point).items()
                if value is not None
            ),
        ],
        "not_read": {
            "metrics": len(unread.metrics),
            "lines": unread.lines,
            "first": [*unread.metrics[:MAX_UNREAD_SHOWN], *unread.first],
        },
        "notes": [*notes, *reading.notes],
    }


def wire_name(figure: Figure, spec: type[BaseModel]) -> tuple[str, float]:
    """The name of a value in the API, and the factor from base units to the unit of that name."""
    for end, base, times in (("_ms", "_s", 1e3), ("_gib", "_bytes", 1 / GIB)):
        name = figure.quantity.removesuffix(base) + end
        if name in spec.model_fields:
            return name, times
    return figure.quantity, 1.0


def figure_json(f: Figure, spec: type[BaseModel], within: str = "") -> dict[str, Any]:
    """One value as JSON, in the unit that requests use."""
    name, times = wire_name(f, spec)
    return {
        "quantity": f"{f.group}.{within}{name}",
        "value": round_value(f.value * times),
        "unit": unit_from_name(name),
        "from": f.source,
        **rounded_fields(low=None if f.low is None else f.low * times, high=None if f.high is None else f.high * times),
    }


def unit_from_name(name: str) -> str:
    """The unit that a field's name implies."""
    return SIMPLE_UNITS.get(name) or next((unit for end, unit in UNITS if name.endswith(end)), "1")
