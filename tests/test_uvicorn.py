"""What app/server reads and overrides of uvicorn beyond its documented interface, each by name and place.

A release of uvicorn that renames one of these fails here by its name. Then correct the module that is named, this list
and the upper bound in pyproject.toml.
"""

from __future__ import annotations

import ast
import asyncio
import re
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

import pytest
from uvicorn import Config, Server
from uvicorn.lifespan.on import LifespanOn
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState
from uvicorn.supervisors.multiprocess import Process

from app.server.connections import Connection, ConnectionPool
from app.server.listening import ListenerConfig
from app.server.listening import Server as OwnServer
from app.server.workers import Worker

ROOT = Path(__file__).parents[1]
CONNECTIONS, LISTENING, WORKERS = "connections.py", "listening.py", "workers.py"
# Attributes and methods of uvicorn's objects, by the module of app/server that reads or calls them.
READ: dict[tuple[str, type], tuple[str, ...]] = {
    (CONNECTIONS, HttpToolsProtocol): (
        *("client", "cycle", "headers", "loop", "parser", "pipeline", "scope", "timeout_keep_alive_task"),
        *("transport", "url", "_unset_keepalive_if_required"),
        *("connection_made", "data_received", "connection_lost", "pause_writing", "resume_writing"),
        *("on_message_begin", "on_url", "on_header", "on_headers_complete", "on_body", "on_message_complete"),
        "on_response_complete",
    ),
    (CONNECTIONS, RequestResponseCycle): (
        *("disconnected", "keep_alive", "message_event", "response_complete", "response_started"),
    ),
    (CONNECTIONS, ServerState): ("connections",),
    (LISTENING, Config): ("host", "port", "workers"),
    (LISTENING, Server): ("config", "server_state", "should_exit", "startup", "on_tick", "shutdown"),
    (LISTENING, LifespanOn): ("state",),
    (WORKERS, Config): ("timeout_graceful_shutdown", "workers"),
    (WORKERS, Process): (
        *("config", "parent_conn", "child_conn", "process", "_server", "target", "always_pong"),
        *("start", "kill", "pid", "exitcode"),
    ),
    (WORKERS, Server): ("started", "should_exit"),
}
SET_LATER = {"lifespan"}  # set by a running server, read in listening.py
# Methods and properties that app/server replaces without calling the original.
REPLACED = {
    Connection: (HttpToolsProtocol, ("send_400_response",)),
    ListenerConfig: (Config, ("bind_socket",)),
    OwnServer: (Server, ("handle_exit",)),
    Worker: (Process, ("server", "pong")),
}
OWN = {Connection: HttpToolsProtocol, ConnectionPool: ServerState, OwnServer: Server, Worker: Process}


@pytest.fixture
def made() -> Iterator[dict[type, object]]:
    """One object of each of uvicorn's classes."""
    config, loop = Config("tests.test_server:app", http=HttpToolsProtocol, lifespan="on"), asyncio.new_event_loop()
    config.load()
    state = ServerState()
    protocol = HttpToolsProtocol(config, state, {}, loop)
    protocol.on_message_begin()
    cycle = RequestResponseCycle(
        scope={},  # type: ignore[typeddict-item]
        transport=asyncio.Transport(),
        flow=FlowControl(asyncio.Transport()),
        logger=protocol.logger,
        access_logger=protocol.access_logger,
        access_log=False,
        default_headers=[],
        message_event=asyncio.Event(),
        expect_100_continue=False,
        keep_alive=True,
        on_response=lambda: None,
    )
    objects = (config, state, protocol, cycle, Server(config), LifespanOn(config), Process(config, []))
    yield {type(each): each for each in objects}
    loop.close()


def test_uvicorn_is_bounded_below_the_next_minor_release() -> None:
    project = (ROOT / "pyproject.toml").read_text()
    lock = (ROOT / "requirements" / "runtime.lock").read_text()
    (bound,) = re.findall(r'"uvicorn>=[\d.]+,<(\d+)\.(\d+)"', project)
    (locked,) = re.findall(r"^uvicorn==(\d+)\.(\d+)\.", lock, re.MULTILINE)
    assert (int(bound[0]), int(bound[1])) == (int(locked[0]), int(locked[1]) + 1)


def test_every_attribute_that_is_read_exists(made: dict[type, object]) -> None:
    missing = [
        f"{owner.__name__}.{name}, read in app/server/{module}"
        for (module, owner), names in READ.items()
        for name in names
        if not hasattr(made[owner], name)
    ]
    assert missing == [], f"uvicorn {version('uvicorn')} lacks these"


def test_every_method_that_is_replaced_exists() -> None:
    missing = [
        f"{base.__name__}.{name}, replaced by {own.__name__} of {own.__module__}"
        for own, (base, names) in REPLACED.items()
        for name in names
        if not hasattr(base, name)
    ]
    assert missing == [], f"uvicorn {version('uvicorn')} does not call these"


@pytest.mark.parametrize("own", OWN, ids=lambda own: own.__name__)
def test_every_attribute_that_a_class_reads_is_its_own_or_on_the_list(own: type) -> None:
    """`self.x` and `super().x` that the class does not define itself; those of annotated fields are checked by mypy."""
    path = ROOT / (own.__module__.replace(".", "/") + ".py")
    (node,) = [n for n in ast.parse(path.read_text()).body if isinstance(n, ast.ClassDef) and n.name == own.__name__]
    read, defined = set(), {n.name for n in node.body if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)}
    for each in ast.walk(node):
        if not isinstance(each, ast.Attribute):
            continue
        owner = ast.unparse(each.value)
        if owner == "super()" and each.attr != "__init__":
            read.add(each.attr)
            defined.discard(each.attr)
        elif owner == "self":
            (defined if isinstance(each.ctx, ast.Store) else read).add(each.attr)
    listed = set(READ[path.name, OWN[own]]) | set(REPLACED.get(own, (own, ()))[1]) | SET_LATER
    assert read - defined - listed == set(), f"add these attributes of uvicorn, read in {path.name}, to READ"
