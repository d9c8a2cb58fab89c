"""Assembles the application: settings, database, routers, error handlers. Contains no logic."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING

import structlog
from fastapi import Depends, FastAPI
from fastapi.concurrency import run_in_threadpool
from sqlalchemy import Engine
from sqlalchemy.orm import Session, sessionmaker

from app import logs, telemetry
from app.agents import mount
from app.api import middleware, openapi, problems, traces
from app.api.access import RateLimits, identify_caller
from app.api.admission import Admission
from app.api.measuring import MeasuredCatalogs, compare_again
from app.api.routes import catalog, filing, health, measurements, pages, private, procurement, recommendations
from app.catalog.holdings import HoldingsStore
from app.catalog.hub import ModelHub
from app.catalog.keys import KeyStore
from app.catalog.outbox import DeliveryStore, Outbox
from app.catalog.purchasing import PunchoutStore
from app.catalog.recommendations import AnswerStore, FiledQuota, Pruner, RetentionPolicy
from app.catalog.snapshot import CatalogStore, LoadedCatalog, load_newest
from app.catalog.tokens import TokenVerifier
from app.compiled import NOT_COMPILED, compile_simulation, engine_version
from app.config import Settings
from app.db import DatabaseError, DatabaseLimits, make_engine, postgres_driver
from app.errors import describe_error
from app.extras import import_extra
from app.procurement.desk import Buyers, PunchoutService
from app.procurement.webhooks import WebhookSender

if TYPE_CHECKING:
    from app.feeds.sync import PriceSyncRunner

log = structlog.get_logger("headroom")

ROUTERS = (
    recommendations.router,
    filing.router,
    measurements.router,
    procurement.exports_router,
    procurement.router,
    private.router,
    catalog.router,
    catalog.accuracy_router,
)


def preload_app(settings: Settings) -> Callable[[], FastAPI]:
    """Loads once what worker processes share, and returns the factory that each of them calls after it was forked.

    No thread and no connection to the database remains open. If the database does not answer, each worker loads the
    catalog itself.
    """
    logs.configure_json_logging(settings.log_level)
    compile_simulation(settings.cache_dir)
    engine_version(settings.cache_dir)
    engine, loaded = make_engine(settings.database_url, database_limits(settings)), None
    try:
        with Session(engine) as session:
            loaded = load_newest(session)
    except DatabaseError as error:
        log.warning("catalogue_not_checked", **describe_error(error))
    finally:
        engine.dispose()
    telemetry.leave_counting_to_workers()
    return partial(create_app, settings, loaded)


def create_app(settings: Settings | None = None, loaded: LoadedCatalog | None = None) -> FastAPI:
    """Returns the application. Default of `settings`: the environment; `loaded`: a catalog. Raises MissingExtra."""
    settings = settings or Settings()
    check_extras(settings)
    engine_version(settings.cache_dir)
    logs.configure_json_logging(settings.log_level)
    if not compile_simulation(settings.cache_dir):
        log.warning("simulation_not_compiled", remedy=NOT_COMPILED)
    app = FastAPI(
        title="Headroom",
        version="0.3.0",
        openapi_url=None,  # served by app.api.openapi
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        lifespan=run_background_tasks,
        telemetry={
            "tracing": False,
            "metrics": False,
            "logs": False,
        },  # its spans would contain passwords in query strings
    )
    fill_state(app, settings, loaded)
    middleware.install_response_middleware(app, settings.cors_origins, settings.compress_from_bytes)
    problems.install(app)
    for router in ROUTERS:
        app.include_router(router, dependencies=[Depends(identify_caller)])
    app.include_router(health.router)
    app.webhooks.include_router(procurement.webhook_router)
    pages.install_pages(app)
    health.install_metrics(app, on=settings.metrics)
    mount.install(app, hosts=settings.mcp_hosts, public_url=settings.public_url)
    openapi.install(app)
    middleware.install_request_middleware(
        app, access_log=settings.access_log, tracer=traces.build_tracer(app.state.traces)
    )
    return app


def fill_state(app: FastAPI, settings: Settings, loaded: LoadedCatalog | None) -> None:
    """Creates what requests share: the database, the catalog, queues and stores."""
    app.state.settings, app.state.today = settings, settings.today
    engine = make_engine(settings.database_url, database_limits(settings))
    app.state.sessions = sessionmaker(engine, expire_on_commit=False)
    app.state.keys, app.state.rate_limits = KeyStore(engine), RateLimits(settings.key_units_per_minute)
    app.state.tokens = TokenVerifier(settings.token_issuers)
    app.state.private_records = HoldingsStore(engine)
    app.state.outbox = Outbox(
        {webhook.name: webhook.events for webhook in settings.webhooks},
        {webhook.name: webhook.tenant for webhook in settings.webhooks},
    )
    app.state.courier = WebhookSender(settings.webhooks, DeliveryStore(engine)) if settings.webhooks else None
    app.state.answers = AnswerStore(
        engine, app.state.outbox, FiledQuota(engine, settings.keep_filed_bytes, settings.filed_bytes_per_day)
    )
    app.state.pruner = Pruner(
        engine, RetentionPolicy(settings.keep_days, settings.keep_bytes, settings.keep_filed_bytes)
    )
    app.state.price_runner = make_price_runner(settings)
    app.state.desk = make_desk(settings, engine)
    hub = ModelHub(settings.model_hub_url, networks=settings.model_hub_networks) if settings.model_hub_url else None
    app.state.catalog_store = CatalogStore(
        app.state.sessions, check_s=settings.snapshot_check_s, hub=hub, loaded=loaded
    )
    app.state.measured_catalogs = MeasuredCatalogs(
        app.state.sessions, app.state.catalog_store, check_s=settings.snapshot_check_s
    )
    app.state.catalog_store.with_measurements = app.state.measured_catalogs.apply
    app.state.catalog_store.before_use = partial(compare_again, app.state.sessions)
    app.state.admission, app.state.long_admission = make_admission(settings, "short"), make_admission(settings, "long")
    app.state.traces = traces.build_provider()


def check_extras(settings: Settings) -> None:
    """Raises MissingExtra if a setting needs an extra that is not installed."""
    postgres_driver(settings.database_url)
    traces.check_exporter()
    if settings.punchout_buyers:
        import_extra("lxml.etree", "export", "Punch-out for HEADROOM_PUNCHOUT_BUYERS")
    if settings.token_issuers:
        for module in ("jwt", "cryptography"):
            import_extra(module, "jwt", "HEADROOM_TOKEN_ISSUERS")


def database_limits(settings: Settings) -> DatabaseLimits:
    """Returns the database limits that apply to requests."""
    return DatabaseLimits(
        statement_s=settings.database_statement_s,
        lock_s=settings.database_lock_s,
        connect_s=settings.database_connect_s,
        pool_s=settings.database_pool_s,
        connections=settings.database_connections,
    )


def make_admission(settings: Settings, name: telemetry.QueueName) -> Admission:
    """Returns one admission queue with its worker threads."""
    return Admission(
        at_once=settings.max_concurrent_searches,
        most_waiting=settings.max_waiting,
        limit_s=settings.request_deadline_s,
        name=name,
    )


@asynccontextmanager
async def run_background_tasks(app: FastAPI) -> AsyncIterator[None]:
    """Runs catalog refresh, pruning of answers, price syncs and webhook delivery while the application serves."""
    courier: WebhookSender | None = app.state.courier
    catalog_store: CatalogStore = app.state.catalog_store
    refresher = threading.Thread(target=catalog_store.refresh_periodically, name="catalogue", daemon=True)
    refresher.start()
    app.state.pruner.start()
    price_runner: PriceSyncRunner | None = app.state.price_runner
    if price_runner is not None:
        price_runner.start()
    if courier is not None:
        courier.start()
    try:
        yield
    finally:
        catalog_store.stop_refreshing()
        await run_in_threadpool(app.state.pruner.stop)
        if price_runner is not None:
            await run_in_threadpool(price_runner.stop)
        await run_in_threadpool(refresher.join)
        catalog_store.release_catalog()
        if courier is not None:
            await run_in_threadpool(courier.stop)
        await run_in_threadpool(traces.flush_traces, app.state.traces)


def make_price_runner(settings: Settings) -> PriceSyncRunner | None:
    """Returns the runner of price syncs, or None if the settings name no interval. Only then are feeds imported."""
    if not settings.price_sync_interval_hours:
        return None
    from app.feeds.sync import PriceSyncRunner  # noqa: PLC0415

    return PriceSyncRunner(settings.database_url, settings.price_feed_access, settings.price_sync_interval_hours)


def make_desk(settings: Settings, engine: Engine) -> PunchoutService | None:
    """Returns the punch-out desk, or None if the settings name no public URL or no buyer."""
    if settings.public_url is None or not settings.punchout_buyers:
        return None
    return PunchoutService(
        Buyers(settings.punchout_buyers, plain_http=settings.plain_http),
        PunchoutStore(engine),
        public_url=settings.public_url,
        lasts=timedelta(minutes=settings.punchout_session_minutes),
    )
