"""factors.csv, spreads.csv, predictions.csv and accuracy.json: refits when the behavior of the fit's inputs changes.

The fit's code reaches most of `app/sizing`, so even a renamed variable changes its digest. Before a fit of several
minutes, all cases are read and predicted once at fixed coefficients. If every figure is unchanged, so is the fit.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from app.catalog.files import read_rows
from app.catalog.snapshot import CatalogStore
from app.sizing.snapshot import Catalog
from artefacts.parts import PARTS, Digests, content_digest, read_stamps, sources
from calibration.calibrate import PROBLEMS, calibrate_data_files, seeded_catalog, write_files
from calibration.fit import Fit
from calibration.memory_logs import read_logs
from calibration.serving.cases import ServingCases
from calibration.serving.problem import read_published_cases
from calibration.training.cases import read_training_cases

# Modules that turn predictions into factors and figures; the predictions show changes of all others.
OWN = (
    "calibration.calibrate",
    "calibration.fit",
    "app.sizing.accuracy",
    "calibration.scale_ups",
    "calibration.spreads",
    "app.sizing.evidence",
    "app.sizing.uncertainty",
)
# Most refits: the factors choose the layouts that rows leave open. The last fit stands where rows still alternate
# between two layouts that are about equally fast.
ROUNDS = 3


def case_predictions(catalog: Catalog, store: CatalogStore) -> Iterator[str]:
    """Everything that the fit depends on: every case, and its predictions at two settings of all factors."""
    serving, left_out = read_published_cases(list(read_rows("measurements_inference.csv")), catalog, store.find_model)
    training, training_left_out = read_training_cases(
        list(read_rows("measurements_training.csv")), catalog, store.find_model
    )
    yield f"{sorted(left_out.values())} {sorted(training_left_out.values())}"
    for name, problem in PROBLEMS.items():
        cases = serving if name == "serving" else [c for c in training if c.group == name]
        fit = Fit(problem, cases, catalog.coefficients)
        if problem.add_run_ratios is not None:
            fit = Fit(problem, problem.add_run_ratios(cases, fit.coefficients_at(fit.center)), catalog.coefficients)
        yield f"{name} {problem.caution} {problem.row_spread} {fit.names} {fit.spread.tolist()} {fit.center.tolist()}"
        figures = [fit.log_predicted(fit.coefficients_at(fit.center + shift)) for shift in (0.0, 0.1)]
        for point, *found in zip(fit.points, *(f.tolist() for f in figures), strict=True):
            case = cases[point.case]
            said = (
                case.id,
                case.source,
                case.reference,
                case.model,
                case.stack,
                case.setting,
                case.exclusion_reason is None,
            )
            yield f"{said} {point.metric} {point.measured:.9g} {' '.join(f'{v:.9g}' for v in found)}"
    logs, logs_left_out = read_logs(
        ServingCases(catalog, store.find_model), list(read_rows("measurements_kv_cache.csv"))
    )
    yield from (f"{log.id} {log.measured_bytes:.9g} {log.predicted_bytes:.9g}" for log in logs)
    yield str(sorted(logs_left_out.values()))


def fit_fingerprint() -> str:
    """Digest of `case_predictions` and of the code that solves and counts."""
    with seeded_catalog() as sessions, np.errstate(all="ignore"):
        store = CatalogStore(sessions, check_s=3600)
        found = "\n".join(case_predictions(store.catalog(), store))
    return content_digest(found + sources().digest_of_modules(OWN))


def write() -> dict[str, Digests]:
    """Refits unless the stamped fingerprint and files are current; returns the fingerprint for the stamp."""
    part = next(p for p in PARTS if p.name == "factors")
    said, now = read_stamps().get(part.name, {}), fit_fingerprint()
    if said.get("behaviour") == {"of all cases": now} and said.get("made") == part.outputs():
        return {"behaviour": {"of all cases": now}}
    for _ in range(ROUNDS):
        write_files(calibrate_data_files())
        seen, now = now, fit_fingerprint()
        if seen == now:
            break
    return {"behaviour": {"of all cases": now}}
