"""The table: a value of every option, the best of those that do what was asked."""

from __future__ import annotations

from dataclasses import replace

from app.sizing.compare import QUANTITIES, build_table
from app.sizing.result import Assurance, DeviceMemory, Percentiles
from tests.sizing.answer.given import COST, SPEED
from tests.sizing.compare.given import best, made, nothing, on_big, one_card, run


def test_every_line_has_a_value_of_every_option() -> None:
    lines = build_table((best(), on_big(), nothing()))
    assert {line.quantity for line in lines} < {name for name, *_ in QUANTITIES}
    for line in lines:
        assert len(line.values) == 3 and line.values[2] is None
        assert any(v is not None for v in line.values)


def test_the_best_is_the_least_of_money_and_the_most_of_rates_among_those_that_do_it() -> None:
    lines = {line.quantity: line for line in build_table((on_big(), one_card(), best()))}
    usd = lines["usd_per_hour"]
    assert min(v for v in usd.values if v is not None) == usd.values[1], "one card costs least, and is too few"
    assert usd.best == ("best" if best().usd != on_big().usd else None)
    assert lines["total_accelerators"].best is None
    rate = lines["requests_per_s_capacity"]
    able = {"big": rate.values[0] or 0.0, "best": rate.values[2] or 0.0}
    assert rate.best == (max(able, key=lambda name: able[name]) if len(set(able.values())) > 1 else None)


def test_equals_and_different_work_have_no_best() -> None:
    assert all(line.best is None for line in build_table((best(), best())))
    assert all(line.best is None for line in build_table((best(), run()), judged=False))
    quantities = {line.quantity for line in build_table((best(), run()), judged=False)}
    assert {"mfu", "days", "optimizer_gib", "kv_cache_gib", "ttft_p95_ms"} <= quantities


def test_values_are_read_in_the_units_of_their_lines() -> None:
    waits = replace(SPEED, ttft=Percentiles(1.0, 2.0, 3.0, 4.0), e2e=Percentiles(1.0, 2.0, None, None))
    full = made(performance=waits)
    assert full.estimate is not None
    memory = DeviceMemory(2**30, 0.0, 2 * 2**30, 3 * 2**30, 0.0, 0.0, 80e9, 70e9)
    full = replace(full, estimate=replace(full.estimate, memory=memory))
    bare = made(cost=None, performance=None)
    lines = {line.quantity: (line.unit, line.values) for line in build_table((full, bare, nothing()))}
    assert lines["usd_per_hour"] == ("USD/h", (40.0, None, None))
    assert lines["power_kw"] == ("kW", (COST.power_w / 1e3, None, None))
    assert lines["ttft_p95_ms"] == ("ms", (3000.0, None, None))
    assert lines["weights_gib"] == ("GiB", (1.0, None, None))
    assert lines["memory_total_gib"] == ("GiB", (6.0, None, None))
    assert lines["total_accelerators"] == ("accelerators", (8, 8, None))
    # Latencies without an end, and nothing in memory, make no line.
    assert not {"e2e_p95_ms", "tpot_p95_ms", "kv_cache_gib", "days"} & lines.keys()


def test_a_best_value_needs_two_that_differ_and_meet_the_requirements() -> None:
    cheap, dear = (made(n, cost=replace(COST, usd_per_hour=usd)) for n, usd in (("cheap", 1.0), ("dear", 2.0)))
    late = made("late", cost=replace(COST, usd_per_hour=0.5), performance=replace(SPEED, overloaded=True))

    def best_of(*outcomes: object) -> str | None:
        lines = build_table(outcomes)  # type: ignore[arg-type]
        return next(line.best for line in lines if line.quantity == "usd_per_hour")

    assert best_of(dear, cheap) == best_of(cheap, dear) == best_of(late, dear, cheap) == "cheap"
    assert best_of(cheap, replace(cheap, name="same")) is None
    assert best_of(cheap, late) is None and best_of(cheap) is None
    assert best_of(cheap, replace(cheap, name="same"), dear) is None
    neither = made("more", total_accelerators=16)
    by_name = {line.quantity: line.best for line in build_table((cheap, neither))}
    assert by_name["total_accelerators"] is None


def test_the_confidence_shown_is_that_of_the_limits_else_of_the_deadline() -> None:
    for met, in_time, shown in ((0.9, 0.7, 0.9), (0.0, 0.7, 0.0), (None, 0.7, 0.7), (None, None, None)):
        o = made()
        assert o.estimate is not None
        o = replace(o, estimate=replace(o.estimate, assurance=Assurance(0.8, 1.0, met, in_time, ())))
        lines = {line.quantity: line.values for line in build_table((o,))}
        assert lines.get("confidence", (None,)) == (shown,)
