"""Fits the factors of every problem, predicts every figure without its source, and writes both for review.

The files are factors.csv, spreads.csv, predictions.csv and accuracy.json in the data folder of the catalog.
"""

from __future__ import annotations

import csv
import json
import math
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

from sqlalchemy.orm import Session, sessionmaker

from app.catalog.files import read_rows
from app.catalog.seed import seed_catalog
from app.catalog.snapshot import CatalogStore
from app.db import Base, make_engine
from app.sizing.accuracy import headline_figures
from app.sizing.evidence import Compared, stack_familiarity
from app.sizing.hardware.achieved import CoefficientTable, Factor
from app.sizing.snapshot import Catalog
from app.sizing.uncertainty import LEVELS, Spread
from calibration.case import Case
from calibration.fit import KEYS, Parameter, Problem, fit_parameters, fit_problem, predict_figures
from calibration.memory_logs import MemoryLog, read_logs
from calibration.ordering import OrderShare, order_figures, order_shares, published_layouts
from calibration.scale_ups import ScaleUp, scale_ups, summarize_scale_ups
from calibration.serving.aside import EXCLUDED_RESULTS
from calibration.serving.cases import ServingCases
from calibration.serving.layouts import Layout, by_layout
from calibration.serving.problem import SERVING, read_published_cases
from calibration.spreads import spreads_of, with_intervals
from calibration.training.answered import AnsweredRun, answer_all_runs
from calibration.training.cases import TrainingCases, read_training_cases
from calibration.training.peaks import Peaks, summarize_peaks, summarize_runs
from calibration.training.problem import MEMORY, SAMPLES, TRAINING

DATA = Path(__file__).resolve().parents[1] / "app" / "catalog" / "data"
WORKERS = 2
FOLD_ROUNDS = 2  # rounds of simulating runs and refitting without a source


PROBLEMS: Mapping[str, Problem] = MappingProxyType(
    {"serving": SERVING, "tokens": TRAINING, "samples": SAMPLES, "memory": MEMORY}
)


@dataclass(frozen=True, slots=True)
class Calibration:
    """Everything that a calibration computes."""

    factors: list[Factor]
    spreads: list[Spread]
    compared: list[Compared]
    order: list[OrderShare]
    logs: list[MemoryLog]
    left_out: Counter[str]
    training_left_out: Counter[str]
    logs_left_out: Counter[str]
    ups: list[ScaleUp]
    peaks: list[Peaks]
    runs: list[AnsweredRun]
    layouts: list[Layout]


def predict_left_out_source(
    problem: str, cases: Sequence[Case], table: CoefficientTable, start: Mapping[Parameter, float], source: str
) -> list[tuple[str, str, float]]:
    """(case, metric, prediction) of one source, from a fit to all other sources that starts at the fit to all.

    Started at the prior centers, the serving fit without a large source ends in a worse minimum of the same cost.
    """
    others = [c for c in cases if c.source != source]
    parameters = fit_parameters(PROBLEMS[problem], others, table, FOLD_ROUNDS, start)
    own = [c for c in cases if c.source == source]
    return [
        (own[p.case].id, p.metric, value) for p, value in predict_figures(PROBLEMS[problem], own, table, parameters)
    ]


def parameters_in_force(table: CoefficientTable) -> dict[Parameter, float]:
    """The logarithm of every factor of a table, by parameter."""
    found = {}
    for factor in (f for factors in table.factors.values() for f in factors):
        keys = tuple(k for k in KEYS if getattr(factor, k) != "*")
        found[factor.name, keys, tuple(getattr(factor, k) for k in keys)] = math.log(factor.value)
    return found


def fit_and_compare(name: str, cases: Sequence[Case], table: CoefficientTable) -> tuple[list[Factor], list[Compared]]:
    """Fits one problem, from the factors in force, and predicts every figure with and without its source."""
    problem = PROBLEMS[name]
    fit, solution = fit_problem(problem, cases, table, start=parameters_in_force(table))
    parameters = dict(zip(fit.names, solution.tolist(), strict=True))
    sources = sorted({c.source for c in cases})
    with ProcessPoolExecutor(WORKERS) as pool:
        folds = pool.map(partial(predict_left_out_source, name, cases, table, parameters), sources)
        held_out = {(case, metric): value for found in folds for case, metric, value in found}
    stacks: dict[str, set[tuple[str, str, str]]] = {s: set() for s in sources}
    for case in cases:
        if case.exclusion_reason is None:
            stacks[case.source].add((case.stack.engine, case.stack.family, case.stack.format_class))
    compared = []
    for point, value in predict_figures(problem, cases, table, parameters):
        case = cases[point.case]
        others = set().union(*(found for source, found in stacks.items() if source != case.source))
        compared.append(
            Compared(
                measurement=case.id,
                source=case.source,
                reference=case.reference,
                metric=point.metric,
                measured=point.measured,
                predicted=value,
                held_out=held_out[case.id, point.metric],
                near=stack_familiarity(case.stack.engine, case.stack.family, case.stack.format_class, others),
                neighbor_sources=0.0,
                distance=0.0 if problem.distance is None else problem.distance(case, value),
                low=0.0,
                high=0.0,
                promised=0.0,
                excluded=case.exclusion_reason is not None,
                model=case.model,
                setting=case.setting,
            )
        )
    return fit.factor_list(solution), compared


