"""Puts the service together: settings, database, routers, problem handlers; no logic."""

from __future__ import annotations

import logging

import structlog
from fastapi import FastAPI
from sqlalchemy.orm import sessionmaker

from app.api import openapi, problems
from app.api.routes import accuracy, catalog, health, lists, recommendations, support
from app.api.searches import Searches
from app.catalog.hub import ModelHub
from app.catalog.recommendations import AnswerStore
from app.catalog.snapshot import SnapshotStore
from app.compiled import compile_simulation
from app.config import Settings
from app.db import make_engine


def create_app(settings: Settings | None = None) -> FastAPI:
    """The application; without settings they are read from the environment."""
    settings = settings or Settings()
    compile_simulation(settings.cache_dir)
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            structlog.processors.JSONRenderer(),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelNamesMapping()[settings.log_level.upper()]),
    )
    app = FastAPI(title="Headroom", version="0.1.0", docs_url=None, redoc_url=None, redirect_slashes=False)
    app.state.settings, app.state.today = settings, settings.today
    engine = make_engine(settings.database_url)
    app.state.sessions = sessionmaker(engine, expire_on_commit=False)
    app.state.answers = AnswerStore(engine)
    hub = ModelHub(settings.model_hub_url) if settings.model_hub_url else None
    app.state.snapshots = SnapshotStore(app.state.sessions, check_s=settings.snapshot_check_s, hub=hub)
    app.state.searches = Searches(settings.max_concurrent_searches)
    problems.install(app)
    for router in (
        recommendations.router,
        catalog.router,
        support.router,
        lists.router,
        accuracy.router,
        health.router,
    ):
        app.include_router(router)
    health.install(app)
    openapi.install(app)
    return app
