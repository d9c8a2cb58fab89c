"""Hardware as columns: unknown values stay unknown."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from app.sizing.columns import GIB, lazy_rows
from app.sizing.hardware.engines import engine_named
from app.sizing.hardware.tables import (
    POWER_WITH_PROCESSOR,
    REFERENCE_CHIPS,
    AcceleratorColumns,
    SchedulingColumns,
    equivalence_keys,
    index_by_name,
    scheduler_at,
    step_sizes,
)
from app.sizing.snapshot import Catalog
from tests.sizing.small import BIG, CARD, DESK, RARE, SMALL

COLUMNS = AcceleratorColumns.from_accelerators((BIG, CARD, DESK, RARE))


@pytest.mark.parametrize(
    ("rate", "expected"),
    [
        ("16bit", [1e15, 1.2e14, 1e14, 2e14]),
        ("fp8", [2e15, np.nan, np.nan, np.nan]),  # never twice another's rate
        ("fp4", [np.nan] * 4),
    ],
)
def test_a_rate_that_is_missing_stays_missing(rate: str, expected: list[float]) -> None:
    np.testing.assert_equal(COLUMNS.matrix_rate(rate), expected)


def test_a_card_without_bf16_multiplies_in_fp16() -> None:
    assert COLUMNS.has_bf16.tolist() == [True, True, False, True]
    assert COLUMNS.bit16[2] == 1e14
    assert AcceleratorColumns.from_accelerators((replace(BIG, flops_per_s={"fp32": 1.0, "tf32": 2.0}),)).fp32[0] == 2.0


def test_parts_are_distinguished_by_their_use() -> None:
    assert COLUMNS.desktop.tolist() == [False, False, True, False]
    assert COLUMNS.training_class.tolist() == [True, False, False, False]
    assert np.isnan(COLUMNS.price_low_usd).tolist() == [False, False, False, True]
    assert index_by_name(["b", "a"]) == {"b": 0, "a": 1}


def test_machines_alike_within_and_across() -> None:
    pair = SMALL.machines.take(np.array([0, 0]))
    network = replace(pair, network_bytes_per_s=np.array([1e9, 2e9]))
    memory = replace(pair, memory_bytes=np.array([1e9, 2e9]))
    for table, inside, between in ((pair, True, True), (network, True, False), (memory, False, False)):
        within, across = equivalence_keys(table)
        assert (within[0] == within[1], across[0] == across[1]) == (inside, between)


def test_schedulers_as_columns_say_what_their_records_say() -> None:
    rules = [engine_named(name).scheduling for name in ("vllm", "vllm", "sglang", "tensorrt-llm", "lmdeploy")]
    families = ["nvidia_hopper", "nvidia_ampere", "amd_cdna3", "nvidia_hopper", "nvidia_ampere"]
    table = SchedulingColumns.from_rules(rules, families)
    for memory_gib in (16.0, 44.0, 79.2, 191.0):
        memory = np.full(len(rules), memory_gib * GIB)
        for offline in (False, True):
            tokens, sequences = step_sizes(table, memory, offline=offline)
            for row, (rule, family) in enumerate(zip(rules, families, strict=True)):
                expected = rule.for_device(memory[row], family, offline=offline)
                assert scheduler_at(table, row, tokens[row], sequences[row]) == expected
    assert table.reserves_whole_request.tolist() == [False, False, False, True, False]


def test_rows_of_schedulers_are_picked_with_their_step_sizes() -> None:
    table = SchedulingColumns.from_rules([engine_named("vllm").scheduling, engine_named("sglang").scheduling], ["", ""])
    picked = lazy_rows(table, np.array([1, 1, 0]))
    tokens, sequences = step_sizes(picked, np.array([200.0, 24.0, 200.0]) * GIB, offline=False)
    assert tokens.tolist() == [16384, 2048, 16384] and sequences.tolist() == [2048, 2048, 1024]
    assert picked.reserves_whole_request.tolist() == [False, False, False]


def test_rated_power_is_compared_within_a_family(catalog: Catalog) -> None:
    """GB200 and GB300 list the same rates at 1,200 and 1,400 W."""
    ratio = {a.slug: r for a, r in zip(catalog.accelerators, catalog.columns.rated_power_ratio.tolist(), strict=True)}
    assert ratio["nvidia-gb300-279gb"] / ratio["nvidia-gb200-186gb"] == pytest.approx(1400 / 1200)
    assert {ratio[slug] for slug in REFERENCE_CHIPS.values()} == {1.0}
    assert {ratio[slug] for slug in POWER_WITH_PROCESSOR} == {1.0}
    assert ratio["nvidia-rtx-3090"] == pytest.approx((350 / 142) / (400 / 312), rel=0.01)  # 16-bit sums at half rate
