"""Why the first place of an answer changed or did not, derived from both answers."""

from __future__ import annotations

from typing import Any

import pytest

from app.export.first_place import explain_first, has_same_first, ranked_options

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
    ("then", "now", "same", "sentences"),
    [
        (THEN, THEN, True, ["8 x Card A still ranks first: 10.00 USD/h, unchanged."]),
        (
            THEN,
            answer(ranked("a", 9, 13.0, "y")),
            True,
            [
                "Card A still ranks first: 8 x Card A at 10.00 USD/h originally, 9 x Card A at 13.00 USD/h today "
                "(+30.0 % since then).",
                "The seller is now y instead of x.",
            ],
        ),
        (
            THEN,
            answer(ranked("b", 4, 12.0), ranked("a", 8, 13.0), snapshot="s2"),
            False,
            [
                "4 x Card B ranks first today at 12.00 USD/h; 8 x Card A originally ranked first at 10.00 USD/h.",
                "Card A is rank 2 today: 8 x Card A at 13.00 USD/h (+30.0 % since then).",
                "Card B was originally rank 2: 4 x Card B at 12.00 USD/h (+0.0 % since then).",
            ],
        ),
        (
            answer(ranked("a", 8, 10.0), b="No seller lists it."),
            answer(ranked("b", 4, None), snapshot="s1"),
            False,
            [
                "4 x Card B ranks first today at an unknown price; 8 x Card A originally ranked first at 10.00 USD/h.",
                "Card A is not ranked today.",
                "Card B was rejected originally: No seller lists it.",
                "The catalog has not changed: prices have aged, or the service now calculates differently.",
            ],
        ),
        (answer(), answer(), True, ["No option met the limits originally, and none does today."]),
        (answer(), THEN, False, ["Originally no option met the limits. Today 8 x Card A does, at 10.00 USD/h."]),
        (
            THEN,
            answer(a="Too slow."),
            False,
            [
                "8 x Card A originally ranked first. Today no option meets the limits.",
                "Card A is rejected today: Too slow.",
            ],
        ),
        (
            answer(POOLS),
            answer(ranked("a", 8, 10.0, usd_total=500.0), snapshot="s2"),
            False,
            [
                "8 x Card A ranks first today at 500.00 USD; 2 x Card A and 4 x Card B originally ranked first at "
                "9.00 USD/h.",
                "Card A and Card B is not ranked today.",
                "Card A was not ranked originally.",
            ],
        ),
    ],
)
def test_the_change_of_the_first_place_is_explained(then: Any, now: Any, same: bool, sentences: list[str]) -> None:
    assert has_same_first(ranked_options(then, NAMES), ranked_options(now, NAMES)) == same
    assert list(explain_first(then, now, NAMES)) == sentences
