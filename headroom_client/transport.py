"""Sends HTTP requests and retries them when the service is busy or unreachable.

Every call is safe to retry: the service answers and stores the same request once, and a status change carries the
ETag of the status that it changes.
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


def wait_s(attempt: int, retry_after: str | None) -> float:
    """Seconds before the next attempt: the `Retry-After` value, or a delay that doubles with each attempt, reduced by
    up to half at random.
    """
    if retry_after and retry_after.isdigit():
        return min(float(retry_after), LONGEST_WAIT_S)
    longest: float = min(FIRST_WAIT_S * 2.0**attempt, LONGEST_WAIT_S)
    return longest * random.uniform(0.5, 1.0)


class Transport:
    """Sends requests through an HTTP client and raises problem responses as errors."""

    def __init__(self, http: httpx2.Client, *, retries: int, sleep: Callable[[float], None] = time.sleep) -> None:
        self.http, self._retries, self._sleep = http, retries, sleep

    def send_request(
        self,
        method: str,
        path: str,
        *,
        body: Mapping[str, Any] | None = None,
        query: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        content: bytes | None = None,
    ) -> httpx2.Response:
        """Send a request and return the successful response.

        Raises HeadroomError if the service rejected it, NotReached if no answer arrived.
        """
        parameters = {k: v for k, v in (query or {}).items() if v is not None}
        for attempt in range(self._retries + 1):
            last = attempt == self._retries
            try:
                response = self.http.request(
                    method, path, json=body, content=content, params=parameters, headers=dict(headers or {})
                )
            except httpx2.TransportError as error:
                if last:
                    raise NotReached(f"{self.http.base_url} does not answer: {error}") from error
                self._sleep(wait_s(attempt, None))
                continue
            if response.status_code not in BUSY or last:
                break
            self._sleep(wait_s(attempt, response.headers.get("Retry-After")))
        if response.is_success:
            return response
        raise HeadroomError(response.status_code, problem_document(response), response.headers.get("X-Request-ID"))


def problem_document(response: httpx2.Response) -> dict[str, Any]:
    """Problem document of a response; a response that is not JSON becomes one with its text as detail."""
    try:
        problem = response.json()
    except ValueError:
        problem = None
    return problem if isinstance(problem, dict) else {"title": f"HTTP {response.status_code}", "detail": response.text}
