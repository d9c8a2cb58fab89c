"""Families of errors that a request can end with. The API layer maps their codes to HTTP statuses."""

from __future__ import annotations

from typing import Any


class AppError(Exception):
    """A request that cannot be answered. `detail` is a sentence for people, `facts` are fields for programs."""

    code = "error"

    def __init__(self, detail: str, **facts: Any) -> None:
        super().__init__(detail)
        self.detail = detail
        self.facts = facts


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


class NotAllowed(AppError):
    """A change that the current status does not allow."""

    code = "not-allowed"


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
    """One address holds most places of a full queue."""

    code = "too-many-at-once"


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
