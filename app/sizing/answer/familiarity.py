"""Why the first recommendation ranks first in view of published use: a near tie passed, or the recipes it lacks."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from app.sizing.assumptions import Assumptions
from app.sizing.columns import Codes, Column, Mask, at
from app.sizing.decisions.ranking import PublishedUse, is_used_enough, tie_share
from app.sizing.decisions.search import Search, Workload
from app.sizing.hardware.engines import engine_named
from app.sizing.hardware.published_use import covers_task, published_recipes
from app.sizing.model.adapted import loaded_adapters
from app.sizing.question import Objective, Question
from app.sizing.result import Reason
from app.sizing.serving.plans import Plans
from app.sizing.words import format_number, percent, product_name
from app.sizing.workload import InferenceWorkload

# How an option of a comparison is worse or better than another one, by objective.
WORSE_WORDS = {Objective.COST: "more expensive", Objective.LATENCY: "slower"}
BETTER_WORDS = {Objective.COST: "cheaper", Objective.LATENCY: "faster"}
PASSED = "the one with more published recipes ranks first"  # in the reason why an option ranks before a better one


@dataclass(frozen=True, slots=True)
class Contenders:
    """Options of a search as columns: what they run on and with, their published recipes and their scores."""

    accelerator: Codes
    engine: Codes
    use: PublishedUse
    score: Column  # smaller is better
    user_converts: Mask | None = None  # whether the user converts the weights; None: never
    starts_adapters: Mask | None = None  # whether a known start command serves the LoRA adapters; None: there are none

    @classmethod
    def of(cls, search: Search[InferenceWorkload], plans: Plans, score: Column) -> Contenders:
        """The options of a service."""
        adapts = loaded_adapters(search.workload.model) is not None
        starts = search.catalog.starts_adapters[plans.engine] if adapts else None
        return cls(plans.accelerator, plans.engine, plans.published_use, score, plans.user_converts, starts)

    def tie_share(self, row: int, assumed: Assumptions) -> float:
        """Share by which others may be worse than an option and still tie with it."""
        return float(tie_share(self.use, assumed)[row])

    def lacks(self, row: int) -> str:
        """Why an option has no recipes although its engine may have some, as text; empty without such a reason."""
        if self.starts_adapters is not None and not self.starts_adapters[row]:
            return "has no known start command with LoRA adapters"
        return "needs weights that you convert" if self.user_converts is not None and self.user_converts[row] else ""

    def name(self, row: int, search: Search[Workload], *, engine_only: bool = False) -> str:
        """An option as text: "Megatron-LM on NVIDIA H100 SXM5 80GB", or its engine only."""
        engine = product_name(search.catalog.engines[int(self.engine[row])])
        if engine_only:
            return engine
        return f"{engine} on {search.catalog.accelerators[int(self.accelerator[row])].name}"


def difference_words(worse: float, objective: Objective) -> str:
    """A difference as text: "3 % cheaper", "12 % slower".

    Parameters:
        worse: how much worse an option is than the other one, as a share; negative if it is better.
    """
    words = WORSE_WORDS.get(objective, "worse") if worse >= 0 else BETTER_WORDS.get(objective, "better")
    if worse >= 1 and objective in WORSE_WORDS:
        return f"{format_number(1 + worse)} times as {'expensive' if objective is Objective.COST else 'slow'}"
    shown = percent(abs(worse))
    return f"{'less than 1 %' if shown == percent(0.0) else shown} {words}"


def explain_published_use(
    search: Search[Workload], task: str | None, contenders: Contenders, first: int, second: int | None
) -> Reason | None:
    """Reason that published use decided the first place, or that the first option has none; None without either.

    Parameters:
        task: the task of the table.
        contenders: every option of the search.
        first: row of the first recommendation.
        second: row of the next accelerator type; None if there is none.
    """
    known = contenders.use.recipes
    if not covers_task(task):
        return None
    passed = _passed_row(search.question, contenders, first, second)
    if passed is not None:
        same = contenders.accelerator[first] == contenders.accelerator[passed]
        one, other = (contenders.name(row, search, engine_only=bool(same)) for row in (first, passed))
        other += " on the same accelerators" if same else ""
        less = difference_words(_worse(contenders, passed, first), search.question.objective)
        lacks = contenders.lacks(passed) or f"has {format_number(known[passed])}"
        assumed, use = search.question.assumptions, contenders.use
        share, why = contenders.tie_share(passed, assumed), PASSED
        if is_used_enough(use, known[first], assumed)[passed]:
            share, why = assumed.near_tie_share, "the one whose engine has published results ranks first"
        lacks += " and no published result on this hardware family" if use.unmeasured[passed] else ""
        text = (
            f"{one} has {_recipes(known[first])} for {task}; {other} is {less} but {lacks}. Of two options that differ "
            f"by at most {percent(share)}, {why}."
        )
        return Reason("published_use", text, "published_recipes", at(known, first), "recipes")
    if search.question.constraints.engines:
        return None
    if known[first]:
        return _mainstream(search, task, contenders, first)
    lacks = contenders.lacks(first) or f"has {_recipes(0)} for {task} in the table of published use"
    if lacks.endswith("convert"):
        lacks += ": no repository is known to publish them for this engine"
    text = f"{contenders.name(first, search)} {lacks}. "
    text += _why_first(search, contenders, first)
    return Reason("published_use", text, "published_recipes", 0.0, "recipes")


def _mainstream(search: Search[Workload], task: str | None, contenders: Contenders, first: int) -> Reason | None:
    """Reason that the most used option is not first; None if it is not used far more. Of an engine whose layouts on the
    same accelerator the search left out as far worse, only the recipes are known.
    """
    known, assumed = contenders.use.recipes, search.question.assumptions
    known = np.where(np.isfinite(contenders.score), known, 0.0)
    far_more = max(known[first], known.max() / assumed.published_use_ratio**2) * assumed.published_use_ratio
    (more,) = np.nonzero(known >= far_more)
    near, own = contenders.tie_share(first, assumed), int(known[first])
    text = f"{contenders.name(first, search)} has {_recipes(own)} for {task}. "
    if len(more):
        best = int(more[np.argmin(contenders.score[more])])
        if _worse(contenders, best, first) <= near:
            return None
        worse = difference_words(_worse(contenders, best, first), search.question.objective)
        text += f"{contenders.name(best, search)} has {format_number(known[best])} but is {worse}; "
        text += f"within {percent(near)} it would rank first."
    else:
        accelerator = search.catalog.accelerators[int(contenders.accelerator[first])]
        engines = [e for e in search.catalog.engines if engine_named(e).base_engine() == e]  # no fronts of others
        used = {e: published_recipes(task, e, accelerator.family, accelerator.vendor) for e in engines}
        engine = max(used, key=used.__getitem__)
        if used[engine] < far_more:
            return None
        text += (
            f"{product_name(engine)} has {used[engine]}, but no layout of it meets the limits within {percent(near)}."
        )
    return Reason("published_use", text, "published_recipes", float(own), "recipes")


def _passed_row(question: Question, contenders: Contenders, first: int, second: int | None) -> int | None:
    """Row of the better option that the first one passes: the next type, or another engine on the same type."""
    known, score = contenders.use.recipes, contenders.score
    use, assumed = contenders.use, question.assumptions
    less = ~is_used_enough(use, known[first], assumed)
    share = np.where(less, tie_share(use, assumed), assumed.near_tie_share)
    less |= use.unmeasured & ~use.unmeasured[first] & (known <= known[first])
    same = np.flatnonzero(less & (contenders.accelerator == contenders.accelerator[first]))
    rivals = [int(same[np.argmin(score[same])])] if len(same) else []
    rivals += [second] if second is not None and less[second] else []
    better = [row for row in rivals if score[row] < score[first] <= score[row] * (1 + share[row])]
    return min(better, key=score.__getitem__, default=None)


def _worse(contenders: Contenders, row: int, first: int) -> float:
    return float(contenders.score[row] / contenders.score[first] - 1)


def _recipes(count: float) -> str:
    if not count:
        return "no published recipe"
    return f"{format_number(count)} published {'recipe' if count == 1 else 'recipes'}"


def _why_first(search: Search[Workload], contenders: Contenders, first: int) -> str:
    """Why an option without published recipes ranks first."""
    (known,) = np.nonzero(contenders.use.recipes >= 1)
    known = known[np.isfinite(contenders.score[known])]
    if not len(known):
        return "It ranks first because no option with published recipes meets the limits."
    best = int(known[np.argmin(contenders.score[known])])
    worse, named = _worse(contenders, best, first), contenders.name(best, search)
    near = contenders.tie_share(first, search.question.assumptions)
    if worse <= near:
        return f"The closest option with published recipes is {named}."
    return f"It ranks first because no option with published recipes comes within {percent(near)}."
