"""The catalog that requests read: one immutable value per version, replaced when a newer version is published."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from dataclasses import dataclass, replace

import structlog
from sqlalchemy.orm import Session, sessionmaker

from app import telemetry
from app.catalog.directory import CatalogIndex
from app.catalog.fetched import store_fetched_model
from app.catalog.hub import MODEL_ID, HubUnavailable, MissingModel, ModelHub
from app.catalog.lists import fetched_models
from app.catalog.models import Models, load_models
from app.catalog.purchasing import load_purchasing
from app.catalog.queries import load_snapshot, newest_version, region_countries
from app.causes import describe_error
from app.db import DatabaseError, read_consistently
from app.errors import Conflict, NotFound, Unavailable, UnknownModel
from app.sizing.model.architecture import ModelArchitecture
from app.sizing.snapshot import Catalog

MAX_MODELS_CACHED = 512
FIRST_LOAD_WAIT_S = 10.0  # longest wait of a request for the first catalog

log = structlog.get_logger("headroom")


class EmptyCatalog(Unavailable):
    """The database contains no catalog: it was migrated but not loaded."""

    code = "empty-catalog"


@dataclass(frozen=True, slots=True)
class LoadedCatalog:
    """A catalog version in memory, with everything that requests read from it."""

    version: tuple[int, str, str]  # id, digest and publication time in the database
    catalog_index: CatalogIndex
    models: Models
    fetched_model_count: int  # number of models that came from a hub


@dataclass(frozen=True, slots=True)
class CatalogStatus:
    """State of the catalog: the version in memory if any, and its problem if any."""

    catalog: Catalog | None
    problem: str  # reason why the catalog is not ready; empty if it is
    is_loading: bool  # no check for a catalog has finished yet


class CatalogStore:
    """Provides the newest catalog; queries the database at most every `check_s` seconds.

    One caller at a time builds a newer catalog and then swaps it in (the background refresh does so for all); others
    continue with the loaded one. If the database does not answer, the loaded catalog stays in use: prices stay valid
    for longer than an outage lasts.
    """

    def __init__(self, sessions: sessionmaker[Session], *, check_s: float, hub: ModelHub | None = None) -> None:
        self._sessions, self._check_s, self._hub = sessions, check_s, hub
        self._check_lock = threading.Lock()
        self._loaded: LoadedCatalog | None = None
        self._checked_at = -1.0
        self._database_error: DatabaseError | None = None
        self._lock = threading.Lock()  # guards the cached models; held for a few operations only
        self._models: OrderedDict[str, ModelArchitecture] = OrderedDict()
        self._ended = threading.Event()

    def refresh_periodically(self) -> None:
        """Checks for a newer catalog every `check_s` seconds until `stop_refreshing` is called, so that no request
        has to.
        """
        while True:
            try:
                self._check_for_newer(wait_s=0.0)
            except Exception as error:
                log.warning("catalogue_not_checked", **describe_error(error))
            if self._ended.wait(max(self._check_s, 0.1)):
                return

    def stop_refreshing(self) -> None:
        """Makes `refresh_periodically` return."""
        self._ended.set()

    def release_catalog(self) -> None:
        """Drops the catalog in memory; the next question loads it again.

        Module-level routers keep every application alive that included them, and with it what its state refers to.
        """
        self._loaded = None
        self._models.clear()

    def catalog(self) -> Catalog:
        """Returns the newest published catalog.

        Raises EmptyCatalog before the first load, and the database's own error if no catalog is in memory.
        """
        return self.directory().catalog

    def directory(self) -> CatalogIndex:
        """Returns the name index of the newest published catalog. Raises the same errors as `catalog`."""
        return self._newest_catalog().catalog_index

    def catalog_status(self) -> CatalogStatus:
        """Returns the current state of the catalog without waiting."""
        at = self._loaded
        if self._database_error is not None:
            why = f"its database does not answer: {describe_error(self._database_error)['message']}"
        elif at is None:
            why = "it is being loaded" if self._checked_at < 0 else "it is empty. Run `headroom prepare`"
        else:
            why = ""
        return CatalogStatus(None if at is None else at.catalog_index.catalog, why, is_loading=self._checked_at < 0)

    def _newest_catalog(self) -> LoadedCatalog:
        if self._loaded is None or time.monotonic() - self._checked_at >= self._check_s:
            self._check_for_newer(wait_s=FIRST_LOAD_WAIT_S if self._loaded is None else 0.0)
        if self._loaded is not None:
            return self._loaded
        if self._database_error is not None:
            raise self._database_error
        raise EmptyCatalog("The catalog is empty. Run `headroom prepare`.")

    def _check_for_newer(self, *, wait_s: float) -> None:
        """Checks for a newer catalog unless another thread does so. Waits up to `wait_s` seconds for that thread."""
        started = time.monotonic()
        if not self._check_lock.acquire(timeout=wait_s):
            return
        try:
            if self._checked_at < started:
                self._load_newest()
                self._database_error = None
                telemetry.record_catalog_check()
        except DatabaseError as error:
            if self._database_error is None:  # logged once, until the database answers again
                log.warning("catalogue_not_checked", **describe_error(error))
            self._database_error = error
            telemetry.record_catalog_failure()
        finally:
            self._checked_at = time.monotonic()
            self._check_lock.release()

    def _load_newest(self) -> None:
        with self._sessions() as session:
            read_consistently(session)
            newest = newest_version(session)
            if newest is None or (self._loaded is not None and newest == self._loaded.version):
                return
            catalog = load_snapshot(session, newest[1], newest[2])
            directory = CatalogIndex(catalog, region_countries(session), load_purchasing(session))
            loaded = LoadedCatalog(newest, directory, load_models(session), fetched_models(session))
        with self._lock:
            self._loaded = loaded
            self._models.clear()
        telemetry.record_catalog_loaded(newest[0], published=newest[2], prices_as_of=catalog.prices_as_of)
        log.info("catalogue_loaded", snapshot=catalog.version)

    def find_model(self, name: str) -> ModelArchitecture:
        """Returns the architecture of a model by name, from memory if it was requested before.

        Fetches an id that the catalog lacks from the model hub, if one is configured, and stores it. Raises
        UnknownModel, AmbiguousModel, and the errors of the hub and of reading the configuration.
        """
        with self._lock:
            known = self._models.get(name)
        if known is not None:
            return known
        at = self._newest_catalog()
        hub = self._hub if MODEL_ID.fullmatch(name) else None
        try:
            model = at.models.find_architecture(name, fuzzy=hub is None)
        except UnknownModel:
            added = self._find_added_model(at, name)
            if added is not None:
                model = added
            elif hub is not None:
                model = self._fetch_from_hub(at, hub, name)
            else:
                raise
        with self._lock:
            if self._loaded is not None and self._loaded.catalog_index is at.catalog_index:
                self._models[name] = model
            while len(self._models) > MAX_MODELS_CACHED:
                self._models.popitem(last=False)
        return model

    def model_identity(self, name: str) -> str:
        """Returns the catalog's id of a model; a name that the catalog does not know is returned as typed."""
        try:
            identity: str = self._newest_catalog().models.find_entry(name)[0]["hf_id"]
        except (NotFound, Conflict):
            return name
        return identity

    def smaller_model(self, identity: str) -> str | None:
        """Returns the id of the next smaller model of a family; None if the catalog has none."""
        return self._newest_catalog().models.next_smaller(identity)

    def _find_added_model(self, at: LoadedCatalog, name: str) -> ModelArchitecture | None:
        """Returns a model that another process has fetched since this catalog was loaded, or None."""
        try:
            with self._sessions() as session:
                if fetched_models(session) == at.fetched_model_count:
                    return None
                return self._reload_models(at, session).find_architecture(name, fuzzy=False)
        except (DatabaseError, UnknownModel):
            return None

    def _fetch_from_hub(self, at: LoadedCatalog, hub: ModelHub, name: str) -> ModelArchitecture:
        """Fetches a model from the hub by its id and stores it. If that fails, returns a catalog model with a similar
        name.
        """
        try:
            fetched = hub.fetch_model(name)
        except (MissingModel, HubUnavailable) as trouble:
            try:
                return at.models.find_architecture(name)
            except UnknownModel as unknown:
                raise type(trouble)(trouble.detail, **unknown.facts) from unknown
        with self._sessions() as session:
            store_fetched_model(session, name, fetched)
            return self._reload_models(at, session).find_architecture(name, fuzzy=False)

    def _reload_models(self, at: LoadedCatalog, session: Session) -> Models:
        """Reloads the models from the database and adds them to the catalog in memory."""
        models = load_models(session)
        updated = replace(at, models=models, fetched_model_count=fetched_models(session))
        with self._lock:
            if self._loaded is at:
                self._loaded = updated
        return models
