"""Buyers that may punch out: identities, secrets and return hosts from the settings."""

from __future__ import annotations

import hmac
import re
from collections.abc import Iterable
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, SecretStr, model_validator

from app.procurement.refusals import FORBIDDEN, UNAUTHORIZED, PunchoutRefused

HOST = r"^(\*\.)?[a-z0-9]([a-z0-9.-]*[a-z0-9])?$"
# Accepts no double quotes and no backslashes, which browsers and this service could parse differently.
ADDRESS = re.compile(r"(https?)://([A-Za-z0-9.-]+)(:[0-9]{1,5})?([/?#][!#-\[\]-~]*)?")
MAX_ADDRESS = 2000


class Buyer(BaseModel):
    """A buyer's system: an identity with secrets for cXML, a username with passwords for OCI.

    It may have two secrets or passwords while one replaces the other.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9._-]{0,59}$", description="Name of the buyer in logs and sessions.")
    hosts: tuple[str, ...] = Field(min_length=1, description="Hosts that baskets may go to; `*.` allows subdomains.")
    domain: str = Field("NetworkId", description="Domain of the cXML credential: NetworkId, DUNS, ...")
    identity: str | None = Field(None, min_length=1, max_length=255, description="Identity of the cXML credential.")
    secrets: tuple[SecretStr, ...] = Field((), description="Shared secrets of the identity; two during a rotation.")
    username: str | None = Field(None, min_length=1, max_length=255, description="USERNAME of OCI calls.")
    passwords: tuple[SecretStr, ...] = Field((), description="PASSWORD of OCI calls; two during a rotation.")

    @model_validator(mode="after")
    def _validate_complete(self) -> Buyer:
        if any(not re.match(HOST, host) for host in self.hosts):
            raise ValueError("hosts must be lower-case host names, such as srm.example.com or *.example.com")
        if (self.identity is None) != (not self.secrets) or (self.username is None) != (not self.passwords):
            raise ValueError("set identity together with secrets, and username together with passwords")
        if self.identity is None and self.username is None:
            raise ValueError("set identity (cXML) or username (OCI)")
        if any(len(secret.get_secret_value()) < 12 for secret in (*self.secrets, *self.passwords)):
            raise ValueError("secrets and passwords must have at least 12 characters")
        return self


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
