"""HTTP server: connection limits, graceful shutdown and worker processes."""

from __future__ import annotations

from uvicorn.config import STARTUP_FAILURE

from app import telemetry
from app.config import Settings
from app.server.connections import Limits
from app.server.listening import Listening, Server
from app.server.workers import Workers


def limits_of(settings: Settings) -> Limits:
    """Returns the connection limits from the settings."""
    return Limits(
        connections=settings.max_connections,
        connections_per_address=settings.max_connections_per_address,
        header_bytes=settings.max_header_bytes,
        headers=settings.max_headers,
        url_bytes=settings.max_url_bytes,
        head_s=settings.headers_deadline_s,
        read_s=settings.read_deadline_s,
    )


def listening(settings: Settings, app: str, port: int, workers: int) -> Listening:
    """Returns the server configuration that every process uses. `app` is the import path of an application factory."""
    return Listening(
        app,
        limits=limits_of(settings),
        drain_s=settings.drain_s,
        factory=True,
        host=settings.host,
        port=port,
        workers=workers,
        forwarded_allow_ips=[str(network) for network in settings.proxies],
        log_level=settings.log_level,
        timeout_keep_alive=settings.keep_alive_s,
        timeout_graceful_shutdown=settings.stop_s,
    )


def serve(settings: Settings, port: int, workers: int, app: str = "app.main:create_app") -> int:
    """Serves until a signal stops the process, and returns the exit status. Raises OSError if the port is not
    available.
    """
    config = listening(settings, app, port, workers)
    bound = config.bind_socket()
    if workers == 1:
        server = Server(config)
        server.run([bound])
        return 0 if server.started else STARTUP_FAILURE
    with telemetry.shared():
        return Workers(config, bound).run()
