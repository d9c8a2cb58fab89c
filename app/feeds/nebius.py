"""Nebius: prices of machines from its calculator, and where they have capacity now.

Source: the .proto files of github.com/nebius/api at 5101002, read 2026-11-27: TokenExchangeService and ProjectService
of iam.v1, ResourceAdviceService of capacity.v1, CalculatorService of billing.v1. The key is JSON with the `tenant`, the
`service_account`, its `public_key` (an id) and its `private_key` (PEM).
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import orjson

from app.extras import MissingExtra, import_extra
from app.feeds.client import FeedClient, FeedError
from app.feeds.grpc import Message, call, encode
from app.feeds.prices import (
    Feed,
    FetchedPart,
    RowReader,
    Source,
    StatedPrice,
    amount,
    count_of,
    integer,
    ram_bytes_of,
    text,
)
from app.sizing.columns import GIB

EXCHANGE = "tokens.iam", "nebius.iam.v1.TokenExchangeService/Exchange"
PROJECTS = "cpl.iam", "nebius.iam.v1.ProjectService/List"
ADVICE = "capacity-advisor.billing-cpl", "nebius.capacity.v1.ResourceAdviceService/List"
ESTIMATE = "api.calculator.billing-data-plane", "nebius.billing.v1.CalculatorService/EstimateBatch"
INSTANCE = "type.googleapis.com/nebius.compute.v1.CreateInstanceRequest"
TOKEN_LASTS = timedelta(minutes=5)  # of the signed token that is exchanged
PAGE_SIZE, MAX_PAGES, MAX_ESTIMATES = 500, 50, 2_000
HOURLY = 2  # FILTER_AGGREGATION_UNIT_HOUR
STOP = 1  # PreemptionPolicy
FRESH, LOW = 1, 3  # DataState, AvailabilityLevel
STATES = {1: "available", 2: "available", LOW: "low"}  # by AvailabilityLevel; a reached quota says nothing of capacity
BEST_FIRST = ("available", "low", "unknown", "none")
ON_DEMAND, SPOT = "on_demand", "spot"
STATUS_FIELDS = {ON_DEMAND: 2, SPOT: 3}  # of ResourceAdviceStatus
State = tuple[str, int | None]  # of the capacity, and the number of machines if it is known


@dataclass(frozen=True, slots=True)
class Machine:
    """A machine in a region: a preset of a platform."""

    region: str
    platform: str
    preset: str
    accelerators: float
    vcpus: int | None
    ram_bytes: float | None


class Nebius:
    """Calls of one tenant. Raises FeedError."""

    def __init__(self, client: FeedClient, source: Source) -> None:
        self._client, self._url, self._token = client, source.url, ""
        self._digest = hashlib.sha256()
        account = read_key(source.key)
        self._tenant = account["tenant"]
        grant = "urn:ietf:params:oauth:grant-type:token-exchange"
        kind = "urn:ietf:params:oauth:token-type:jwt"
        answer = self._call(EXCHANGE, encode((1, grant), (3, sign_token(account)), (4, kind)))
        self._token = answer.text(1)

    @property
    def sha256(self) -> str:
        """Digest of what was read."""
        return self._digest.hexdigest()

    def _call(self, method: tuple[str, str], request: bytes) -> Message:
        service, path = method
        return call(self._client, f"{self._url.replace('{service}', service)}/{path}", request, self._token)

    def _pages(self, method: tuple[str, str]) -> Iterator[Message]:
        """Yields the items of all pages of a list of the tenant."""
        fields: tuple[tuple[int, int | str], ...] = (1, self._tenant), (2, PAGE_SIZE)
        token = ""
        for _ in range(MAX_PAGES):
            page = self._call(method, encode(*fields, *(((3, token),) if token else ())))
            yield from page.messages(1)
            token = page.text(2)
            if not token:
                return
        raise FeedError("The pages of the feed do not end.")

    def list_projects(self) -> dict[str, str]:
        return {p.message(3).text(4): p.message(1).text(1) for p in self._pages(PROJECTS)}

    def list_capacity(self) -> dict[Machine, dict[str, State]]:
        """Returns the state and the number of machines by pricing model, over all data centers of a region."""
        found, reader = defaultdict[Machine, dict[str, State]](dict), RowReader(read_advice)
        for machine, model, state in reader.read(self._pages(ADVICE)):
            found[machine][model] = combine_states(found[machine].get(model), state)
            self._digest.update(repr((machine, model, state)).encode())
        reader.finish()
        return found

    def estimate_usd_per_hour(self, machine: Machine, project: str, model: str) -> float | None:
        """Returns the list price of a machine; None if the calculator states none by the hour in USD."""
        resources = encode((1, machine.platform), (2, machine.preset))
        preemptible = ((19, encode((1, STOP))),) if model == SPOT else ()
        instance = encode((1, encode((2, project))), (2, encode((2, resources), *preemptible)))
        spec = encode((1, encode((1, INSTANCE), (2, instance))))
        answer = self._call(ESTIMATE, encode((1, spec), (11, "usd"), (20, encode((1, HOURLY)))))
        costs = answer.messages(1)
        if len(costs) != 1 or costs[0].message(4).text(1) != "hour" or answer.text(20).lower() not in ("", "usd"):
            return None
        stated = costs[0].message(20, 1).text(2)
        self._digest.update(stated.encode())
        return amount(stated) if stated else None


def read_part(source: Source) -> FetchedPart | None:
    """Returns every machine with accelerators in every region of the tenant, on demand and preemptible."""
    try:
        with closing(source.client.with_http2()) as client:
            nebius = Nebius(client, source)
            prices = list(read_prices(nebius))
            return FetchedPart(prices, "", nebius.sha256)
    except MissingExtra as error:
        raise FeedError(str(error)) from error
    except (ValueError, OverflowError) as error:
        raise FeedError("The format has changed: a field has another type.") from error


def read_prices(nebius: Nebius) -> Iterator[StatedPrice]:
    """Yields the prices of the machines. One without a price does not hold back the others; none at all is an error."""
    projects, refused, priced = nebius.list_projects(), 0, 0
    for machine, capacity in nebius.list_capacity().items():
        project = projects.get(machine.region)
        if project is None:
            continue
        if refused + priced + len(capacity) > MAX_ESTIMATES:
            raise FeedError(f"The tenant has more than {MAX_ESTIMATES:,} prices, the limit.")
        for model, (state, quantity) in capacity.items():
            try:
                usd = nebius.estimate_usd_per_hour(machine, project, model)
            except FeedError:
                usd = None
            if usd is None:
                refused += 1
                continue
            priced += 1
            yield StatedPrice(
                provider="nebius",
                region=machine.region,
                instance_type=text(f"{machine.platform}_{machine.preset}"),
                accelerator=machine.platform.removeprefix("gpu-"),
                count=machine.accelerators,
                pricing_model=model,
                usd_per_hour=usd,
                vcpus=machine.vcpus,
                ram_bytes=machine.ram_bytes,
                state=state,
                quantity=quantity,
            )
    if not priced:
        raise FeedError(
            "The calculator states no price." if refused else "The tenant has no machine with accelerators."
        )


def read_advice(advice: Message) -> Iterator[tuple[Machine, str, State]]:
    """Yields the capacity of a machine by pricing model; nothing for machines without accelerators."""
    spec = advice.message(2)
    instance = spec.message(10)
    resources = instance.message(2, 2)
    if not resources.number(3):
        return
    machine = Machine(
        text(spec.text(1)),
        text(instance.text(1)),
        text(instance.message(2).text(1)),
        count_of(resources.number(3)),
        integer(resources.number(1)),
        ram_bytes_of(resources.number(2), GIB),
    )
    for model, field in STATUS_FIELDS.items():
        yield machine, model, state_of(advice.message(3, field))


def state_of(availability: Message) -> State:
    """Returns the state of an Availability, and how many machines can be had: no more than the quota of the tenant."""
    if availability.number(1) != FRESH:
        return "unknown", None
    level, quantity = availability.number(5), availability.number(2)
    if level == LOW and not quantity:
        return "none", None
    state = STATES.get(level, "unknown")
    return state, integer(quantity) if state != "unknown" else None


def combine_states(one: State | None, other: State) -> State:
    """Returns the better state of two data centers, and the sum of their machines."""
    if one is None:
        return other
    state = min(one[0], other[0], key=BEST_FIRST.index)
    known = [quantity for _, quantity in (one, other) if quantity is not None]
    return state, sum(known) if known else None


def read_key(key: str) -> Mapping[str, str]:
    """Returns the parts of the key. Raises FeedError."""
    names = "tenant", "service_account", "public_key", "private_key"
    try:
        account: Any = orjson.loads(key)
    except orjson.JSONDecodeError:
        account = None
    if not isinstance(account, dict) or not all(isinstance(account.get(name), str) for name in names):
        raise FeedError(f"The key is no JSON object with {', '.join(names)}.")
    return account


def sign_token(account: Mapping[str, str]) -> str:
    """Returns the signed token that the service account exchanges. Raises MissingExtra and FeedError."""
    jwt = import_extra("jwt", "nebius", "The price feed nebius")
    claims = dict.fromkeys(("iss", "sub"), account["service_account"]) | {"exp": datetime.now(UTC) + TOKEN_LASTS}
    try:
        signed: str = jwt.encode(claims, account["private_key"], "RS256", headers={"kid": account["public_key"]})
    except (ValueError, TypeError, jwt.PyJWTError) as error:
        raise FeedError("The private key of the service account cannot be read.") from error
    return signed


FEED = Feed(
    name="nebius",
    url="https://{service}.api.nebius.cloud",
    parts=("capacity",),
    read=read_part,
    needs_key=True,
    provider="nebius",
)
