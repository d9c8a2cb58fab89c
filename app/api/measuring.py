"""Turns uploaded files into measurements that are compared with predictions, and keeps a catalog that follows them."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from datetime import UTC, date, datetime
from typing import Any

import orjson
import structlog
from fastapi.responses import Response
from pydantic import ValidationError
from sqlalchemy.orm import Session, sessionmaker

from app.api.answering import json_bytes
from app.api.questions import build_estimate_question
from app.api.schemas.measurements import MeasurementQuery, measurement_json
from app.api.schemas.requests import EstimateRequest
from app.api.writes import Write, perform_write
from app.catalog.measuring import (
    StoredMeasurement,
    delete_measurement,
    list_measurements,
    list_outdated_tenants,
    list_revision,
    measurement_id,
    store_measurement,
    update_prediction,
)
from app.catalog.names import formats_in_name
from app.catalog.snapshot import CatalogIndex, CatalogStore
from app.compiled import engine_version
from app.db import EVERY_TENANT, DatabaseError, acting_for
from app.errors import AppError, Unanswerable, describe_error
from app.observed.benchmarks import read_measured_runs
from app.observed.measured_run import MeasuredRun, UnusableRun, check_run, fill_run
from app.sizing.estimate import predict_figures
from app.sizing.measured import MeasuredStacks, OwnMeasurement
from app.sizing.snapshot import Catalog, last_day_of
from app.sizing.words import join_words

log = structlog.get_logger("headroom")

# What a comparison needs, with the reason to give it.
SERVING_NEEDS = {
    "model": "the model that was served",
    "accelerator": "the accelerator type",
    "accelerators": "the number of accelerators of the replica",
    "engine": "the serving engine",
    "engine_version": "its version",
    "weight_format": "the format of the weights",
    "input_tokens": "the mean length of the prompts",
    "output_tokens": "the mean length of the outputs",
}
TRAINING_NEEDS = {
    "model": "the model that was trained",
    "accelerator": "the accelerator type",
    "accelerators": "the number of accelerators of the run",
    "engine": "the training framework",
    "engine_version": "its version",
    "method": "full, lora or qlora",
    "sequence_length": "tokens per sequence",
    "global_batch_sequences": "sequences per optimizer step",
}
DEGREES = ("tensor_parallel", "pipeline_parallel", "data_parallel")


class IncompleteMeasurement(Unanswerable):
    """A file that does not state everything that a comparison needs."""

    code = "incomplete-measurement"


def read_upload(raw: bytes, query: MeasurementQuery, catalog_index: CatalogIndex, today: date) -> list[MeasuredRun]:
    """Returns the usable runs of a file, completed by the parameters. Raises UnreadableText, UnusableRun and
    IncompleteMeasurement.
    """
    stated = query.stated_fields()
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise UnusableRun("The file is not UTF-8 text. Send the file as the tool wrote it.") from None
    runs = []
    for run in read_measured_runs(text, stated):
        check_accelerator(run, query.accelerator, catalog_index)
        runs.append(complete_run(run, stated, today))
    return runs


def check_accelerator(run: MeasuredRun, stated: str | None, catalog_index: CatalogIndex) -> None:
    """Raises UnusableRun if the file states another accelerator than the parameter."""
    if stated is None or run.accelerator is None:
        return
    own = set(catalog_index.resolve_name(run.accelerator).accelerators)
    if own and not own & set(catalog_index.resolve_name(stated).accelerators):
        raise UnusableRun(
            f"The file states the accelerator {run.accelerator!r}, but the parameter is {stated!r}. Omit it, or "
            "upload the file of that run.",
            parameters=["accelerator"],
        )


def complete_run(run: MeasuredRun, stated: Mapping[str, Any], today: date) -> MeasuredRun:
    """Returns the run with the parameters and with what follows from both. Raises UnusableRun, and for a usable run
    IncompleteMeasurement.
    """
    run = fill_run(run, stated)
    check_run(run)
    degrees = [getattr(run, name) for name in DEGREES]
    product = 1.0
    for degree in degrees:
        product *= degree or 1.0
    if run.accelerators is None and any(degree is not None for degree in degrees):
        run = replace(run, accelerators=product)
    if run.accelerators == 1 and run.tensor_parallel is None:
        run = replace(run, tensor_parallel=1.0)
    formats = () if run.model is None else formats_in_name(run.model)
    if run.weight_format is None and formats and not run.trains:
        run = replace(run, weight_format=formats[0])
    run = replace(run, day=run.day or today.isoformat())
    missing = dict(missing_parameters(run))
    if missing:
        listed = join_words([f"{name} ({reason})" for name, reason in missing.items()])
        raise IncompleteMeasurement(
            f"The file of {run.format} does not state {listed}. Send the rest as query parameters.",
            missing=list(missing),
            errors=[{"pointer": f"query/{name}", "detail": f"Missing: {reason}."} for name, reason in missing.items()],
        )
    return run


def missing_parameters(run: MeasuredRun) -> Iterator[tuple[str, str]]:
    """Yields each parameter that is still needed, with its meaning."""
    for name, reason in (TRAINING_NEEDS if run.trains else SERVING_NEEDS).items():
        if getattr(run, name) is None:
            yield name, reason
    if run.trains:
        return
    if run.tensor_parallel is None and (run.accelerators or 1) > 1 and run.pipeline_parallel is None:
        yield "tensor_parallel", "how the accelerators split the model"
    if run.concurrency is None and run.asked_per_s is None and run.batch is None and not run.offline:
        yield "concurrent_requests", "the concurrency, or requests_per_s for an open loop, or offline=true"


def estimate_body(run: MeasuredRun) -> dict[str, Any]:
    """Returns the body of the estimate that predicts a run."""
    deployment = {
        "accelerator": run.accelerator,
        "total_accelerators": int(run.accelerators or 1),
        **{name: int(value) for name in DEGREES if (value := getattr(run, name)) is not None},
    }
    if run.trains:
        tuned = {} if run.method == "full" else {"method": run.method}
        workload: dict[str, Any] = {
            "phase": "fine_tuning" if tuned else "training",
            "model": run.model,
            **tuned,
            "training_tokens": max(1e6, 100 * (run.global_batch_sequences or 1) * (run.sequence_length or 1)),
            "sequence_length": int(run.sequence_length or 1),
            "global_batch_sequences": int(run.global_batch_sequences or 1),
        }
        return {"workload": workload, "deployment": {**deployment, **named_version(run, "framework")}}
    traffic = {name: {"mean": v, "p95": v} for name in ("input_tokens", "output_tokens") if (v := getattr(run, name))}
    workload = {"phase": "inference", "model": run.model, "traffic": {**traffic, **load_of(run)}}
    served = {"replicas": 1, "weight_format": run.weight_format, **named_version(run, "engine")}
    return {"workload": workload, "deployment": {**deployment, **served}}


def named_version(run: MeasuredRun, kind: str) -> dict[str, Any]:
    """Returns the engine or framework of a run; its version where the service knows versions by number."""
    version = run.engine_version or ""
    stated = {f"{kind}_version": version} if version[:1].isdigit() else {}
    return {kind: run.engine, **stated}


def load_of(run: MeasuredRun) -> dict[str, Any]:
    """Returns the load of a run as traffic. A closed loop is the finite run that was measured."""
    whole = None if run.completed is None else max(1, round(run.completed + (run.failed or 0.0)))
    if run.concurrency is not None:
        concurrent = max(1, round(run.concurrency))
        finite = {} if whole is None or whole < concurrent else {"requests": whole}
        return {"concurrent_requests": concurrent, **finite}
    if run.asked_per_s is not None:
        return {"peak_requests_per_s": run.asked_per_s}
    if run.batch is not None:
        return {"batch": int(run.batch)}
    if whole is not None and run.format != "mlperf":
        return {"concurrent_requests": whole, "requests": whole}
    return {"offline": True}


def measured_values(run: MeasuredRun) -> dict[str, float]:
    """Returns the measured quantities by name. The throughput of an open loop is its load, so it says nothing."""
    step_tokens = (run.global_batch_sequences or 0.0) * (run.sequence_length or 0.0)
    rate = step_tokens / run.step_time_s if run.step_time_s else run.tokens_per_s
    values = {
        "output_tokens_per_s": None if run.asked_per_s is not None else run.output_tokens_per_s,
        "ttft_s": run.ttft_s,
        "tpot_s": run.tpot_s if (run.output_tokens or 0) > 1 else None,
        "tokens_per_s": rate if run.trains else None,
    }
    return {name: value for name, value in values.items() if value is not None}


def compare_run(run: MeasuredRun, catalog_index: CatalogIndex, catalog_store: CatalogStore) -> OwnMeasurement:
    """Returns a run with its prediction by the catalog without measurements.

    Raises every error of the estimate, and UnusableRun if no figure of the run can be compared.
    """
    catalog = catalog_index.catalog
    try:
        request = EstimateRequest.model_validate_json(orjson.dumps(estimate_body(run)), strict=True)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(str(part) for part in first["loc"])
        raise UnusableRun(f"The run cannot be predicted: {place}: {first['msg']}.") from None
    question, deployment = build_estimate_question(
        request, catalog_index, catalog_store, date.fromisoformat(last_day_of(catalog.prices_as_of))
    )
    values = measured_values(run)
    setting, figures = predict_figures(question, deployment, catalog, values, run.latency_statistic)
    if not figures:
        raise UnusableRun(
            "The run has no figure that a prediction can be compared with. Needed are output tokens/s of a closed "
            "loop, TTFT or TPOT, or the step time of a training."
        )
    return OwnMeasurement(
        identity=measurement_id(run.digest),
        day=run.day or "",
        model=question.workload.model.name,
        setting=setting,
        engine_version=run.engine_version or "",
        figures=figures,
    )


def stored_run(run: MeasuredRun) -> dict[str, Any]:
    """Returns the stored form of a run: what it states."""
    return {name: value for name, value in asdict(run).items() if value not in (None, "")}


def comparison_stamp(catalog: Catalog) -> str:
    """Returns what predictions of measurements depend on: the catalog's version and the engine's."""
    return f"{catalog.version} {engine_version()}"


class MeasuredCatalogs:
    """Keeps the newest catalog with the measurements of a tenant; without any, the catalog itself.

    The database is checked at most every `check_s` seconds, and at once after a change in this process. `headroom
    prepare` compares the measurements again with a new catalog or engine, and so does the check for a newer catalog
    before it uses that catalog. The first question compares those that are left.
    """

    def __init__(self, sessions: sessionmaker[Session], catalog_store: CatalogStore, *, check_s: float) -> None:
        self._sessions, self._catalog_store, self._check_s = sessions, catalog_store, check_s
        self._lock = threading.Lock()
        self._checked_at: dict[str, float] = {}
        self._known: dict[str, tuple[CatalogIndex, tuple[str, ...], CatalogIndex]] = {}

    def forget(self, tenant: str) -> None:
        """Makes the next question read the measurements of a tenant again."""
        self._checked_at.pop(tenant, None)

    def apply(self, catalog_index: CatalogIndex, tenant: str) -> CatalogIndex:
        """Returns the catalog with a tenant's measurements; the last known ones if the database does not answer."""
        known = self._known.get(tenant)
        fresh = time.monotonic() - self._checked_at.get(tenant, -self._check_s - 1.0) < self._check_s
        if known is not None and known[0] is catalog_index and fresh:
            return known[2]
        first = known is None or known[0] is not catalog_index
        if not self._lock.acquire(blocking=first) and known is not None:
            return known[2]  # another request checks the database
        try:
            return self._refresh(catalog_index, tenant)
        finally:
            self._lock.release()

    def _refresh(self, catalog_index: CatalogIndex, tenant: str) -> CatalogIndex:
        known = self._known.get(tenant)
        try:
            with self._sessions() as session:
                revision = list_revision(session, tenant)
            if known is None or known[0] is not catalog_index or known[1] != revision:
                current = read_current(self._sessions, catalog_index, self._catalog_store, tenant) if revision else ()
                catalog = catalog_index.catalog.with_measurements(MeasuredStacks(current)) if current else None
                known = catalog_index, revision, catalog_index.with_catalog(catalog) if catalog else catalog_index
        except DatabaseError as error:
            log.warning("measurements_not_checked", **describe_error(error))
            known = (catalog_index, (), catalog_index) if known is None else known
        self._known[tenant] = known
        self._checked_at[tenant] = time.monotonic()
        return known[2]


