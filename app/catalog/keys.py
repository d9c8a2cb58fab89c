"""Keys of callers: issued once as text, stored as digests, with a tenant and scopes."""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from zlib import crc32

from sqlalchemy import Connection, DateTime, Engine, String, insert, or_, select, update
from sqlalchemy.orm import Mapped, mapped_column

from app.catalog.filing import to_utc
from app.catalog.tables import Slug, Text
from app.db import PUBLIC, Base, DatabaseError
from app.errors import InvalidKey

ALPHABET = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
ID_CHARS, SECRET_CHARS, SECRET_BITS = 8, 43, 256  # 62 ** 43 exceeds 2 ** 256
PREFIX = "hr_"
_KEY = re.compile(r"(hr_([0-9A-Za-z]{8})_([0-9A-Za-z]{43}))_([0-9a-f]{8})")
TENANT = re.compile(r"[a-z0-9][a-z0-9._-]{0,59}")
FRESH_S = 2.0  # a key is read again after this time: a revocation reaches every process within it
STALE_S = 30.0  # a key still counts for so long while the database does not answer
MOST_CACHED = 10_000


class Scope(StrEnum):
    """What a key may do. `admin` includes all others."""

    SIZE = "size"
    READ = "read"
    CATALOG_WRITE = "catalog:write"
    MEASURE = "measure"
    PROCURE = "procure"
    ADMIN = "admin"


@dataclass(frozen=True, slots=True)
class Caller:
    """Who sent a request: a tenant, what it may do, and the id of its key; `key_id` is empty without one."""

    tenant: str = PUBLIC
    scopes: frozenset[Scope] = frozenset()
    key_id: str = ""

    def may(self, scope: Scope) -> bool:
        return scope in self.scopes or Scope.ADMIN in self.scopes


class KeyRow(Base):
    """One key. The key itself is never stored."""

    __tablename__ = "api_keys"

    id: Mapped[str] = mapped_column(String(ID_CHARS), primary_key=True)
    tenant: Mapped[str] = mapped_column(Slug, index=True)
    name: Mapped[str] = mapped_column(Text)
    scopes: Mapped[str] = mapped_column(Text, doc="separated by spaces")
    digest: Mapped[str] = mapped_column(String(64), doc="SHA-256 of the whole key")
    units_per_minute: Mapped[int | None] = mapped_column(doc="own rate limit; none for that of the settings")
    created_at: Mapped[datetime] = mapped_column(DateTime(timezone=True))
    expires_at: Mapped[datetime | None] = mapped_column(DateTime(timezone=True))
    revoked_at: Mapped[datetime | None] = mapped_column(DateTime(timezone=True))


@dataclass(frozen=True, slots=True)
class KeyRecord:
    """A stored key, without its secret."""

    id: str
    tenant: str
    name: str
    scopes: frozenset[Scope]
    digest: str
    units_per_minute: int | None
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None

    def state(self, now: datetime) -> str:
        """Returns whether the key is valid, expired or revoked."""
        if self.revoked_at is not None:
            return "revoked"
        return "expired" if self.expires_at is not None and self.expires_at <= now else "valid"


COLUMNS = tuple(getattr(KeyRow, name) for name in KeyRecord.__dataclass_fields__)


def encode_base62(value: int, chars: int) -> str:
    """Returns a number in base 62 with a fixed number of characters.

    Check:
        >>> encode_base62(62 * 62 + 61, 4)
        '010z'
    """
    digits = []
    for _ in range(chars):
        value, digit = divmod(value, len(ALPHABET))
        digits.append(ALPHABET[digit])
    return "".join(reversed(digits))


def generate_key() -> tuple[str, str]:
    """Returns a new key and its id. The key ends in a checksum, by which scanners recognize keys in files."""
    identity = "".join(secrets.choice(ALPHABET) for _ in range(ID_CHARS))
    body = f"{PREFIX}{identity}_{encode_base62(secrets.randbits(SECRET_BITS), SECRET_CHARS)}"
    return f"{body}_{_checksum(body)}", identity


def _checksum(body: str) -> str:
    return f"{crc32(body.encode()):08x}"


def digest_key(key: str) -> str:
    """Returns the digest that is stored of a key. A random secret of 256 bits needs no slow hash."""
    return hashlib.sha256(key.encode()).hexdigest()


def key_identity(key: str) -> str | None:
    """Returns the id in a well-formed key; None for any other text."""
    match = _KEY.fullmatch(key)
    return match[2] if match and hmac.compare_digest(match[4], _checksum(match[1])) else None


