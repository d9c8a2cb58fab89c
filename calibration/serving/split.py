"""Published runs with separate prefill and decode pools: each pool is one case, both in closed form.

A row names its pools in its notes. The requests in flight are split between prefill pool, transfer and decode pool so
that throughputs balance. All requests in flight are sent at once at the start, so the first requests of a run wait for
the prompts of all others.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from app.sizing.assumptions import Assumptions
from app.sizing.columns import Column, one
from app.sizing.evidence import Setting
from app.sizing.hardware.achieved import Achieved
from app.sizing.model.architecture import ModelArchitecture
from app.sizing.pools.parts import pool_link_bytes_per_s, shares_domain, split_ttft_s, transfer_s
from app.sizing.serving.capacity import occupancy_s
from app.sizing.serving.continuous_batching import idle_first_token_s, later_tokens
from app.sizing.serving.kv_cache import cache_bytes
from app.sizing.serving.prefill import prefill_terms, seconds_per_prompt
from app.sizing.serving.step import step_s, step_terms
from app.sizing.snapshot import Catalog
from calibration.case import NotCompared, Stack, collect_cases, parse_number
from calibration.serving.cases import ServingCase, ServingCases
from calibration.serving.formulas import Table, table_of

UNFITTED_POOLS = "separate prefill and decode pools: the transfer between them is not fitted"
HALVINGS = 40
POOL = r"(\d+) worker\(s\) tp(\d+) dp(\d+) ep(\d+) pp(\d+)"
POOLS = re.compile(f"prefill: {POOL}; decode: {POOL}")

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class SplitCase:
    """One published result of two pools."""

    prefill_pool: ServingCase
    decode_pool: ServingCase
    in_flight: float
    transfer_s: float
    measured: Mapping[str, float]
    exclusion_reason: str | None = UNFITTED_POOLS

    @property
    def id(self) -> str:
        return self.decode_pool.id

    @property
    def source(self) -> str:
        return self.decode_pool.source

    @property
    def reference(self) -> str:
        return self.decode_pool.reference

    @property
    def stack(self) -> Stack:
        return self.decode_pool.stack

    @property
    def model(self) -> str:
        return self.decode_pool.model

    @property
    def group(self) -> str:
        return "split"

    @property
    def begins(self) -> float:
        """Share of the run's requests that arrived all at once."""
        said = self.decode_pool.run.requests
        return min(1.0, self.in_flight / said) if said else 0.0

    @property
    def setting(self) -> Setting:
        devices = self.prefill_pool.setting.devices + self.decode_pool.setting.devices
        return replace(self.decode_pool.setting, devices=devices, in_flight=self.in_flight)


@dataclass(frozen=True, slots=True)
class SplitTable:
    """Such cases as columns; every rank of a replica counts as a replica."""

    prefill_pool: Table
    decode_pool: Table
    in_flight: Column
    transfer_s: Column
    begins: Column  # share of the requests that arrive all at once


def pools_of(row: Row) -> tuple[Row, Row] | None:
    """(prefill row, decode row), as if each pool were the whole run; None if the row has one pool."""
    found = POOLS.search(row.get("notes") or "")
    if found is None:
        return None
    counts = [int(count) for count in found.groups()]
    return {**pool_row(row, *counts[:5]), "output_len": "1"}, pool_row(row, *counts[5:])


def pool_row(row: Row, workers: int, tensor: int, data: int, experts: int, stages: int) -> Row:
    """The row as if one pool were the whole run; data-parallel ranks always share their experts."""
    experts = max(experts, tensor * data) if data > 1 else experts
    total = workers * tensor * data * stages
    degrees = {"num_accelerators": total, "tp": tensor, "dp": data, "ep": experts, "pp": stages}
    return {**row, **{name: str(count) for name, count in degrees.items()}}


def build_split_case(row: Row, builder: ServingCases) -> SplitCase:
    """The case of one row with two pools; raises NotCompared if it states too little or cannot run."""
    pools, in_flight = pools_of(row), parse_number(row.get("load_value"))
    if pools is None or in_flight is None:
        raise NotCompared("pools or load are not given")
    reads, writes = (builder.build_case(pool) for pool in pools)
    return SplitCase(reads, writes, in_flight, cache_transfer_s(pools, reads.input_tokens, builder), writes.measured)


def cache_transfer_s(pools: tuple[Row, Row], prompt_tokens: float, builder: ServingCases) -> float:
    """Time to transfer the KV cache of one prompt between the pools, s."""
    model = builder.model_of(pools[0])
    prefill, decode = (builder.choose_plan(model, builder.read_deployment(pool, model)) for pool in pools)
    in_domain = shares_domain(prefill, decode, sum(float(pool["num_accelerators"]) for pool in pools))
    sides: list[Column] = []
    for plan in (prefill, decode):
        rate = pool_link_bytes_per_s(plan, Assumptions(), in_domain=in_domain)
        sides += [cache_bytes(model, prompt_tokens, plan), np.array([rate])]
    return one(transfer_s(*sides))


def read_split_cases(
    rows: Sequence[Row], catalog: Catalog, model_named: Callable[[str], ModelArchitecture]
) -> tuple[list[SplitCase], Counter[str]]:
    """Cases of all rows with two pools, and the number of other rows by reason."""
    builder = ServingCases(catalog, model_named)
    return collect_cases(rows, lambda row: [build_split_case(row, builder)])


def split_table_of(cases: Sequence[SplitCase]) -> SplitTable:
    columns = {name: np.array([getattr(c, name) for c in cases]) for name in ("in_flight", "transfer_s", "begins")}
    return SplitTable(table_of([c.prefill_pool for c in cases]), table_of([c.decode_pool for c in cases]), **columns)


def predict_split(table: SplitTable, achieved: Achieved) -> dict[str, Column]:
    """TTFT and TPOT of both pools in balance."""
    reads, writes = table.prefill_pool, table.decode_pool
    step = step_terms(writes.step, achieved, served=writes.served / writes.stream_interval)
    prefill = prefill_terms(reads.prefill, achieved, served=reads.served)
    occupied = occupancy_s(seconds_per_prompt(prefill, reads.chunk_tokens, None), reads.step.pipeline_parallel)
    alone = idle_first_token_s(prefill, reads.chunk_tokens)
    later = later_tokens(writes.output_tokens)

    def token_s(held: Column) -> Column:
        return step_s(step, np.clip(held / writes.replicas, 1.0, writes.most))

    def answered_per_s(held: Column) -> Column:
        running = np.minimum(held, writes.most * writes.replicas)
        rate: Column = running / (later * token_s(held))
        return rate

    def read_per_s(held: Column) -> Column:
        rate: Column = held / (alone + np.maximum(held / reads.replicas - 1, 0.0) * occupied)
        return rate

    low, high = np.zeros(len(later)), table.in_flight
    for _ in range(HALVINGS):
        held = (low + high) / 2
        rate = answered_per_s(held)
        left = np.maximum(table.in_flight - held - rate * table.transfer_s, 0.0)
        more = read_per_s(left) > rate
        low, high = np.where(more, held, low), np.where(more, high, held)
    rate, token = answered_per_s(low), token_s(low)
    steady = np.maximum(table.in_flight / rate - later * token, 0.0)
    start = alone + (table.in_flight / reads.replicas - 1) / 2 * occupied + table.transfer_s
    first = steady + table.begins * np.maximum(start - steady, 0.0)
    return {"ttft_s": split_ttft_s(first, Assumptions().split_first_token_factor), "tpot_s": token}
