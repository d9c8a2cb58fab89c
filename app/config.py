"""Settings: the only reader of the environment."""

from __future__ import annotations

from datetime import date
from ipaddress import IPv4Network, IPv6Network
from pathlib import Path
from typing import Annotated

from pydantic import Field, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from app.procurement.buyers import Buyer
from app.procurement.webhooks import Webhook

Origin = Annotated[str, Field(pattern=r"^(\*|https?://[^\s/@?#]+)$")]


class Settings(BaseSettings):
    """Environment variables with the prefix HEADROOM_."""

    model_config = SettingsConfigDict(env_prefix="HEADROOM_", extra="ignore", frozen=True)

    database_url: str = Field(
        "sqlite:///headroom.sqlite3", description="SQLAlchemy URL: SQLite or PostgreSQL (psycopg)."
    )
    database_statement_s: float = Field(5.0, gt=0, le=600, description="Seconds that a statement may take.")
    database_lock_s: float = Field(3.0, gt=0, le=600, description="Seconds to wait for what somebody else changes.")
    database_connect_s: int = Field(3, ge=2, le=60, description="Seconds to connect to PostgreSQL.")
    database_pool_s: float = Field(2.0, gt=0, le=60, description="Seconds to wait for a connection that is free.")
    database_connections: int = Field(10, ge=1, le=200, description="Connections to PostgreSQL of each process.")
    host: str = Field("127.0.0.1", description="Address to listen on.")
    workers: int = Field(
        1, ge=1, le=64, description="Processes that serve, on one database. `serve --workers` goes before it."
    )
    max_connections: int = Field(512, ge=8, le=65536, description="Connections that each process holds at once.")
    max_connections_per_address: int = Field(
        0, ge=0, le=65536, description="Of one address, in each process; 0: any number. A proxy is one address."
    )
    max_header_bytes: int = Field(32768, ge=4096, le=1048576, description="Largest headers of a request, together.")
    max_headers: int = Field(100, ge=16, le=10000, description="Most headers of a request.")
    max_url_bytes: int = Field(16384, ge=1024, le=65536, description="Longest address that may be asked for.")
    headers_deadline_s: float = Field(5.0, gt=0, le=120, description="Seconds a client has to send its headers.")
    keep_alive_s: int = Field(10, ge=1, le=600, description="Seconds that a connection may be silent between requests.")
    read_deadline_s: float = Field(
        10.0, gt=0, le=600, description="Seconds in which a client reads some of its answer."
    )
    drain_s: float = Field(
        1.0, ge=0, le=120, description="Seconds from SIGTERM in which new connections are still taken."
    )
    stop_s: int = Field(20, ge=1, le=600, description="Seconds after that in which what is under way is finished.")
    snapshot_check_s: float = Field(2.0, ge=0, description="Seconds between looks for a newer catalogue version.")
    max_body_bytes: int = Field(65536, ge=1024, le=33554432, description="Largest request body.")
    max_pasted_bytes: int = Field(
        6291456, ge=1024, le=33554432, description="Largest request body with pasted metrics or a log."
    )
    body_deadline_s: float = Field(5.0, gt=0, le=120, description="Seconds a client has to send its body.")
    max_concurrent_searches: int = Field(
        1,
        ge=1,
        le=256,
        description="Answers computed at once in each process, and as many of those that take seconds; others wait in "
        "line. More than one share one core.",
    )
    max_waiting: int = Field(
        16, ge=0, le=4096, description="Requests in that line; more are refused, with when to ask again."
    )
    request_deadline_s: float = Field(
        20.0, gt=0, le=600, description="Seconds from asking to an answer; work that takes longer is given up."
    )
    keep_days: int = Field(
        90, ge=0, le=36500, description="Days that stored answers are kept which nobody filed; 0 is without end."
    )
    keep_bytes: int = Field(
        10_000_000_000, ge=0, description="Bytes of those answers, of which the oldest go first; 0 is without end."
    )
    today: date | None = Field(
        None,
        description="Day to which ages of prices are counted, in place of that of each request: for documents, tests.",
    )
    cache_dir: Path | None = Field(
        None, description="Folder that keeps the compiled simulation; absent: ~/.cache/headroom."
    )
    log_level: str = Field("info", pattern="^(debug|info|warning|error)$", description="debug, info, warning or error.")
    access_log: str = Field(
        "on", pattern="^(off|on|all)$", description="A line for each request: off, on, or all with health checks."
    )
    metrics: bool = Field(True, description="Whether GET /metrics tells Prometheus what was counted.")
    model_hub_url: str | None = Field(
        None,
        pattern=r"^https?://[^\s/@]+(/[^\s]*)?$",
        description="Hub that serves config.json of models the catalogue lacks, under {url}/{id}/resolve/main/. "
        "Off where absent.",
    )
    model_hub_networks: tuple[IPv4Network | IPv6Network, ...] = Field(
        (), description="Networks that are not public in which that hub may stand, as JSON."
    )
    proxies: tuple[IPv4Network | IPv6Network, ...] = Field(
        (),
        description="Networks of proxies whose X-Forwarded-For says which address asks, as JSON.",
    )
    mcp_hosts: tuple[str, ...] = Field(
        (),
        description="Names under which agents reach /mcp, beside localhost and that of the public URL, as JSON; "
        '["*"] takes any.',
    )
    cors_origins: tuple[Origin, ...] = Field(
        (), description='Origins whose pages may call this service from a browser, as JSON; "*" is every one.'
    )
    compress_from_bytes: int = Field(
        2048, ge=500, description="Answers of at least so many bytes are compressed where a client takes gzip."
    )
    public_url: str | None = Field(
        None,
        pattern=r"^https?://[^\s/@]+(/[^\s]*)?$",
        description="Address under which buyers' browsers reach this service; punch-out is off without it.",
    )
    punchout_buyers: tuple[Buyer, ...] = Field((), description="Buyers that may punch out, as JSON.")
    punchout_session_minutes: int = Field(60, ge=1, le=1440, description="How long a punch-out session is open.")
    webhooks: tuple[Webhook, ...] = Field((), description="Endpoints that are told of events, as JSON.")
    plain_http: bool = Field(
        False, description="Baskets and notices may go to http addresses: for tests and closed networks."
    )

    @model_validator(mode="after")
    def _notices_are_encrypted(self) -> Settings:
        names = [webhook.name for webhook in self.webhooks]
        if len(names) != len(set(names)):
            raise ValueError("webhooks have names of their own")
        if not self.plain_http and not all(webhook.url.startswith("https://") for webhook in self.webhooks):
            raise ValueError("webhooks are https addresses; HEADROOM_PLAIN_HTTP=true allows http")
        return self
