"""An answer above the default size shortens its last parts and keeps the decisive ones."""

from __future__ import annotations

from typing import Any

import orjson

from app.api.sized import ASSUMPTION_ORDER, MAX_BYTES, fit_to_size, json_bytes


def document(*, ranks: int = 5, words: int = 100, misses: int = 20, request: int = 10) -> dict[str, Any]:
    text = "x" * words
    reasons = [{"code": code, "text": text} for code in ("memory", "price", "speed", "comparison")]
    rank = {
        "explanation": reasons,
        "nearest_measurements": [text],
        "cost": {"usd_per_hour": 1.0, "parts": []},
        "confidence": {"asked": 0.8, "by_level": [{"confidence": c} for c in (0.5, 0.8, 0.9)]},
    }
    inner = {"name": "memory_nearly_full", "source": "assumed: why", "asked": False}
    return {
        "request": {"name": "y" * request},
        "assumptions": [{"name": "pue", "source": "assumed: why", "asked": True}, inner],
        "recommendations": [dict(rank) for _ in range(ranks)],
        "rejected": [{"text": f"{text} {i}"} for i in range(misses)],
        "metrics": {"ttft_ms": text},
    }


def test_what_fits_is_left_as_it_is() -> None:
    assert fit_to_size(document()) == json_bytes(document())


def test_the_first_three_say_everything_while_the_last_say_less() -> None:
    whole = document(words=1050)
    assert len(json_bytes(whole)) > MAX_BYTES
    body = fit_to_size(whole)
    assert len(body) <= MAX_BYTES
    shown = orjson.loads(body)
    kept = [len(r["explanation"]) for r in shown["recommendations"]]
    assert kept == [4, 4, 4, 2, 2]
    assert len(shown["rejected"]) >= 8
    assert "pue" in [a["name"] for a in shown["assumptions"]]


def test_where_the_others_stand_goes_before_what_was_assumed() -> None:
    """The promise is the same for every rank."""
    whole = document(words=900)
    for rank in whole["recommendations"]:
        rank["explanation"] = [*rank["explanation"], {"code": "placement", "text": "z" * 900}]
    assert len(json_bytes(whole)) > MAX_BYTES
    shown = orjson.loads(fit_to_size(whole))
    kept = [[e["code"] for e in r["explanation"]].count("placement") for r in shown["recommendations"]]
    assert kept == [1, 0, 0, 0, 0]
    assert len(shown["assumptions"]) == 2


def test_a_long_request_takes_nothing_from_the_answer() -> None:
    long = document(words=10, request=50_000)
    assert fit_to_size(long) == json_bytes(long)


def test_the_misses_go_last_and_farthest_first() -> None:
    shown = orjson.loads(fit_to_size(document(words=1500)))
    assert [len(r["explanation"]) for r in shown["recommendations"]][1:] == [2, 2, 2, 2]
    assert shown["rejected"] == document(words=1500)["rejected"][: len(shown["rejected"])]


def test_what_was_assumed_and_finds_no_room_is_counted() -> None:
    whole = document(words=1050)
    whole["assumptions"] += [{"name": name, "source": "x" * 900, "asked": False} for name in ASSUMPTION_ORDER[:8]]
    shown = orjson.loads(fit_to_size(whole))
    assert shown["assumptions_omitted"] == len(whole["assumptions"]) - len(shown["assumptions"]) > 0
    assert "assumptions_omitted" not in orjson.loads(fit_to_size(document()))


def test_the_minutes_of_a_loss_grow_fewer_between_the_first_and_the_last() -> None:
    whole = document(words=1050)
    minutes = [{"minute": minute} for minute in range(61)]
    whole["recommendations"][0]["day"] = {"failures": [{"what": "machine", "minutes": minutes}]}
    (loss,) = orjson.loads(fit_to_size(whole))["recommendations"][0]["day"]["failures"]
    kept = [entry["minute"] for entry in loss["minutes"]]
    assert (kept[0], kept[-1]) == (0, 60)
    assert 2 <= len(kept) <= 7
