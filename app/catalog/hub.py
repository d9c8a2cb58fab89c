"""Fetches configurations of models that the catalog lacks, from the hub that the operator configures, and stores them.

Source: the IANA registries of special-purpose addresses, https://www.iana.org/assignments/iana-ipv4-special-registry
and https://www.iana.org/assignments/iana-ipv6-special-registry, as of 2024-10-22, plus the multicast blocks. Blocks
are reachable but serve no pages (AS112, AMT) are excluded too. Of IPv6, only 2000::/3 is assigned to hosts. The blocks
contain the metadata services of clouds (169.254.169.254, Alibaba's 100.100.100.200, Oracle's 192.0.0.192) except for
168.63.129.16 of Azure: https://learn.microsoft.com/azure/virtual-network/what-is-ip-address-168-63-129-16.

Off unless HEADROOM_MODEL_HUB_URL is set. Each fetch has limits on size, redirects and total time, from the first DNS
look-up to the last byte. Every address is resolved first and rejected unless it is public or in a network that the
operator allows. The connection goes to the checked address, so a later DNS change cannot redirect it. Results are
cached, including failures of the hub.
"""

from __future__ import annotations

import asyncio
import json
import re
import socket
import ssl
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Any
from urllib.parse import SplitResult, quote, urljoin, urlsplit

import httpx2
import orjson
from sqlalchemy import insert
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from app import telemetry
from app.catalog.names import fold_name
from app.catalog.seed import model_values
from app.catalog.tables import ModelAliasRow, ModelRow
from app.errors import AppError, NotFound, Unavailable, UnknownModel
from app.sizing.model.architecture import ModelKind
from app.sizing.model.counting.read import read_architecture
from app.work import external_result

Network = IPv4Network | IPv6Network

GLOBAL_UNICAST_V6 = IPv6Network("2000::/3")
SPECIAL_PURPOSE_NETWORKS: tuple[Network, ...] = tuple(
    ip_network(block)
    for block in (
        "0.0.0.0/8",  # this network
        "10.0.0.0/8",  # private
        "100.64.0.0/10",  # shared address space of carriers
        "127.0.0.0/8",  # loopback
        "168.63.129.16/32",  # Azure's virtual public IP of the platform
        "169.254.0.0/16",  # link-local, including cloud metadata services
        "172.16.0.0/12",  # private
        "192.0.0.0/24",  # protocol assignments
        "192.0.2.0/24",  # documentation
        "192.31.196.0/24",  # AS112
        "192.52.193.0/24",  # AMT
        "192.88.99.0/24",  # 6to4 relays, withdrawn
        "192.168.0.0/16",  # private
        "192.175.48.0/24",  # AS112
        "198.18.0.0/15",  # benchmarks
        "198.51.100.0/24",  # documentation
        "203.0.113.0/24",  # documentation
        "224.0.0.0/4",  # multicast
        "240.0.0.0/4",  # reserved, and broadcast
        "2001::/23",  # protocol assignments, including Teredo
        "2001:db8::/32",  # documentation
        "2002::/16",  # 6to4: embeds an IPv4 address
        "2620:4f:8000::/48",  # AS112
        "3fff::/20",  # documentation
    )
)


def is_public(address: str) -> bool:
    """Whether an address belongs to the public internet. False for text that is no address and for addresses with an
    interface.

    Check:
        >>> [is_public(a) for a in ("8.8.8.8", "127.0.0.1", "::ffff:8.8.8.8", "64:ff9b::808:808", "2606:4700::1111")]
        [True, False, False, False, True]
    """
    parsed = _parse_address(address)
    if parsed is None or (isinstance(parsed, IPv6Address) and parsed not in GLOBAL_UNICAST_V6):
        return False
    return not is_within(address, SPECIAL_PURPOSE_NETWORKS)


def is_within(address: str, networks: Sequence[Network]) -> bool:
    """Whether one of the networks contains an address, or the IPv4 address that it maps into IPv6."""
    parsed = _parse_address(address)
    parsed = getattr(parsed, "ipv4_mapped", None) or parsed
    return parsed is not None and any(parsed in network for network in networks if network.version == parsed.version)


def _parse_address(address: str) -> IPv4Address | IPv6Address | None:
    try:
        return None if "%" in address else ip_address(address)
    except ValueError:
        return None


