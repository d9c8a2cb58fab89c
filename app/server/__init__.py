"""HTTP server: connection limits, graceful shutdown and worker processes."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from starlette.types import ASGIApp
from uvicorn.config import STARTUP_FAILURE

from app.config import Settings
from app.main import check_extras, create_app, preload_app
from app.server.connections import Limits
from app.server.listening import ListenerConfig, Server
from app.server.workers import Workers

OUT_OF_MEMORY = 1  # exit status, so that a supervisor that restarts on failure does so


def connection_limits(settings: Settings) -> Limits:
    return Limits(
        max_connections=settings.max_connections,
        max_connections_per_address=settings.max_connections_per_address,
        max_header_bytes=settings.max_header_bytes,
        max_headers=settings.max_headers,
        max_url_bytes=settings.max_url_bytes,
        headers_timeout_s=settings.headers_deadline_s,
        read_timeout_s=settings.read_deadline_s,
    )


def server_config(settings: Settings, app: Callable[[], ASGIApp], port: int, workers: int) -> ListenerConfig:
    """Returns the server configuration that every process uses. `app` is an application factory."""
    return ListenerConfig(
        app,
        limits=connection_limits(settings),
        drain_s=settings.drain_s,
        memory_mib=settings.worker_memory_mib,
        factory=True,
        host=settings.host,
        port=port,
        workers=workers,
        forwarded_allow_ips=[str(network) for network in settings.proxies],
        log_level=settings.log_level,
        timeout_keep_alive=settings.keep_alive_s,
        timeout_graceful_shutdown=settings.stop_s,
    )


def serve(settings: Settings, port: int, workers: int) -> int:
    """Serves until a signal stops the process; returns the exit status. Raises OSError and MissingExtra."""
    check_extras(settings)
    config = server_config(settings, partial(create_app, settings), port, workers)
    bound = config.bind_socket()
    if workers == 1:
        server = Server(config)
        server.run([bound])
        if not server.started:
            return STARTUP_FAILURE
        return OUT_OF_MEMORY if server.out_of_memory else 0
    config.app = preload_app(settings)
    return Workers(config, bound).run()
