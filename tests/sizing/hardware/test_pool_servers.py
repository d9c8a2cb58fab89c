"""How engines are started as two pools."""

from __future__ import annotations

import shlex

import pytest

from app.sizing.hardware.engines import ENGINES
from app.sizing.hardware.pool_servers import DECODE, POOL_SERVERS, PREFILL, PoolServers


def test_every_engine_that_keeps_pools_apart_can_be_started_so() -> None:
    assert set(POOL_SERVERS) == {name for name, engine in ENGINES.items() if engine.splits_pools}


@pytest.mark.parametrize("servers", POOL_SERVERS.values(), ids=POOL_SERVERS)
def test_a_router_finds_both_pools_and_a_shell_reads_every_flag(servers: PoolServers) -> None:
    assert set(servers.flags) == {PREFILL, DECODE}
    assert "$PREFILL_HOST" in servers.router and "$DECODE_HOST" in servers.router
    for flags in servers.flags.values():
        assert all(flag.startswith("--") for flag in shlex.split(flags)[:1])


def test_the_router_reaches_prefill_servers_at_the_port_of_their_flags() -> None:
    sglang = POOL_SERVERS["sglang"]
    assert f"--disaggregation-bootstrap-port {sglang.bootstrap_port}" in sglang.flags[PREFILL]
    assert f"$PREFILL_HOST:30000 {sglang.bootstrap_port} " in sglang.router