def read_current(
    sessions: sessionmaker[Session], catalog_index: CatalogIndex, catalog_store: CatalogStore, tenant: str
) -> list[OwnMeasurement]:
    """Returns the measurements of a tenant with predictions of this catalog and engine, and stores those that are new;
    without those that cannot be predicted any more. No transaction is open while it predicts.
    """
    stamp = comparison_stamp(catalog_index.catalog)
    with sessions() as session:
        stored = list_measurements(session, tenant)
    current, again = list[OwnMeasurement](), list[OwnMeasurement]()
    for each in stored:
        if each.predicted_by == stamp:
            current.append(each.measurement)
            continue
        try:
            again.append(compare_run(MeasuredRun(**each.run), catalog_index, catalog_store))
        except AppError as error:
            log.warning("measurement_not_compared", id=each.measurement.identity, reason=error.detail)
    if again:
        with sessions() as session, session.begin():
            for measurement in again:
                update_prediction(session, tenant, measurement, stamp)
    return [*current, *again]


def compare_again(sessions: sessionmaker[Session], catalog_index: CatalogIndex, catalog_store: CatalogStore) -> None:
    """Compares the measurements of every tenant with a catalog before it answers questions. Raises DatabaseError."""
    with acting_for(EVERY_TENANT), sessions() as session:
        tenants = list_outdated_tenants(session, comparison_stamp(catalog_index.catalog))
    for tenant in tenants:
        with acting_for(tenant):
            read_current(sessions, catalog_index, catalog_store, tenant)


