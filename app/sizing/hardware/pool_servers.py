"""How to start engines as prefill and decode pools: flags of both pools' servers, and the router in front of them."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field

from app.sizing.facts import build, read_toml

PREFILL, DECODE = "prefill", "decode"


@dataclass(frozen=True, slots=True)
class PoolServers:
    """Flags and configuration files of each pool's servers, and the command of the router.

    The router finds the pools at $PREFILL_HOST and $DECODE_HOST. It listens on the port where the load generator
    expects a single server.
    """

    flags: Mapping[str, str]
    router: str
    source: str
    read: str
    bootstrap_port: int | None = None  # where the router reaches the prefill servers, if the flags name such a port
    listen_flags: str = ""  # flags that accept connections from other machines
    environment: Mapping[str, str] = field(default_factory=dict)  # environment variables by pool
    config: Mapping[str, Mapping[str, object]] = field(default_factory=dict)
    mixed_flags: Mapping[str, str] = field(default_factory=dict)  # instead of `flags` if the pools' weights differ
    # Names that replace others in the flags if prefill has pipeline stages. With such names, decode has none.
    pipelined: Mapping[str, str] = field(default_factory=dict)

    def flags_of(self, role: str, shared_name: str | None, *, has_stages: bool = False) -> str:
        """Flags of the servers of a pool.

        Parameters:
            shared_name: name of the model in requests, if the pools load different weights.
            has_stages: whether the prefill pool has pipeline stages.
        """
        flags = self.flags[role]
        if shared_name is not None and role in self.mixed_flags:
            flags = f"{self.mixed_flags[role]} {shlex.quote(shared_name)}"
        for name, other in self.pipelined.items() if has_stages else ():
            flags = flags.replace(f'"{name}"', f'"{other}"')
        return flags


FILE = "pool_servers.toml"
POOL_SERVERS: Mapping[str, PoolServers] = {
    engine: build(PoolServers, table, where=f"{FILE}, {engine}") for engine, table in read_toml(FILE).items()
}
