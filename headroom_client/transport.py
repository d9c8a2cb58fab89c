"""Requests over HTTP, sent again where the service was busy or not reached.

All calls may be sent again: the same request is answered, and stored, once; a change of status carries the ETag of the
status that it changes.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping
from typing import Any

import httpx2

from headroom_client.problems import HeadroomError, NotReached

BUSY = (429, 502, 503, 504)
FIRST_WAIT_S, LONGEST_WAIT_S = 0.25, 20.0


def wait_s(attempt: int, told: str | None) -> float:
    """Seconds before the next attempt: as long as the service said, else twice as long each time, spread by half."""
    if told and told.isdigit():
        return min(float(told), LONGEST_WAIT_S)
    longest: float = min(FIRST_WAIT_S * 2.0**attempt, LONGEST_WAIT_S)
    return longest * random.uniform(0.5, 1.0)


class Transport:
    """Sends requests through an HTTP client and raises what comes back as problems."""

    def __init__(self, http: httpx2.Client, *, retries: int, sleep: Callable[[float], None] = time.sleep) -> None:
        self.http, self._retries, self._sleep = http, retries, sleep

    def send(
        self,
        method: str,
        path: str,
        *,
        body: Mapping[str, Any] | None = None,
        query: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> httpx2.Response:
        """The response to a request that was accepted.

        Raises HeadroomError for one that was not, NotReached where no answer came.
        """
        given = {k: v for k, v in (query or {}).items() if v is not None}
        for attempt in range(self._retries + 1):
            last = attempt == self._retries
            try:
                found = self.http.request(method, path, json=body, params=given, headers=dict(headers or {}))
            except httpx2.TransportError as trouble:
                if last:
                    raise NotReached(f"{self.http.base_url} does not answer: {trouble}") from trouble
                self._sleep(wait_s(attempt, None))
                continue
            if found.status_code not in BUSY or last:
                break
            self._sleep(wait_s(attempt, found.headers.get("Retry-After")))
        if found.is_success:
            return found
        raise HeadroomError(found.status_code, problem_of(found), found.headers.get("X-Request-ID"))


def problem_of(response: httpx2.Response) -> dict[str, Any]:
    """The problem document of a response; one of its text where it is none."""
    try:
        problem = response.json()
    except ValueError:
        problem = None
    return problem if isinstance(problem, dict) else {"title": f"HTTP {response.status_code}", "detail": response.text}
