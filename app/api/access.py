"""Who may call what: reads the caller of each request from its key or token, checks its scope, and limits its rate.

One dependency of the whole application does all of it. An operation that SCOPE_OF does not list is refused.
"""

from __future__ import annotations

import hashlib
import math
import re
import threading
import time
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from ipaddress import IPv6Address
from typing import Annotated

from fastapi import Depends, Request
from fastapi.concurrency import run_in_threadpool

from app.api.middleware import set_response_headers
from app.catalog.hub import is_within
from app.catalog.keys import PREFIX, TENANT, Caller, KeyStore, Scope
from app.catalog.tokens import TokenVerifier
from app.db import PUBLIC, act_for
from app.errors import InvalidKey, MissingScope, RateLimited, Unauthenticated
from app.work import work_for

# Scope that each operation needs; None where the call authenticates by its own secret, or where nothing is protected.
SCOPE_OF: Mapping[str, Scope | None] = {
    **dict.fromkeys(
        (
            "recommend",
            "estimate",
            "compare",
            "diagnose",
            "inspectModel",
            "runnableModels",
            "repriceRecommendation",
            "getSensitivity",
            "getStanding",
        ),
        Scope.SIZE,
    ),
    **dict.fromkeys(
        (
            "listRecommendations",
            "getRecommendation",
            "getRecommendationStatus",
            "getDeployment",
            "getBillOfMaterials",
            "accuracy",
            "support",
            "listAccelerators",
            "listSystems",
            "listOffers",
            "market",
            "listPrices",
            "listModels",
            "listEngines",
            "listAssumptions",
            "listProviders",
            "listRegions",
            "listFrameworks",
            "listSchedulers",
            "listInventory",
            "listOwnOffers",
            "listOwnSystems",
            "listMeasurements",
            "getMeasurement",
        ),
        Scope.READ,
    ),
    **dict.fromkeys(("changeRecommendationStatus", "deleteRecommendation"), Scope.PROCURE),
    **dict.fromkeys(
        (
            "storeInventory",
            "storeOwnOffers",
            "storeOwnSystems",
            "deleteInventory",
            "deleteOwnOffers",
            "deleteOwnSystems",
        ),
        Scope.CATALOG_WRITE,
    ),
    **dict.fromkeys(("uploadMeasurement", "deleteMeasurement"), Scope.MEASURE),
    **dict.fromkeys(("punchout", "ociVisit", "ociVisitByForm"), None),
}
# Routes without an operation id, by path: pages of punch-out sessions, whose token is the secret, and health checks.
OPEN_PATHS = frozenset(("/procurement/sessions/{token}",))
OPEN_SCOPES = frozenset((Scope.READ, Scope.SIZE))  # of callers without a key, unless the settings require one
# Of the same callers while there is no key, if the service listens on this machine alone.
UNTIL_KEYS_EXIST = frozenset((Scope.PROCURE, Scope.MEASURE, Scope.CATALOG_WRITE))
PROXIED_SCOPES = OPEN_SCOPES | UNTIL_KEYS_EXIST  # of callers that a proxy has signed in, for their own tenant
LOOPBACK = re.compile(r"localhost|127\.[\d.]+|::1")  # addresses that other machines do not reach
UNIT_S = 0.01  # CPU time of one cost unit; every call costs one unit
# Units of a computed answer if app/api/cost.py does not estimate them from the request.
UNITS: Mapping[str, int] = {
    "recommend": 20,
    "estimate": 6,
    "compare": 100,
    "diagnose": 20,
    "inspectModel": 2,
    "runnableModels": 100,
    "repriceRecommendation": 40,
    "getStanding": 40,
    "getSensitivity": 200,
    "uploadMeasurement": 40,
}
PERIOD_S = 60.0
MOST_BUCKETS = 10_000


@dataclass(slots=True)
class Bucket:
    """Units that a key has left, and when they were counted."""

    units: float
    at: float


class RateLimits:
    """Token bucket of each key in this process. `units_per_minute` limits keys without an own limit; 0: none."""

    def __init__(self, units_per_minute: int) -> None:
        self._units_per_minute, self._lock = units_per_minute, threading.Lock()
        self._buckets: OrderedDict[str, Bucket] = OrderedDict()

    def take(self, holder: str, own_limit: int | None, units: int) -> None:
        """Takes units of a key or of the subject of tokens, and sets the RateLimit headers. Raises RateLimited if too
        few are left.

        A call that costs more than a full bucket is let in by a full bucket, and the key then owes the rest.
        """
        limit = self._units_per_minute if own_limit is None else own_limit
        if not limit:
            return
        per_s, now = limit / PERIOD_S, time.monotonic()
        with self._lock:
            bucket = self._buckets.setdefault(holder, Bucket(limit, now))
            self._buckets.move_to_end(holder)
            while len(self._buckets) > MOST_BUCKETS:
                self._buckets.popitem(last=False)
            bucket.units, bucket.at = min(limit, bucket.units + (now - bucket.at) * per_s), now
            missing = min(units, limit) - bucket.units
            bucket.units -= units if missing <= 0 else 0
            left = bucket.units
        set_response_headers(
            {
                "RateLimit-Policy": f'"key";q={limit};w={PERIOD_S:.0f}',
                "RateLimit": f'"key";r={max(0, math.floor(left))};t={math.ceil((limit - left) / per_s)}',
            }
        )
        if missing > 0:
            raise RateLimited(
                f"This key has {max(0, math.floor(left))} cost units left, and the call costs {units}. It may use "
                f"{limit} per minute.",
                retry_after_s=max(1, math.ceil(missing / per_s)),
            )


