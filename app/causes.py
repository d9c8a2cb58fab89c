"""Describes an error for one log line: type, first line of the message and source location, with secrets redacted."""

from __future__ import annotations

import re
from pathlib import Path
from traceback import extract_tb

ROOT = Path(__file__).parents[1]
MAX_MESSAGE_CHARS = 300
MAX_FRAMES = 3  # innermost frames of this project that are logged

# A field name that marks a secret, and its value.
_NAMED_SECRET = re.compile(
    r"(?i)((?:password|passwd|pwd|secret|token|credential|api_?key|authorization)[\"']?\s*[:=]\s*)"
    r"(?:(?:bearer|basic)\s+)?(?:\"[^\"]*\"|'[^']*'|[^\s,;&)]+)"
)
_URL_CREDENTIALS = re.compile(r"(://)\S*@")
_BARE_SECRET = re.compile(r"whsec_[\w+/=-]+|(?i:\b(?:bearer|basic)\s+)[\w.+/=~-]{8,}")


def redact_secrets(text: str) -> str:
    """Replaces credentials in URLs and the values of fields with secret names by `***`.

    Check:
        >>> redact_secrets("postgresql://headroom:p@ss@db/x password='p w' whsec_AAAA")
        "postgresql://***@db/x password=*** ***"
    """
    return _BARE_SECRET.sub("***", _NAMED_SECRET.sub(r"\1***", _URL_CREDENTIALS.sub(r"\1***@", text)))


def describe_error(error: BaseException) -> dict[str, str]:
    """Returns the log fields of an error. For a database error, the driver's message; never the statement or its
    parameters.
    """
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    own = getattr(error, "orig", None) or error
    fields = {"error": type(own).__name__, "message": _first_line(own)}
    if places := _source_locations(error):
        fields["at"] = " < ".join(places)
    below = error.__cause__
    if below is not None and below is not own:
        fields["because"] = f"{type(below).__name__}: {_first_line(below)}"
    return fields


def _first_line(error: BaseException) -> str:
    """Returns the first non-empty line of the message, redacted, truncated and without control characters."""
    first = next((line.strip() for line in str(error).splitlines() if line.strip()), "")
    return redact_secrets("".join(c if c.isprintable() else " " for c in first))[:MAX_MESSAGE_CHARS]


def _source_locations(error: BaseException) -> list[str]:
    """Returns where the error was raised, then the innermost frames of this project that led there."""
    frames = extract_tb(error.__traceback__)
    own = [f for f in frames if Path(f.filename).is_relative_to(ROOT / "app")][-MAX_FRAMES:]
    shown = [f"{Path(f.filename).relative_to(ROOT)}:{f.lineno}" for f in reversed(own)]
    if frames and (not own or frames[-1] is not own[-1]):
        last = frames[-1]
        shown.insert(0, f"{'/'.join(Path(last.filename).parts[-2:])}:{last.lineno}")
    return shown
