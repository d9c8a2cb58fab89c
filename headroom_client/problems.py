"""Errors of the client: a problem document of the service (RFC 9457), or no connection."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

MAX_ERRORS = 3  # maximum number of further errors in a message


class HeadroomError(Exception):
    """The service rejected a request. The message names the accepted values.

    `status` is the HTTP status, `problem` the whole problem document, `errors` its JSON pointers into the request,
    `others` the errors that the detail does not mention, and `request_id` the id in the service's log.
    """

    def __init__(self, status: int, problem: Mapping[str, Any], request_id: str | None = None) -> None:
        self.status, self.problem, self.request_id = status, problem, request_id
        self.detail = str(problem.get("detail") or problem.get("title") or f"HTTP {status}")
        self.errors: list[Mapping[str, str]] = list(problem.get("errors") or ())
        self.others = [each for each in self.errors if str(each.get("detail", "")).rstrip(".") not in self.detail]
        places = [f"{each.get('pointer')}: {each.get('detail')}" for each in self.others[:MAX_ERRORS]]
        super().__init__(" ".join([self.detail, *places]))

    @property
    def kind(self) -> str:
        """Last part of the problem's `type` URI."""
        return str(self.problem.get("type", "")).rsplit("/", 1)[-1]


class NotReached(Exception):
    """No answer arrived after all retries."""