def create_key(
    connection: Connection,
    *,
    tenant: str,
    name: str,
    scopes: Collection[Scope],
    now: datetime,
    expires_at: datetime | None = None,
    units_per_minute: int | None = None,
) -> tuple[str, str]:
    """Stores a new key and returns it with its id. It cannot be shown again."""
    key, identity = generate_key()
    connection.execute(
        insert(KeyRow).values(
            id=identity,
            tenant=tenant,
            name=name,
            scopes=" ".join(sorted(scopes)),
            digest=digest_key(key),
            units_per_minute=units_per_minute,
            created_at=now,
            expires_at=expires_at,
        )
    )
    return key, identity


def list_keys(connection: Connection, tenant: str | None = None) -> Sequence[KeyRecord]:
    """Returns all keys, or those of a tenant, by tenant and age."""
    query = select(*COLUMNS).order_by(KeyRow.tenant, KeyRow.created_at, KeyRow.id)
    rows = connection.execute(query if tenant is None else query.where(KeyRow.tenant == tenant))
    return [_record(row) for row in rows]


def find_key(connection: Connection, identity: str) -> KeyRecord | None:
    """Returns a key by its id; None if there is none."""
    row = connection.execute(select(*COLUMNS).where(KeyRow.id == identity)).first()
    return None if row is None else _record(row)


def revoke_key(connection: Connection, identity: str, *, now: datetime) -> bool:
    """Revokes a key for good. Returns False if there is no such key, or if it is revoked already."""
    alive = (KeyRow.id == identity, KeyRow.revoked_at.is_(None))
    return bool(connection.execute(update(KeyRow).where(*alive).values(revoked_at=now)).rowcount)


def rotate_key(connection: Connection, old: KeyRecord, *, now: datetime, overlap: timedelta) -> tuple[str, str]:
    """Returns a new key like `old` with its id; the old one expires after the overlap, unless it does earlier."""
    ends = now + overlap
    sooner = (KeyRow.id == old.id, or_(KeyRow.expires_at.is_(None), KeyRow.expires_at > ends))
    connection.execute(update(KeyRow).where(*sooner).values(expires_at=ends))
    return create_key(
        connection,
        tenant=old.tenant,
        name=old.name,
        scopes=old.scopes,
        now=now,
        expires_at=old.expires_at,
        units_per_minute=old.units_per_minute,
    )


def _record(row: object) -> KeyRecord:
    values = {name: getattr(row, name) for name in KeyRecord.__dataclass_fields__}
    for name in ("created_at", "expires_at", "revoked_at"):
        values[name] = None if values[name] is None else to_utc(values[name])
    return KeyRecord(**{**values, "scopes": frozenset(Scope(each) for each in values["scopes"].split())})


class KeyStore:
    """Keys as requests see them: cached for two seconds, so that a revocation takes effect in every process."""

    def __init__(self, engine: Engine) -> None:
        self._engine, self._lock = engine, threading.Lock()
        self._read: OrderedDict[str, tuple[KeyRecord, float]] = OrderedDict()
        self._any_key = False

    def find_cached(self, key: str, *, now: datetime) -> KeyRecord | None:
        """Returns the record of a valid key that was read a moment ago; None if it must be read. Raises InvalidKey."""
        identity = _require_identity(key)
        record = self._cached(identity, FRESH_S)
        return None if record is None else check_key(record, key, now=now)

    def read(self, key: str, *, now: datetime) -> KeyRecord:
        """Returns the record of a valid key from the database. While that does not answer, a key that was read within
        the last 30 seconds still counts. Raises InvalidKey and DatabaseError.
        """
        identity = _require_identity(key)
        try:
            with self._engine.connect() as connection:
                record = find_key(connection, identity)
        except DatabaseError:
            record = self._cached(identity, STALE_S)
            if record is None:
                raise
            return check_key(record, key, now=now)
        if record is not None:
            with self._lock:
                self._read[identity] = record, time.monotonic()
                while len(self._read) > MOST_CACHED:
                    self._read.popitem(last=False)
        return check_key(record, key, now=now)

    def _cached(self, identity: str, most_age_s: float) -> KeyRecord | None:
        found = self._read.get(identity)
        return None if found is None or time.monotonic() - found[1] >= most_age_s else found[0]

    def has_any(self) -> bool:
        """Returns whether a key was ever created. Raises DatabaseError."""
        if not self._any_key:
            with self._engine.connect() as connection:
                self._any_key = connection.execute(select(KeyRow.id).limit(1)).first() is not None
        return self._any_key


def _require_identity(key: str) -> str:
    identity = key_identity(key)
    if identity is None:
        raise InvalidKey(
            "This is not a key: its checksum is wrong. Copy the whole key, from hr_ to its last character."
        )
    return identity


def check_key(record: KeyRecord | None, key: str, *, now: datetime) -> KeyRecord:
    """Returns the record of a key that is valid now. Raises InvalidKey."""
    if record is None or not hmac.compare_digest(record.digest, digest_key(key)):
        raise InvalidKey("Unknown key.")
    state = record.state(now)
    if state != "valid":
        raise InvalidKey(f"This key is {state}. Ask the operator of the service for a new one.")
    return record
