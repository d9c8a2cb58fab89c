"""Settings of the service. No other module reads the environment."""

from __future__ import annotations

from datetime import date
from ipaddress import IPv4Network, IPv6Network
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field, SecretStr, field_validator, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError

from app.catalog.tokens import TokenIssuer
from app.procurement.partners import Buyer, Webhook

if TYPE_CHECKING:
    from app.feeds.sync import FeedAccess

DATABASE_DRIVERS = ("sqlite", "sqlite+pysqlite", "postgresql", "postgresql+psycopg")
DATABASE_URL_RULE = (
    "must be the URL of an SQLite or PostgreSQL database, such as sqlite:////var/lib/headroom/headroom.sqlite3 or "
    "postgresql+psycopg://user:password@host:5432/headroom"
)
FeedName = Literal[
    "gpuhunt", "skypilot", "azure", "aws", "aws-spot", "gcp", "oci", "lambda", "runpod", "vast", "shadeform", "nebius"
]
FeedUrl = Annotated[str, Field(pattern=r"^https?://[^\s/@]+(/[^\s]*)?$")]
Origin = Annotated[str, Field(pattern=r"^(\*|https?://[^\s/@?#]+)$")]


class Settings(BaseSettings):
    """Settings from environment variables with the prefix HEADROOM_."""

    model_config = SettingsConfigDict(
        env_prefix="HEADROOM_", extra="ignore", frozen=True, hide_input_in_errors=True, allow_inf_nan=False
    )

    database_url: str = Field(
        "sqlite:///headroom.sqlite3", description="SQLAlchemy URL: SQLite or PostgreSQL (psycopg)."
    )
    database_statement_s: float = Field(5.0, gt=0, le=600, description="Seconds that one statement may take.")
    database_lock_s: float = Field(
        3.0, gt=0, le=600, description="Seconds to wait for a lock that another transaction holds."
    )
    database_connect_s: int = Field(3, ge=2, le=60, description="Seconds to open a connection to PostgreSQL.")
    database_pool_s: float = Field(2.0, gt=0, le=60, description="Seconds to wait for a free connection of the pool.")
    database_connections: int = Field(10, ge=1, le=200, description="PostgreSQL connections per process.")
    host: str = Field("127.0.0.1", description="Address to listen on.")
    workers: int = Field(
        1, ge=1, le=64, description="Worker processes on one database. `serve --workers` takes precedence."
    )
    worker_memory_mib: int = Field(
        900,
        ge=0,
        le=1048576,
        description="Memory of a process in MiB, above which it finishes its requests and is replaced; 0 is no limit.",
    )
    max_connections: int = Field(512, ge=8, le=65536, description="Open client connections per process.")
    max_connections_per_address: int = Field(
        0,
        ge=0,
        le=65536,
        description="Open connections per client address and process; 0 is no limit. A proxy counts as one address.",
    )
    max_header_bytes: int = Field(
        32768, ge=4096, le=1048576, description="Total size of a request's headers, in bytes."
    )
    max_headers: int = Field(100, ge=16, le=10000, description="Number of headers a request may have.")
    max_url_bytes: int = Field(16384, ge=1024, le=65536, description="Length of a request's URL, in bytes.")
    headers_deadline_s: float = Field(5.0, gt=0, le=120, description="Seconds in which a client must send its headers.")
    keep_alive_s: int = Field(10, ge=1, le=600, description="Seconds that a connection may be idle between requests.")
    read_deadline_s: float = Field(
        10.0, gt=0, le=600, description="Seconds within which a client must read part of its answer."
    )
    drain_s: float = Field(
        1.0, ge=0, le=120, description="Seconds after SIGTERM in which new connections are still accepted."
    )
    stop_s: int = Field(
        20, ge=1, le=600, description="Seconds after the drain in which requests in progress may finish."
    )
    snapshot_check_s: float = Field(
        2.0, ge=0, le=86400, description="Seconds between checks for a newer catalog version."
    )
    max_body_bytes: int = Field(65536, ge=1024, le=33554432, description="Size of a request body, in bytes.")
    max_pasted_bytes: int = Field(
        6291456,
        ge=1024,
        le=33554432,
        description="Size of a request body with pasted metrics, a log or a configuration, in bytes.",
    )
    body_deadline_s: float = Field(5.0, gt=0, le=120, description="Seconds in which a client must send its body.")
    max_concurrent_searches: int = Field(
        1,
        ge=1,
        le=256,
        description="Answers computed concurrently per process; as many again for answers that take seconds. Others "
        "queue. More than one share one core.",
    )
    max_waiting: int = Field(
        16, ge=0, le=4096, description="Requests in that queue; further ones are rejected with Retry-After."
    )
    request_deadline_s: float = Field(
        20.0, gt=0, le=600, description="Seconds from request to answer; longer work is stopped."
    )
    keep_days: int = Field(90, ge=0, le=36500, description="Days that unfiled answers are kept; 0 is no limit.")
    keep_bytes: int = Field(
        10_000_000_000, ge=0, description="Total bytes of unfiled answers; the oldest are deleted first; 0 is no limit."
    )
    keep_filed_bytes: int = Field(
        10_000_000_000,
        ge=0,
        description="Total bytes of filed answers; further ones are returned but not stored; 0 is no limit.",
    )
    filed_bytes_per_day: int = Field(
        100_000_000,
        ge=0,
        description="Bytes of answers that one caller may file per day; 0 is no limit.",
    )
    today: date | None = Field(
        None,
        description="Fixed date from which the age of prices is computed, for documents and tests; default: today.",
    )
    cache_dir: Path | None = Field(None, description="Folder for the compiled simulation; default: ~/.cache/headroom.")
    log_level: str = Field(
        "info", pattern="^(debug|info|warning|error)$", description="Log level: debug, info, warning or error."
    )
    access_log: str = Field(
        "on", pattern="^(off|on|all)$", description="Log line per request: off, on, or all (with health checks)."
    )
    metrics: bool = Field(True, description="Whether GET /metrics serves Prometheus metrics.")
    require_key: bool = Field(
        False, description="Whether reading and sizing need a key too; changes of shared data always do."
    )
    key_units_per_minute: int = Field(
        0,
        ge=0,
        le=100_000_000,
        description="Cost units that a key without a limit of its own may use per minute and process; 0 is no limit.",
    )
    token_issuers: tuple[TokenIssuer, ...] = Field(
        (), description="Identity providers whose signed tokens (JWT) are accepted like keys, as JSON."
    )
    model_hub_url: str | None = Field(
        None,
        pattern=r"^https?://[^\s/@]+(/[^\s]*)?$",
        description="Hub that serves config.json of models missing from the catalog, under {url}/{id}/resolve/main/. "
        "Off by default.",
    )
    model_hub_networks: tuple[IPv4Network | IPv6Network, ...] = Field(
        (), description="Private networks that the hub may be in, as JSON."
    )
    price_sync_interval_hours: int = Field(
        0, ge=0, le=8760, description="Hours between reads of the price feeds by the service; 0 is never."
    )
    price_feed_urls: dict[FeedName, FeedUrl] = Field(
        {}, description="Other base URLs of price feeds, by feed, as JSON: mirrors, and servers in tests."
    )
    price_feed_keys: dict[FeedName, SecretStr] = Field({}, description="API keys of price feeds, by feed, as JSON.")
    price_feed_networks: tuple[IPv4Network | IPv6Network, ...] = Field(
        (), description="Private networks that price feeds may be in, as JSON."
    )
    proxies: tuple[IPv4Network | IPv6Network, ...] = Field(
        (),
        description="Networks of proxies whose X-Forwarded-For header is trusted, as JSON.",
    )
    identity_header: str | None = Field(
        None,
        pattern="^[A-Za-z][A-Za-z0-9-]{0,63}$",
        description="Header in which these proxies name the caller that they have signed in: a person or a team.",
    )
    mcp_hosts: tuple[str, ...] = Field(
        (),
        description="Host names under which agents reach /mcp, besides localhost and the public URL's, as JSON; "
        '["*"] accepts any.',
    )
    cors_origins: tuple[Origin, ...] = Field(
        (), description='Origins whose pages may call this service from a browser, as JSON; "*" is any origin.'
    )
    compress_from_bytes: int = Field(
        2048, ge=500, description="Size in bytes from which answers are compressed, if the client accepts gzip."
    )
    public_url: str | None = Field(
        None,
        pattern=r"^https?://[^\s/@]+(/[^\s]*)?$",
        description="URL under which buyers' browsers reach this service; required for punch-out.",
    )
    punchout_buyers: tuple[Buyer, ...] = Field((), description="Buyers that may use punch-out, as JSON.")
    punchout_session_minutes: int = Field(60, ge=1, le=1440, description="Minutes that a punch-out session stays open.")
    webhooks: tuple[Webhook, ...] = Field((), description="Endpoints that receive event notifications, as JSON.")
    plain_http: bool = Field(
        False,
        description="Allow http addresses for baskets, webhooks and token issuers: for tests and closed networks.",
    )

    @field_validator("database_url")
    @classmethod
    def _check_database_url(cls, url: str) -> str:
        try:
            parts = make_url(url)
        except (ArgumentError, ValueError):  # a port that is no number is a ValueError
            raise ValueError(DATABASE_URL_RULE) from None
        if parts.drivername not in DATABASE_DRIVERS or not 0 <= (parts.port or 0) <= 65535:
            raise ValueError(DATABASE_URL_RULE)
        return url

    @field_validator("cache_dir", mode="before")
    @classmethod
    def _default_cache_dir(cls, folder: object) -> object:
        """An empty variable means the default folder, not the current one."""
        return None if folder == "" else folder

    @model_validator(mode="after")
    def _check_together(self) -> Settings:
        """Checks what several settings decide. A message begins with the name of the setting that is wrong."""
        hosts = {
            "webhooks": [(webhook.name, webhook.url) for webhook in self.webhooks],
            "token_issuers": [(each.issuer, each.jwks_url) for each in self.token_issuers],
        }
        for setting, named in hosts.items():
            if len(dict(named)) < len(named):
                raise ValueError(f"{setting} must have unique names")
            if not self.plain_http and not all(url.startswith("https://") for _, url in named):
                raise ValueError(f"{setting} must be reached by https; HEADROOM_PLAIN_HTTP=true allows http")
        if self.identity_header is not None and not self.proxies:
            raise ValueError("identity_header is trusted only from HEADROOM_PROXIES, which names none")
        return self

    @property
    def price_feed_access(self) -> FeedAccess:
        """How price feeds are reached. Imports the feeds, which a service without them does not need."""
        from app.feeds.sync import FeedAccess  # noqa: PLC0415

        urls: dict[str, str] = {name: url for name, url in self.price_feed_urls.items()}  # noqa: C416 - names are literals
        keys: dict[str, str] = {name: key.get_secret_value() for name, key in self.price_feed_keys.items()}
        return FeedAccess(urls, keys, self.price_feed_networks)
