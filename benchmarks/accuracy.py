"""Compares training and sample work (images, speech, encoders) with published measurements, row by row through
/estimate.

Nothing is fitted here, and the fit saw every source. `python -m calibration` covers unseen sources and token
streams. A row is compared if it names a catalog model, the hardware and the batch; every other row is counted with the
reason.
"""

from __future__ import annotations

import statistics
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from app.catalog.files import read_rows
from app.catalog.snapshot import CatalogStore
from app.catalog.tables import MeasurementRow
from app.errors import AppError
from app.sizing.assumptions import Assumptions
from app.sizing.estimate import estimate_deployment
from app.sizing.model.architecture import ModelArchitecture
from app.sizing.question import Deployment, Question
from app.sizing.workload import InferenceWorkload, Lengths, Load, Redundancy, Slo
from calibration.calibrate import seeded_catalog
from calibration.case import NotCompared, parse_number
from calibration.serving.runs import LOADS, Start
from calibration.training.cases import TrainingCases


@cache
def published_runs() -> dict[str, Mapping[str, str]]:
    """The published training results by ID, with the columns that the database does not store."""
    return {r["id"]: r for r in read_rows("measurements_training.csv")}


@dataclass(frozen=True, slots=True)
class Compared:
    """One figure of one row; `ratio` is predicted over measured, `covered` is True if the interval contains it."""

    metric: str
    source: str
    family: str
    ratio: float
    covered: bool

    @property
    def absolute_error(self) -> float:
        return abs(self.ratio - 1)


# Tokens of a sample if the row states none: a question with its paragraph.
SAMPLE_TOKENS = {"bert-large-squad": 178.0}
USUAL_TOKENS = 384.0
SAMPLE_FORMATS = {
    "": "fp16",
    "fp16-amp": "fp16",
    "tf32": "fp32",
    "fp4": "nvfp4",
    "mixed-fp8": "fp8",
    "mixed(unet fp8)": "fp8",
}


# Engine by the first words of its published name; other names leave the engine open.
SAMPLE_ENGINES = {"TensorRT": "tensorrt", "PyTorch": "pytorch", "Neuron": "neuronx", "OpenVINO": "openvino"}


# Benchmarks feed networks with prepared tensors, so the host does no work.
READY_MADE = Assumptions().with_overrides({"host_work_share": 0.0})


def socket_count(said: Mapping[str, Any]) -> int:
    """Processors per machine, for rows that count machines and state the processors in the name."""
    return 2 if str(said.get("accelerator_as_published", "")).endswith("-2S") else 1


def sample_engine(row: MeasurementRow) -> str | None:
    """The engine of a row; None if the catalog has none of that name."""
    return next((engine for words, engine in SAMPLE_ENGINES.items() if (row.engine or "").startswith(words)), None)


def samples_measured(model: ModelArchitecture, said: Mapping[str, Any]) -> float | None:
    """Samples per second of the row; speech is published in text tokens."""
    found = parse_number(said.get("samples_s")) or parse_number(said.get("requests_s"))
    tokens = parse_number(said.get("output_tok_s"))
    if found is None and tokens is not None and model.law is not None and model.law.decodes:
        return tokens / model.law.text_tokens
    return found


def sample_question(model: ModelArchitecture, row: MeasurementRow) -> tuple[Question, Deployment]:
    """Question and deployment of a sample row: encoders, images and speech, on one accelerator per replica."""
    said: Mapping[str, Any] = row.payload
    if samples_measured(model, said) is None:
        raise NotCompared("no samples/s")
    start = Start(said["run_start"])
    if start is Start.POISSON:
        raise NotCompared("arrival rate or load is not given")
    load = LOADS[start]
    tokens = parse_number(said.get("input_len")) or SAMPLE_TOKENS.get(row.model or "", USUAL_TOKENS)
    in_flight = (
        0.0 if load is Load.OFFLINE else 1.0 if start is Start.SINGLE else parse_number(said.get("load_value")) or 1.0
    )
    workload = InferenceWorkload(
        model,
        load,
        0.0,
        0.0,
        in_flight,
        1.0,
        Lengths(tokens),
        Lengths(0.0),
        0.0,
        Slo(None, None, None, 95),
        tokens,
        Redundancy(),
        0.7,
    )
    weights = said.get("weight_precision") or ""
    return Question(workload, assumptions=READY_MADE), Deployment(
        accelerator=row.accelerator or "",
        accelerators_per_replica=1,
        replicas=int(row.num_accelerators or 1) * socket_count(said),
        spare_replicas=0,
        engine=sample_engine(row),
        weight_format=SAMPLE_FORMATS.get(weights, weights),
    )


