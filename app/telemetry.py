"""What the process counts of itself, for whoever scrapes it: how often, how long, how much. Knows nothing of HTTP.

Labels take few values: templates of routes, never paths; reasons from closed lists. With several workers each counts
into files of a folder that they share, and a scrape of any of them adds up all.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory, gettempdir
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

from app.causes import cause

PREFIX = "headroom-metrics-"
FOLDER = "PROMETHEUS_MULTIPROC_DIR"  # read by prometheus_client when it is imported

Shed = Literal["overloaded", "too-many-at-once", "out-of-time", "client-gone", "connections"]
Line = Literal["short", "long"]
Outcome = Literal["stored", "not-stored", "known", "dropped"]
Loaded = Literal["loaded", "failed"]
DatabaseFailure = Literal["timeout", "pool", "unreachable", "breaker", "other"]
Notice = Literal["delivered", "failed", "dead"]
Fetch = Literal["fetched", "missing", "gated", "unavailable", "refused"]

ANSWER_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 20.0)
STAGE_S = (0.001, 0.005, 0.025, 0.1, 0.5, 2.5, 10.0)

log = structlog.get_logger("headroom")

disable_created_metrics()  # type: ignore[no-untyped-call]  # when each began to count: twice the samples
_counted = CollectorRegistry()


def _count(name: str, said: str, label: str, values: Iterable[str]) -> Counter:
    """A counter with a label from a closed list, each of which counts from nought."""
    counter = Counter(f"headroom_{name}", said, [label], registry=_counted)
    for value in values:
        counter.labels(value)
    return counter


def _level(
    name: str, said: str, over_workers: Literal["livesum", "livemin", "livemax"], labels: Iterable[str] = ()
) -> Gauge:
    return Gauge(f"headroom_{name}", said, tuple(labels), multiprocess_mode=over_workers, registry=_counted)


_requests = Histogram(
    "headroom_request_seconds",
    "Requests and how long they took, by template of the route and class of the status.",
    ["method", "route", "status"],
    buckets=ANSWER_S,
    registry=_counted,
)
_in_flight = _level("requests_in_flight", "Requests that are being answered, those in line among them.", "livesum")
_errors = Counter("headroom_unexpected_errors", "Requests that something broke under.", registry=_counted)

_line = _level("line_length", "Questions that wait to be computed.", "livesum", ["line"])
_computing = _level("computing", "Questions that are being computed.", "livesum", ["line"])
_waited = Histogram(
    "headroom_line_seconds", "How long a question waited.", ["line"], buckets=ANSWER_S, registry=_counted
)
for _name in get_args(Line):
    _line.labels(_name)
    _computing.labels(_name)
    _waited.labels(_name)
_shed = _count("shed", "Requests turned away or given up, by reason.", "reason", get_args(Shed))
_joined = Counter("headroom_joined", "Requests answered by work that was under way already.", registry=_counted)
_stages = Histogram(
    "headroom_stage_seconds",
    "Work by route and stage; time inside another stage counts for that one.",
    ["route", "stage"],
    buckets=STAGE_S,
    registry=_counted,
)
_answers = _count("answers", "Recommendations, by what became of keeping them.", "outcome", get_args(Outcome))
_pruned = Counter("headroom_pruned_answers", "Stored answers deleted as too old or too much.", registry=_counted)
_not_pruned = Counter("headroom_prune_failures", "Times that could not be done.", registry=_counted)

_catalogue = _level("catalogue_version", "Number of the oldest catalogue that a worker serves; 0 without.", "livemin")
_published = _level("catalogue_published_timestamp_seconds", "When it was published.", "livemin")
_prices = _level("prices_timestamp_seconds", "Day of its newest price.", "livemin")
_checked = _level("catalogue_checked_timestamp_seconds", "When the database last said which is newest.", "livemin")
_loads = _count("catalogue_loads", "Tries to load a newer catalogue, by result.", "result", get_args(Loaded))

_database = _count("database_failures", "What the database did not do, by kind.", "kind", get_args(DatabaseFailure))
_breaker = _level("database_breaker_open", "1 where a worker asks the database nothing for now.", "livemax")
_notices = _count("notices", "Tries to tell webhooks of an event, by result.", "result", get_args(Notice))
_fetches = _count("hub_fetches", "Configurations asked of the model hub, by result.", "result", get_args(Fetch))
_build = Gauge(
    "headroom_build_info", "1, with the version.", ["version"], multiprocess_mode="livemax", registry=_counted
)
_build.labels(version("headroom")).set(1)


@contextmanager
def in_flight() -> Iterator[None]:
    """A request, as long as it is being answered."""
    _in_flight.inc()
    try:
        yield
    finally:
        _in_flight.dec()


def answered(method: str, route: str, status: int, seconds: float) -> None:
    """A request has been answered; `route` is a template, and `method` one of those that there are."""
    _requests.labels(method, route, f"{status // 100}xx").observe(seconds)


def broke() -> None:
    """Something broke that nobody expected."""
    _errors.inc()


def line(name: Line, *, waiting: int, computing: int) -> None:
    """How many questions wait now, and how many are computed."""
    _line.labels(name).set(waiting)
    _computing.labels(name).set(computing)


def waited(name: Line, seconds: float) -> None:
    """A question left the line to be computed."""
    _waited.labels(name).observe(seconds)


def shed(reason: Shed) -> None:
    """A request was turned away, or given up."""
    _shed.labels(reason).inc()


def joined() -> None:
    """A request waits for work that was under way already."""
    _joined.inc()


def worked(route: str, stages_s: Mapping[str, float]) -> None:
    """What the stages of one question took; `route` is a template."""
    for stage, seconds in stages_s.items():
        _stages.labels(route, stage).observe(seconds)


def kept(outcome: Outcome) -> None:
    """A recommendation was given; what became of keeping it."""
    _answers.labels(outcome).inc()


def pruned(answers: int) -> None:
    """Stored answers were deleted."""
    _pruned.inc(answers)


def prune_failed() -> None:
    """They could not be."""
    _not_pruned.inc()


def catalogue(number: int, *, published: str, prices_as_of: str) -> None:
    """This catalogue is served from now on."""
    _loads.labels("loaded").inc()
    _catalogue.set(number)
    _published.set(_moment(published))
    _prices.set(_moment(prices_as_of))


def catalogue_checked() -> None:
    """The database said which catalogue is the newest."""
    _checked.set(time.time())


def catalogue_failed() -> None:
    """A newer catalogue could not be loaded, or was not asked for in vain."""
    _loads.labels("failed").inc()


def database_failed(kind: DatabaseFailure) -> None:
    """The database did not do what it was asked."""
    _database.labels(kind).inc()


def breaker(*, is_open: bool) -> None:
    """Whether the database is asked nothing for now."""
    _breaker.set(is_open)


def told(result: Notice) -> None:
    """A notice was tried."""
    _notices.labels(result).inc()


def fetched(result: Fetch) -> None:
    """The model hub was asked, or would have been."""
    _fetches.labels(result).inc()


def _moment(said: str) -> float:
    """Seconds since 1970 of a day or a moment; 0 of none."""
    if not said:
        return 0.0
    moment = datetime.fromisoformat(said)
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


class _Workers(Collector):
    """Memory, processor time and files of each worker process, as the client library reads them."""

    def collect(self) -> Iterator[Metric]:
        found: dict[str, Metric] = {}
        for pid in workers():
            with suppress(OSError):  # it ends while it is looked at
                for metric in ProcessCollector(pid=lambda pid=pid: pid, registry=None).collect():  # type: ignore[misc]
                    whole = found.setdefault(metric.name, Metric(metric.name, metric.documentation, metric.type))
                    whole.samples += [s._replace(labels={"pid": str(pid)}) for s in metric.samples]
        yield from found.values()


def workers() -> list[int]:
    """Processes that count, this one among them."""
    folder = os.environ.get(FOLDER)
    pids = {int(file.stem.rpartition("_")[2]) for file in Path(folder).glob("*.db")} if folder else set()
    return sorted({os.getpid(), *filter(_runs, pids)})


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def exposition() -> bytes:
    """All that was counted, as text for Prometheus (format 0.0.4)."""
    registry = CollectorRegistry()
    registry.register(_Workers())
    if folder := os.environ.get(FOLDER):
        _forget_the_dead(folder)
        MultiProcessCollector(registry, folder)  # type: ignore[no-untyped-call]
    else:
        registry.register(_counted)
    return generate_latest(registry)


def _forget_the_dead(folder: str) -> None:
    """Levels of workers that have ended count no more; what they counted does."""
    alive = {str(pid) for pid in workers()}
    for file in Path(folder).glob("gauge_live*.db"):
        pid = file.stem.rpartition("_")[2]
        if pid not in alive:
            with suppress(OSError):  # another worker is at it as well
                mark_process_dead(int(pid), folder)  # type: ignore[no-untyped-call]


@contextmanager
def shared() -> Iterator[None]:
    """Worker processes that are started inside count together, in a folder of their own that goes when they have. Where
    there is no place for one, each counts for itself.
    """
    with ExitStack() as ending:
        try:
            _clear_away()
            folder = ending.enter_context(TemporaryDirectory(prefix=PREFIX))
            ending.enter_context(_held(folder))
        except OSError as error:
            _not_shared(error)
        else:
            os.environ[FOLDER] = folder
            ending.callback(os.environ.pop, FOLDER, None)
        yield


def _not_shared(error: OSError) -> None:
    log.warning("metrics_not_shared", **cause(error))


@contextmanager
def _held(folder: str | Path) -> Iterator[None]:
    """A folder that is in use; raises BlockingIOError where another service uses it."""
    held = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(held)


def _clear_away() -> None:
    """Folders of services that were killed."""
    for left in Path(gettempdir()).glob(f"{PREFIX}*"):
        with suppress(OSError), _held(left):
            shutil.rmtree(left)
