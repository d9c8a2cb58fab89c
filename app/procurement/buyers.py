"""Who may punch out: identities, secrets and where baskets may be sent back to, as settings name them."""

from __future__ import annotations

import hmac
import re
from collections.abc import Iterable
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, SecretStr, model_validator

from app.procurement.refusals import FORBIDDEN, UNAUTHORIZED, Refused

HOST = r"^(\*\.)?[a-z0-9]([a-z0-9.-]*[a-z0-9])?$"
# Plain characters, no double quote, no backslash: nothing that browsers and this service read differently.
ADDRESS = re.compile(r"(https?)://([A-Za-z0-9.-]+)(:[0-9]{1,5})?([/?#][!#-\[\]-~]*)?")
MAX_ADDRESS = 2000


class Buyer(BaseModel):
    """One buyer's system. For cXML an identity with secrets, two while one replaces the other; for OCI a user."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9._-]{0,59}$", description="What logs and sessions call it.")
    hosts: tuple[str, ...] = Field(min_length=1, description="Hosts a basket may go to; `*.` for all below one.")
    domain: str = Field("NetworkId", description="Domain of its cXML credential: NetworkId, DUNS, ...")
    identity: str | None = Field(None, min_length=1, max_length=255, description="Identity of its cXML credential.")
    secrets: tuple[SecretStr, ...] = Field((), description="Shared secrets of the identity.")
    username: str | None = Field(None, min_length=1, max_length=255, description="USERNAME of its OCI calls.")
    passwords: tuple[SecretStr, ...] = Field((), description="PASSWORD of its OCI calls.")

    @model_validator(mode="after")
    def _complete(self) -> Buyer:
        if any(not re.match(HOST, host) for host in self.hosts):
            raise ValueError("hosts are names in lower case, such as srm.example.com or *.example.com")
        if (self.identity is None) != (not self.secrets) or (self.username is None) != (not self.passwords):
            raise ValueError("an identity goes with secrets, a username with passwords")
        if self.identity is None and self.username is None:
            raise ValueError("an identity (cXML) or a username (OCI) is needed")
        if any(len(secret.get_secret_value()) < 12 for secret in (*self.secrets, *self.passwords)):
            raise ValueError("secrets have at least 12 characters")
        return self


class Buyers:
    """All of them, by what they prove to know."""

    def __init__(self, buyers: Iterable[Buyer], *, plain_http: bool) -> None:
        self.known = tuple(buyers)
        self._plain_http = plain_http

    def named(self, name: str) -> Buyer | None:
        return next((buyer for buyer in self.known if buyer.name == name), None)

    def by_identity(self, domain: str, identity: str, secret: str) -> Buyer:
        """The buyer of a cXML credential. Raises Refused."""
        return self._proven([(b, (b.domain, b.identity), b.secrets) for b in self.known], (domain, identity), secret)

    def by_user(self, username: str, password: str) -> Buyer:
        """The buyer of an OCI call. Raises Refused."""
        return self._proven([(b, b.username, b.passwords) for b in self.known], username, password)

    def _proven(self, entries: list[tuple[Buyer, object, tuple[SecretStr, ...]]], claimed: object, told: str) -> Buyer:
        """Every secret is compared, whoever is claimed: how long it takes says nothing."""
        proven = [
            buyer
            for buyer, own, secrets in entries
            for secret in secrets
            if hmac.compare_digest(secret.get_secret_value().encode(), told.encode()) & (own == claimed)
        ]
        if not proven:
            raise Refused(UNAUTHORIZED, "The identity and its secret are not known here.")
        return proven[0]

    def returnable(self, buyer: Buyer, url: str) -> str:
        """An address that a basket of this buyer may be sent to. Raises Refused."""
        found = ADDRESS.fullmatch(url) if len(url) <= MAX_ADDRESS else None
        if found is None:
            raise Refused(FORBIDDEN, "The address for the basket is not a plain https address.")
        if found[1] != "https" and not self._plain_http:
            raise Refused(FORBIDDEN, "The address for the basket has to be https.")
        host = (urlsplit(url).hostname or "").lower()
        if not any(_covers(pattern, host) for pattern in buyer.hosts):
            raise Refused(FORBIDDEN, f"Baskets of this buyer may not be sent to {host}.")
        return url


def _covers(pattern: str, host: str) -> bool:
    return host.endswith(pattern[1:]) if pattern.startswith("*.") else host == pattern
