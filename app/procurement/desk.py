"""The desk that buyers' systems come to: who may open a session, what it is shown, what it takes home."""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from app.catalog.punchouts import PunchoutStore, Visit
from app.errors import NotAllowed, NotFound
from app.export.cxml import Party, Session, cxml_bytes, unchanged_bytes
from app.export.lines import Bill
from app.export.oci import oci_fields
from app.procurement.buyers import Buyer, Buyers
from app.procurement.refusals import BAD_REQUEST, CONFLICT, NOT_IMPLEMENTED, UNAUTHORIZED, Refused
from app.procurement.setup import SetupRequest, read_setup, response_bytes

FRAME = re.compile(r"_(?:top|parent|self|blank)|[A-Za-z][A-Za-z0-9_-]{0,39}")
# What SAP wants back as it came.
ECHOED = ("~okcode", "~caller", "~target")
NOTHING = "nothing"


class UnknownSession(NotFound):
    code = "unknown-session"


class NotNow(NotAllowed):
    """What this session may not do, or no more."""

    code = "not-in-this-session"


@dataclass(frozen=True, slots=True)
class Form:
    """What the buyer's browser posts to the buyer's system."""

    address: str
    target: str
    fields: tuple[tuple[str, str], ...]


class Desk:
    """Sessions of the buyers that settings name."""

    def __init__(self, buyers: Buyers, visits: PunchoutStore, *, public_url: str, lasts: timedelta) -> None:
        self._buyers, self._visits, self._lasts = buyers, visits, lasts
        self._pages = f"{public_url.rstrip('/')}/procurement/sessions"

    def opened(self, raw: bytes, *, now: datetime) -> bytes:
        """The response to a cXML PunchOutSetupRequest. Raises Refused."""
        asked = read_setup(raw)
        buyer = self._proven(asked)
        url = asked.return_url
        if url is None and asked.operation != "inspect":
            raise Refused(BAD_REQUEST, "BrowserFormPost/URL is needed: where the basket goes.")
        facts = {
            "protocol": "cxml",
            "operation": asked.operation,
            "cookie": asked.cookie,
            "buyer": [asked.buyer.identity, asked.buyer.domain],
            "seller": [asked.seller.identity, asked.seller.domain],
            "basket": asked.basket and list(asked.basket),
            "address": url and self._buyers.returnable(buyer, url),
        }
        token = self._visits.open(buyer.name, asked.payload, facts, now=now, lasts=self._lasts)
        if token is None:
            raise Refused(CONFLICT, "The session of this payloadID has ordered already; open another.")
        return response_bytes(secrets.token_hex(8), now.isoformat(), f"{self._pages}/{token}")

    def _proven(self, asked: SetupRequest) -> Buyer:
        """The buyer whose secret the sender knows. Raises Refused."""
        for party, secret in asked.senders:
            try:
                return self._buyers.by_identity(party.domain, party.identity, secret)
            except Refused:
                continue
        raise Refused(UNAUTHORIZED, "The sender's identity and shared secret are not known here.")

    def entered(self, fields: Mapping[str, str], *, now: datetime) -> str:
        """Where an OCI call goes on. Names of its fields are told without regard to case. Raises Refused."""
        told = {name.lower(): value for name, value in fields.items()}
        buyer = self._buyers.by_user(told.get("username", ""), told.get("password", ""))
        if told.get("function"):
            raise Refused(NOT_IMPLEMENTED, "Of OCI's functions only the visit of a catalogue is there: no FUNCTION.")
        if "hook_url" not in told:
            raise Refused(BAD_REQUEST, "HOOK_URL is needed: where the basket goes.")
        target = told.get("returntarget") or told.get("~target") or "_top"
        if not FRAME.fullmatch(target):
            raise Refused(BAD_REQUEST, "~TARGET is no name of a frame.")
        facts = {
            "protocol": "oci",
            "operation": "create",
            "address": self._buyers.returnable(buyer, told["hook_url"]),
            "target": target,
            "echo": [[name, value[:100]] for name, value in fields.items() if name.lower() in ECHOED],
        }
        payload = secrets.token_hex(16)  # each call is a visit of its own
        return f"{self._pages}/{self._visits.open(buyer.name, payload, facts, now=now, lasts=self._lasts)}"

    def visit(self, token: str, *, now: datetime) -> tuple[Visit, Buyer]:
        """The session of a token and its buyer. Raises UnknownSession."""
        return self._known(self._visits.find(token, now=now))

    def _known(self, found: Visit | None) -> tuple[Visit, Buyer]:
        buyer = None if found is None else self._buyers.named(found.buyer)
        if found is None or buyer is None:
            raise UnknownSession("This session is over, or it never was. Open it again from your own system.")
        return found, buyer

    def taken(self, token: str, bill: Bill | None, *, now: datetime) -> tuple[Form, Buyer]:
        """The basket as the buyer's browser carries it home; without a bill, that nothing was chosen.

        A session orders once. The same order again is the same bytes, so what was lost on the way can be sent again.
        Raises UnknownSession, NotNow, and what a bill that cannot be ordered raises.
        """
        visit, _ = self.visit(token, now=now)
        if bill is not None and visit.facts["operation"] == "inspect":
            raise NotNow("This session may look and not order.")
        if visit.facts["address"] is None:
            raise NotNow("This session came without an address to go back to; close the window.")
        form_of(visit, bill, at=now)  # what cannot be ordered leaves the session as it is
        chosen = NOTHING if bill is None else bill.reference
        after, buyer = self._known(self._visits.choose(token, chosen, now=now))
        if after.chosen != chosen or after.chosen_at is None:
            raise NotNow("This session has handed over another basket. Open another from your own system.")
        return form_of(after, bill, at=after.chosen_at), buyer


def form_of(visit: Visit, bill: Bill | None, *, at: datetime) -> Form:
    """What goes home from a session."""
    facts = visit.facts
    if facts["protocol"] == "oci":
        told = [*(tuple(pair) for pair in facts["echo"]), *(oci_fields(bill) if bill is not None else [])]
        return Form(facts["address"], facts["target"], tuple(told))
    session = Session(
        seller=Party(*facts["seller"]),
        buyer=Party(*facts["buyer"]),
        cookie=facts["cookie"],
        message=visit.key[:32],
        sent_at=at.isoformat(timespec="seconds"),
        operation_allowed="edit",
    )
    document = unchanged_bytes(session) if bill is None else cxml_bytes(bill, session)
    return Form(facts["address"], "_top", (("cxml-urlencoded", document.decode("utf-8")),))
