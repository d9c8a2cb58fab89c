"""Configurations of models the catalogue does not know, from the hub an operator names.

Off unless HEADROOM_MODEL_HUB_URL is set. A fetch is bounded in size, redirects and, from the first look-up to the last
byte, in time. Every address it connects to is looked up first and refused unless it is public, or in a network that the
operator allows; the connection goes to the address that was checked, so a name cannot point elsewhere a moment later.
What came of a fetch is remembered, also that the hub did not answer.
"""

from __future__ import annotations

import asyncio
import re
import socket
import ssl
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import SplitResult, quote, urljoin, urlsplit

import httpx2
import orjson

from app import telemetry
from app.catalog.addresses import Network, is_public, is_within
from app.errors import AppError, NotFound, Unavailable, UnknownModel
from app.work import waited_for

MAX_BYTES = 2 * 2**20
DEADLINE_S = 10.0
MAX_REDIRECTS = 3
FETCHES_AT_ONCE = 4
MOST_UNDER_WAY = 32
MOST_KEPT = 1024
MOST_FETCHED_KEPT = 16  # they may be large
AWAY_S = 10.0  # that a hub which did not answer is not asked for any model
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


@dataclass(slots=True)
class Asked:
    """A model that was asked for: what came of it, or will, and until when that is remembered."""

    outcome: Future[Fetched | AppError] = field(default_factory=Future)
    until: float = float("inf")


# How long it is remembered, and what it counts as.
KEPT_S: Mapping[type[Any], float] = {Fetched: 30.0, MissingModel: 300.0, GatedModel: 300.0, HubUnavailable: 30.0}
TOLD: Mapping[type[Any], telemetry.Fetch] = {
    Fetched: "fetched",
    MissingModel: "missing",
    GatedModel: "gated",
    HubUnavailable: "unavailable",
}


def addresses_of(host: str, port: int) -> list[str]:
    """Every address a host name stands for."""
    return sorted({str(found[4][0]) for found in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)})


class ModelHub:
    """A hub that serves `{url}/{id}/resolve/main/config.json`; it may stand in `networks` that are not public."""

    def __init__(
        self,
        url: str,
        *,
        networks: Sequence[Network] = (),
        transport: httpx2.AsyncBaseTransport | None = None,
        resolve: Resolve = addresses_of,
    ) -> None:
        self.url = url.rstrip("/")
        self._networks, self._transport, self._resolve = networks, transport, resolve
        self._ports = {80, 443, urlsplit(self.url).port}
        self._tls = ssl.create_default_context()
        self._threads = ThreadPoolExecutor(FETCHES_AT_ONCE, thread_name_prefix="hub")
        self._lock = threading.Lock()  # held for a few steps alone
        self._asked: dict[str, Asked] = {}
        self._away_until = float("-inf")

    def fetch(self, model_id: str) -> Fetched:
        """The `config.json` of a model, asked for once by all who want it; work that somebody listens to is begun anew
        once it is there.

        Raises MissingModel, GatedModel, or HubUnavailable for every other trouble, saying which.
        """
        if not MODEL_ID.fullmatch(model_id) or ".." in model_id:
            raise MissingModel(f"{model_id[:100]!r} is not an id of the form owner/name.")
        found = waited_for(self._ask(model_id))
        if isinstance(found, Fetched):
            return found
        raise type(found)(found.detail, **found.facts)  # one of its own: who catches it may add to it

    def _ask(self, model_id: str) -> Future[Fetched | AppError]:
        """What comes of a model: remembered, on its way, or asked for now."""
        with self._lock:
            self._forget()
            asked = self._asked.get(model_id)
            if asked is not None:
                return asked.outcome
            asked = Asked()
            if trouble := self._turned_away():
                telemetry.fetched("refused")
                asked.outcome.set_result(trouble)
                return asked.outcome
            self._asked[model_id] = asked
        self._threads.submit(self._answered, model_id, asked, time.monotonic() + DEADLINE_S)
        return asked.outcome

    def _turned_away(self) -> HubUnavailable | None:
        """Why the hub is not asked for anything now."""
        if time.monotonic() < self._away_until:
            return HubUnavailable(f"The model hub did not answer a moment ago. {_ALTERNATIVE}")
        if sum(not asked.outcome.done() for asked in self._asked.values()) >= MOST_UNDER_WAY:
            return HubUnavailable("Too many configurations are being fetched at once; try again shortly.")
        return None

    def _forget(self) -> None:
        """What was remembered for long enough, or for longer than what there is room for."""
        now = time.monotonic()
        done = [(name, asked) for name, asked in self._asked.items() if asked.outcome.done()]
        large = [name for name, asked in done if isinstance(asked.outcome.result(), Fetched)]
        old = {name for name, asked in done if asked.until < now}
        for name in {*old, *large[:-MOST_FETCHED_KEPT], *[name for name, _ in done][:-MOST_KEPT]}:
            del self._asked[name]

    def _answered(self, model_id: str, asked: Asked, deadline: float) -> None:
        """Asks the hub, in a thread of its own, and remembers what came of it."""
        try:
            found: Fetched | AppError = asyncio.run(self._in_time(model_id, deadline))
        except AppError as trouble:
            found = trouble
        except Exception as error:  # of whatever kind: who asked waits for it
            found = HubUnavailable(f"The model hub could not be asked ({type(error).__name__}). {_ALTERNATIVE}")
        telemetry.fetched(TOLD[type(found)])
        asked.until = time.monotonic() + KEPT_S[type(found)]
        asked.outcome.set_result(found)

    async def _in_time(self, model_id: str, deadline: float) -> Fetched:
        """Raises as `fetch` does; a hub that does not answer in time, or at all, is left alone for a while."""
        try:
            async with asyncio.timeout(deadline - time.monotonic()):
                return await self._fetch(model_id)
        except TimeoutError as error:
            self._away_until = time.monotonic() + AWAY_S
            raise HubUnavailable(f"The model hub took longer than {DEADLINE_S:g} s. {_ALTERNATIVE}") from error
        except httpx2.TransportError as error:
            self._away_until = time.monotonic() + AWAY_S
            raise HubUnavailable(f"The model hub did not answer ({type(error).__name__}). {_ALTERNATIVE}") from error

    async def _fetch(self, model_id: str) -> Fetched:
        url = f"{self.url}/{quote(model_id)}/resolve/main/config.json"
        async with httpx2.AsyncClient(
            transport=self._transport, verify=self._tls, timeout=DEADLINE_S, follow_redirects=False, trust_env=False
        ) as client:
            for _ in range(MAX_REDIRECTS + 1):
                request = await self._request(client, url)
                response = await client.send(request, stream=True)
                try:
                    if response.status_code in (301, 302, 303, 307, 308):
                        url = _redirected(url, response.headers.get("location"))
                        continue
                    self._refused(response, model_id)
                    return Fetched(_configuration(await _body(response)), url)
                finally:
                    await response.aclose()
        raise HubUnavailable(f"The model hub redirected more than {MAX_REDIRECTS} times. {_ALTERNATIVE}")

    async def _request(self, client: httpx2.AsyncClient, url: str) -> httpx2.Request:
        """A request to the checked address of a URL's host, under the host's own name."""
        parts, port = _parts(url)
        if port not in self._ports:
            raise HubUnavailable(f"The model hub led to port {port}, which is not one of pages. {_ALTERNATIVE}")
        host = str(parts.hostname)
        try:
            found = await _looked_up(self._resolve, host, port)
        except (OSError, UnicodeError) as error:
            self._away_until = time.monotonic() + AWAY_S
            raise HubUnavailable(f"The model hub's host name could not be looked up. {_ALTERNATIVE}") from error
        if not found or not all(is_public(a) or is_within(a, self._networks) for a in found):
            raise HubUnavailable(
                f"The model hub led to an address that is not public; it was not contacted. {_ALTERNATIVE}"
            )
        address = f"[{found[0]}]" if ":" in found[0] else found[0]
        headers = {
            "host": parts.netloc,
            "accept": "application/json",
            "accept-encoding": "identity",
            "user-agent": "headroom",
        }
        try:
            target = f"{parts.scheme}://{address}:{port}{parts.path}{'?' + parts.query if parts.query else ''}"
            return client.build_request("GET", target, headers=headers, extensions={"sni_hostname": host})
        except (httpx2.InvalidURL, UnicodeError) as error:
            raise _nowhere() from error

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
            absent = f"Neither the catalogue nor the model hub has a configuration of {model_id}. {_ALTERNATIVE}"
            raise MissingModel(absent, model=model_id)
        if response.status_code != 200:
            raise HubUnavailable(f"The model hub answered {response.status_code} for {model_id}. {_ALTERNATIVE}")