def bearer_token(request: Request) -> str | None:
    """Returns the bearer token of a request; None if it carries none. Other schemes are those of a proxy in front."""
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else None


async def identify_caller(request: Request) -> Caller:
    """Returns who sent a request. Raises Unauthenticated, InvalidKey, MissingScope and RateLimited."""
    needed = _needed_scope(request)
    # Or a cache gives the answer of one tenant to another.
    set_response_headers(
        {"Vary": ", ".join(filter(None, ("Authorization", request.app.state.settings.identity_header)))}
    )
    caller = await _read_caller(request, needed)
    if needed is not None and not caller.may(needed):
        if not caller.key_id:
            raise Unauthenticated(
                f"This call needs a key with the scope {needed}. Send it as Authorization: Bearer {PREFIX}..."
            )
        raise MissingScope(
            f"This key lacks the scope {needed}. It has: {', '.join(sorted(caller.scopes)) or 'none'}.", scope=needed
        )
    act_for(caller.tenant)
    work_for(f"{caller.tenant} {caller.key_id}" if caller.key_id else client_address(request))
    return caller


def address_of_holder(address: str) -> str:
    """Returns what one holder has of the internet: an IPv4 address, or the /64 network of an IPv6 address, in which a
    client can take a new address for each request. Text that is no address is returned unchanged.

    Check:
        >>> [address_of_holder(a) for a in ("192.0.2.7", "2001:db8:1:2:3::4", "::ffff:192.0.2.7", "fe80::1%eth0")]
        ['192.0.2.7', '2001:db8:1:2::', '192.0.2.7', 'fe80::']
    """
    if ":" not in address:
        return address
    try:
        parsed = IPv6Address(address.partition("%")[0])
    except ValueError:
        return address
    return str(parsed.ipv4_mapped or IPv6Address(int(parsed) >> 64 << 64))


def client_address(request: Request) -> str:
    """Returns the address that a client is charged and limited by; an empty string if it is unknown."""
    return address_of_holder(request.client.host) if request.client else ""


def _needed_scope(request: Request) -> Scope | None:
    """Returns the scope that a request needs. Raises KeyError for a route without a decision."""
    route = request.scope["route"]
    if route.operation_id is None and route.path in OPEN_PATHS:
        return None
    return SCOPE_OF[route.operation_id]


async def _read_caller(request: Request, needed: Scope | None) -> Caller:
    state, token = request.app.state, bearer_token(request)
    keys: KeyStore = state.keys
    tokens: TokenVerifier = state.tokens
    own_limit = None
    if token is not None and token.startswith(PREFIX):
        now = datetime.now(UTC)
        record = keys.find_cached(token, now=now)
        if record is None:
            record = await run_in_threadpool(keys.read, token, now=now)
        caller, own_limit = Caller(record.tenant, record.scopes, record.id), record.units_per_minute
    elif token is not None and tokens:
        caller = await run_in_threadpool(tokens.read, token)
    elif (identity := _proxied_identity(request)) is not None:
        caller = Caller(tenant_of_identity(identity), PROXIED_SCOPES, f"proxy:{identity[:100]}")
    else:
        return await _anonymous_caller(request, needed)
    limits: RateLimits = state.rate_limits
    take = partial(limits.take, f"{caller.tenant} {caller.key_id}", own_limit)
    take(1)
    request.state.charge = take
    return caller


def _proxied_identity(request: Request) -> str | None:
    """Returns who a trusted proxy says has signed in; None if it says nothing. Raises InvalidKey if it names two."""
    settings = request.app.state.settings
    named = request.headers.getlist(settings.identity_header) if settings.identity_header else []
    peer = request.scope.get("state", {}).get("peer") or (request.client.host if request.client else "")
    if not named or not is_within(peer, settings.proxies):
        return None
    if len(named) > 1 or not named[0].strip():
        raise InvalidKey(f"The header {settings.identity_header} must name one caller. The proxy must replace it.")
    return named[0].strip()


def tenant_of_identity(identity: str) -> str:
    """Returns the tenant of a caller that a proxy names: the name itself if it can be that of a tenant, otherwise `id-`
    and a hash of it, which no two names share.

    Check:
        >>> [tenant_of_identity(each)[:12] for each in ("acme", "Ann@acme.example", "public")]
        ['acme', 'id-8614065d8', 'id-efa1f375d']
    """
    if TENANT.fullmatch(identity) and identity != PUBLIC and not identity.startswith("id-"):
        return identity
    return f"id-{hashlib.sha256(identity.encode()).hexdigest()[:40]}"


async def _anonymous_caller(request: Request, needed: Scope | None) -> Caller:
    """Returns the caller without a key. It may read and size unless the settings require a key. On a service that
    only this machine reaches, it may also change data until the first key exists: there, it is the operator.
    """
    state = request.app.state
    if state.settings.require_key:
        return Caller()
    signs_in = state.tokens or state.settings.identity_header
    is_operator = LOOPBACK.fullmatch(state.settings.host) is not None and not signs_in
    if needed in UNTIL_KEYS_EXIST and is_operator and not await run_in_threadpool(state.keys.has_any):
        return Caller(PUBLIC, OPEN_SCOPES | UNTIL_KEYS_EXIST)
    return Caller(PUBLIC, OPEN_SCOPES)


def charge_computation(request: Request, cost_s: float | None) -> None:
    """Charges a request's key the estimated CPU time, or the units of the operation. Raises RateLimited."""
    charge = getattr(request.state, "charge", None)
    if charge is not None:
        units = UNITS.get(request.scope["route"].operation_id, 0)
        charge(units if cost_s is None else math.ceil(cost_s / UNIT_S))


KnownCaller = Annotated[Caller, Depends(identify_caller)]
