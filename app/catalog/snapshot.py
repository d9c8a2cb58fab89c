"""The catalogue that requests read: one immutable market per version, replaced when a newer one is published."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from contextlib import suppress

from sqlalchemy.orm import Session, sessionmaker

from app.catalog.directory import Directory
from app.catalog.families import next_smaller
from app.catalog.fetched import store_fetched_model
from app.catalog.hub import MODEL_ID, HubUnavailable, MissingModel, ModelHub
from app.catalog.purchasing import load_purchasing
from app.catalog.queries import get_model, load_snapshot, newest_version, region_countries
from app.db import DatabaseError
from app.errors import Unavailable, UnknownModel
from app.sizing.model.architecture import ModelArchitecture
from app.sizing.snapshot import Snapshot

MODELS_KEPT = 512


class EmptyCatalog(Unavailable):
    """The database holds no catalogue yet: it was migrated but not seeded."""

    code = "empty-catalog"


class SnapshotStore:
    """Hands out the newest market; SQL is asked at most every `check_s` seconds.

    Where the database does not answer, the market at hand is kept: prices stay good for longer
    than an outage lasts.
    """

    def __init__(self, sessions: sessionmaker[Session], *, check_s: float, hub: ModelHub | None = None) -> None:
        self._sessions, self._check_s, self._hub = sessions, check_s, hub
        self._lock = threading.Lock()
        self._directory: Directory | None = None
        self._version = -1
        self._checked = float("-inf")
        self._models: OrderedDict[str, ModelArchitecture] = OrderedDict()

    def market(self) -> Snapshot:
        """The newest published market.

        Raises EmptyCatalog before the first seed, and the database's own error where there is none at hand.
        """
        return self.directory().market

    def directory(self) -> Directory:
        """The newest published market with its names; raises as `market` does."""
        with self._lock:
            if self._directory is not None and time.monotonic() - self._checked < self._check_s:
                return self._directory
            try:
                self._refresh()
            except DatabaseError:
                if self._directory is None:
                    raise
            self._checked = time.monotonic()
            if self._directory is None:
                raise EmptyCatalog("The catalogue is empty; run the seed step.")
            return self._directory

    def _refresh(self) -> None:
        with self._sessions() as session:
            newest = newest_version(session)
            if newest is not None and newest[0] != self._version:
                market = load_snapshot(session, newest[1], newest[2])
                self._directory = Directory(market, region_countries(session), load_purchasing(session))
                self._version = newest[0]
                self._models.clear()

    def model(self, name: str) -> ModelArchitecture:
        """The counts of a model by name, from memory where it was asked for before.

        An id that the catalogue does not know is fetched from the model hub, where there is one, and kept.
        Raises UnknownModel, AmbiguousModel, and what the hub and the reading of its configuration raise.
        """
        with self._lock:
            known = self._models.get(name)
        if known is not None:
            return known
        if self._hub is None or not MODEL_ID.fullmatch(name):
            with self._sessions() as session:
                model = get_model(session, name)
        else:
            model = self._by_id(self._hub, name)
        with self._lock:
            self._models[name] = model
            while len(self._models) > MODELS_KEPT:
                self._models.popitem(last=False)
        return model

    def smaller_model(self, identity: str) -> str | None:
        """The id of the next smaller model of a family, by the id of one; None where the catalogue has none."""
        with self._sessions() as session:
            return next_smaller(session, identity)

    def _by_id(self, hub: ModelHub, name: str) -> ModelArchitecture:
        """A model by its id on the hub; what the hub does not give is looked for under a similar name.

        No connection is held while the hub is asked.
        """
        with suppress(UnknownModel), self._sessions() as session:
            return get_model(session, name, loosely=False)
        try:
            fetched = hub.fetch(name)
        except (MissingModel, HubUnavailable) as trouble:
            try:
                with self._sessions() as session:
                    return get_model(session, name)
            except UnknownModel as unknown:
                raise type(trouble)(trouble.detail, **unknown.facts) from unknown
        with self._sessions() as session:
            store_fetched_model(session, name, fetched)
            return get_model(session, name)
