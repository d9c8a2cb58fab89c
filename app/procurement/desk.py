"""Punch-out sessions: opens them for buyers' systems and returns baskets."""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from app.catalog.punchouts import PunchoutStore, PunchoutVisit
from app.errors import NotAllowed, NotFound
from app.export.cxml import Party, Session, cxml_bytes, unchanged_bytes
from app.export.lines import Bill
from app.export.oci import oci_fields
from app.procurement.buyers import Buyer, Buyers
from app.procurement.refusals import BAD_REQUEST, CONFLICT, NOT_IMPLEMENTED, UNAUTHORIZED, PunchoutRefused
from app.procurement.setup import SetupRequest, read_setup, response_bytes

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


class PunchoutService:
    """Punch-out sessions of the buyers in the settings."""

    def __init__(self, buyers: Buyers, visits: PunchoutStore, *, public_url: str, lasts: timedelta) -> None:
        self._buyers, self._visits, self._lasts = buyers, visits, lasts
        self._pages = f"{public_url.rstrip('/')}/procurement/sessions"

    def open_session(self, raw: bytes, *, now: datetime) -> bytes:
        """Response to a cXML PunchOutSetupRequest. Raises PunchoutRefused."""
        request = read_setup(raw)
        buyer = self._authenticate_sender(request)
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

    def _authenticate_sender(self, request: SetupRequest) -> Buyer:
        """Buyer whose secret the sender knows. Raises PunchoutRefused."""
        for party, secret in request.senders:
            try:
                return self._buyers.find_by_identity(party.domain, party.identity, secret)
            except PunchoutRefused:
                continue
        raise PunchoutRefused(UNAUTHORIZED, "Unknown sender identity or wrong shared secret.")

    def open_oci_session(self, fields: Mapping[str, str], *, now: datetime) -> str:
        """Address of the session that an OCI call opens. Field names are case-insensitive. Raises PunchoutRefused."""
        values = {name.lower(): value for name, value in fields.items()}
        buyer = self._buyers.find_by_user(values.get("username", ""), values.get("password", ""))
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
    """Form that returns the result of a session."""
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