MAX_BYTES = 6 * 2**20  # of a configuration; those that list every module have up to 4 MB
DEADLINE_S = 10.0
MAX_REDIRECTS = 3
FETCHES_AT_ONCE = 4
MAX_PENDING = 32
MOST_KEPT = 1024
MAX_CONFIGS_KEPT = 16  # configurations may be large
RETRY_AFTER_S = 10.0  # pause of all fetches after the hub did not answer
MODEL_ID = re.compile(r"(?=.{3,120}\Z)[A-Za-z0-9][A-Za-z0-9._-]{0,95}/[A-Za-z0-9][A-Za-z0-9._-]{0,95}")

Resolve = Callable[[str, int], list[str]]


class GatedModel(NotFound):
    """The hub has the model but gives its files only to users who accepted its terms."""

    code = "gated-model"


class MissingModel(UnknownModel):
    """Neither the catalog nor the hub has the model, or it has no configuration."""


class HubUnavailable(Unavailable):
    """The hub gave no usable answer within the limits."""

    code = "model-hub-unavailable"


@dataclass(frozen=True, slots=True)
class FetchedConfig:
    """A fetched configuration and its URL."""

    config: Mapping[str, Any]
    url: str


@dataclass(slots=True)
class PendingFetch:
    """A fetch, in progress or finished, and the time until which its outcome is cached."""

    outcome: Future[FetchedConfig | AppError] = field(default_factory=Future)
    remembered_until: float = float("inf")


# How long an outcome is cached, and its label in the metrics.
KEPT_S: Mapping[type[Any], float] = {FetchedConfig: 30.0, MissingModel: 300.0, GatedModel: 300.0, HubUnavailable: 30.0}
FETCH_RESULTS: Mapping[type[Any], telemetry.FetchResult] = {
    FetchedConfig: "fetched",
    MissingModel: "missing",
    GatedModel: "gated",
    HubUnavailable: "unavailable",
}


def resolve_host(host: str, port: int) -> list[str]:
    """Returns every IP address that a host name resolves to."""
    return sorted({str(info[4][0]) for info in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)})


