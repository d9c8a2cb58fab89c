"""Each result as the question: what was sized without its source would have done, or would not."""

from __future__ import annotations

import math

import pytest

from app.sizing.evidence import Compared
from app.sizing.question import CONFIDENCE_LEVELS
from app.sizing.snapshot import Catalog
from calibration.back_test import FLEET_REPLICAS, back_test, meets_guarantee
from calibration.spreads import GROUPS, add_interval, leave_one_source_out
from tests.sizing.published import result


@pytest.mark.parametrize(
    ("metric", "measured", "factor", "enough"),
    [
        # predicted 100 tokens/s, planned with 80: a load of 100 times 79 takes 99 replicas, which carry 99 * 79
        ("output_tokens_per_s", 79.0, 1.25, False),
        ("output_tokens_per_s", 80.0, 1.25, True),
        # whole replicas carry a little more: 7950 / 80 is 99.4, and 100 of them carry it
        ("output_tokens_per_s", 79.5, 1.25, True),
        ("training_tokens_per_s", 79.0, 1.25, False),
        ("training_tokens_per_s", 120.0, 1.25, True),
        ("tpot_s", 124.0, 1.25, True),
        ("tpot_s", 126.0, 1.25, False),
        ("peak_memory_bytes", 126.0, 1.25, False),
    ],
)
def test_what_was_sized_does_what_was_measured_or_does_not(
    metric: str, measured: float, factor: float, enough: bool
) -> None:
    assert meets_guarantee(result(metric=metric, measured=measured), factor) is enough
    assert FLEET_REPLICAS == 100


def rows_of(name: str, *ratios: float) -> list[Compared]:
    return [result(f"{name}{i}", 100.0 * ratio, source=name) for i, ratio in enumerate(ratios)]


def test_shares_are_counted_by_quantity_and_a_family_needs_results_enough() -> None:
    sources = [rows_of(name, *[1.1**i for i in range(-10, 11)]) for name in "ab"]
    whole, family = back_test([r for rows in sources for r in rows])
    assert (whole.quantity, whole.family, whole.rows, whole.sources) == ("throughput", "all", 42, 2)
    assert (family.family, family.kept_shares) == ("nvidia_hopper", whole.kept_shares)
    # at even odds the point decides: of the 21 results of each, those from 1.0 up (11) are no slower, and the next
    # below, at 1 / 1.1, is too far for whole replicas
    assert whole.kept_shares[CONFIDENCE_LEVELS.index(0.5)] == pytest.approx(11 / 21)
    assert sorted(whole.kept_shares) == list(whole.kept_shares)
    (few,) = back_test([r for rows in sources for r in rows[:10]])
    assert few.family == "all"


@pytest.mark.parametrize("group", [GROUPS[1], GROUPS[3]], ids=lambda group: str(group[0]))
def test_the_committed_intervals_are_of_spreads_that_never_saw_the_source(
    group: tuple[str, ...], catalog: Catalog
) -> None:
    for row, spread in leave_one_source_out([r for r in catalog.evidence.rows if r.kind in group]):
        again = add_interval(row, spread)
        # the file holds five digits of what the spreads were taken from
        assert [math.log(getattr(again, name) / getattr(row, name)) for name in ("low", "high", "promised")] == (
            pytest.approx([0, 0, 0], abs=0.01)
        ), row.measurement
