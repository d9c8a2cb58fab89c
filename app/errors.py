"""What can go wrong, in families; which status each becomes is the wire's business."""

from __future__ import annotations

from typing import Any


class AppError(Exception):
    """A request that cannot be answered; `facts` go to programs, the sentence to people."""

    code = "error"

    def __init__(self, detail: str, **facts: Any) -> None:
        super().__init__(detail)
        self.detail = detail
        self.facts = facts


class NotFound(AppError):
    """Something was named that does not exist."""

    code = "not-found"


class Unanswerable(AppError):
    """The request is well formed, but it cannot be reasoned about."""

    code = "unanswerable"


class Conflict(AppError):
    """The request contradicts itself or the catalogue."""

    code = "conflict"


class Unguarded(AppError):
    """A change that does not say which state it is made to."""

    code = "if-match-required"


class Stale(AppError):
    """A change to a state that is no longer."""

    code = "changed-meanwhile"


class NotAllowed(AppError):
    """A change that the state as it is does not allow."""

    code = "not-allowed"


class Unavailable(AppError):
    """Something this service leans on does not answer now."""

    code = "unavailable"

    def __init__(self, detail: str, *, retry_after_s: int = 5, **facts: Any) -> None:
        super().__init__(detail, **facts)
        self.retry_after_s = retry_after_s


class Overloaded(Unavailable):
    """More is asked than can be computed."""

    code = "overloaded"


class TooManyAtOnce(Unavailable):
    """One address has most of the places of a full line."""

    code = "too-many-at-once"


class UnknownModel(NotFound):
    code = "unknown-model"


class HostedModel(NotFound):
    """A model that is sold as a service only: nobody else can run it."""

    code = "hosted-model"


class UnknownAccelerator(NotFound):
    code = "unknown-accelerator"


class UnknownSystem(NotFound):
    code = "unknown-system"


class UnknownRecommendation(NotFound):
    code = "unknown-recommendation"


class UnreadableConfiguration(Unanswerable):
    """A pasted model configuration whose architecture cannot be counted."""

    code = "unreadable-configuration"


class UnknownName(Unanswerable):
    """A name that is on no list: of providers, makers, regions, engines."""

    code = "unknown-name"


class AmbiguousName(Conflict):
    code = "ambiguous-name"


class AmbiguousModel(Conflict):
    code = "ambiguous-model"
