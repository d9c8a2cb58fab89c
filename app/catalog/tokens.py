"""Signed tokens (JWT) of the operator's identity provider: verified by its published keys, read as a caller."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal

import httpx2
import orjson
import structlog
from pydantic import BaseModel, ConfigDict, Field

from app.catalog.keys import TENANT, Caller, Scope
from app.db import PUBLIC
from app.errors import InvalidKey, Unavailable, describe_error
from app.extras import defer_import

if TYPE_CHECKING:
    import jwt
else:
    jwt = defer_import("jwt", "jwt", "HEADROOM_TOKEN_ISSUERS")

# Signatures by a private key alone: a public key that serves as the secret of an HMAC proves nothing.
Algorithm = Literal["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"]
KEY_TYPES = ("RSA", "EC", "OKP")
LEEWAY_S = 60  # by which clocks may differ
FRESH_S = 600.0  # keys of an issuer are read again after this time
FLOOR_S = 30.0  # least time between two reads, however many tokens name unknown keys
STALE_S = 86400.0  # keys still count for so long while the issuer does not answer
TIMEOUT_S = 5.0  # for the whole answer of an issuer
MAX_KEYS_BYTES = 2**20
MAX_SUBJECT_CHARS = 100

log = structlog.get_logger("headroom")


class TokenIssuer(BaseModel):
    """An identity provider whose tokens the service accepts, and what their claims mean here."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    issuer: str = Field(min_length=1, max_length=500, description="Claim `iss` of its tokens.")
    audience: str = Field(min_length=1, max_length=500, description="Claim `aud`: the name of this service there.")
    jwks_url: str = Field(pattern=r"^https?://[^\s/@]+(/[^\s]*)?$", description="Address of its public keys.")
    algorithms: Annotated[tuple[Algorithm, ...], Field(min_length=1)] = ("RS256", "ES256", "EdDSA")
    tenant_claim: str | None = Field(None, description="Claim that names the tenant. Default: all belong to `tenant`.")
    tenants: Mapping[str, str] = Field({}, description="Tenant of each value of that claim. Default: the value itself.")
    tenant: str = Field(PUBLIC, pattern=TENANT.pattern, description="Tenant of its tokens without a `tenant_claim`.")
    scopes_claim: str = Field("scope", description="Claim with scopes, roles or groups: text or list.")
    scopes: Mapping[str, tuple[Scope, ...]] = Field(
        {}, description="Scopes of each value of that claim. Default: values are names of scopes."
    )

    def read_claims(self, claims: Mapping[str, Any]) -> Caller:
        """Returns the caller that verified claims describe. Raises InvalidKey if they name no tenant."""
        return Caller(self._tenant_of(claims), self._scopes_of(claims), f"jwt:{claims['sub'][:MAX_SUBJECT_CHARS]}")

    def _tenant_of(self, claims: Mapping[str, Any]) -> str:
        if self.tenant_claim is None:
            return self.tenant
        value = find_claim(claims, self.tenant_claim)
        tenant = (self.tenants.get(value) if self.tenants else value) if isinstance(value, str) else None
        if tenant is None or not TENANT.fullmatch(tenant):
            raise InvalidKey(f"The claim {self.tenant_claim} of the token names no tenant of this service.")
        return tenant

    def _scopes_of(self, claims: Mapping[str, Any]) -> frozenset[Scope]:
        value = find_claim(claims, self.scopes_claim)
        values = value.split() if isinstance(value, str) else value if isinstance(value, list) else []
        meaning = self.scopes or {scope.value: (scope,) for scope in Scope}
        return frozenset(scope for each in values if isinstance(each, str) for scope in meaning.get(each, ()))


def find_claim(claims: Mapping[str, Any], name: str) -> Any:
    """Returns a claim by its name, or by a path with dots such as `realm_access.roles`; None if it is missing."""
    if name in claims:
        return claims[name]
    first, dot, rest = name.partition(".")
    below = claims.get(first)
    return find_claim(below, rest) if dot and isinstance(below, Mapping) else None


