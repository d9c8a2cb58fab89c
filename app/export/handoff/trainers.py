"""Reads the launchers of training runs: command, configuration file, optimizers and silent defaults of each trainer."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from app.errors import Unanswerable
from app.sizing.facts import InvalidFact, build, read_toml, require_source
from app.sizing.hardware.benchmarks import FRAGMENT, FRAGMENTS
from app.sizing.words import product_name

FILE = "trainers.toml"
PRETRAIN = "pretrain"


class NoLauncher(Unanswerable):
    """Raised for a run whose framework has no launcher for its method or kind of model."""

    code = "target-cannot-start"


@dataclass(frozen=True, slots=True)
class Trainer:
    """How one trainer starts, reads data, saves and resumes. `app/sizing/data/trainers.toml` explains the fields."""

    name: str
    engines: tuple[str, ...]
    trains: tuple[str, ...]
    launcher: str
    command: str
    data: str
    source: str
    kinds: tuple[str, ...] = ("decoder",)
    prepare: tuple[str, ...] = ()
    scripts: Mapping[str, str] = field(default_factory=dict)
    config: str = ""
    images: Mapping[str, str] = field(default_factory=dict)
    install: str = ""
    complete_images: tuple[str, ...] = ()  # vendors whose image has this release of the trainer
    container_setup: tuple[str, ...] = ()  # lines after the installation in a container
    may_be_empty: tuple[str, ...] = ()  # variables of which an empty value has a meaning
    optimizers: Mapping[str, str] = field(default_factory=dict)
    fused: Mapping[str, str] = field(default_factory=dict)
    machines: int = 0  # most machines that it spans; 0: any number
    starts_from_weights: bool = True
    measures_itself: bool = False  # whether benchmark.sh runs steps of train.sh

    @property
    def settings(self) -> Mapping[str, Any]:
        """Template of the configuration file."""
        return _part(self.name, "settings")

    @property
    def variables(self) -> Mapping[str, str]:
        """Further variables that the user sets, and what each of them is."""
        return _part(self.name, "variables")

    @property
    def defaults(self) -> Mapping[str, str]:
        """Keys and flags with a default of the tool, and that default."""
        return _part(self.name, "defaults")

    def known_variables(self, model: str, trains: str) -> Mapping[str, str]:
        """Values of further variables for a model, or for a model and a method."""
        names = _part(self.name, "names")
        return {**names.get(model, {}), **names.get(f"{model} {trains}", {})}


def find_trainer(engine: str, trains: str, kind: str) -> Trainer:
    """Launcher of a framework for a method and a kind of model. Raises NoLauncher."""
    for trainer in TRAINERS.values():
        if engine in trainer.engines and trains in trainer.trains and kind in trainer.kinds:
            return trainer
    able = sorted(
        {product_name(e) for t in TRAINERS.values() if trains in t.trains and kind in t.kinds for e in t.engines}
    )
    what = "pre-training" if trains == PRETRAIN else f"{trains} fine-tuning"
    if not able:
        raise NoLauncher(f"Headroom has no launcher for {what} of {kind} models.")
    raise NoLauncher(
        f"Headroom has no launcher for {what} of a {kind} model with {product_name(engine)}. Name one of these in "
        f"constraints.engines: {', '.join(able)}."
    )


def _part(name: str, part: str) -> Mapping[str, Any]:
    """A table of a trainer's record; empty if it has none."""
    table: Mapping[str, Any] = _TABLES["trainers"][name].get(part, {})
    return table


def _expand_fragments(command: str, where: str) -> str:
    """A command with each `<name>` replaced by the fragment of that name, which may contain others."""
    fragments = {**FRAGMENTS, **_TABLES["fragments"]}
    while names := re.findall(FRAGMENT, command):
        for name in names:
            if name not in fragments:
                raise InvalidFact(f"{where}: no fragment {name!r}.")
        command = re.sub(FRAGMENT, lambda found: fragments[found[1]], command)
    return command


def _read_trainer(name: str, table: Mapping[str, Any]) -> Trainer:
    where = f"{FILE}, trainer {name}"
    require_source({"read": _TABLES["read"], **table}, where=where)
    own = {key: value for key, value in table.items() if key not in ("settings", "variables", "names", "defaults")}
    trainer = build(Trainer, {"name": name, **own}, where=where)
    return replace(trainer, command=_expand_fragments(trainer.command, where))


_TABLES = read_toml(FILE)
LEARNING_RATES: Mapping[str, str] = _TABLES["learning_rates"]
TRAINERS: Mapping[str, Trainer] = {name: _read_trainer(name, table) for name, table in _TABLES["trainers"].items()}
