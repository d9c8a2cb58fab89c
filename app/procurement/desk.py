"""Punch-out sessions of the buyers that the settings name: opens them and returns baskets."""

from __future__ import annotations

import hmac
import math
import re
import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from urllib.parse import urlsplit

from pydantic import SecretStr

from app.catalog.filing import Visibility
from app.catalog.purchasing import PunchoutStore, PunchoutVisit
from app.errors import NotAllowed, NotFound
from app.export.cxml import Party, Session, cxml_bytes, unchanged_bytes
from app.export.lines import Bill
from app.export.oci import oci_fields
from app.procurement.partners import ADDRESS, Buyer
from app.procurement.setup import (
    BAD_REQUEST,
    CONFLICT,
    FORBIDDEN,
    NOT_IMPLEMENTED,
    TOO_MANY,
    UNAUTHORIZED,
    PunchoutRefused,
    SetupRequest,
    read_setup,
    response_bytes,
)

MAX_ADDRESS = 2000
MAX_CREDENTIALS = 4  # of the sender in one document
FREE_GUESSES = 10  # wrong secrets of an address within a minute before it has to wait
GUESS_WAIT_S, MAX_GUESS_WAIT_S = 60.0, 3600.0
MAX_GUESSERS = 10_000  # addresses that are remembered


class Buyers:
    """All buyers, found by their credentials."""

    def __init__(self, buyers: Iterable[Buyer], *, plain_http: bool) -> None:
        self.known = tuple(buyers)
        self._plain_http = plain_http

    def find_by_name(self, name: str) -> Buyer | None:
        return next((buyer for buyer in self.known if buyer.name == name), None)

    def find_by_identity(self, domain: str, identity: str, secret: str) -> Buyer:
        """Buyer of a cXML credential. Raises PunchoutRefused."""
        return self._authenticate_buyer(
            [(b, (b.domain, b.identity), b.secrets) for b in self.known], (domain, identity), secret
        )

    def find_by_user(self, username: str, password: str) -> Buyer:
        """Buyer of an OCI call. Raises PunchoutRefused."""
        return self._authenticate_buyer([(b, b.username, b.passwords) for b in self.known], username, password)

    def _authenticate_buyer(
        self, entries: list[tuple[Buyer, object, tuple[SecretStr, ...]]], claimed: object, secret: str
    ) -> Buyer:
        """Buyer whose secret matches. Compares every secret, so that the response time reveals nothing."""
        matches = [
            buyer
            for buyer, own, secrets in entries
            for known in secrets
            if hmac.compare_digest(known.get_secret_value().encode(), secret.encode()) & (own == claimed)
        ]
        if not matches:
            raise PunchoutRefused(UNAUTHORIZED, "Unknown identity or wrong secret.")
        return matches[0]

    def check_return_url(self, buyer: Buyer, url: str) -> str:
        """The address, if baskets of this buyer may be sent to it. Raises PunchoutRefused."""
        match = ADDRESS.fullmatch(url) if len(url) <= MAX_ADDRESS else None
        if match is None:
            raise PunchoutRefused(FORBIDDEN, "The return address of the basket is not a valid https address.")
        if match[1] != "https" and not self._plain_http:
            raise PunchoutRefused(FORBIDDEN, "The return address of the basket must use https.")
        host = (urlsplit(url).hostname or "").lower()
        if not any(_host_matches(pattern, host) for pattern in buyer.hosts):
            raise PunchoutRefused(FORBIDDEN, f"The settings of this buyer do not allow baskets to be sent to {host}.")
        return url


def _host_matches(pattern: str, host: str) -> bool:
    return host.endswith(pattern[1:]) if pattern.startswith("*.") else host == pattern


FRAME = re.compile(r"_(?:top|parent|self|blank)|[A-Za-z][A-Za-z0-9_-]{0,39}")
# OCI fields that SAP expects back unchanged.
ECHOED = ("~okcode", "~caller", "~target")
NOTHING = "nothing"


class UnknownSession(NotFound):
    code = "unknown-session"


class NotAllowedInSession(NotAllowed):
    """Raised for an action that the session does not allow, or no longer allows."""

    code = "not-in-this-session"