def upload_notes(measurements: Sequence[OwnMeasurement], measured: MeasuredStacks) -> Iterator[str]:
    """Yields a note for each figure that is cut, and for each pair of measurements that disagree."""
    own = {m.identity for m in measurements}
    for m in measurements:
        for f in m.figures:
            if f.is_cut:
                yield (
                    f"{m.identity}: {f.metric} differs from its prediction by more than four standard deviations. It "
                    "counts only up to there. Check the parameters."
                )
    for d in measured.disagreements:
        if own & {d.first.identity, d.second.identity}:
            yield (
                f"{d.first.identity} and {d.second.identity} measure one setting and differ by a factor of "
                f"{d.ratio:.2f} in {d.metric}. Both count, with a wider interval."
            )


def compute_upload(
    raw: bytes,
    query: MeasurementQuery,
    sessions: sessionmaker[Session],
    catalog_store: CatalogStore,
    write: Write,
    today: date,
) -> Response:
    """Reads, compares and stores the runs of a file."""
    index = catalog_store.published()
    runs = read_upload(raw, query, index, today)
    compared = [compare_run(run, index, catalog_store) for run in runs]
    stamp = comparison_stamp(index.catalog)

    def store(session: Session) -> Response:
        new, stored = False, list[StoredMeasurement]()
        for run, measurement in zip(runs, compared, strict=True):
            if query.dry_run:
                stored.append(StoredMeasurement(datetime.now(UTC), stored_run(run), measurement, stamp))
                continue
            found, is_new = store_measurement(session, write.caller, stored_run(run), measurement, stamp)
            stored.append(found)
            new |= is_new
        known = list_measurements(session, write.caller.tenant)
        notes = list(upload_notes(compared, with_known(compared, known)))
        shown = [measurement_json(each, dry_run=query.dry_run) for each in stored]
        document = {"stored": new, "measurements": shown, "notes": notes}
        return Response(json_bytes(document), status_code=201 if new else 200, media_type="application/json")

    return perform_write(sessions, write, store)


def with_known(compared: Sequence[OwnMeasurement], known: Sequence[StoredMeasurement]) -> MeasuredStacks:
    """Returns new and stored measurements together, each once."""
    every = {each.measurement.identity: each.measurement for each in known}
    return MeasuredStacks({**every, **{m.identity: m for m in compared}}.values())


def remove_measurement(sessions: sessionmaker[Session], write: Write, identity: str) -> Response:
    """Deletes a measurement in a transaction of its own."""

    def delete(session: Session) -> Response:
        delete_measurement(session, write.caller, identity)
        return Response(status_code=204)

    return perform_write(sessions, write, delete)
