"""In-memory registry of the catalog's models by every name that people type, as the sizing core uses them."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import orjson
from sqlalchemy import select
from sqlalchemy.orm import Session

from app.catalog.hosted import find_hosted_only
from app.catalog.names import (
    fold_name,
    formats_in_name,
    is_tuned_name,
    models_containing,
    nearest_models,
    quantization_in_name,
    quote_name,
    shape_tokens,
    shape_words,
    split_name_words,
    split_size,
    squash_name,
    states_other_weights,
    strip_file_suffix,
    strip_gateway,
    strip_size,
)
from app.catalog.tables import ModelAliasRow, ModelRow
from app.errors import AmbiguousModel, HostedModel, UnknownModel
from app.sizing.hardware.checkpoints import checkpoint_quantization
from app.sizing.model.architecture import OTHER_WEIGHTS_NOTE, ModelArchitecture, ModelKind
from app.sizing.model.counting.quantization import KEY as QUANTIZATION
from app.sizing.model.counting.quantization import native_quantization
from app.sizing.model.counting.read import read_architecture
from app.sizing.model.counting.registered import RegisteredFacts, registered_architecture
from app.sizing.model.formats import SIXTEEN_BIT, WEIGHT_FORMATS
from app.sizing.words import format_name, join_words


def entry_facts(entry: Mapping[str, Any]) -> RegisteredFacts:
    flops = entry.get("flops") or {}
    return RegisteredFacts(
        name=entry["hf_id"],
        family=entry["family"],
        modality=entry["modality"],
        config=entry["config"],
        total_params=int(entry["total_params"]),
        counted_by=entry.get("counted_by", ""),
        side=entry.get("resolution"),
        image_flops=flops.get("forward_flops_per_image"),
        step_flops=flops.get("forward_flops_per_step"),
        footprint=entry.get("footprint"),
        components=entry.get("components") or {},
    )


def entry_architecture(entry: Mapping[str, Any]) -> ModelArchitecture:
    """Returns the parameter and operation counts of a registry entry."""
    return registered_architecture(entry_facts(entry))


def read_pasted_model(config: Mapping[str, Any], name: str) -> ModelArchitecture:
    """Returns the counts of a pasted configuration. Where it states no quantization and its name states a format, it is
    a checkpoint in that format: ModelOpt writes the quantization to hf_quant_config.json.
    """
    model = read_architecture(config, name=name)
    if model.native_format not in SIXTEEN_BIT:
        return model
    named = with_named_format(model, name)
    if named is model:
        return model
    note = f"the configuration states no quantization; weight format {format_name(named.native_format)} from its name"
    return replace(named, assumed=(*named.assumed, note))


def with_named_format(model: ModelArchitecture, name: str) -> ModelArchitecture:
    """Returns the model as a checkpoint in the narrow format that a name states, or unchanged if it states none. Of
    formats of one width, the first counts.
    """
    if model.kind is ModelKind.SAMPLES:
        return model
    stated = checkpoint_quantization(name) or quantization_in_name(name)
    if stated:
        return replace(model, native=native_quantization({QUANTIZATION: stated}, model))
    formats = [WEIGHT_FORMATS[each] for each in formats_in_name(name)]
    if len({each.nominal_bits for each in formats}) != 1 or model.native_format in {each.name for each in formats}:
        return model
    return model.published_in(formats[0]) if formats[0].nominal_bits < 16 else model


Facts = Mapping[str, Any]
SHAPE_IRRELEVANT_KEYS = ("architectures", "max_position_embeddings", "_name_or_path")
SMALLER_MODEL_SHARE = (
    0.7  # share of the parameters up to which a model is a smaller size, not another count of the same size
)
ONLY_A_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*(?:b|bn|billion)", re.IGNORECASE)  # "70b", in place of a name
STATED_SIZE_ERROR = 0.05  # relative distance of a size that a name states from the parameters


class Models:
    """Registry entries by id, and ids by folded alias."""

    def __init__(self, entries: Iterable[Facts], aliases: Iterable[tuple[str, str]]) -> None:
        self._facts = {entry["hf_id"]: entry for entry in entries}
        self._aliases = sorted(aliases)
        self._ids: dict[str, list[str]] = {}
        for alias, identity in self._aliases:
            self._ids.setdefault(alias, []).append(identity)

    def entries(self) -> Collection[Facts]:
        return self._facts.values()

    def find_architecture(self, name: str, *, fuzzy: bool = True) -> ModelArchitecture:
        """Returns the architecture of a named model. If the name was neither an id nor an alias, the assumptions state
        how it was read. A name that states a narrow format means a checkpoint in that format.

        Raises UnknownModel with the most similar names, or AmbiguousModel with the choices.
        """
        facts, note = self.find_entry(name, fuzzy=fuzzy)
        model = entry_architecture(facts)
        if name == facts["hf_id"]:
            return model
        named = with_named_format(model, name)
        stored = "" if named is model else f"weight format {format_name(named.native_format)} taken from the name"
        return replace(named, assumed=(*named.assumed, *filter(None, (note, stored))))

    def find_entry(self, name: str, *, fuzzy: bool = True) -> tuple[Facts, str]:
        """Returns the registry entry of a name, and a note on how the name was read if it was neither an id nor an
        alias.

        Tries in turn: the exact id; a folded alias; and if `fuzzy`, the name without file suffixes (":latest",
        "-q4_K_M", "-AWQ"), the same words without separators, and the words in any order.
        """
        if name in self._facts:
            return self._facts[name], ""
        ids = self._ids.get(fold_name(name), [])
        if len(ids) == 1:
            return self._facts[ids[0]], ""
        if not ids:
            refuse_hosted(name)
            ids = self._find_fuzzy(name) if fuzzy else ids
        chosen = self._single_shape(ids)
        if chosen is not None:
            other = OTHER_WEIGHTS_NOTE if states_other_weights(name, chosen) else ""
            return self._facts[chosen], f"the name {name!r} was read as {chosen}{other}"
        if ids:
            raise AmbiguousModel(
                f"{quote_name(name)} matches {len(ids)} different models. Use one of: "
                f"{', '.join(ids[:8])}{f' and {len(ids) - 8} more' if len(ids) > 8 else ''}.",
                choices=ids[:8],
            )
        close = nearest_models(name, self._aliases)
        suggestion = f"Did you mean {join_words(close, 'or')}?" if close else "No name in the catalog is similar."
        if size := ONLY_A_SIZE.fullmatch(name.strip()):
            suggestion = f'If you know only the size, send {{"parameters_billion": {size[1]}}}.'
        raise UnknownModel(
            f"Unknown model {quote_name(name)}: it is not in the catalog. {suggestion} "
            "GET /catalog/models?q= searches all models. You can send `huggingface_config` instead.",
            nearest=close,
        )

    def _find_fuzzy(self, name: str) -> list[str]:
        """Returns the ids that a name may mean, by the strictest reading that finds any."""
        name = strip_gateway(name)
        bare = strip_file_suffix(name)
        tail = strip_file_suffix(name.rsplit("/", 1)[-1])  # the name without the account that repackaged the model
        if bare in self._ids or tail in self._ids:
            return self._ids.get(bare) or self._ids[tail]
        ids: list[str] = []
        for typed in (bare, tail):
            ids = ids or sorted({model for alias, model in self._aliases if squash_name(alias) == squash_name(typed)})
        return (
            ids
            or self._find_same_shape(name)
            or models_containing(bare, self._aliases)
            or models_containing(tail, self._aliases)
        )

    def _find_same_shape(self, name: str) -> list[str]:
        """Returns the ids whose names differ only in the stage of training, the format or the date of the model; or
        else of the base model that a fine-tuned model names.
        """
        words = shape_words(name)
        if len(words) < 2:
            return []
        dated, undated = self._ids_by_shape
        found = dated.get(words) or undated.get(shape_words(name, with_dates=False), [])
        if not found:  # a size that the model's own name does not state
            rest, size = split_size(words)
            params = {i: self._facts[i]["total_params"] for i in dated.get(rest, [])}
            found = [i for i, total in params.items() if abs(total - size) <= STATED_SIZE_ERROR * total]
        if not found:
            typed = shape_tokens(name)
            bases = [i for i in self._facts if is_tuned_name(typed, shape_tokens(i))]
            longest = max((len(shape_tokens(i)) for i in bases), default=0)
            found = [i for i in bases if len(shape_tokens(i)) == longest]
            found = found if self._single_shape(found) else []
        spelled = split_name_words(name)
        return sorted(found, key=lambda i: (-len(spelled & split_name_words(i)), len(i), i))

    @cached_property
    def _ids_by_shape(self) -> tuple[dict[frozenset[str], list[str]], dict[frozenset[str], list[str]]]:
        """Ids of models by the words of their own name that tell the shape: with dates, and without."""
        tables: list[dict[frozenset[str], list[str]]] = []
        for with_dates in (True, False):
            ids: dict[frozenset[str], list[str]] = {}
            for identity in sorted(self._facts):
                ids.setdefault(shape_words(identity, with_dates=with_dates), []).append(identity)
            tables.append(ids)
        return tables[0], tables[1]

    def _single_shape(self, ids: Sequence[str]) -> str | None:
        """Returns the only model, or the first of several with identical shapes, such as base and instruct variants."""
        configs = (self._facts[identity]["config"] for identity in ids)
        shapes = {
            orjson.dumps(
                {k: v for k, v in config.items() if k not in SHAPE_IRRELEVANT_KEYS}, option=orjson.OPT_SORT_KEYS
            )
            for config in configs
        }
        return ids[0] if len(shapes) == 1 else None

    def next_smaller(self, identity: str) -> str | None:
        """Returns the id of the largest smaller model of the same family and naming scheme; None if there is none."""
        own = self._facts.get(identity)
        if own is None or strip_size(identity) == identity.lower():
            return None
        smaller = [
            entry
            for name, entry in self._facts.items()
            if (entry["family"], entry["modality"]) == (own["family"], own["modality"])
            and entry["total_params"] <= SMALLER_MODEL_SHARE * own["total_params"]
            and entry["active_params"] <= own["active_params"]
            and strip_size(name) == strip_size(identity)
        ]
        return min((e["hf_id"] for e in smaller), key=lambda i: (-self._facts[i]["total_params"], i), default=None)


def load_models(session: Session) -> Models:
    aliases = session.execute(select(ModelAliasRow.alias, ModelAliasRow.model))
    return Models(session.scalars(select(ModelRow.facts)), [(alias, model) for alias, model in aliases])


def refuse_hosted(name: str) -> None:
    """Raises HostedModel if the name is a model whose weights are not published."""
    hosted = find_hosted_only(name)
    if hosted is not None:
        raise HostedModel(
            f"{quote_name(name)} is available only as a hosted service ({hosted.sold_as}). Its weights are not "
            "published, "
            "so no hardware can be sized for it. Use a model with published weights.",
            sold_as=hosted.sold_as,
        )
