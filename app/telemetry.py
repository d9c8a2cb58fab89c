"""Metrics of the process for Prometheus: counts, durations and levels. Independent of HTTP.

Labels take few values: route templates instead of paths, reasons from closed lists. With several workers, each
process counts into files of a shared folder, and a scrape of any worker returns the sum.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Literal, get_args

import structlog
from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    Metric,
    ProcessCollector,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.multiprocess import MultiProcessCollector, mark_process_dead
from prometheus_client.registry import Collector

from app.metrics_folder import FOLDER

ShedReason = Literal["overloaded", "too-many-at-once", "out-of-time", "client-gone", "connections"]
QueueName = Literal["short", "long"]
StorageOutcome = Literal["stored", "not-stored", "known", "dropped"]
LoadResult = Literal["loaded", "failed"]
DatabaseFailure = Literal["timeout", "pool", "unreachable", "breaker", "other"]
StoredKind = Literal["filed", "unfiled"]
NoticeResult = Literal["delivered", "failed", "dead"]
FetchResult = Literal["fetched", "missing", "gated", "unavailable", "refused"]

ANSWER_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 20.0)
STAGE_S = (0.001, 0.005, 0.025, 0.1, 0.5, 2.5, 10.0)

log = structlog.get_logger("headroom")

disable_created_metrics()  # type: ignore[no-untyped-call]  # `_created` samples would double the output
_registry = CollectorRegistry()


def _labelled_counter(name: str, help_text: str, label: str, values: Iterable[str]) -> Counter:
    """Returns a counter with one label. Every value of the closed list is exported from the start, as 0."""
    counter = Counter(f"headroom_{name}", help_text, [label], registry=_registry)
    for value in values:
        counter.labels(value)
    return counter


def _gauge(
    name: str, help_text: str, multiprocess_mode: Literal["livesum", "livemin", "livemax"], labels: Iterable[str] = ()
) -> Gauge:
    return Gauge(f"headroom_{name}", help_text, tuple(labels), multiprocess_mode=multiprocess_mode, registry=_registry)


_requests = Histogram(
    "headroom_request_seconds",
    "Requests and their duration, by route template and status class.",
    ["method", "route", "status"],
    buckets=ANSWER_S,
    registry=_registry,
)
_in_flight = _gauge("requests_in_flight", "Requests in progress, including queued ones.", "livesum")
_errors = Counter("headroom_unexpected_errors", "Requests that failed with an unexpected error.", registry=_registry)

_queue_length = _gauge("line_length", "Requests that wait for computation.", "livesum", ["line"])
_computing = _gauge("computing", "Requests being computed.", "livesum", ["line"])
_queue_seconds = Histogram(
    "headroom_line_seconds",
    "Seconds that a request waited for computation.",
    ["line"],
    buckets=ANSWER_S,
    registry=_registry,
)
for _name in get_args(QueueName):
    _queue_length.labels(_name)
    _computing.labels(_name)
    _queue_seconds.labels(_name)
_shed = _labelled_counter("shed", "Requests rejected or given up, by reason.", "reason", get_args(ShedReason))
_joined_requests = Counter(
    "headroom_joined", "Requests that joined a computation already in progress.", registry=_registry
)
_stages = Histogram(
    "headroom_stage_seconds",
    "Seconds of work by route and stage; a nested stage counts for itself only.",
    ["route", "stage"],
    buckets=STAGE_S,
    registry=_registry,
)
_answers = _labelled_counter(
    "answers", "Recommendations, by outcome of storing them.", "outcome", get_args(StorageOutcome)
)
_pruned_answers = Counter(
    "headroom_pruned_answers", "Stored answers deleted because of age or total size.", registry=_registry
)
_stored_bytes = _gauge("stored_bytes", "Size of the stored answers, by kind.", "livemax", ["kind"])
_stored_bytes_limit = _gauge("stored_bytes_limit", "Limit of that size; 0 if there is none.", "livemax", ["kind"])
for _kind in get_args(StoredKind):
    _stored_bytes.labels(_kind)
    _stored_bytes_limit.labels(_kind)
_prune_failures = Counter("headroom_prune_failures", "Failed attempts to delete stored answers.", registry=_registry)

_catalog_version = _gauge(
    "catalogue_version", "Number of the oldest catalog that a worker serves; 0 if none.", "livemin"
)
_published = _gauge("catalogue_published_timestamp_seconds", "Time at which that catalog was published.", "livemin")
_prices = _gauge("prices_timestamp_seconds", "Date of its newest price.", "livemin")
_checked = _gauge(
    "catalogue_checked_timestamp_seconds", "Time of the last successful check for a newer catalog.", "livemin"
)
_loads = _labelled_counter(
    "catalogue_loads", "Attempts to load a newer catalog, by result.", "result", get_args(LoadResult)
)

_database = _labelled_counter("database_failures", "Database failures, by kind.", "kind", get_args(DatabaseFailure))
_breaker = _gauge("database_breaker_open", "1 if a worker's circuit breaker for the database is open.", "livemax")
_notices = Counter(
    "headroom_notices",
    "Attempts to deliver webhook notifications, by endpoint and result.",
    ["endpoint", "result"],
    registry=_registry,
)
_fetches = _labelled_counter(
    "hub_fetches", "Configurations requested from the model hub, by result.", "result", get_args(FetchResult)
)
_build = Gauge(
    "headroom_build_info",
    "Always 1; the label holds the version.",
    ["version"],
    multiprocess_mode="livemax",
    registry=_registry,
)
_build.labels(version("headroom")).set(1)


@contextmanager
def in_flight() -> Iterator[None]:
    """Counts a request as in flight until its answer is complete."""
    _in_flight.inc()
    try:
        yield
    finally:
        _in_flight.dec()


def record_request(method: str, route: str, status: int, seconds: float) -> None:
    """Records an answered request. `route` is a route template, `method` a known HTTP method."""
    _requests.labels(method, route, f"{status // 100}xx").observe(seconds)


def record_unexpected_error() -> None:
    _errors.inc()


def set_queue_length(name: QueueName, *, waiting: int, computing: int) -> None:
    """Sets the number of requests that wait and the number that are computed."""
    _queue_length.labels(name).set(waiting)
    _computing.labels(name).set(computing)


def record_queue_wait(name: QueueName, seconds: float) -> None:
    """Records how long a request waited before its computation started."""
    _queue_seconds.labels(name).observe(seconds)


def record_shed(reason: ShedReason) -> None:
    """Records a request that was rejected or given up."""
    _shed.labels(reason).inc()


def record_joined_request() -> None:
    """Records a request that joined a computation already in progress."""
    _joined_requests.inc()


def record_stages(route: str, stages_s: Mapping[str, float]) -> None:
    """Records the seconds of each stage of one request. `route` is a route template."""
    for stage, seconds in stages_s.items():
        _stages.labels(route, stage).observe(seconds)


def record_answer_storage(outcome: StorageOutcome) -> None:
    """Records whether a recommendation was stored."""
    _answers.labels(outcome).inc()


def record_pruned(answers: int) -> None:
    """Records how many stored answers were deleted."""
    _pruned_answers.inc(answers)


def set_stored_bytes(kind: StoredKind, size: int, *, limit: int) -> None:
    """Sets the size of the filed or unfiled answers, and its limit."""
    _stored_bytes.labels(kind).set(size)
    _stored_bytes_limit.labels(kind).set(limit)


def record_prune_failure() -> None:
    """Records a failed attempt to delete stored answers."""
    _prune_failures.inc()


def record_catalog_loaded(number: int, *, published: str, prices_as_of: str) -> None:
    """Records that this catalog version is served from now on."""
    _loads.labels("loaded").inc()
    _catalog_version.set(number)
    _published.set(_to_timestamp(published))
    _prices.set(_to_timestamp(prices_as_of))


def record_catalog_check() -> None:
    """Records that the database was checked for the newest catalog."""
    _checked.set(time.time())


def record_catalog_failure() -> None:
    """Records that a check for a newer catalog, or loading one, failed."""
    _loads.labels("failed").inc()


def record_database_failure(kind: DatabaseFailure) -> None:
    _database.labels(kind).inc()


def set_breaker_state(*, is_open: bool) -> None:
    """Sets whether the circuit breaker of the database is open."""
    _breaker.set(is_open)


def expect_endpoints(names: Iterable[str]) -> None:
    """Exports the counters of these webhooks from the start, as 0."""
    for name in names:
        for result in get_args(NoticeResult):
            _notices.labels(name, result)


def record_notice(endpoint: str, result: NoticeResult) -> None:
    """Records one attempt to deliver a webhook notification. `endpoint` is the name of a webhook in the settings."""
    _notices.labels(endpoint, result).inc()


def record_hub_fetch(result: FetchResult) -> None:
    """Records a request to the model hub, or one that was not sent because the hub is unavailable."""
    _fetches.labels(result).inc()


def _to_timestamp(text: str) -> float:
    """Returns a date or time as seconds since 1970; 0 if it is empty."""
    if not text:
        return 0.0
    moment = datetime.fromisoformat(text)
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


class _WorkerProcesses(Collector):
    """Collects memory, CPU time and open files of each worker process, read by the Prometheus client library."""

    def collect(self) -> Iterator[Metric]:
        metrics: dict[str, Metric] = {}
        for pid in worker_pids():
            with suppress(OSError):  # the process may end while it is read
                for metric in ProcessCollector(pid=lambda pid=pid: pid, registry=None).collect():  # type: ignore[misc]
                    whole = metrics.setdefault(metric.name, Metric(metric.name, metric.documentation, metric.type))
                    whole.samples += [s._replace(labels={"pid": str(pid)}) for s in metric.samples]
        yield from metrics.values()


def worker_pids() -> list[int]:
    """Returns the process ids of all workers that count, including this process."""
    folder = os.environ.get(FOLDER)
    pids = {int(file.stem.rpartition("_")[2]) for file in Path(folder).glob("*.db")} if folder else set()
    return sorted({os.getpid(), *filter(_is_running, pids)})


def _is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def leave_counting_to_workers() -> None:
    """Removes what this process has counted from the shared folder: a parent of workers serves no request."""
    for file in Path(os.environ.get(FOLDER, os.devnull)).glob(f"*_{os.getpid()}.db"):
        file.unlink(missing_ok=True)


def prometheus_text() -> bytes:
    """Returns all metrics in the Prometheus text format 0.0.4."""
    registry = CollectorRegistry()
    registry.register(_WorkerProcesses())
    if folder := os.environ.get(FOLDER):
        _forget_ended_workers(folder)
        MultiProcessCollector(registry, folder)  # type: ignore[no-untyped-call]
    else:
        registry.register(_registry)
    return generate_latest(registry)


def _forget_ended_workers(folder: str) -> None:
    """Removes the gauges of ended workers; their counters stay in the totals."""
    alive = {str(pid) for pid in worker_pids()}
    for file in Path(folder).glob("gauge_live*.db"):
        pid = file.stem.rpartition("_")[2]
        if pid not in alive:
            with suppress(OSError):  # another worker may delete it at the same time
                mark_process_dead(int(pid), folder)  # type: ignore[no-untyped-call]