@dataclass(frozen=True, slots=True)
class BrowserForm:
    """Form that the buyer's browser posts to the buyer's system."""

    address: str  # URL that the form is posted to
    target: str  # name of the browser frame
    fields: tuple[tuple[str, str], ...]  # names and values of the hidden fields


class GuessLimit:
    """Limits wrong secrets per client address and process. The waiting time doubles with each wrong secret beyond the
    free ones, up to an hour. The count ends a minute after the last free guess, or an hour after a wait.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._wrong: OrderedDict[str, tuple[int, float]] = OrderedDict()  # number, and end of the wait

    def check(self, address: str) -> None:
        """Raises PunchoutRefused while an address has to wait."""
        with self._lock:
            count, until = self._wrong.get(address, (0, 0.0))
            left = until - time.monotonic()
            if left <= (-MAX_GUESS_WAIT_S if count >= FREE_GUESSES else 0.0):
                self._wrong.pop(address, None)
            elif count >= FREE_GUESSES and left > 0:
                raise PunchoutRefused(TOO_MANY, f"Too many wrong secrets. Try again in {math.ceil(left)} seconds.")

    def record_wrong(self, address: str) -> None:
        with self._lock:
            count = self._wrong.pop(address, (0, 0.0))[0] + 1
            wait_s = min(GUESS_WAIT_S * 2 ** max(0, count - FREE_GUESSES), MAX_GUESS_WAIT_S)
            self._wrong[address] = count, time.monotonic() + wait_s
            while len(self._wrong) > MAX_GUESSERS:
                self._wrong.popitem(last=False)


class PunchoutService:
    """Punch-out sessions of the buyers in the settings."""

    def __init__(self, buyers: Buyers, visits: PunchoutStore, *, public_url: str, lasts: timedelta) -> None:
        self._buyers, self._visits, self._lasts = buyers, visits, lasts
        self._guesses = GuessLimit()
        self._pages = f"{public_url.rstrip('/')}/procurement/sessions"

    def open_session(self, raw: bytes, *, client: str, now: datetime) -> bytes:
        """Response to a cXML PunchOutSetupRequest from a client address. Raises PunchoutRefused."""
        self._guesses.check(client)
        request = read_setup(raw)
        buyer = self._authenticate_sender(request, client)
        url = request.return_url
        if url is None and request.operation != "inspect":
            raise PunchoutRefused(
                BAD_REQUEST, "BrowserFormPost/URL is missing: it must be the return address of the basket."
            )
        facts = {
            "protocol": "cxml",
            "operation": request.operation,
            "cookie": request.cookie,
            "buyer": [request.buyer.identity, request.buyer.domain],
            "seller": [request.seller.identity, request.seller.domain],
            "basket": request.basket and list(request.basket),
            "address": url and self._buyers.check_return_url(buyer, url),
        }
        token = self._visits.open(buyer.name, request.payload, facts, now=now, lifetime=self._lasts)
        if token is None:
            raise PunchoutRefused(CONFLICT, "The session of this payloadID has already ordered. Open a new session.")
        return response_bytes(secrets.token_hex(8), now.isoformat(), f"{self._pages}/{token}")

    def _authenticate_sender(self, request: SetupRequest, client: str) -> Buyer:
        """Buyer whose secret the sender knows. Raises PunchoutRefused."""
        for party, secret in request.senders[:MAX_CREDENTIALS]:
            try:
                return self._buyers.find_by_identity(party.domain, party.identity, secret)
            except PunchoutRefused:
                self._guesses.record_wrong(client)
        raise PunchoutRefused(UNAUTHORIZED, "Unknown sender identity or wrong shared secret.")

    def open_oci_session(self, fields: Mapping[str, str], *, client: str, now: datetime) -> str:
        """Address of the session that an OCI call opens. Field names are case-insensitive. Raises PunchoutRefused."""
        self._guesses.check(client)
        values = {name.lower(): value for name, value in fields.items()}
        try:
            buyer = self._buyers.find_by_user(values.get("username", ""), values.get("password", ""))
        except PunchoutRefused:
            self._guesses.record_wrong(client)
            raise
        if values.get("function"):
            raise PunchoutRefused(
                NOT_IMPLEMENTED, "FUNCTION is not supported: omit it. Only catalog visits are available."
            )
        if "hook_url" not in values:
            raise PunchoutRefused(BAD_REQUEST, "HOOK_URL is missing: it must be the return address of the basket.")
        target = values.get("returntarget") or values.get("~target") or "_top"
        if not FRAME.fullmatch(target):
            raise PunchoutRefused(BAD_REQUEST, "~TARGET is not a valid frame name.")
        facts = {
            "protocol": "oci",
            "operation": "create",
            "address": self._buyers.check_return_url(buyer, values["hook_url"]),
            "target": target,
            "echo": [[name, value[:100]] for name, value in fields.items() if name.lower() in ECHOED],
        }
        payload = secrets.token_hex(16)  # each OCI call opens its own session
        return f"{self._pages}/{self._visits.open(buyer.name, payload, facts, now=now, lifetime=self._lasts)}"

    def find_visit(self, token: str, *, now: datetime) -> tuple[PunchoutVisit, Buyer]:
        """Session of a token, and its buyer. Raises UnknownSession."""
        return self._require_visit(self._visits.find(token, now=now))

    def visible_answers(self, buyer: Buyer) -> Visibility:
        """Answers that a buyer sees: those of its own sessions, and those that its settings name."""
        own = () if buyer.sees_all else self._visits.list_own_answers(buyer.name)
        return Visibility(own, buyer.sees_labels, buyer.sees_cost_centres, buyer.sees_all, buyer.tenant)

    def record_made(self, visit: PunchoutVisit, recommendation: str) -> None:
        """Records an answer that the form of a session made, so that its buyer sees it."""
        self._visits.record_made(visit, recommendation)

    def _require_visit(self, visit: PunchoutVisit | None) -> tuple[PunchoutVisit, Buyer]:
        buyer = None if visit is None else self._buyers.find_by_name(visit.buyer)
        if visit is None or buyer is None:
            raise UnknownSession("This session has expired or does not exist. Open a new one from your own system.")
        return visit, buyer

    def hand_over(self, token: str, bill: Bill | None, *, now: datetime) -> tuple[BrowserForm, Buyer]:
        """Form that returns the basket to the buyer's system; without a bill, it says that nothing was chosen.

        A session orders once. A repeated order gives the same bytes, so a lost basket can be sent again. Raises
        UnknownSession, NotAllowedInSession, and the errors of a bill that cannot be ordered.
        """
        visit, _ = self.find_visit(token, now=now)
        if bill is not None and visit.facts["operation"] == "inspect":
            raise NotAllowedInSession("This session is read-only and cannot order.")
        if visit.facts["address"] is None:
            raise NotAllowedInSession("This session has no return address. Close the window to go back.")
        build_form(visit, bill, at=now)  # raises before the session changes
        chosen = NOTHING if bill is None else bill.reference
        after, buyer = self._require_visit(self._visits.record_choice(token, chosen, now=now))
        if after.chosen != chosen or after.chosen_at is None:
            raise NotAllowedInSession(
                "This session has already returned another basket. Open a new one from your own system."
            )
        return build_form(after, bill, at=after.chosen_at), buyer


def build_form(visit: PunchoutVisit, bill: Bill | None, *, at: datetime) -> BrowserForm:
    facts = visit.facts
    if facts["protocol"] == "oci":
        fields = [*(tuple(pair) for pair in facts["echo"]), *(oci_fields(bill) if bill is not None else [])]
        return BrowserForm(facts["address"], facts["target"], tuple(fields))
    session = Session(
        seller=Party(*facts["seller"]),
        buyer=Party(*facts["buyer"]),
        cookie=facts["cookie"],
        message=visit.key[:32],
        sent_at=at.isoformat(timespec="seconds"),
        operation_allowed="edit",
    )
    document = unchanged_bytes(session) if bill is None else cxml_bytes(bill, session)
    return BrowserForm(facts["address"], "_top", (("cxml-urlencoded", document.decode("utf-8")),))