_ALTERNATIVE = "A configuration may be pasted as huggingface_config, or the size given as parameters_billion."


def _nowhere() -> HubUnavailable:
    return HubUnavailable(f"The model hub redirected to something that is no address. {_ALTERNATIVE}")


def _parts(url: str) -> tuple[SplitResult, int]:
    """An address to be asked, taken apart, and its port."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise _nowhere() from error
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.username or parts.password:
        raise HubUnavailable("The model hub led to an address that is not plain http or https.")
    return parts, (443 if parts.scheme == "https" else 80) if port is None else port


def _redirected(url: str, location: str | None) -> str:
    if not location:
        raise HubUnavailable(f"The model hub redirected without saying where to. {_ALTERNATIVE}")
    try:
        following = urljoin(url, location)
        encrypted = urlsplit(following).scheme == "https"
    except ValueError as error:
        raise _nowhere() from error
    if urlsplit(url).scheme == "https" and not encrypted:
        raise HubUnavailable("The model hub redirected from https to an unencrypted address.")
    return following


async def _looked_up(resolve: Resolve, host: str, port: int) -> list[str]:
    """The addresses of a host; a look-up that never ends holds up nothing but a thread of its own."""
    loop = asyncio.get_running_loop()
    found: asyncio.Future[list[str]] = loop.create_future()

    def tell(told: list[str] | Exception) -> None:
        if not found.done():
            found.set_exception(told) if isinstance(told, Exception) else found.set_result(told)

    def look_up() -> None:
        try:
            told: list[str] | Exception = resolve(host, port)
        except Exception as error:
            told = error
        with suppress(RuntimeError):  # nobody waits any more
            loop.call_soon_threadsafe(tell, told)

    threading.Thread(target=look_up, name="hub-look-up", daemon=True).start()
    return await found


async def _body(response: httpx2.Response) -> bytes:
    """The body, within size."""
    if response.headers.get("content-encoding", "identity") != "identity":
        raise HubUnavailable(f"The model hub compressed its answer, which it was asked not to. {_ALTERNATIVE}")
    found = bytearray()
    async for chunk in response.aiter_bytes():
        found += chunk
        if len(found) > MAX_BYTES:
            raise HubUnavailable(f"The configuration is larger than {MAX_BYTES // 2**20} MiB; it was not read further.")
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
