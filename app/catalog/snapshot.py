"""The catalogue that requests read: one immutable market per version, replaced when a newer one is published."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from dataclasses import dataclass, replace

import structlog
from sqlalchemy.orm import Session, sessionmaker

from app import telemetry
from app.catalog.directory import Directory
from app.catalog.fetched import store_fetched_model
from app.catalog.hub import MODEL_ID, HubUnavailable, MissingModel, ModelHub
from app.catalog.lists import fetched_models
from app.catalog.models import Models, load_models
from app.catalog.purchasing import load_purchasing
from app.catalog.queries import load_snapshot, newest_version, region_countries
from app.causes import cause
from app.db import DatabaseError, at_one_moment
from app.errors import Conflict, NotFound, Unavailable, UnknownModel
from app.sizing.model.architecture import ModelArchitecture
from app.sizing.snapshot import Snapshot

MODELS_KEPT = 512
FIRST_S = 10.0  # that a request waits for the first catalogue

log = structlog.get_logger("headroom")


class EmptyCatalog(Unavailable):
    """The database holds no catalogue yet: it was migrated but not seeded."""

    code = "empty-catalog"


@dataclass(frozen=True, slots=True)
class AtHand:
    """A catalogue in memory: which it is in the database, and all that requests read of it."""

    version: tuple[int, str, str]
    directory: Directory
    models: Models
    fetched: int  # models of it that came from a hub


@dataclass(frozen=True, slots=True)
class Standing:
    """The market at hand, and what is wrong with the catalogue; `loading`: nobody has looked for one yet."""

    market: Snapshot | None
    why_not: str
    loading: bool


class SnapshotStore:
    """Hands out the newest market; SQL is asked at most every `check_s` seconds.

    A newer market is built aside and swapped, by the one caller that finds the time has come (`keep` calls for all);
    the others go on with the one at hand. Where the database does not answer, it is kept: prices stay good for longer
    than an outage lasts.
    """

    def __init__(self, sessions: sessionmaker[Session], *, check_s: float, hub: ModelHub | None = None) -> None:
        self._sessions, self._check_s, self._hub = sessions, check_s, hub
        self._looking = threading.Lock()
        self._at_hand: AtHand | None = None
        self._checked = -1.0
        self._trouble: DatabaseError | None = None
        self._lock = threading.Lock()  # of the models below, for a few steps
        self._models: OrderedDict[str, ModelArchitecture] = OrderedDict()
        self._ended = threading.Event()

    def keep(self) -> None:
        """Look for a newer market every `check_s` seconds until `end`, so that no request has to."""
        while True:
            try:
                self._look(wait_s=0.0)
            except Exception as error:
                log.warning("catalogue_not_checked", **cause(error))
            if self._ended.wait(max(self._check_s, 0.1)):
                return

    def end(self) -> None:
        """`keep` returns."""
        self._ended.set()

    def market(self) -> Snapshot:
        """The newest published market.

        Raises EmptyCatalog before the first seed, and the database's own error where there is none at hand.
        """
        return self.directory().market

    def directory(self) -> Directory:
        """The newest published market with its names; raises as `market` does."""
        return self._newest().directory

    def standing(self) -> Standing:
        """How it stands now; nothing is waited for."""
        at = self._at_hand
        if self._trouble is not None:
            why = f"its database does not answer: {cause(self._trouble)['message']}"
        elif at is None:
            why = "it is being loaded" if self._checked < 0 else "it is empty; run headroom prepare"
        else:
            why = ""
        return Standing(None if at is None else at.directory.market, why, loading=self._checked < 0)

    def _newest(self) -> AtHand:
        if self._at_hand is None or time.monotonic() - self._checked >= self._check_s:
            self._look(wait_s=FIRST_S if self._at_hand is None else 0.0)
        if self._at_hand is not None:
            return self._at_hand
        if self._trouble is not None:
            raise self._trouble
        raise EmptyCatalog("The catalogue is empty; run the seed step.")

    def _look(self, *, wait_s: float) -> None:
        """Take the newest market, where nobody else is at it; who has none waits for that one."""
        asked = time.monotonic()
        if not self._looking.acquire(timeout=wait_s):
            return
        try:
            if self._checked < asked:
                self._refresh()
                self._trouble = None
                telemetry.catalogue_checked()
        except DatabaseError as error:
            if self._trouble is None:  # once, until it answers again
                log.warning("catalogue_not_checked", **cause(error))
            self._trouble = error
            telemetry.catalogue_failed()
        finally:
            self._checked = time.monotonic()
            self._looking.release()

    def _refresh(self) -> None:
        with self._sessions() as session:
            at_one_moment(session)
            newest = newest_version(session)
            if newest is None or (self._at_hand is not None and newest == self._at_hand.version):
                return
            market = load_snapshot(session, newest[1], newest[2])
            directory = Directory(market, region_countries(session), load_purchasing(session))
            found = AtHand(newest, directory, load_models(session), fetched_models(session))
        with self._lock:
            self._at_hand = found
            self._models.clear()
        telemetry.catalogue(newest[0], published=newest[2], prices_as_of=market.prices_as_of)
        log.info("catalogue_loaded", snapshot=market.version)

    def model(self, name: str) -> ModelArchitecture:
        """The counts of a model by name, from memory where it was asked for before.

        An id that the catalogue does not know is fetched from the model hub, where there is one, and kept.
        Raises UnknownModel, AmbiguousModel, and what the hub and the reading of its configuration raise.
        """
        with self._lock:
            known = self._models.get(name)
        if known is not None:
            return known
        at = self._newest()
        hub = self._hub if MODEL_ID.fullmatch(name) else None
        try:
            model = at.models.get(name, loosely=hub is None)
        except UnknownModel:
            added = self._added(at, name)
            if added is not None:
                model = added
            elif hub is not None:
                model = self._from_hub(at, hub, name)
            else:
                raise
        with self._lock:
            if self._at_hand is not None and self._at_hand.directory is at.directory:
                self._models[name] = model
            while len(self._models) > MODELS_KEPT:
                self._models.popitem(last=False)
        return model

    def identity(self, name: str) -> str:
        """A model's own name; of what the catalogue does not know, the name as it was typed."""
        try:
            identity: str = self._newest().models.facts(name)[0]["hf_id"]
        except (NotFound, Conflict):
            return name
        return identity

    def smaller_model(self, identity: str) -> str | None:
        """The id of the next smaller model of a family, by the id of one; None where the catalogue has none."""
        return self._newest().models.next_smaller(identity)

    def _added(self, at: AtHand, name: str) -> ModelArchitecture | None:
        """A model that another process has fetched since this catalogue was loaded."""
        try:
            with self._sessions() as session:
                if fetched_models(session) == at.fetched:
                    return None
                return self._with_models(at, session).get(name, loosely=False)
        except (DatabaseError, UnknownModel):
            return None

    def _from_hub(self, at: AtHand, hub: ModelHub, name: str) -> ModelArchitecture:
        """A model by its id on the hub, which is kept; else one of a similar name."""
        try:
            fetched = hub.fetch(name)
        except (MissingModel, HubUnavailable) as trouble:
            try:
                return at.models.get(name)
            except UnknownModel as unknown:
                raise type(trouble)(trouble.detail, **unknown.facts) from unknown
        with self._sessions() as session:
            store_fetched_model(session, name, fetched)
            return self._with_models(at, session).get(name, loosely=False)

    def _with_models(self, at: AtHand, session: Session) -> Models:
        """The models of the database as they are now, which the catalogue at hand has from now on."""
        models = load_models(session)
        again = replace(at, models=models, fetched=fetched_models(session))
        with self._lock:
            if self._at_hand is at:
                self._at_hand = again
        return models
