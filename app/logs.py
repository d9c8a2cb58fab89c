"""How the process logs: one JSON object a line, on standard output."""

from __future__ import annotations

import logging
from contextlib import suppress

import structlog


class Lines(structlog.PrintLogger):
    """Writes lines. One that cannot be written, as where the disk is full, is lost: nobody's answer is broken by it."""

    def msg(self, message: str) -> None:
        with suppress(OSError):
            super().msg(message)

    log = debug = info = warn = warning = msg
    fatal = failure = err = error = critical = exception = msg


def as_json(level: str) -> None:
    """Logs of this process: one object a line, with what is known of the request that it is about."""
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            structlog.processors.JSONRenderer(),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelNamesMapping()[level.upper()]),
        logger_factory=lambda *_: Lines(),
    )
