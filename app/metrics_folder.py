"""The folder in which several worker processes count together.

The Prometheus client decides where it counts when it is imported, so a service shares the folder before that.
"""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory, gettempdir

import structlog

from app.errors import describe_error

PREFIX = "headroom-metrics-"
FOLDER = "PROMETHEUS_MULTIPROC_DIR"  # read by prometheus_client when it is imported

log = structlog.get_logger("headroom")


@contextmanager
def share_metrics() -> Iterator[None]:
    """Lets workers started inside share a temporary folder for metrics; without one each counts for itself."""
    with ExitStack() as ending:
        try:
            _delete_stale_folders()
            folder = ending.enter_context(TemporaryDirectory(prefix=PREFIX))
            ending.enter_context(_lock_folder(folder))
        except OSError as error:
            _log_not_shared(error)
        else:
            os.environ[FOLDER] = folder
            ending.callback(os.environ.pop, FOLDER, None)
        yield


def _log_not_shared(error: OSError) -> None:
    log.warning("metrics_not_shared", **describe_error(error))


@contextmanager
def _lock_folder(folder: str | Path) -> Iterator[None]:
    """Locks a folder. Raises BlockingIOError if another service uses it."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(descriptor)


def _delete_stale_folders() -> None:
    """Deletes the folders that killed services left behind."""
    for folder in Path(gettempdir()).glob(f"{PREFIX}*"):
        with suppress(OSError), _lock_folder(folder):
            shutil.rmtree(folder)
