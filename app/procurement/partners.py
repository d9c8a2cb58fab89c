"""The systems that the settings name: buyers that may use punch-out, and endpoints that receive webhooks."""

from __future__ import annotations

import base64
import binascii
import re
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, SecretStr, field_validator, model_validator

from app.catalog.outbox import EVENTS

HOST = r"^(\*\.)?[a-z0-9]([a-z0-9.-]*[a-z0-9])?$"
# Accepts no double quotes and no backslashes, which browsers and this service could parse differently.
ADDRESS = re.compile(r"(https?)://([A-Za-z0-9.-]+)(:[0-9]{1,5})?([/?#][!#-\[\]-~]*)?")
PREFIX = "whsec_"  # of a webhook's secret
TENANT = Field("public", pattern=r"^[a-z0-9][a-z0-9._-]{0,59}$", description="Tenant whose answers it is about.")


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
    sees_labels: tuple[Annotated[str, Field(min_length=1, max_length=120)], ...] = Field(
        (), description="Beginnings of labels whose answers the buyer sees, besides those of its own sessions."
    )
    sees_cost_centres: tuple[Annotated[str, Field(min_length=1, max_length=120)], ...] = Field(
        (), description="Cost centers whose answers the buyer sees."
    )
    sees_all: bool = Field(False, description="Whether the buyer sees every stored answer of its tenant.")
    tenant: str = TENANT

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


class Webhook(BaseModel):
    """An endpoint that receives events."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9._-]{0,59}$", description="Name of the endpoint in outbox and logs.")
    url: str = Field(max_length=2000, description="Address that notices are posted to.")
    secret: SecretStr = Field(description="whsec_ followed by 24 to 64 random bytes in base64.")
    events: tuple[str, ...] = Field(EVENTS, min_length=1, description="Events that are sent to the endpoint.")
    tenant: str = TENANT

    @field_validator("url")
    @classmethod
    def _validate_url(cls, url: str) -> str:
        if not ADDRESS.fullmatch(url):
            raise ValueError("url must be a plain http or https address")
        return url

    @field_validator("secret")
    @classmethod
    def _validate_secret(cls, secret: SecretStr) -> SecretStr:
        try:
            key = key_of(secret)
        except (binascii.Error, ValueError):
            key = b""
        if not 24 <= len(key) <= 64:
            raise ValueError("secret must be whsec_ followed by 24 to 64 bytes in base64")
        return secret

    @field_validator("events")
    @classmethod
    def _validate_events(cls, events: tuple[str, ...]) -> tuple[str, ...]:
        if not set(events) <= set(EVENTS):
            raise ValueError(f"events must be among: {', '.join(EVENTS)}")
        return events


def key_of(secret: SecretStr) -> bytes:
    """Key bytes of a secret; empty if the prefix is missing."""
    text = secret.get_secret_value()
    return base64.b64decode(text.removeprefix(PREFIX), validate=True) if text.startswith(PREFIX) else b""