class IssuerKeys:
    """Public keys of an issuer by their id, read at most every FLOOR_S seconds."""

    def __init__(self, url: str, transport: httpx2.AsyncBaseTransport | None) -> None:
        self._url, self._transport, self._lock = url, transport, threading.Lock()
        self._keys: dict[str | None, jwt.PyJWK] = {}
        self._read_at = self._tried_at = float("-inf")

    def find_key(self, identity: str | None) -> jwt.PyJWK | None:
        """Returns a key; None if the issuer has published none of this id. Raises Unavailable while the issuer does
        not answer and no key of the last day is known.
        """
        now = time.monotonic()
        due = identity not in self._keys or now - self._read_at >= FRESH_S
        if due and (not self._keys or now - self._tried_at >= FLOOR_S):  # without any key, wait for the first read
            with self._lock:
                if time.monotonic() - self._tried_at >= FLOOR_S:
                    self._read()
        if time.monotonic() - self._read_at >= STALE_S:
            raise Unavailable("The issuer of this token does not answer, so the token cannot be verified.")
        return self._keys.get(identity)

    def _read(self) -> None:
        self._tried_at = time.monotonic()
        try:
            self._keys = select_keys(orjson.loads(asyncio.run(self._fetch())))
        except (httpx2.HTTPError, TimeoutError, ValueError) as error:
            log.warning("token_keys_not_read", url=self._url, **describe_error(error))
        else:
            self._read_at = time.monotonic()

    async def _fetch(self) -> bytes:
        client = httpx2.AsyncClient(timeout=TIMEOUT_S, trust_env=False, transport=self._transport)
        async with asyncio.timeout(TIMEOUT_S), client, client.stream("GET", self._url) as response:
            response.raise_for_status()
            body = b""
            async for part in response.aiter_bytes():
                body += part
                if len(body) > MAX_KEYS_BYTES:
                    raise ValueError(f"more than {MAX_KEYS_BYTES:,} bytes")
        return body


def select_keys(document: Any) -> dict[str | None, jwt.PyJWK]:
    """Returns the public signature keys of a JWKS document by their id; a single key also answers tokens without an
    id. Raises ValueError if there are none.
    """
    listed = document.get("keys") if isinstance(document, dict) else None
    keys: dict[str | None, jwt.PyJWK] = {}
    for each in listed if isinstance(listed, list) else ():
        if isinstance(each, dict) and each.get("kty") in KEY_TYPES and each.get("use", "sig") == "sig":
            try:
                keys[each.get("kid")] = jwt.PyJWK(each)
            except jwt.PyJWTError:
                continue  # of a type that PyJWT does not know
    if not keys:
        raise ValueError("no public keys for signatures")
    return {None: next(iter(keys.values())), **keys} if len(keys) == 1 else keys


class TokenVerifier:
    """Verifies tokens of the configured issuers."""

    def __init__(self, issuers: Sequence[TokenIssuer], *, transport: httpx2.AsyncBaseTransport | None = None) -> None:
        self._issuers = {each.issuer: (each, IssuerKeys(each.jwks_url, transport)) for each in issuers}

    def __bool__(self) -> bool:
        return bool(self._issuers)

    def read(self, token: str) -> Caller:
        """Returns the caller that a valid token describes. Raises InvalidKey and Unavailable."""
        try:
            named = jwt.decode_complete(token, options={"verify_signature": False})
            issuer, keys = self._issuers[named["payload"]["iss"]]
            key = keys.find_key(named["header"].get("kid"))
            if key is None:
                raise InvalidKey("The issuer of this token has not published the key that signed it.")
            claims = jwt.decode(
                token,
                key,
                algorithms=issuer.algorithms,
                audience=issuer.audience,
                issuer=issuer.issuer,
                leeway=LEEWAY_S,
                options={"require": ["exp", "iss", "aud", "sub"], "enforce_minimum_key_length": True},
            )
        except (KeyError, TypeError):
            raise InvalidKey("This token names no issuer that this service accepts.") from None
        except jwt.ExpiredSignatureError:
            raise InvalidKey("This token is expired. Sign in again.") from None
        except jwt.PyJWTError as error:
            raise InvalidKey(f"This token is not valid: {type(error).__name__}.") from None
        return issuer.read_claims(claims)
