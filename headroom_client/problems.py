"""What goes wrong: a problem that the service tells (RFC 9457), or no service."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

TOLD = 3  # places of a request that a message names


class HeadroomError(Exception):
    """The service refused a request, and says what would be accepted.

    `status` is that of HTTP, `problem` the whole problem document, `errors` its pointers into the request, `others`
    those of them that the detail does not carry, `request_id` what the service logged it under.
    """

    def __init__(self, status: int, problem: Mapping[str, Any], request_id: str | None = None) -> None:
        self.status, self.problem, self.request_id = status, problem, request_id
        self.detail = str(problem.get("detail") or problem.get("title") or f"HTTP {status}")
        self.errors: list[Mapping[str, str]] = list(problem.get("errors") or ())
        self.others = [each for each in self.errors if str(each.get("detail", "")).rstrip(".") not in self.detail]
        places = [f"{each.get('pointer')}: {each.get('detail')}" for each in self.others[:TOLD]]
        super().__init__(" ".join([self.detail, *places]))

    @property
    def kind(self) -> str:
        """The last part of the problem's `type`."""
        return str(self.problem.get("type", "")).rsplit("/", 1)[-1]


class NotReached(Exception):
    """No answer came, however often it was asked."""
