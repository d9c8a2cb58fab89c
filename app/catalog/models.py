"""The models of a catalogue by every name people type, in memory: a question needs no database to know its model."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import orjson
from sqlalchemy import select
from sqlalchemy.orm import Session

from app.catalog.architectures import architecture_of
from app.catalog.families import sizeless
from app.catalog.hosted import hosted_only
from app.catalog.names import containing, folded, nearest, quoted, squashed, without_file
from app.catalog.tables import ModelAliasRow, ModelRow
from app.errors import AmbiguousModel, HostedModel, UnknownModel
from app.sizing.model.architecture import ModelArchitecture

Facts = Mapping[str, Any]
NOT_SHAPE = ("architectures", "max_position_embeddings", "_name_or_path")
SMALLER = 0.7  # of the parameters, from which a model is another size rather than another count of the same


class Models:
    """Registry entries by id, and ids by folded alias."""

    def __init__(self, entries: Iterable[Facts], aliases: Iterable[tuple[str, str]]) -> None:
        self._facts = {entry["hf_id"]: entry for entry in entries}
        self._aliases = sorted(aliases)
        self._ids: dict[str, list[str]] = {}
        for alias, identity in self._aliases:
            self._ids.setdefault(alias, []).append(identity)

    def get(self, name: str, *, loosely: bool = True) -> ModelArchitecture:
        """The counts of a named model; where the name was not the model's own, the answer says how it was read.

        Raises UnknownModel with the nearest names, AmbiguousModel with the choices.
        """
        facts, note = self.facts(name, loosely=loosely)
        model = architecture_of(facts)
        return replace(model, assumed=(*model.assumed, note)) if note else model

    def facts(self, name: str, *, loosely: bool = True) -> tuple[Facts, str]:
        """The registry entry of a name, and how the name was read where it was neither an id nor an alias.

        Tried in turn: the exact id, a folded alias, and if `loosely` the name without what names a file (":latest",
        "-q4_K_M", "-AWQ"), the same words run together, the words of a name in any order.
        """
        if name in self._facts:
            return self._facts[name], ""
        ids = self._ids.get(folded(name), [])
        if len(ids) == 1:
            return self._facts[ids[0]], ""
        if not ids:
            refuse_hosted(name)
            ids = self._loosely(name) if loosely else ids
        chosen = self._one_of(ids)
        if chosen is not None:
            return self._facts[chosen], f"the name {name!r} was read as {chosen}"
        if ids:
            raise AmbiguousModel(
                f"{quoted(name)} fits {len(ids)} models that differ; name one of: "
                f"{', '.join(ids[:8])}{f' and {len(ids) - 8} more' if len(ids) > 8 else ''}.",
                choices=ids[:8],
            )
        close = nearest(name, [alias for alias, _ in self._aliases])
        suggestion = f" Nearest: {', '.join(close)}." if close else ""
        raise UnknownModel(
            f"No model called {quoted(name)} is in the catalogue.{suggestion} "
            "GET /catalog/models lists all; a configuration may be given in its place.",
            nearest=close,
        )

    def _loosely(self, name: str) -> list[str]:
        """Ids that a name may mean, by the strictest reading that finds any."""
        bare = without_file(name)
        if bare in self._ids:
            return self._ids[bare]
        tail = without_file(name.rsplit("/", 1)[-1])  # whoever repackaged it
        ids: list[str] = []
        for typed in (bare, tail):
            ids = ids or sorted({model for alias, model in self._aliases if squashed(alias) == squashed(typed)})
        return ids or containing(bare, self._aliases) or containing(tail, self._aliases)

    def _one_of(self, ids: Sequence[str]) -> str | None:
        """The only model, or the first of several that do not differ in any count: base and instruct of one shape."""
        configs = (self._facts[identity]["config"] for identity in ids)
        shapes = {
            orjson.dumps({k: v for k, v in config.items() if k not in NOT_SHAPE}, option=orjson.OPT_SORT_KEYS)
            for config in configs
        }
        return ids[0] if len(shapes) == 1 else None

    def next_smaller(self, identity: str) -> str | None:
        """The largest model of a family that is smaller than this one and named alike; None where there is none."""
        own = self._facts.get(identity)
        if own is None or sizeless(identity) == identity.lower():
            return None
        alike = [
            entry
            for name, entry in self._facts.items()
            if (entry["family"], entry["modality"]) == (own["family"], own["modality"])
            and entry["total_params"] <= SMALLER * own["total_params"]
            and entry["active_params"] <= own["active_params"]
            and sizeless(name) == sizeless(identity)
        ]
        return min((e["hf_id"] for e in alike), key=lambda i: (-self._facts[i]["total_params"], i), default=None)


def load_models(session: Session) -> Models:
    """Every model of the database."""
    aliases = session.execute(select(ModelAliasRow.alias, ModelAliasRow.model))
    return Models(session.scalars(select(ModelRow.facts)), [(alias, model) for alias, model in aliases])


def refuse_hosted(name: str) -> None:
    """Raise HostedModel for a model whose weights are not published."""
    hosted = hosted_only(name)
    if hosted is not None:
        raise HostedModel(
            f"{quoted(name)} is sold as a service only ({hosted.sold_as}): its weights are not published, so nothing "
            "can be sized for it. Name a model with published weights.",
            sold_as=hosted.sold_as,
        )
