"""How often the faster of two published results is predicted to be the faster one."""

from __future__ import annotations

import json

import pytest

from app.api.schemas.lists import ORDERED_BY
from app.catalog.files import read_data_file, read_rows
from app.sizing.evidence import Compared
from app.sizing.snapshot import Catalog
from calibration.ordering import ALL, COMPARISONS, OrderShare, order_figures, order_shares, published_layouts
from tests.sizing.published import result


def shares(*rows: Compared, **layouts: tuple[str, ...]) -> dict[tuple[str, str], OrderShare]:
    of = {row.measurement: layouts.get(row.measurement, ()) for row in rows}
    return {(s.compared, s.metric): s for s in order_shares(rows, of, fewest=1)}


def test_an_order_is_counted_by_hand() -> None:
    rows = [
        result("1", 100.0, held_out=110.0, predicted=90.0),
        result("2", 120.0, held_out=100.0, predicted=95.0, engine="sglang"),  # held out: the wrong one is faster
        result("3", 140.0, held_out=150.0, predicted=150.0, engine="tensorrt-llm"),
    ]
    found = shares(*rows)
    assert found["engine", ALL] == OrderShare("engine", ALL, 3, 1, 2 / 3, 1.0)
    assert found["engine", "throughput"].pairs == 3
    assert set(found) == {("engine", ALL), ("engine", "throughput")}


def test_the_shorter_time_is_the_faster_result() -> None:
    pair = [
        result("1", 0.02, held_out=0.03, metric="tpot_s"),
        result("2", 0.03, held_out=0.04, metric="tpot_s", format_class="16bit"),
    ]
    assert shares(*pair)["format", ALL].unseen_source == 1.0


@pytest.mark.parametrize(
    "change",
    [
        {"measured": 104.0},  # closer than 5 %
        {"source": "b"},
        {"model": "other"},
        {"in_flight": 32.0},
        {"metric": "total_tokens_per_s"},
        {"excluded": True},
        {"engine": "vllm"},  # nothing differs
    ],
)
def test_results_that_are_not_comparable_make_no_pair(change: dict[str, object]) -> None:
    other = {"measured": 120.0, "engine": "sglang"}
    assert shares(result("1"), result("2", **other)) != {}  # type: ignore[arg-type]
    assert shares(result("1"), result("2", **other | change)) == {}  # type: ignore[arg-type]


def test_equal_predictions_have_no_order() -> None:
    assert shares(result("1"), result("2", 120.0, engine="sglang"))["engine", ALL].unseen_source == 0.0


def test_hardware_is_compared_as_a_whole_and_per_accelerator() -> None:
    """Eight slower cards are faster than four, and slower each; times have no share of a card."""
    hopper, ada = {"devices": 4.0}, {"devices": 8.0, "accelerator": "nvidia-l40s", "family": "nvidia_ada"}
    rates = result("1", 100.0, held_out=100.0, **hopper), result("2", 150.0, held_out=120.0, **ada)
    assert set(shares(*rates)) == {("hardware_per_accelerator", ALL), ("hardware_per_accelerator", "throughput")}
    assert shares(*rates)["hardware_per_accelerator", ALL].unseen_source == 1.0
    eager = result("2", 150.0, held_out=250.0, **ada)  # more than half a card too fast
    assert shares(rates[0], eager)["hardware_per_accelerator", ALL].unseen_source == 0.0
    times = [
        result(name, value, metric="ttft_s", **where) for name, value, where in (("1", 1.0, hopper), ("2", 2.0, ada))
    ]
    assert shares(*times) == {}
    trained = [
        result(name, value, held_out=value, metric="training_tokens_per_s", **where)
        for name, value, where in (("1", 100.0, hopper), ("2", 90.0, ada))
    ]
    assert shares(*trained)["hardware_per_accelerator", "training"].unseen_source == 1.0  # published per accelerator


def test_engines_are_compared_in_one_layout_and_other_properties_in_any() -> None:
    """A framework that splits layers in one run and not in the other has the coefficients of two frameworks."""
    rows = result("one"), result("two", 120.0, engine="sglang")
    assert shares(*rows, one=("tp2",), two=("tp2",)) != {}
    assert shares(*rows, one=("tp2",), two=("tp1",)) == {}
    wide = result("two", 120.0, devices=8.0)
    assert shares(rows[0], wide, one=("tp4",), two=("tp8",))["degree", ALL].pairs == 1
    assert published_layouts([{"id": "m", "tp": "2", "engine": "x"}]) == {"m": ("2", *[None] * 8)}


def test_committed_orders_keep_the_promises(catalog: Catalog) -> None:
    """Unseen sources: at least as many pairs in the right order as the last fit had; few pairs count in sums alone."""
    rows = [row for kind in ("inference", "training") for row in read_rows(f"measurements_{kind}.csv")]
    found = order_figures(order_shares(catalog.evidence.rows, published_layouts(rows)))
    committed = json.loads(read_data_file("accuracy.json"))["order"]
    assert found == [pytest.approx(share, abs=2e-3) for share in committed]  # the file of predictions has five digits
    assert {s["compared"]: s["unseen_source"] >= LEAST[s["compared"]] for s in found if s["metric"] == ALL} == (
        dict.fromkeys(LEAST, True)
    )
    assert set(LEAST) == set(COMPARISONS) == set(ORDERED_BY)
    assert all(s["pairs"] >= 20 for s in found if s["metric"] != ALL)


LEAST = {"engine": 0.68, "hardware": 0.87, "hardware_per_accelerator": 0.9, "degree": 0.88, "format": 0.87}
