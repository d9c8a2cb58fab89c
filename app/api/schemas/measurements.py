"""Schemas of the user's own measurements: what a file lacks as query parameters, and stored measurements."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints

from app.api.schemas.answers import metric_name
from app.api.schemas.base import Component, ResponseModel, require_printable, with_examples
from app.api.schemas.catalog import ListPage
from app.api.schemas.origins import ADDED, WHOLE, From, ResultModel
from app.catalog.measuring import StoredMeasurement
from app.sizing.measured import MeasuredFigure

Name = Annotated[
    str, StringConstraints(min_length=1, max_length=200, strip_whitespace=True), AfterValidator(require_printable)
]
Degree = Annotated[int, Field(ge=1, le=100_000)]
Tokens = Annotated[float, Field(gt=0, le=1e8)]

# Field of a run that each parameter sets, where the names differ.
RUN_FIELDS: Mapping[str, str] = {"concurrent_requests": "concurrency", "requests_per_s": "asked_per_s"}
PARAMETERS: Mapping[str, str] = {field: name for name, field in RUN_FIELDS.items()}


class MeasurementQuery(BaseModel):
    """What the file does not state. A parameter must not contradict the file."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    dry_run: bool = Field(False, description="Read and compare the file, but store nothing.")
    model: Name | None = Field(None, description="Model that was measured, by its name in the catalog.")
    accelerator: Name | None = Field(None, description="Accelerator type that was measured.")
    accelerators: Degree | None = Field(None, description="Accelerators of the measured replica or run.")
    engine: Name | None = Field(None, description="Serving engine, or training framework.")
    engine_version: Name | None = Field(None, description="Version of the engine or framework.")
    weight_format: Name | None = Field(None, description="Format of the weights, such as fp8.")
    tensor_parallel: Degree | None = Field(None, description="Tensor-parallel ranks of the replica.")
    pipeline_parallel: Degree | None = Field(None, description="Pipeline stages of the replica.")
    data_parallel: Degree | None = Field(None, description="Data-parallel ranks of the replica.")
    concurrent_requests: Degree | None = Field(None, description="Concurrency of a closed loop.")
    requests_per_s: Annotated[float, Field(gt=0, le=1e6)] | None = Field(None, description="Rate of an open loop.")
    offline: Literal[True] | None = Field(None, description="All requests were sent at once.")
    input_tokens: Tokens | None = Field(None, description="Mean prompt length.")
    output_tokens: Tokens | None = Field(None, description="Mean output length.")
    method: Annotated[Literal["full", "lora", "qlora"], Component("MeasuredMethod")] | None = Field(
        None, description="Training method of the run."
    )
    sequence_length: Degree | None = Field(None, description="Tokens of one training sequence.")
    global_batch_sequences: Degree | None = Field(None, description="Sequences of one optimizer step.")
    day: Annotated[str, StringConstraints(pattern=r"^\d{4}-\d\d-\d\d$")] | None = Field(
        None, description="Day of the run. Default: the day in the file, or today."
    )

    def stated_fields(self) -> dict[str, Any]:
        """The stated values by field of a run; numbers as floats."""
        stated = self.model_dump(exclude={"dry_run"}, exclude_none=True)
        return {
            RUN_FIELDS.get(name, name): float(value) if isinstance(value, int) and value is not True else value
            for name, value in stated.items()
        }


FIGURE_EXAMPLE = {"quantity": "output_tokens_per_s", "measured": 1720.0, "predicted": 2237.6, "cut": False}


class MeasuredFigureShown(ResultModel, of=MeasuredFigure):
    """A measured quantity, its prediction without measurements, and whether the difference is too large to count in
    full.
    """

    model_config = with_examples(FIGURE_EXAMPLE)

    quantity: Annotated[str, From("metric", convert=metric_name)]
    measured: Annotated[float, From(WHOLE, convert=lambda f: shown_value(f, f.measured))]
    predicted: Annotated[float, From(WHOLE, convert=lambda f: shown_value(f, f.predicted))]
    cut: Annotated[bool, From("is_cut")] = Field(
        description="True if the difference exceeds four standard deviations and counts only up to there."
    )


def shown_value(figure: MeasuredFigure, value: float) -> float:
    """A value in the unit of its shown name, milliseconds for times, with five significant digits."""
    return float(f"{value * (1e3 if figure.metric.endswith('_s') and 'per_s' not in figure.metric else 1.0):.5g}")


def run_json(run: Mapping[str, Any]) -> dict[str, Any]:
    """A run in the names of the parameters, without what it does not state."""
    return {PARAMETERS.get(name, name): value for name, value in run.items() if value not in (None, "")}


MEASUREMENT_EXAMPLE = {
    "id": "meas_0f3c1a5b7d9e2f4061728394a5b6",
    "stored_at": "2026-11-20T08:00:00+00:00",
    "day": "2026-11-20",
    "run": {"format": "vllm-bench-serve", "model": "llama-3.1-8b-instruct", "concurrent_requests": 24},
    "figures": [FIGURE_EXAMPLE],
}


class MeasurementShown(ResultModel, of=StoredMeasurement):
    """A measurement of the user's own stack."""

    model_config = with_examples(MEASUREMENT_EXAMPLE)

    id: Annotated[str, From("measurement.identity")]
    stored_at: Annotated[str | None, ADDED] = Field(None, description="Time of the upload; omitted in a dry run.")
    day: Annotated[str, From("measurement.day")]
    run: Annotated[dict[str, Any], From(convert=run_json)] = Field(
        description="What the file and the parameters state, in the names of the parameters."
    )
    figures: Annotated[list[MeasuredFigureShown], From("measurement.figures")]


class MeasurementList(ListPage[MeasurementShown]):
    """Measurements in the order of their ids."""

    model_config = with_examples(
        {"items": [MEASUREMENT_EXAMPLE], "next_cursor": "bWVhc18wZjNjMWE1YjdkOWUyZjQwNjE3MjgzOTRhNWI2"}
    )


class MeasurementResult(ResponseModel):
    """What an upload contains and changes."""

    model_config = with_examples({"stored": True, "measurements": [MEASUREMENT_EXAMPLE], "notes": []})

    stored: bool = Field(description="False in a dry run, or if every run of the file was stored before.")
    measurements: list[MeasurementShown]
    notes: list[str] = Field(description="Differences that count only in part, and measurements that disagree.")


def measurement_json(stored: StoredMeasurement, *, dry_run: bool = False) -> dict[str, Any]:
    given = {} if dry_run else {"stored_at": stored.stored_at.isoformat()}
    figures = [MeasuredFigureShown.as_json(figure) for figure in stored.measurement.figures]
    return MeasurementShown.as_json(stored, given={**given, "figures": figures})
