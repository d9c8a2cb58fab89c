"""Compares engines' start-up logs with the memory formulas: the logged and the predicted cache size."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from app.errors import AppError
from app.sizing.assumptions import Assumptions
from app.sizing.columns import GIB, Column
from app.sizing.hardware.engines import release_of
from app.sizing.model.architecture import ModelArchitecture, ModelKind
from app.sizing.serving.interfaces import Settings
from app.sizing.serving.memory import serving_memory
from calibration.case import NotCompared, collect_cases, parse_number
from calibration.serving.cases import ServingCases

# Logs without the cache capacity of the engine, by words in their notes.
NOT_A_CAPACITY = {
    "low confidence": "the setup was inferred from a discussion thread",
    "start failed": "the engine did not start",
    "encoder-decoder": "the log counts the caches of decoder and encoder separately",
    "cache capped": "the cache size was set manually",
}
# vLLM release by month, for logs without a version.
RELEASES = (
    ("2024-12", "0.6"),
    ("2025-02", "0.7"),
    ("2025-04", "0.8"),
    ("2025-06", "0.9"),
    ("2025-09", "0.10"),
    ("2025-11", "0.11"),
)
# vLLM's first engine did not split shorter prompts; it split longer ones into steps of 512 tokens.
UNSPLIT_TOKENS, SPLIT_TOKENS = 32768.0, 512.0
USUAL_CONTEXT = 8192.0
# Copies of the logits where a log says that FlashInfer samples. vLLM 0.8 to 0.11 sorts them in PyTorch where it is not
# installed: vllm/v1/sample/ops/topk_topp_sampler.py. Starts of one server with and without it differ by 0.9 GiB.
FLASHINFER_LOGITS_COPIES = 3.8


@dataclass(frozen=True, slots=True)
class MemoryLog:
    """One start-up: measured and predicted cache bytes of a device."""

    id: str
    reference: str
    engine: str
    accelerator: str
    model: str
    measured_bytes: float
    predicted_bytes: float

    @property
    def relative_error(self) -> float:
        return self.predicted_bytes / self.measured_bytes - 1


def version_of(row: Mapping[str, Any]) -> str | None:
    """The engine's version: as logged, else the release of that month."""
    if row["engine_version"] or row["engine"] != "vLLM":
        return row["engine_version"] or None
    return next((version for month, version in RELEASES if (row["source_date"] or "9")[:7] <= month), None)


def compare_log(builder: ServingCases, row: Mapping[str, Any]) -> MemoryLog:
    """Compares one log with the formulas; raises NotCompared if it states no capacity or names too little."""
    cache, tokens = cache_of(row)
    model = model_of(builder, row)
    version, context = version_of(row), parse_number(row["max_model_len"]) or USUAL_CONTEXT
    plans = builder.choose_plan(model, replace(builder.read_deployment(row, model), engine_version=version))
    sequences = re.search(r"max_num_seqs (\d+)", row["notes"])
    memory = serving_memory(
        model,
        plans,
        Assumptions(),
        final_tokens=context,
        longest_tokens=context,
        settings=Settings(
            max_sequences=_optional_column(sequences and float(sequences[1])),
            max_batched_tokens=_optional_column(chunk_of(row, version, context)),
            memory_fraction=_optional_column(parse_number(row["gpu_memory_utilization"])),
            logits_copies=_optional_column(FLASHINFER_LOGITS_COPIES if "FlashInfer" in row["notes"] else None),
        ),
    )
    measured = cache * GIB if cache is not None else (tokens or 0.0) * float(memory.longest_sequence_bytes[0]) / context
    if measured <= 0:
        raise NotCompared("no memory remains for a cache")
    return MemoryLog(
        row["id"],
        row["source_ref"],
        row["engine"],
        row["accelerator"],
        model.name,
        measured,
        float(memory.kv_pool_bytes[0]),
    )


def cache_of(row: Mapping[str, Any]) -> tuple[float | None, float | None]:
    """(GiB, tokens) of the logged cache; at least one is set. Raises NotCompared if the log states no capacity."""
    why = next((reason for words, reason in NOT_A_CAPACITY.items() if words in row["notes"]), None)
    if why is not None:
        raise NotCompared(why)
    if not row["accelerator"] or not row["model"]:
        raise NotCompared("accelerator or model is not named")
    cache, tokens = parse_number(row["kv_gib"]), parse_number(row["kv_tokens"])
    if tokens is None and row["kv_blocks"]:
        tokens = float(row["kv_blocks"]) * float(row["block_size"])
    if cache is None and tokens is None:
        raise NotCompared("no cache size is given")
    return cache, tokens


def model_of(builder: ServingCases, row: Mapping[str, Any]) -> ModelArchitecture:
    """The logged model; raises NotCompared if the model keeps more than one cache."""
    try:
        model = builder.model_named(row["model"])
    except AppError:
        raise NotCompared("model is not in the catalog under that name") from None
    if model.kind is not ModelKind.DECODER or model.reads_source:
        raise NotCompared("the log counts the caches of decoder and encoder separately")
    return model


def chunk_of(row: Mapping[str, Any], version: str | None, context: float) -> float | None:
    """Tokens of one step: as logged, else those of vLLM's first engine; None applies the engine's rule."""
    chunk, released = parse_number(row["max_num_batched_tokens"]), release_of(version)
    if chunk is not None or row["engine"] != "vLLM":
        return chunk
    if "V0" in row["notes"] or (released is not None and released < (0, 8)):
        return context if context <= UNSPLIT_TOKENS else SPLIT_TOKENS
    return None


def _optional_column(value: float | None) -> Column | None:
    return None if value is None else np.array([value])


def read_logs(builder: ServingCases, rows: Sequence[Mapping[str, Any]]) -> tuple[list[MemoryLog], Counter[str]]:
    """Every log that states a cache size, and the number of other logs by reason."""
    return collect_cases(rows, lambda row: [compare_log(builder, row)])
