"""What published use says about the first place."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from app.sizing.answer import familiarity
from app.sizing.answer.familiarity import Contenders, difference_words, explain_published_use
from app.sizing.decisions.ranking import PublishedUse
from app.sizing.decisions.search import Search, Workload
from app.sizing.hardware.published_use import use_task
from app.sizing.hardware.support.records import SERVING, Work
from app.sizing.model.tasks import ModelTask
from app.sizing.question import Constraints, Objective, Question
from app.sizing.result import Reason
from tests.examples import CHAT, col
from tests.sizing.small import SMALL

SEARCH = Search.start(Question(CHAT), SMALL)
SHARE = SEARCH.question.assumptions.near_tie_share


def explained(
    *score: float, recipes: tuple[float, ...], first: int, second: int | None = None, search: Search[Workload] = SEARCH
) -> Reason | None:
    """The reason for options on one accelerator type each; the first and the last also differ in their engine."""
    count = len(score)
    contenders = Contenders(np.arange(count), np.arange(count) % 2, PublishedUse.measured(*recipes), col(*score))
    return explain_published_use(search, use_task(Work(SERVING)), contenders, first, second)


def test_a_passed_near_tie_is_named_with_its_recipes_and_its_price() -> None:
    reason = explained(1.0, 1 + SHARE / 2, recipes=(2, 80), first=1, second=0)
    assert reason is not None and (reason.code, reason.value) == ("published_use", 80.0)
    assert SMALL.accelerators[0].name in reason.text and SMALL.accelerators[1].name in reason.text
    assert "80 published recipes" in reason.text and "cheaper but has 2." in reason.text
    assert f"{round(100 * (1 - 1 / (1 + SHARE / 2)))} % cheaper" in reason.text


def test_a_passed_engine_runs_on_the_same_accelerators() -> None:
    contenders = Contenders(np.array([0, 0]), np.array([0, 1]), PublishedUse.measured(80, 2), col(1 + SHARE / 2, 1.0))
    reason = explain_published_use(SEARCH, use_task(Work(SERVING)), contenders, 0, None)
    assert reason is not None and " on the same accelerators is " in reason.text
    assert reason.text.endswith("the one with more published recipes ranks first.")


def test_a_passed_engine_without_results_says_so() -> None:
    use = PublishedUse(col(80, 67), np.array([False, True]))
    contenders = Contenders(np.array([0, 0]), np.array([0, 1]), use, col(1.02, 1))
    reason = explain_published_use(SEARCH, use_task(Work(SERVING)), contenders, 0, None)
    assert reason is not None and "has 67 and no published result on this hardware family" in reason.text
    assert reason.text.endswith("at most 5 %, the one whose engine has published results ranks first.")


def test_an_option_with_far_less_use_names_the_mainstream_and_its_price() -> None:
    reason = explained(1.0, 1.5, 1.4, recipes=(3, 50, 8), first=0, second=1)
    assert reason is not None and reason.value == 3
    assert "has 3 published recipes" in reason.text and "has 50 but is 50 % more expensive" in reason.text


def test_a_mainstream_engine_that_the_search_left_out_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    words = "vLLM has 50, but no layout of it meets the limits within 20 %."
    for count, named in ((50, True), (8, False)):
        counts = {"vllm": count}
        monkeypatch.setattr(familiarity, "published_recipes", lambda _, engine, *__, of=counts: of.get(engine, 0))
        reason = explained(1.0, np.inf, recipes=(3, 50), first=0)
        assert (reason is not None and words in reason.text) == named


def test_an_option_that_leads_by_its_own_score_and_is_used_needs_no_reason() -> None:
    assert explained(1.0, 1.02, recipes=(80, 2), first=0, second=1) is None
    assert explained(1.0, recipes=(1,), first=0) is None


@pytest.mark.parametrize(
    ("score", "recipes", "words"),
    [
        ((1.0, 1.5), (0, 9), "no option with published recipes comes within 25 %"),
        ((1.0, 1.5), (0, 0), "no option with published recipes meets the limits"),
        ((1.0,), (0,), "no option with published recipes meets the limits"),
        ((1.0, np.inf), (0, 9), "no option with published recipes meets the limits"),
        ((1.0, 1.01), (0, 9), "The closest option with published recipes is"),
    ],
)
def test_an_option_without_recipes_says_why_it_leads(
    score: tuple[float, ...], recipes: tuple[float, ...], words: str
) -> None:
    reason = explained(*score, recipes=recipes, first=0, second=1 if len(score) > 1 else None)
    assert reason is not None and reason.value == 0 and words in reason.text
    assert "no published recipe for LLM serving" in reason.text


def test_software_that_the_request_names_needs_no_reason() -> None:
    named = Question(CHAT, constraints=Constraints(engines=("vllm",)))
    search = Search.start(named, SMALL)
    assert explained(1.0, 1.5, recipes=(0, 9), first=0, search=search) is None


def test_work_outside_the_table_needs_no_reason() -> None:
    contenders = Contenders(np.arange(2), np.arange(2), PublishedUse.measured(0, 0), col(1, 2))
    vision = Work("sample_inference", task=ModelTask.VISION)
    assert explain_published_use(SEARCH, use_task(vision), contenders, 0, 1) is None


@pytest.mark.parametrize(
    ("objective", "worse", "words"),
    [
        (Objective.COST, 0.03, "3 % more expensive"),
        (Objective.COST, -0.03, "3 % cheaper"),
        (Objective.COST, 5.56, "6.56 times as expensive"),
        (Objective.LATENCY, 0.1, "10 % slower"),
        (Objective.LATENCY, -0.1, "10 % faster"),
        (Objective.ENERGY, -0.1, "10 % better"),
        (Objective.COST, -0.004, "less than 1 % cheaper"),
    ],
)
def test_a_difference_has_a_direction(objective: Objective, worse: float, words: str) -> None:
    assert difference_words(worse, objective) == words


def test_the_ratio_from_which_a_stack_is_more_used_is_an_assumption() -> None:
    question = replace(SEARCH.question, assumptions=replace(SEARCH.question.assumptions, published_use_ratio=50.0))
    wide = Search.start(question, SMALL)
    score = (1.0, 1 + SHARE / 2)
    assert explained(*score, recipes=(2, 80), first=1, second=0, search=wide) is None
    assert explained(*score, recipes=(1, 80), first=1, second=0, search=wide) is not None
