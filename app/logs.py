"""Log output of the process: one JSON object per line on standard output."""

from __future__ import annotations

import logging
from contextlib import suppress

import structlog


class LineLogger(structlog.PrintLogger):
    """Writes log lines. A line that cannot be written, as on a full disk, is dropped and fails no request."""

    def msg(self, message: str) -> None:
        with suppress(OSError):
            super().msg(message)

    log = debug = info = warn = warning = msg
    fatal = failure = err = error = critical = exception = msg


def configure_json_logging(level: str) -> None:
    """Configures logging as one JSON object per line, with the context of the request that each line concerns."""
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            structlog.processors.JSONRenderer(),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelNamesMapping()[level.upper()]),
        logger_factory=lambda *_: LineLogger(),
    )