def run_figures(row: MeasurementRow, builder: TrainingCases) -> list[Compared]:
    """Figures of a training row as /estimate answers them: speed, peak memory, and hours of a whole run."""
    said = published_runs()[row.id]
    asked = builder.read_question(said)
    total = parse_number(said.get("tokens_total"))
    workload = replace(asked.workload, units=total) if total else asked.workload
    catalog = builder.catalog
    e = estimate_deployment(Question(workload), asked.deployment, catalog)
    family = catalog.accelerators[catalog.accelerator_index[asked.run.accelerator]].family
    found = []
    if asked.peak_memory_bytes is not None and e.memory is not None:
        found.append(
            Compared(
                "training memory, as answered",
                said["source_key"],
                family,
                e.memory.total_bytes / asked.peak_memory_bytes,
                True,
            )
        )
    if e.performance is None:
        return found
    p = e.performance
    if asked.units_per_s is not None:
        rate = (p.samples_per_s or p.tokens_per_s or 0.0) / asked.run.accelerators
        middle = getattr(p, p.interval.quantity)
        covered = p.interval.low / middle <= asked.units_per_s / rate <= p.interval.high / middle
        name = "training samples/s" if workload.in_samples else "training tokens/s"
        found.append(Compared(name, said["source_key"], family, rate / asked.units_per_s, covered))
    hours = parse_number(said.get("accelerator_hours"))
    if total and hours and p.accelerator_hours:
        found.append(
            Compared("accelerator-hours of whole runs", said["source_key"], family, p.accelerator_hours / hours, True)
        )
    return found


def compare_row(row: MeasurementRow, builder: TrainingCases) -> list[Compared]:
    """The figures of one row with the engine's; raises NotCompared if the row is incomplete or the engine declines."""
    if row.accelerator is None or row.num_accelerators is None:
        raise NotCompared("accelerator is not in the catalog")
    try:
        return (run_figures if row.kind == "training" else sample_figures)(row, builder)
    except AppError as error:
        raise NotCompared(f"declined: {error.code}") from None


def sample_figures(row: MeasurementRow, builder: TrainingCases) -> list[Compared]:
    """Figures of a serving row for encoders, images and speech."""
    model, catalog = builder.model_named(row.model or ""), builder.catalog
    if model is None:
        raise NotCompared("model is not in the catalog under that name")
    if model.kind == "decoder":
        raise NotCompared("a token stream: compared by python -m calibration")
    e = estimate_deployment(*sample_question(model, row), catalog)
    if e.performance is None:
        raise NotCompared(f"declined: {e.explanation[0].code}")
    p, measured = e.performance, samples_measured(model, row.payload)
    predicted = p.samples_per_s or p.requests_per_s_capacity
    if not predicted or not measured:
        return []
    middle = getattr(p, p.interval.quantity)
    covered = p.interval.low / middle <= measured / predicted <= p.interval.high / middle
    family = catalog.accelerators[catalog.accelerator_index[row.accelerator or ""]].family
    return [
        Compared(
            f"samples/s, {model.family}",
            row.payload.get("source_key", row.source),
            family,
            predicted / measured,
            covered,
        )
    ]


def speed_rows(session: Session) -> list[MeasurementRow]:
    """The measurements of speed; start-up logs (`kv_cache`) measure memory."""
    chosen = (
        select(MeasurementRow).where(MeasurementRow.kind.in_(("inference", "training"))).order_by(MeasurementRow.id)
    )
    return list(session.scalars(chosen))


def compare_all(rows: list[MeasurementRow], store: CatalogStore) -> tuple[list[Compared], Counter[tuple[str, str]]]:
    """The figures of all rows, and the rows left out by (kind, reason)."""
    found: list[Compared] = []
    left_out: Counter[tuple[str, str]] = Counter()
    builder = TrainingCases(store.catalog(), store.find_model)
    for row in rows:
        try:
            found.extend(compare_row(row, builder))
        except NotCompared as why:
            left_out[row.kind, str(why)] += 1
    return found, left_out


def format_line(name: str, rows: list[Compared]) -> str:
    errors = sorted(r.absolute_error for r in rows)
    p90 = errors[min(len(errors) - 1, int(0.9 * len(errors)))]
    bias = statistics.median(r.ratio for r in rows)
    covered = statistics.fmean(r.covered for r in rows)
    under = statistics.fmean(r.ratio < 0.9 for r in rows)
    sources = len({r.source for r in rows})
    counts = f"{name:44} {len(rows):6} {sources:8}"
    return f"{counts} {statistics.median(errors):9.0%} {p90:6.0%} {bias:6.2f} {under:6.0%} {covered:8.0%}"


def print_report(found: list[Compared], left_out: Counter[tuple[str, str]]) -> None:
    """Prints the errors by metric, by metric and family with 30 rows or more, and the rows left out."""
    by_metric, by_family = defaultdict(list), defaultdict(list)
    for c in found:
        by_metric[c.metric].append(c)
        if not c.metric.startswith("samples/s"):
            by_family[f"{c.metric}, {c.family}"].append(c)
    print(f"{'metric':44} {'rows':>6} {'sources':>8} {'median':>9} {'p90':>6} {'bias':>6} {'under':>6} {'covered':>8}")
    for name, rows in by_metric.items():
        print(format_line(name, rows))
    print()
    for name, rows in sorted(by_family.items()):
        if len(rows) >= 30:
            print(format_line(name, rows))
    print("\nleft out:")
    for (kind, why), count in left_out.most_common():
        print(f"{count:6}  {kind}: {why}")


def main() -> None:
    with seeded_catalog() as sessions:
        with sessions() as session:
            rows = speed_rows(session)
        print_report(*compare_all(rows, CatalogStore(sessions, check_s=3600)))


if __name__ == "__main__":
    main()
