"""Selects the software stacks that a serving request allows, and the accelerators where they compete."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from app.sizing.decisions.rejections import Rejections
from app.sizing.hardware.engines import engine_named
from app.sizing.hardware.stacks import competing_mask
from app.sizing.hardware.support.records import LEVELS, Level, Work
from app.sizing.hardware.tables import Stacks
from app.sizing.model.adapted import loaded_adapters
from app.sizing.model.architecture import ModelArchitecture
from app.sizing.model.tasks import TASKS
from app.sizing.question import Constraints, Deployment
from app.sizing.serving.plans import Plans
from app.sizing.snapshot import Catalog

# Stack selections that a catalog caches: most requests differ in the work, not in the stacks that they allow.
MAX_CACHED_SELECTIONS = 32


def requested_engines(constraints: Constraints, fixed: Deployment | None) -> tuple[str, ...]:
    """The fixed engine, the allowed engines, or an empty tuple."""
    return (fixed.engine,) if fixed is not None and fixed.engine else constraints.engines


def filter_by_adapter_support(
    model: ModelArchitecture, plans: Plans, catalog: Catalog, rejections: Rejections
) -> Plans:
    """Drop plans whose engine cannot serve adapters, if the model has adapters loaded separately; otherwise keep
    all.
    """
    if loaded_adapters(model) is None:
        return plans
    serving = np.array([bool(engine_named(name).serves_adapters) for name in catalog.engines])
    kept = plans.take(np.flatnonzero(serving[plans.engine]))
    text = "No engine that runs this model on {name} is known to serve its adapters."
    rejections.reject_if_none_left(plans.accelerator, kept.accelerator, "no_engine", text)
    return kept


def select_stacks(
    catalog: Catalog, work: Work, formats: frozenset[str], engines: tuple[str, ...], fixed: Deployment | None
) -> Stacks:
    """Software stacks that support the work and that the request allows, on the accelerators where they compete."""
    key = work, formats, engines
    selected = catalog.stacks_cache.get(key)
    if selected is None:
        if len(catalog.stacks_cache) >= MAX_CACHED_SELECTIONS:
            catalog.stacks_cache.clear()
        selected = catalog.stacks_cache[key] = _filter_stacks(catalog, work, formats, engines)
    if fixed is not None and fixed.engine is not None:
        return catalog.stacks_of_version(selected, fixed.engine_version)
    return selected


def _filter_stacks(catalog: Catalog, work: Work, formats: frozenset[str], engines: tuple[str, ...]) -> Stacks:
    """Filter the catalog's stacks by work, weight format and engine; without named engines, keep only those that
    compete.
    """
    stacks, level = catalog.stacks, catalog.stacks.levels[:, TASKS.index(work.task)]
    wanted = np.zeros(len(catalog.formats), bool)
    wanted[[catalog.format_index[f] for f in formats if f in catalog.format_index]] = True
    keep = (stacks.phase == catalog.phases.index(work.phase)) & wanted[stacks.weight_format]
    keep &= level > LEVELS.index(Level.REFUSED)
    if engines:
        keep &= np.array([name in engines for name in catalog.engines])[stacks.engine]
    selected = stacks.take(np.flatnonzero(keep))
    selected = replace(selected, expected=level[keep] == LEVELS.index(Level.EXPECTED))
    if not engines:
        on = competing_mask(selected.on, selected.expected, selected.named_only[:, TASKS.index(work.task)])
        selected = replace(selected, on=on).take(np.flatnonzero(on.any(axis=1)))
    return selected