def calibrate_catalog(catalog: Catalog, store: CatalogStore) -> Calibration:
    """Fits and compares serving, training and training memory, and compares the memory logs."""
    served, trained = (list(read_rows(f"measurements_{kind}.csv")) for kind in ("inference", "training"))
    serving, left_out = read_published_cases(served, catalog, store.find_model)
    training, training_left_out = read_training_cases(trained, catalog, store.find_model)
    factors: list[Factor] = []
    compared: list[Compared] = []
    for name in PROBLEMS:
        cases: Sequence[Case] = serving if name == "serving" else [c for c in training if c.group == name]
        fitted, found = fit_and_compare(name, cases, catalog.coefficients)
        factors.extend(fitted)
        compared.extend(found)
    compared = with_intervals(compared)
    logs, logs_left_out = read_logs(
        ServingCases(catalog, store.find_model), list(read_rows("measurements_kv_cache.csv"))
    )
    return Calibration(
        factors,
        [*spreads_of(compared).values()],
        compared,
        order_shares(compared, published_layouts([*served, *trained])),
        logs,
        left_out,
        training_left_out,
        logs_left_out,
        scale_ups(trained, compared),
        summarize_peaks(compared, trained),
        answer_all_runs(trained, TrainingCases(catalog, store.find_model))[0],
        by_layout(serving, compared),
    )


def spread_rows(spreads: Iterable[Spread], as_of: str) -> list[dict[str, Any]]:
    """Spreads as rows of the catalog; quantile columns are named by their level in percent."""
    return [
        {
            "quantity": s.quantity,
            **{k: format_number(getattr(s, k)) for k in ("alone", "remote", "untabulated")},
            **{f"worse_p{100 * level:g}": format_number(at) for level, at in zip(LEVELS, s.worse, strict=True)},
            "rows": s.rows,
            "sources": s.sources,
            "as_of": as_of,
        }
        for s in spreads
    ]


def format_number(value: float) -> str:
    return f"{value:.5g}"


def factor_rows(factors: Iterable[Factor], as_of: str) -> list[dict[str, Any]]:
    return [
        {
            **{k: getattr(f, k) for k in ("name", "runtime", "engine", "generation", "kernels", "vendor")},
            "accelerator_family": f.family,
            "format_class": f.format_class,
            "value": format_number(f.value),
            "rows": f.rows,
            "source": f"fitted to {f.sources}",
            "as_of": as_of,
        }
        for f in factors
    ]


def prediction_rows(compared: Iterable[Compared]) -> list[dict[str, Any]]:
    rows = []
    for c in sorted(compared, key=lambda c: (c.measurement, c.metric)):
        s = asdict(c.setting)
        numbers = {k: format_number(s[k]) for k in ("params", "devices", "in_flight", "input_tokens", "output_tokens")}
        rows.append(
            {
                "measurement": c.measurement,
                "metric": c.metric,
                "source_key": c.source,
                "model": c.model,
                "engine": s["engine"],
                "accelerator_family": s["family"],
                **{k: s[k] for k in ("format_class", "accelerator", "load")},
                **numbers,
                "measured": format_number(c.measured),
                "predicted": format_number(c.predicted),
                "held_out": format_number(c.held_out),
                "near": int(c.near),
                **{
                    k: format_number(getattr(c, k)) for k in ("neighbor_sources", "distance", "low", "high", "promised")
                },
                "excluded": str(c.excluded).lower(),
            }
        )
    return rows


def write_rows(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, fieldnames=list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def accuracy_notes(found: Calibration) -> dict[str, Any]:
    """Contents of accuracy.json: excluded rows with reasons, cache sizes, and the limits of a later fit's errors."""
    return {
        "headline": headline_figures(found.compared),
        "order": order_figures(found.order),
        "left_out": dict(found.left_out.most_common()),
        "training_left_out": dict(found.training_left_out.most_common()),
        "layouts": [asdict(layout) for layout in found.layouts],
        "scaling": summarize_scale_ups(found.ups),
        "peaks": [asdict(p) for p in found.peaks],
        "runs": summarize_runs(found.runs),
        "excluded": {results.name: results.why for results in EXCLUDED_RESULTS},
        "kv_cache": [
            {**asdict(log), "measured_bytes": round(log.measured_bytes), "predicted_bytes": round(log.predicted_bytes)}
            for log in found.logs
        ],
        "kv_cache_left_out": dict(found.logs_left_out.most_common()),
    }


@contextmanager
def seeded_catalog() -> Iterator[sessionmaker[Session]]:
    """Sessions of a temporary database with the catalog of the current data files."""
    with tempfile.TemporaryDirectory() as folder:
        engine = make_engine(f"sqlite:///{folder}/catalog.sqlite3")
        Base.metadata.create_all(engine)
        sessions = sessionmaker(engine)
        with sessions() as session:
            seed_catalog(session)
        yield sessions
        engine.dispose()


def calibrate_data_files() -> Calibration:
    """Fits the current data files, in a temporary catalog."""
    with seeded_catalog() as sessions:
        store = CatalogStore(sessions, check_s=3600)
        return calibrate_catalog(store.catalog(), store)


def write_files(found: Calibration) -> None:
    as_of = max(row["source_date"] for row in read_rows("measurements_inference.csv"))
    write_rows(DATA / "factors.csv", factor_rows(found.factors, as_of[:10]))
    write_rows(DATA / "spreads.csv", spread_rows(found.spreads, as_of[:10]))
    write_rows(DATA / "predictions.csv", prediction_rows(found.compared))
    (DATA / "accuracy.json").write_text(json.dumps(accuracy_notes(found), indent=1) + "\n")