class ModelHub:
    """A hub that serves `{url}/{id}/resolve/main/config.json`. `networks` lists private networks that it may be in."""

    def __init__(
        self,
        url: str,
        *,
        networks: Sequence[Network] = (),
        transport: httpx2.AsyncBaseTransport | None = None,
        resolve: Resolve = resolve_host,
    ) -> None:
        self.url = url.rstrip("/")
        self._networks, self._transport, self._resolve = networks, transport, resolve
        self._ports = {80, 443, urlsplit(self.url).port}
        self._tls = ssl.create_default_context()
        self._threads = ThreadPoolExecutor(FETCHES_AT_ONCE, thread_name_prefix="hub")
        self._lock = threading.Lock()  # held for a few operations only
        self._fetches: dict[str, PendingFetch] = {}
        self._unavailable_until = float("-inf")

    def fetch_model(self, model_id: str) -> FetchedConfig:
        """Returns the `config.json` of a model. Concurrent requests for one model share one fetch; a request with a
        stage listener restarts once the result has arrived.

        Raises MissingModel, GatedModel, or HubUnavailable for every other failure.
        """
        if not MODEL_ID.fullmatch(model_id) or ".." in model_id:
            raise MissingModel(f"{model_id[:100]!r} is not an id of the form owner/name.")
        outcome = external_result(self._find_or_start_fetch(model_id))
        if isinstance(outcome, FetchedConfig):
            return outcome
        raise type(outcome)(outcome.detail, **outcome.facts)  # a copy, because callers may add facts

    def _find_or_start_fetch(self, model_id: str) -> Future[FetchedConfig | AppError]:
        """Returns the outcome of a fetch: cached, in progress, or started now."""
        with self._lock:
            self._forget_expired()
            pending = self._fetches.get(model_id)
            if pending is not None:
                return pending.outcome
            pending = PendingFetch()
            if trouble := self._reason_not_to_fetch():
                telemetry.record_hub_fetch("refused")
                pending.outcome.set_result(trouble)
                return pending.outcome
            self._fetches[model_id] = pending
        self._threads.submit(self._run_fetch, model_id, pending, time.monotonic() + DEADLINE_S)
        return pending.outcome

    def _reason_not_to_fetch(self) -> HubUnavailable | None:
        """Returns the reason why no fetch may start now, or None."""
        if time.monotonic() < self._unavailable_until:
            return HubUnavailable(
                f"The model hub did not answer a moment ago, so no request is sent now. {_ALTERNATIVE}"
            )
        if sum(not fetch.outcome.done() for fetch in self._fetches.values()) >= MAX_PENDING:
            return HubUnavailable(
                "Too many configurations are being fetched at once. Retry after the time in Retry-After."
            )
        return None

    def _forget_expired(self) -> None:
        """Removes expired outcomes, and the oldest ones beyond the cache limits."""
        now = time.monotonic()
        done = [(name, fetch) for name, fetch in self._fetches.items() if fetch.outcome.done()]
        large = [name for name, fetch in done if isinstance(fetch.outcome.result(), FetchedConfig)]
        old = {name for name, fetch in done if fetch.remembered_until < now}
        for name in {*old, *large[:-MAX_CONFIGS_KEPT], *[name for name, _ in done][:-MOST_KEPT]}:
            del self._fetches[name]

    def _run_fetch(self, model_id: str, pending: PendingFetch, deadline: float) -> None:
        """Fetches one model in its own thread and caches the outcome."""
        try:
            outcome: FetchedConfig | AppError = asyncio.run(self._fetch_in_time(model_id, deadline))
        except AppError as trouble:
            outcome = trouble
        except Exception as error:  # of any kind, because requests wait for the outcome
            outcome = HubUnavailable(f"The request to the model hub failed ({type(error).__name__}). {_ALTERNATIVE}")
        telemetry.record_hub_fetch(FETCH_RESULTS[type(outcome)])
        pending.remembered_until = time.monotonic() + KEPT_S[type(outcome)]
        pending.outcome.set_result(outcome)

    async def _fetch_in_time(self, model_id: str, deadline: float) -> FetchedConfig:
        """Fetches within the deadline. After a timeout or transport error, no fetch starts for a while."""
        try:
            async with asyncio.timeout(deadline - time.monotonic()):
                return await self._fetch_config(model_id)
        except TimeoutError as error:
            self._unavailable_until = time.monotonic() + RETRY_AFTER_S
            raise HubUnavailable(
                f"The model hub took longer than {DEADLINE_S:g} s to answer. {_ALTERNATIVE}"
            ) from error
        except httpx2.TransportError as error:
            self._unavailable_until = time.monotonic() + RETRY_AFTER_S
            raise HubUnavailable(f"The model hub did not answer ({type(error).__name__}). {_ALTERNATIVE}") from error

    async def _fetch_config(self, model_id: str) -> FetchedConfig:
        url = f"{self.url}/{quote(model_id)}/resolve/main/config.json"
        async with httpx2.AsyncClient(
            transport=self._transport, verify=self._tls, timeout=DEADLINE_S, follow_redirects=False, trust_env=False
        ) as client:
            for _ in range(MAX_REDIRECTS + 1):
                request = await self._build_request(client, url)
                response = await client.send(request, stream=True)
                try:
                    if response.status_code in (301, 302, 303, 307, 308):
                        url = _redirect_target(url, response.headers.get("location"))
                        continue
                    self._raise_for_status(response, model_id)
                    return FetchedConfig(_parse_config(await _read_body(response)), url)
                finally:
                    await response.aclose()
        raise HubUnavailable(f"The model hub redirected more than {MAX_REDIRECTS} times. {_ALTERNATIVE}")

    async def _build_request(self, client: httpx2.AsyncClient, url: str) -> httpx2.Request:
        """Returns a request to the checked address of a URL's host, with its name in the Host header and in SNI."""
        parts, port = _split_url(url)
        if port not in self._ports:
            raise HubUnavailable(f"The model hub redirected to port {port}, which is not allowed. {_ALTERNATIVE}")
        host = str(parts.hostname)
        try:
            addresses = await resolve_async(self._resolve, host, port)
        except (OSError, UnicodeError) as error:
            self._unavailable_until = time.monotonic() + RETRY_AFTER_S
            raise HubUnavailable(f"The model hub's host name could not be looked up. {_ALTERNATIVE}") from error
        if not addresses or not all(is_public(a) or is_within(a, self._networks) for a in addresses):
            raise HubUnavailable(f"An address of the model hub is not public, so it was not contacted. {_ALTERNATIVE}")
        address = f"[{addresses[0]}]" if ":" in addresses[0] else addresses[0]
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
            raise _bad_redirect() from error

    def _raise_for_status(self, response: httpx2.Response, model_id: str) -> None:
        """Raises unless the hub returned the file."""
        reason = response.headers.get("x-error-code", "")
        if (
            reason == "GatedRepo"
            or response.status_code == 403
            or (response.status_code == 401 and reason != "RepoNotFound")
        ):
            raise GatedModel(
                f"The model hub provides {model_id} only to users who accepted its terms. "
                "Send its config.json as huggingface_config.",
                model=model_id,
            )
        if response.status_code in (401, 404, 410):
            absent = f"Neither the catalog nor the model hub has a configuration of {model_id}. {_ALTERNATIVE}"
            raise MissingModel(absent, model=model_id)
        if response.status_code != 200:
            raise HubUnavailable(
                f"The model hub answered {response.status_code} to the request for {model_id}. {_ALTERNATIVE}"
            )


