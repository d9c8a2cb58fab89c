"""Why the first place of an answer changed or did not, told from both answers."""

from __future__ import annotations

from typing import Any

import pytest

from app.export.first_place import places, stays, why

NAMES = {"a": "Card A", "b": "Card B"}


def ranked(slug: str, count: int, usd: float | None, provider: str = "x", **cost: Any) -> dict[str, Any]:
    return {
        "deployment": {"accelerator": slug, "total_accelerators": count, "offer": {"provider": provider}},
        "cost": {"usd_per_hour": usd, "usd_total": None, **cost},
    }


def answer(*ranks: dict[str, Any], snapshot: str = "s1", **rejected: str) -> dict[str, Any]:
    return {
        "catalog": {"snapshot": snapshot},
        "recommendations": [{"rank": n, **rank} for n, rank in enumerate(ranks, start=1)],
        "rejected": [{"accelerator": slug, "text": text} for slug, text in rejected.items()],
    }


POOLS = {
    "deployment": {
        "accelerator": "a",
        "pools": {"prefill": {"total_accelerators": 2}, "decode": {"accelerator": "b", "total_accelerators": 4}},
    },
    "cost": {"usd_per_hour": 9.0},
}
THEN = answer(ranked("a", 8, 10.0), ranked("b", 4, 12.0))


@pytest.mark.parametrize(
    ("then", "now", "same", "told"),
    [
        (THEN, THEN, True, ["8 x Card A stays first: 10.00 USD/h then and today."]),
        (
            THEN,
            answer(ranked("a", 9, 13.0, "y")),
            True,
            [
                "Card A stays first: 8 x Card A at 10.00 USD/h then, 9 x Card A at 13.00 USD/h today (+30.0 % since "
                "then).",
                "It is had from y now, not from x.",
            ],
        ),
        (
            THEN,
            answer(ranked("b", 4, 12.0), ranked("a", 8, 13.0), snapshot="s2"),
            False,
            [
                "4 x Card B is first today at 12.00 USD/h; 8 x Card A was first then at 10.00 USD/h.",
                "Card A is rank 2 today, 8 x Card A at 13.00 USD/h (+30.0 % since then).",
                "Card B was rank 2 then, 4 x Card B at 12.00 USD/h (+0.0 % since then).",
            ],
        ),
        (
            answer(ranked("a", 8, 10.0), b="Nobody sells it."),
            answer(ranked("b", 4, None), snapshot="s1"),
            False,
            [
                "4 x Card B is first today at no price; 8 x Card A was first then at 10.00 USD/h.",
                "Card A is not among the ranks of today.",
                "Card B was turned down then: Nobody sells it.",
                "The catalogue is the same: its prices have aged, or the service reckons otherwise by now.",
            ],
        ),
        (answer(), answer(), True, ["Nothing did what was asked then; nothing does today."]),
        (answer(), THEN, False, ["Nothing did what was asked then; today 8 x Card A does, at 10.00 USD/h."]),
        (
            THEN,
            answer(a="Too slow."),
            False,
            ["8 x Card A was first then; nothing does what is asked today.", "Card A is turned down today: Too slow."],
        ),
        (
            answer(POOLS),
            answer(ranked("a", 8, 10.0, usd_total=500.0), snapshot="s2"),
            False,
            [
                "8 x Card A is first today at 500.00 USD; 2 x Card A and 4 x Card B was first then at 9.00 USD/h.",
                "Card A and Card B is not among the ranks of today.",
                "Card A was not among the ranks of then.",
            ],
        ),
    ],
)
def test_the_first_place_is_told(then: Any, now: Any, same: bool, told: list[str]) -> None:
    assert stays(places(then, NAMES), places(now, NAMES)) == same
    assert list(why(then, now, NAMES)) == told
