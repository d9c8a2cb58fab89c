"""Schemas of hand-offs: the query and the generated files."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from app.api.schemas.base import Component, ResponseModel, with_examples
from app.export.handoff.files import Handoff

FILE: dict[str, Any] = {
    "name": "serve.sh",
    "media_type": "application/x-sh",
    "text": "#!/usr/bin/env bash\nset -euo pipefail\nexec vllm serve meta-llama/Llama-3.1-8B-Instruct\n",
}
HANDOFF: dict[str, Any] = {
    "target": "vllm",
    "rank": 1,
    "files": [FILE],
    "notes": ["Flags of vLLM: vllm/engine/arg_utils.py and config/parallel.py of 0.33.0, read 2026-11-23."],
}
TargetName = Annotated[
    Literal[
        "vllm",
        "sglang",
        "tensorrt-llm",
        "llama.cpp",
        "tgi",
        "text-embeddings-inference",
        "mlx",
        "kubernetes",
        "kserve",
        "skypilot",
        "dstack",
        "docker-compose",
        "torchrun",
        "deepspeed",
        "megatron",
        "accelerate",
        "slurm",
    ],
    Component("HandoffTarget"),
]


class HandoffQuery(BaseModel):
    """Target tool, rank of the option, and optionally one file."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    target: TargetName
    rank: int = Field(1, ge=1, le=1000)
    file: str | None = Field(
        None, min_length=1, max_length=120, description="Name of a file; returns only this file, unchanged."
    )
    engine_version: str | None = Field(
        None,
        pattern=r"^v?\d+(\.\d+){0,3}[A-Za-z0-9.+-]{0,20}$",
        description="Installed version of the engine. Default: the version from which the flags were read.",
    )


class FileShown(ResponseModel):
    """A file with its name."""

    model_config = with_examples(FILE)

    name: str
    media_type: str
    text: str


class HandoffShown(ResponseModel):
    """Files that start and benchmark one ranked option, and notes for the operator."""

    model_config = with_examples(HANDOFF)

    target: TargetName
    rank: int
    files: list[FileShown]
    notes: list[str]


def handoff_json(handoff: Handoff) -> dict[str, Any]:
    """A hand-off as JSON."""
    return {
        "target": handoff.target,
        "rank": handoff.rank,
        "files": [asdict(file) for file in handoff.files],
        "notes": list(handoff.notes),
    }