_ALTERNATIVE = "You can send the model's config.json as huggingface_config, or its size as parameters_billion."


def _bad_redirect() -> HubUnavailable:
    return HubUnavailable(f"The model hub redirected to a location that is no address. {_ALTERNATIVE}")


def _split_url(url: str) -> tuple[SplitResult, int]:
    """Returns the parts of a URL, and its port. Raises HubUnavailable unless it is a plain http or https URL."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise _bad_redirect() from error
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.username or parts.password:
        raise HubUnavailable("The model hub redirected to an address that is not plain http or https.")
    return parts, (443 if parts.scheme == "https" else 80) if port is None else port


def _redirect_target(url: str, location: str | None) -> str:
    if not location:
        raise HubUnavailable(f"The model hub sent a redirect without a location. {_ALTERNATIVE}")
    try:
        following = urljoin(url, location)
        encrypted = urlsplit(following).scheme == "https"
    except ValueError as error:
        raise _bad_redirect() from error
    if urlsplit(url).scheme == "https" and not encrypted:
        raise HubUnavailable("The model hub redirected from https to an unencrypted address.")
    return following


async def resolve_async(resolve: Resolve, host: str, port: int) -> list[str]:
    """Returns the addresses of a host. A look-up that never ends blocks only its own thread."""
    loop = asyncio.get_running_loop()
    addresses: asyncio.Future[list[str]] = loop.create_future()

    def set_outcome(outcome: list[str] | Exception) -> None:
        if not addresses.done():
            addresses.set_exception(outcome) if isinstance(outcome, Exception) else addresses.set_result(outcome)

    def look_up() -> None:
        try:
            outcome: list[str] | Exception = resolve(host, port)
        except Exception as error:
            outcome = error
        with suppress(RuntimeError):  # the event loop has been closed
            loop.call_soon_threadsafe(set_outcome, outcome)

    threading.Thread(target=look_up, name="look-up", daemon=True).start()
    return await addresses


async def _read_body(response: httpx2.Response) -> bytes:
    """Returns the response body. Raises HubUnavailable if it is compressed or too large."""
    if response.headers.get("content-encoding", "identity") != "identity":
        raise HubUnavailable(f"The model hub compressed its answer, which it was asked not to do. {_ALTERNATIVE}")
    body = bytearray()
    async for chunk in response.aiter_bytes():
        body += chunk
        if len(body) > MAX_BYTES:
            raise HubUnavailable(f"The configuration is larger than {MAX_BYTES // 2**20} MiB, which is the limit.")
    return bytes(body)


def _parse_config(body: bytes) -> Mapping[str, Any]:
    """Returns the body as a JSON object of finite numbers, as both databases need. NaN and Infinity become null."""
    try:
        config = orjson.loads(orjson.dumps(json.loads(body, parse_constant=lambda _: None)))
    except (ValueError, TypeError, RecursionError):
        config = None
    if not isinstance(config, dict):
        raise HubUnavailable("The model hub sent a configuration that is not a JSON object.")
    return config


MODALITIES = {ModelKind.DECODER: "text", ModelKind.ENCODER: "embedding"}
SAMPLE_MODALITIES = {"image": "vision", "picture": "diffusion", "clip": "diffusion", "speech": "speech"}


def store_fetched_model(session: Session, model_id: str, fetched: FetchedConfig) -> None:
    """Stores a model with its fetched configuration and today's date. A model that another request stored meanwhile is
    kept.

    Raises UnreadableConfiguration if the architecture cannot be read; the model is then not stored.
    """
    model = read_architecture(fetched.config, name=model_id)
    modality = SAMPLE_MODALITIES.get(model.law.unit, "vision") if model.law is not None else MODALITIES[model.kind]
    entry = {
        "hf_id": model_id,
        "family": model.family,
        "developer": model_id.split("/", maxsplit=1)[0],
        "modality": "vision-language" if model.images is not None else modality,
        "config": dict(fetched.config),
        "total_params": model.total_params,
        "active_params": model.active_params,
        "aliases": [],
        "source_ref": [fetched.url],
        "counted_by": "closed form",
        "confidence": "medium",
        "as_of": datetime.now(UTC).date().isoformat(),
    }
    try:
        session.execute(insert(ModelRow), [{**model_values(entry), "origin": "hub"}])
        session.execute(insert(ModelAliasRow), [{"alias": fold_name(model_id), "model": model_id}])
        session.commit()
    except IntegrityError:
        session.rollback()
