"""Families of errors that a request can end with, and the description of an error in one log line."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from traceback import extract_tb
from typing import Any, Self


class AppError(Exception):
    """A request that cannot be answered. `detail` is a sentence for people, `facts` are fields for programs."""

    code = "error"

    def __init__(self, detail: str, **facts: Any) -> None:
        super().__init__(detail)
        self.detail = detail
        self.facts = facts

    @classmethod
    def at(cls, pointer: str, detail: str) -> Self:
        """The error of one field, with its JSON pointer."""
        return cls(detail, errors=[{"pointer": pointer, "detail": detail}])


@contextmanager
def moved_pointers(place: str, below: str) -> Iterator[None]:
    """Errors raised inside point below another place, where the caller wrote the part that is read."""
    try:
        yield
    except AppError as error:
        for each in error.facts.get("errors", ()):
            each["pointer"] = each["pointer"].replace(place, below, 1)
        raise


class NotFound(AppError):
    """The request names something that does not exist."""

    code = "not-found"


class Unanswerable(AppError):
    """The request is well formed, but no estimate can be computed from it."""

    code = "unanswerable"


class Conflict(AppError):
    """The request contradicts itself or the catalog."""

    code = "conflict"


class MissingIfMatch(AppError):
    """A change request without `If-Match`: it does not say which version it changes."""

    code = "if-match-required"


class ChangedMeanwhile(AppError):
    """A change request for a version that is no longer current."""

    code = "changed-meanwhile"


class ReusedIdempotencyKey(Conflict):
    """An Idempotency-Key that was sent before with another request."""

    code = "idempotency-key-reused"


class UnknownRecord(NotFound):
    """A private record that the tenant does not have."""

    code = "unknown-record"


class NotAllowed(AppError):
    """A change that the current status does not allow."""

    code = "not-allowed"


class Unauthenticated(AppError):
    """The request needs a key, or its key does not count."""

    code = "key-required"


class InvalidKey(Unauthenticated):
    """A key or token that is unknown, revoked, expired or wrong."""

    code = "invalid-key"


class MissingScope(AppError):
    """A key without the scope that the call needs."""

    code = "missing-scope"


class Unavailable(AppError):
    """A dependency of the service does not answer at present."""

    code = "unavailable"

    def __init__(self, detail: str, *, retry_after_s: int = 5, **facts: Any) -> None:
        super().__init__(detail, **facts)
        self.retry_after_s = retry_after_s


class Overloaded(Unavailable):
    """The service receives more requests than it can compute."""

    code = "overloaded"


class TooManyAtOnce(Unavailable):
    """One caller holds most places of a full queue."""

    code = "too-many-at-once"


class RateLimited(Unavailable):
    """A key that has used up its cost units."""

    code = "rate-limited"


class FilingLimited(Unavailable):
    """A caller that has filed as many bytes of answers as it may."""

    code = "filing-limited"


class UnknownModel(NotFound):
    code = "unknown-model"


class HostedModel(NotFound):
    """A model that is available only as a hosted service, because its weights are not published."""

    code = "hosted-model"


class UnknownAccelerator(NotFound):
    code = "unknown-accelerator"


class UnknownSystem(NotFound):
    code = "unknown-system"


class UnknownRecommendation(NotFound):
    code = "unknown-recommendation"


class UnreadableConfiguration(Unanswerable):
    """A model configuration whose architecture cannot be read."""

    code = "unreadable-configuration"


class UnknownName(Unanswerable):
    """A provider, vendor, region or engine that the catalog does not list."""

    code = "unknown-name"


class AmbiguousName(Conflict):
    code = "ambiguous-name"


class AmbiguousModel(Conflict):
    code = "ambiguous-model"


ROOT = Path(__file__).parents[1]
MAX_MESSAGE_CHARS = 300
MAX_FRAMES = 3  # innermost frames of this project that are logged

# A field name that marks a secret, and its value.
_NAMED_SECRET = re.compile(
    r"(?i)((?:password|passwd|pwd|secret|token|credential|api_?key|authorization)[\"']?\s*[:=]\s*)"
    r"(?:(?:bearer|basic)\s+)?(?:\"[^\"]*\"|'[^']*'|[^\s,;&)]+)"
)
_URL_CREDENTIALS = re.compile(r"(://)\S*@")
_BARE_SECRET = re.compile(r"whsec_[\w+/=-]+|hr_[0-9A-Za-z]{8}_[0-9A-Za-z_]+|(?i:\b(?:bearer|basic)\s+)[\w.+/=~-]{8,}")


def redact_secrets(text: str) -> str:
    """Replaces credentials in URLs and the values of fields with secret names by `***`.

    Check:
        >>> redact_secrets("postgresql://headroom:p@ss@db/x password='p w' whsec_AAAA")
        'postgresql://***@db/x password=*** ***'
    """
    return _BARE_SECRET.sub("***", _NAMED_SECRET.sub(r"\1***", _URL_CREDENTIALS.sub(r"\1***@", text)))


def describe_error(error: BaseException) -> dict[str, str]:
    """Returns the log fields of an error; of a database error the driver's message, never statement or parameters."""
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
