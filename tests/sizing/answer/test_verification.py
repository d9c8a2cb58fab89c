"""The most decisive benchmark and the text about it, on estimates made by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from app.sizing.answer.verification import (
    DecisionValue,
    break_even_speed,
    choose_verification,
    decision_text,
    decision_value,
    saving_over_first,
)
from app.sizing.question import Question
from app.sizing.result import Assurance, Interval, Level, Performance, Ranked
from tests.examples import CHAT, PRETRAIN
from tests.sizing.answer.given import COST, RUN, ranked
from tests.sizing.small import BIG, CARD

SERVED = Performance(
    Interval("output_tokens_per_s", 2000.0, 4000.0),
    "measured",
    output_tokens_per_s=3000.0,
    requests_per_s_capacity=12.0,
)
TRAINED = replace(RUN, interval=Interval("tokens_per_s", 6e4, 1.4e5), tokens_per_s=1e5, step_time_s=6.0)


def sure(*levels: tuple[float, int | None, float | None], asked: float = 0.8, run: bool = False) -> Assurance:
    """Confidence, accelerators, and USD per hour or of the run."""
    money = "usd_total" if run else "usd_per_hour"
    return Assurance(asked, 0.99, 0.9, None, tuple(Level(c, n, **{money: usd}) for c, n, usd in levels))


def candidate(rank: int, *levels: tuple[float, int | None, float | None], run: bool = False, **given: Any) -> Ranked:
    found = ranked(rank, **({"performance": TRAINED if run else SERVED} | given))
    return replace(found, estimate=replace(found.estimate, assurance=sure(*levels, run=run)))


# 24 at 50 %, 32 at 80 %: 8 USD an hour less if the prediction holds
FIRST = candidate(1, (0.5, 24, 24.0), (0.8, 32, 32.0), (0.9, 40, 40.0))


def test_the_first_where_it_saves_most() -> None:
    steady = candidate(2, (0.5, 8, 30.0), (0.8, 8, 36.0), accelerator=CARD)
    found = choose_verification(Question(CHAT), (FIRST, steady))
    assert found is not None
    assert found.accelerator == "acme-big"
    # a third of 3,000 on each of three replicas; 8 USD of 730 hours; 24 / 36 of 1,000 where the other costs as much
    assert found.decides == (
        "If the benchmark shows at least 1,000 output tokens/s per replica, 24 accelerators are enough instead of 32. "
        "This saves 5,840 USD per month."
    )


def test_the_runner_up_is_cheaper_below_where_costs_meet() -> None:
    near = candidate(2, (0.5, 8, 30.0), (0.8, 8, 33.0), accelerator=CARD)
    found = choose_verification(Question(CHAT), (FIRST, near))
    assert found is not None
    # 24 / 33 of 1,000 is above the low end, two thirds of the prediction
    assert found.decides.endswith(" Below 727 output tokens/s, 8 × Acme Card is cheaper.")


def test_another_where_that_saves_more() -> None:
    unsure = candidate(2, (0.5, 4, 10.0), (0.8, 16, 40.0), accelerator=CARD)
    found = choose_verification(Question(CHAT), (FIRST, unsure))
    assert found is not None
    assert found.accelerator == "acme-card"
    assert (
        "choose 4 × Acme Card instead of 32 × Acme Big. This saves 16,060 USD per month compared with " in found.decides
    )
    assert "Below" not in found.decides  # 10 / 32 of the speed is below the expected speed


def test_of_equals_the_first() -> None:
    same = candidate(2, (0.5, 24, 24.0), (0.8, 32, 32.0), accelerator=CARD)
    found = choose_verification(Question(CHAT), (FIRST, same))
    assert found is not None
    assert found.accelerator == "acme-big"


def test_where_nothing_changes_it_confirms() -> None:
    alone = candidate(1, (0.5, 8, 20.0), (0.8, 8, 20.0))
    found = choose_verification(Question(CHAT), (alone,))
    assert found is not None
    assert found.decides == (
        "The benchmark checks the predicted 1,000 output tokens/s per replica. If it confirms this rate, the "
        "recommendation stays 8 × Acme Big (80 % confidence)."
    )


def test_as_many_accelerators_of_the_first_are_no_decision() -> None:
    # a run lasts as long as it lasts
    run = candidate(1, (0.5, 8, 700.0), (0.8, 8, 900.0), run=True)
    found = choose_verification(Question(PRETRAIN), (run,))
    assert found is not None
    assert found.decides == (
        "The benchmark checks the predicted 100,000 tokens/s. If it confirms this rate, the recommendation stays "
        "8 × Acme Big (80 % confidence)."
    )


def test_a_run_saves_its_money() -> None:
    run = candidate(1, (0.5, 6, 700.0), (0.8, 8, 900.0), run=True)
    found = choose_verification(Question(PRETRAIN), (run,))
    assert found is not None
    assert found.decides == (
        "If the benchmark shows at least 100,000 tokens/s, 6 accelerators are enough instead of 8. This saves 200 USD."
    )


def test_without_a_price_accelerators_count() -> None:
    free = candidate(1, (0.5, 24, None), (0.8, 32, None), cost=None)
    priced = candidate(2, (0.5, 1, 1.0), (0.8, 1, 1.0), accelerator=CARD)
    found = choose_verification(Question(CHAT), (free, priced))
    assert found is not None
    assert found.decides.endswith("24 accelerators are enough instead of 32. This saves 8 accelerators.")
    assert found.usd is None


def test_limits_are_named_where_a_request_has_a_duration() -> None:
    limited = replace(FIRST.estimate, performance=replace(SERVED, e2e=ranked().estimate.performance.e2e))  # type: ignore[union-attr]
    stake = decision_value(replace(FIRST, estimate=limited))
    assert stake is not None
    assert decision_text(stake, stake, None, "in its table").startswith(
        "If the benchmark shows at least 1,000 output tokens/s per replica within the limits (computed as in its "
        "table), 24 accelerators are enough instead of 32."
    )


def test_nothing_is_said_without_other_confidences() -> None:
    question = Question(CHAT)
    assert choose_verification(question, ()) is None
    assert choose_verification(question, (ranked(1, performance=SERVED),)) is None
    assert choose_verification(question, (ranked(1, performance=SERVED), FIRST)) is None
    assert choose_verification(question, (candidate(1, (0.8, 8, 8.0)),)) is None
    assert choose_verification(question, (candidate(1, (0.5, 8, 8.0), (0.8, 8, 8.0), performance=None),)) is None


def test_what_cannot_be_had_saves_nothing() -> None:
    never = decision_value(candidate(1, (0.5, None, None), (0.8, None, None), cost=COST))
    first = decision_value(FIRST)
    assert never is not None
    assert first is not None
    assert saving_over_first(never, first) == 0.0
    assert break_even_speed(1000.0, first, never) is None
    assert break_even_speed(1000.0, first, None) is None
    assert (
        break_even_speed(
            1000.0,
            DecisionValue(ranked(performance=None), first.at_confidence, first.at_prediction, priced=True),
            first,
        )
        is None
    )


def test_a_candidate_without_a_speed_is_only_confirmed() -> None:
    silent = decision_value(
        candidate(1, (0.5, 8, 8.0), (0.8, 16, 16.0), performance=replace(SERVED, output_tokens_per_s=None))
    )
    assert silent is not None
    assert decision_text(silent, silent, None) == f"The benchmark confirms 16 × {BIG.name}."
