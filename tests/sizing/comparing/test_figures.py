"""The table: a value of every option, the best of those that do what was asked."""

from __future__ import annotations

from app.sizing.comparing.figures import QUANTITIES, build_table
from tests.sizing.comparing.given import best, nothing, on_big, one_card, run


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
