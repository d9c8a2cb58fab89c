"""Configurations of models the catalogue does not know, from the hub an operator names.

Off unless HEADROOM_MODEL_HUB_URL is set. A fetch is bounded in size, time and redirects, and every
address it connects to is looked up first and refused unless it is public; the connection goes to the
address that was checked, so a name cannot point elsewhere a moment later.
"""

from __future__ import annotations

import ipaddress
import re
import socket
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urljoin, urlsplit

import httpx2
import orjson

from app.errors import NotFound, Unavailable, UnknownModel

MAX_BYTES = 2 * 2**20
DEADLINE_S = 10.0
MAX_REDIRECTS = 3
FETCHES_AT_ONCE = 4
MISSING_KEPT_S = 300.0
MISSING_KEPT = 1024
MODEL_ID = re.compile(r"(?=.{3,120}\Z)[A-Za-z0-9][A-Za-z0-9._-]{0,95}/[A-Za-z0-9][A-Za-z0-9._-]{0,95}")

Resolve = Callable[[str, int], list[str]]


class GatedModel(NotFound):
    """The hub has the model, but gives its files only to those it knows."""

    code = "gated-model"


class MissingModel(UnknownModel):
    """Neither the catalogue nor the hub has the model, or it has no configuration."""


class HubUnavailable(Unavailable):
    """The hub did not give a usable answer within the limits."""

    code = "model-hub-unavailable"


@dataclass(frozen=True, slots=True)
class Fetched:
    """A configuration and where it came from."""

    config: Mapping[str, Any]
    url: str


def addresses_of(host: str, port: int) -> list[str]:
    """Every address a host name stands for."""
    return sorted({str(found[4][0]) for found in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)})


def is_public(address: str) -> bool:
    """Whether an address is of the open internet: not private, loopback, link-local, shared, mapped or reserved."""
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return False
    if isinstance(found, ipaddress.IPv6Address):
        inner = found.ipv4_mapped or found.sixtofour
        if inner is not None:
            return is_public(str(inner))
        if found in ipaddress.ip_network("64:ff9b::/96"):
            return False
    return found.is_global and not found.is_multicast


class ModelHub:
    """A hub that serves `{url}/{id}/resolve/main/config.json`."""

    def __init__(
        self, url: str, *, transport: httpx2.BaseTransport | None = None, resolve: Resolve = addresses_of
    ) -> None:
        self.url = url.rstrip("/")
        self._resolve = resolve
        self._client = httpx2.Client(
            transport=transport,
            timeout=httpx2.Timeout(3.0),
            follow_redirects=False,
            trust_env=False,
            headers={"accept": "application/json", "accept-encoding": "identity", "user-agent": "headroom"},
        )
        self._slots = threading.BoundedSemaphore(FETCHES_AT_ONCE)
        self._missing: dict[str, float] = {}

    def fetch(self, model_id: str) -> Fetched:
        """The `config.json` of a model.

        Raises MissingModel, GatedModel, or HubUnavailable for every other trouble, saying which.
        """
        if not MODEL_ID.fullmatch(model_id) or ".." in model_id:
            raise MissingModel(f"{model_id[:100]!r} is not an id of the form owner/name.")
        if time.monotonic() - self._missing.get(model_id, float("-inf")) < MISSING_KEPT_S:
            raise MissingModel(self._absent(model_id))
        if not self._slots.acquire(timeout=DEADLINE_S):
            raise HubUnavailable("Too many configurations are being fetched at once; try again shortly.")
        try:
            return self._fetch(model_id)
        except MissingModel:
            if len(self._missing) >= MISSING_KEPT:
                self._missing.clear()
            self._missing[model_id] = time.monotonic()
            raise
        except httpx2.HTTPError as error:
            raise HubUnavailable(f"The model hub did not answer ({type(error).__name__}). {_ALTERNATIVE}") from error
        finally:
            self._slots.release()

    def _fetch(self, model_id: str) -> Fetched:
        deadline = time.monotonic() + DEADLINE_S
        url = f"{self.url}/{quote(model_id)}/resolve/main/config.json"
        for _ in range(MAX_REDIRECTS + 1):
            with self._open(url) as response:
                if response.status_code in (301, 302, 303, 307, 308):
                    url = self._redirected(url, response.headers.get("location", ""))
                    continue
                self._refused(response, model_id)
                return Fetched(_configuration(_body(response, deadline)), url)
        raise HubUnavailable(f"The model hub redirected more than {MAX_REDIRECTS} times. {_ALTERNATIVE}")

    def _open(self, url: str) -> Any:
        """A request to the checked address of a URL's host, under the host's own name."""
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.username or parts.password:
            raise HubUnavailable("The model hub led to an address that is not plain http or https.")
        port = parts.port or (443 if parts.scheme == "https" else 80)
        try:
            found = self._resolve(parts.hostname, port)
        except OSError as error:
            raise HubUnavailable(f"The model hub's host name could not be looked up. {_ALTERNATIVE}") from error
        if not found or not all(is_public(a) for a in found):
            raise HubUnavailable(
                f"The model hub led to an address that is not public; it was not contacted. {_ALTERNATIVE}"
            )
        address = f"[{found[0]}]" if ":" in found[0] else found[0]
        target = f"{parts.scheme}://{address}:{port}{parts.path}{'?' + parts.query if parts.query else ''}"
        return self._client.stream(
            "GET", target, headers={"host": parts.netloc}, extensions={"sni_hostname": parts.hostname}
        )

    def _redirected(self, url: str, location: str) -> str:
        following = urljoin(url, location)
        if urlsplit(url).scheme == "https" and urlsplit(following).scheme != "https":
            raise HubUnavailable("The model hub redirected from https to an unencrypted address.")
        return following

    def _refused(self, response: httpx2.Response, model_id: str) -> None:
        """Raises unless the hub answered with the file."""
        reason = response.headers.get("x-error-code", "")
        if (
            reason == "GatedRepo"
            or response.status_code == 403
            or (response.status_code == 401 and reason != "RepoNotFound")
        ):
            raise GatedModel(
                f"The model hub gives {model_id} only to those who accepted its terms. "
                "Paste its config.json as huggingface_config.",
                model=model_id,
            )
        if response.status_code in (401, 404, 410):
            raise MissingModel(self._absent(model_id), model=model_id)
        if response.status_code != 200:
            raise HubUnavailable(f"The model hub answered {response.status_code} for {model_id}. {_ALTERNATIVE}")

    def _absent(self, model_id: str) -> str:
        return f"Neither the catalogue nor the model hub has a configuration of {model_id}. {_ALTERNATIVE}"


_ALTERNATIVE = "A configuration may be pasted as huggingface_config, or the size given as parameters_billion."


def _body(response: httpx2.Response, deadline: float) -> bytes:
    """The body as it decodes, within size and time."""
    found = bytearray()
    for chunk in response.iter_bytes():  # as they arrive: a size here would wait for it, past the deadline
        found += chunk
        if len(found) > MAX_BYTES:
            raise HubUnavailable(f"The configuration is larger than {MAX_BYTES // 2**20} MiB; it was not read further.")
        if time.monotonic() > deadline:
            raise HubUnavailable(f"The model hub took longer than {DEADLINE_S:g} s. {_ALTERNATIVE}")
    return bytes(found)


def _configuration(body: bytes) -> Mapping[str, Any]:
    """A JSON object of finite numbers: what both databases can keep."""
    try:
        config = orjson.loads(orjson.dumps(orjson.loads(body)))
    except (ValueError, TypeError):
        config = None
    if not isinstance(config, dict):
        raise HubUnavailable("The model hub answered something that is not a JSON object.")
    return config
