"""Named, realistic values; a test varies one with `replace`."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeVar

from httpx2 import Response

from app.catalog.files import read_data_file, read_rows
from app.catalog.models import entry_architecture
from app.catalog.seed import model_entries
from app.sizing.columns import Column, column
from app.sizing.model.architecture import ModelArchitecture
from app.sizing.model.counting.read import read_architecture
from app.sizing.question import Deployment
from app.sizing.training.counts import counts_of
from app.sizing.workload import (
    InferenceWorkload,
    Lengths,
    Load,
    Method,
    Redundancy,
    Slo,
    TrainingWorkload,
)

Value = TypeVar("Value")

BODIES = Path(__file__).parent / "api" / "bodies"

LLAMA_8B_CONFIG: dict[str, Any] = {
    "model_type": "llama",
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "vocab_size": 128256,
    "tie_word_embeddings": False,
    "max_position_embeddings": 131072,
}
LLAMA_8B = read_architecture(LLAMA_8B_CONFIG, name="Llama-3.1-8B")
LLAMA_70B = read_architecture(
    {
        **LLAMA_8B_CONFIG,
        "hidden_size": 8192,
        "intermediate_size": 28672,
        "num_hidden_layers": 80,
        "num_attention_heads": 64,
    },
    name="Llama-3.1-70B",
)
OPT_13B = read_architecture(
    {
        "model_type": "opt",
        "hidden_size": 5120,
        "ffn_dim": 20480,
        "num_hidden_layers": 40,
        "num_attention_heads": 40,
        "vocab_size": 50272,
        "max_position_embeddings": 2048,
    },
    name="OPT-13B",
)

CHAT = InferenceWorkload(
    model=LLAMA_8B,
    load=Load.OPEN,
    peak_per_s=5.0,
    average_per_s=2.0,
    in_flight=0.0,
    burstiness=1.0,
    input_tokens=Lengths(1024, 3000),
    output_tokens=Lengths(256, 700),
    cached_prefix_fraction=0.0,
    slo=Slo(ttft_s=1.0, tpot_s=0.05, e2e_s=None, percentile=95),
    max_context_tokens=8192,
    redundancy=Redundancy(),
    target_utilization=0.7,
)

PRETRAIN = TrainingWorkload(
    model=LLAMA_8B,
    phase="training",
    method=Method.FULL,
    units=1e11,
    units_per_sequence=4096.0,
    global_batch=512,
    precision="bf16",
    optimizer="adamw",
    deadline_s=14 * 86400.0,
    experiment_overhead=0.0,
    dataset_bytes=None,
    checkpoint_interval_s=None,
    synchronous_checkpoints=False,
    lora_rank=16,
    lora_targets="all-linear",
)


@cache
def registered(hf_id: str) -> ModelArchitecture:
    """A model of the catalogue, read from its configuration."""
    (entry,) = (e for e in model_entries() if e["hf_id"] == hf_id)
    return entry_architecture(entry)


def rows_in(file: str) -> int:
    """Rows of a data file of the catalogue."""
    return (
        sum(1 for line in read_data_file(file).splitlines() if line)
        if file.endswith(".jsonl")
        else len(list(read_rows(file)))
    )


def col(*values: float) -> Column:
    """A column of a few rows."""
    return column(values)


PURE_BF16 = replace(PRETRAIN, precision="bf16-true")
PRETRAIN_COUNTS = counts_of(PRETRAIN)


def row(**columns: object) -> SimpleNamespace:
    """A table of which a formula reads only some columns."""
    return SimpleNamespace(**columns)


def services_of(deployment: Deployment) -> tuple[Deployment, ...]:
    """What stands by itself of a deployment: both pools of one that is split."""
    return (deployment,) if deployment.pools is None else (deployment.pools.prefill, deployment.pools.decode)


def as_shown(whole: dict[str, Any], shown: dict[str, Any]) -> dict[str, Any]:
    """Performance without what an answer of bounded size left out: intervals of means, points of the load curve, and
    of later ranks what was simulated.
    """
    kept = {key: value for key, value in whole.items() if key in shown}
    if "intervals" in shown:
        kept["intervals"] = [i for i in whole["intervals"] if i in shown["intervals"]]
    if shown.get("load_curve"):
        points = [p for p in whole["load_curve"]["points"] if p in shown["load_curve"]["points"]]
        kept["load_curve"] = {**whole["load_curve"], "points": points}
    return kept


def levels_of_deployment(found: dict[str, Any], ranked: dict[str, Any]) -> dict[str, Any]:
    """Confidence at the levels that a ranked option shows for its own deployment."""
    own = {each["confidence"] for each in ranked["confidence"]["by_level"] if "deployment" not in each}
    kept = [each for each in found["confidence"]["by_level"] if each["confidence"] in own]
    return {**found["confidence"], "by_level": kept}


def body(name: str) -> dict[str, Any]:
    """One of the worked request bodies."""
    value: dict[str, Any] = json.loads((BODIES / f"{name}.json").read_text())
    return value


def body_names(kind: str) -> list[str]:
    return sorted(p.stem for p in BODIES.glob(f"{kind}*.json"))


def present(value: Value | None) -> Value:
    """The value, which the test expects not to be None."""
    assert value is not None
    return value


def answer_of(response: Response, status: int = 200) -> dict[str, Any]:
    """The JSON of a response of this status; the text of another one is the message of the failure."""
    assert response.status_code == status, response.text
    answer: dict[str, Any] = response.json()
    return answer
