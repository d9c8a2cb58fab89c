"""Breakpoints of a recommendation: the nearest change of one parameter that makes another accelerator type rank first,
the ranges in which none does, and the patterns that save cost.

Closed forms find where the first rank changes; recommendations among the types that lead by them are computed only at
the two ends of the interval that they find. Where these contradict them, a few more values are computed, and the answer
states the interval that is left.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from app.errors import AppError
from app.sizing.answer.money import describe_price
from app.sizing.answer.warnings import ASSUMED_LIMITS_MISSED
from app.sizing.columns import Codes, Column, at
from app.sizing.decisions.ranking import PublishedUse, familiar_first
from app.sizing.decisions.search import Search
from app.sizing.question import Question
from app.sizing.result import Answer
from app.sizing.serving.finalists import ranked_rows, select_finalists
from app.sizing.serving.interfaces import Settings
from app.sizing.serving.offload import plans_to_serve
from app.sizing.serving.options import Options, layout_keys, measures, within_constraints
from app.sizing.serving.search import required_replicas, search_plans, with_replica_count
from app.sizing.snapshot import Catalog
from app.sizing.whatif.change import Stage, Threshold, find_threshold
from app.sizing.whatif.limits import limits_no_resource, needs_simulation, restrict_to_types
from app.sizing.whatif.parameters import Parameter, Part, Pattern, format_changes, open_patterns, tunable_parameters
from app.sizing.workload import InferenceWorkload

NO_OPTION = "nothing"
CALIBRATED_TYPES = 5  # accelerator types whose formulas are corrected by their own simulation
LEADING_TYPES = 4  # accelerator types that compete between two values, at each of them
# Where formulas and recommendations disagree: most further values computed, and those computed beyond a refuted
# threshold, as multiples of the relative distance to which thresholds are narrowed.
MAX_CORRECTIONS, OUTWARD_STEPS = 2, (3, 9)


@dataclass(frozen=True, slots=True)
class TopOption:
    """First-ranked option: accelerator type (or a pair of pools, or nothing), its name and its price."""

    type: str
    name: str
    price: str  # as text
    slug: str = ""  # accelerator, or the decode accelerator of a pair
    usd: float | None = None  # total of a run, or the mean per hour of a service
    is_owned: bool = False  # whether the caller owns the hardware


@dataclass(frozen=True, slots=True)
class Breakpoint:
    """A change of the request that makes another type rank first. `value` is None if no number changes."""

    parameter: str
    text: str
    first: str
    request: Part
    now: float | None = None
    value: float | None = None
    unchanged: float | None = None  # nearest value computed at which the same type still ranks first
    unit: str = ""


@dataclass(frozen=True, slots=True)
class StableRange:
    """A range of one parameter within which the same type stays first."""

    parameter: str
    text: str
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Saving:
    """The result of a pattern: first-ranked type, its cost in USD, and the share of the cost that it saves."""

    pattern: Pattern
    first: str
    usd: float
    saves_share: float


@dataclass(frozen=True, slots=True)
class Sensitivity:
    """What changes the first rank of an answer, what does not, and what saves cost."""

    first: TopOption
    breakpoints: tuple[Breakpoint, ...]
    stable_ranges: tuple[StableRange, ...]
    savings: tuple[Saving, ...]
    questions: int  # recommendations computed
    next: int | None = None  # number of the first subject that was left out


def describe_top(answer: Answer) -> TopOption:
    """The first-ranked option of an answer."""
    if not answer.recommendations:
        return TopOption(NO_OPTION, NO_OPTION, "")
    first = answer.recommendations[0]
    cost, deployment = first.estimate.cost, first.estimate.deployment
    pools = deployment.pools
    usd = None if cost is None else cost.usd_total if cost.usd_total is not None else cost.usd_per_hour
    kind, name = first.accelerator.slug, first.accelerator.name
    if pools is not None:
        kind = name = f"two pools of {pools.prefill.accelerator} and {pools.decode.accelerator}"
    price = describe_price(first.estimate)
    if any(notice.code == ASSUMED_LIMITS_MISSED for notice in answer.warnings):
        price += " within longer limits than usual"
    return TopOption(kind, name, price, first.accelerator.slug, usd, deployment.uses_inventory)


@dataclass(slots=True)
class RequestProbe:
    """Puts changes of one request to the whole recommendation, and keeps what it found for later calls. `may_go_on` is
    asked before each recommendation but the first; if it answers no, PausedProbe is raised.
    """

    read: Callable[[Part], Question]  # the question of the request with a patch; raises for an invalid one
    recommend: Callable[[Question], Answer]
    found: dict[str, TopOption] = field(default_factory=dict)  # by change, of this call and of earlier ones
    used: set[str] = field(default_factory=set)  # changes of this call
    new: set[str] = field(default_factory=set)  # those that were not found before
    questions: dict[str, Question] = field(default_factory=dict)  # by change
    may_go_on: Callable[[], bool] = lambda: True

    def question_of(self, patch: Part) -> Question:
        """The question of the request with a patch, read once; raises for an invalid one."""
        name = patch_name(patch)
        if name not in self.questions:
            self.questions[name] = self.read(patch)
        return self.questions[name]

    def top_option(self, patch: Part, among: tuple[str, ...] = ()) -> TopOption:
        """The first-ranked option for the request with a patch; `NO_OPTION` if it is invalid or nothing is feasible.

        Parameters:
            among: accelerator types that are searched, unless none of them is feasible; empty for all.
        """
        name = patch_name(patch)
        self.used.add(name)
        if name not in self.found:
            if self.new and not self.may_go_on():
                raise PausedProbe
            self.new.add(name)
            top = TopOption(NO_OPTION, NO_OPTION, "")
            try:
                question = replace(self.question_of(patch), first_only=True, cost_only=True)
                if among:
                    top = describe_top(self.recommend(restrict_to_types(question, among)))
                if top.type == NO_OPTION:
                    top = describe_top(self.recommend(question))
            except (AppError, ValueError):
                pass
            self.found[name] = top
        return self.found[name]


class PausedProbe(Exception):
    """A call may recommend nothing more; a later one goes on with what it found."""


def patch_name(patch: Part) -> str:
    """Text that is equal for equal patches."""
    return json.dumps(patch, sort_keys=True)


@dataclass(frozen=True, slots=True)
class ClosedForms:
    """Ranks the accelerator types of a service by formulas, which a simulation of the question as asked has corrected.

    It neither simulates nor splits a service into two pools.
    """

    catalog: Catalog
    options: Options  # feasible options of the question as asked, by formulas
    scores: Mapping[int, float]  # simulated score by type, of the types that lead
    capacity_ratio: Column  # simulated capacity over that of the formulas, by accelerator type
    batch_ratio: Column  # the same for the batch
    layout: Codes  # the simulated layout of each type, by its key; -1 for the types that were not simulated
    use: PublishedUse  # published use of the stack of each simulated type

    @staticmethod
    def calibrate(search: Search[InferenceWorkload]) -> ClosedForms:
        """Closed forms corrected for the types that were simulated; the others get the median correction.

        Of a simulated type only its best layout competes: formulas cannot tell how another one would be corrected.
        """
        options = search_plans(search, plans_to_serve(search))
        asked = replace(search.question, limit=CALIBRATED_TYPES, companions=())
        finalists, _ = select_finalists(replace(search, question=asked), options)
        rows, sized = finalists.rows, finalists.options
        types = options.accelerator[rows]
        ratios = np.ones((2, len(search.catalog.accelerators)))
        layout = np.full(len(search.catalog.accelerators), -1)
        layout[types] = layout_keys(options.plans)[rows]
        use, own = PublishedUse.measured(*np.zeros(len(layout))), options.plans.published_use.take(rows)
        use.recipes[types], use.unmeasured[types] = own.recipes, own.unmeasured
        for ratio, name in zip(ratios, ("capacity_per_s", "slo_batch"), strict=True) if len(rows) else ():
            simulated = getattr(sized, name)[rows] / getattr(options, name)[rows]
            ratio[:] = min(1.0, float(np.median(simulated)))
            ratio[types] = simulated
        scores = dict(zip(types.tolist(), finalists.scores.tolist(), strict=True))
        return ClosedForms(search.catalog, options, scores, ratios[0], ratios[1], layout, use)

    def ranked_types(
        self, question: Question, stage: Stage = Stage.SEARCH, among: tuple[str, ...] = ()
    ) -> tuple[str, ...]:
        """Slugs of the feasible accelerator types, best first.

        Parameters:
            stage: first stage whose inputs differ from those of the question as asked; limits on accelerators, money
                and power cut the options that later stages start from, so that every stage is repeated under them.
            among: types that compete; empty for all.
        """
        index, discounts = self.catalog.accelerator_index, dict(question.economics.discounts)
        keeps_plans = stage is not Stage.SEARCH and limits_no_resource(question.constraints)
        if keeps_plans and stage is Stage.PRICE:
            if {index[slug] for slug in discounts} <= {*self.scores}:
                paid = {index[slug]: 1 - off for slug, off in discounts.items()}
                score = {code: own * paid.get(code, 1.0) for code, own in self.scores.items()}
                types = np.array(sorted(score, key=score.__getitem__), np.int64)
                own = np.array([score[code] for code in types.tolist()])
                order = familiar_first(own, own, self.use.take(types), question.assumptions)
                return self._slugs(types[order].tolist())
            keeps_plans = False
        if among and not keeps_plans:
            question = restrict_to_types(question, among)
        best = self.best_options(question, self.options if keeps_plans else None)
        return self._slugs(best.accelerator.tolist())

    def best_options(self, question: Question, options: Options | None = None) -> Options:
        """The best feasible option of each accelerator type, best first: of the given options, or of a new search."""
        workload = question.workload
        assert isinstance(workload, InferenceWorkload)
        search = Search.start(question, self.catalog).of(workload)
        sized = self.sized(search, self.search_layouts(search) if options is None else options)
        return sized.take(ranked_rows(question, workload, sized)[0])

    def search_layouts(self, search: Search[InferenceWorkload]) -> Options:
        """Feasible options: the simulated layouts, and every layout of the types without a feasible one."""
        plans = plans_to_serve(search)
        types, wanted = plans.accelerator, self.layout[plans.accelerator]
        simulated = layout_keys(plans) == wanted
        options = search_plans(search, plans.take(simulated | (wanted < 0)), breaks_ties=False)
        missing = np.setdiff1d(types[wanted >= 0], options.accelerator)
        if not len(missing):
            return options
        return search_plans(search, plans.take(simulated | (wanted < 0) | np.isin(types, missing)), breaks_ties=False)

    def expected_usd(self, question: Question) -> float:
        """Cost of the best option, in the unit of the ranking; infinite where nothing is feasible."""
        best, workload = self.best_options(question), question.workload
        assert isinstance(workload, InferenceWorkload)
        return at(measures(workload, best).usd, 0) if len(best) else np.inf

    def sized(self, search: Search[InferenceWorkload], options: Options) -> Options:
        """Feasible options, sized by the corrected formulas."""
        options = self._simulated_layouts(options)
        capacity = options.capacity_per_s * self.capacity_ratio[options.accelerator]
        batch = np.maximum(1.0, np.floor(options.slo_batch * self.batch_ratio[options.accelerator]))
        replicas = required_replicas(search.question, search.workload, options.plans, capacity, batch, Settings())
        corrected = replace(options, capacity_per_s=capacity, slo_batch=batch)
        corrected = with_replica_count(search.question, search.workload, corrected, replicas)
        return corrected.take(within_constraints(search.question, corrected, search.rejections))

    def _simulated_layouts(self, options: Options) -> Options:
        """The options without other layouts of the types whose simulated layout is among them."""
        wanted, types = self.layout[options.accelerator], options.accelerator
        same = (wanted < 0) | (layout_keys(options.plans) == wanted)
        has = np.zeros(len(self.layout), bool)
        has[types[same]] = True
        return options.take(same | ~has[types])

    def _slugs(self, types: Sequence[int]) -> tuple[str, ...]:
        return tuple(self.catalog.accelerators[code].slug for code in types)


@dataclass(slots=True)
class Thresholds:
    """Finds where the first rank changes: by closed forms, then by recommendations at both ends.

    Work that is not simulated has no other closed form than its recommendation.
    """

    probe: RequestProbe
    closed_forms: ClosedForms | None
    now: TopOption
    restricts: bool = False  # whether recommendations search only the types that may rank first by closed forms
    leading: dict[str, tuple[str, ...]] = field(default_factory=dict)  # by change
    usd: dict[str, float] = field(default_factory=dict)  # expected cost by change, in the unit of the ranking

    def leading_by_formulas(self, parameter: Parameter, value: float) -> tuple[str, ...]:
        """Best types by the closed forms at a value, among all."""
        name = patch_name(parameter.patch_to(value))
        if name not in self.leading:
            self.leading[name] = self.first_by_formulas(parameter, value)[:LEADING_TYPES]
        return self.leading[name]

    def first_by_formulas(self, parameter: Parameter, value: float, among: tuple[str, ...] = ()) -> tuple[str, ...]:
        """Types in the order of the closed forms; empty if the value is invalid or nothing is feasible."""
        assert self.closed_forms is not None
        try:
            question = self.probe.question_of(parameter.patch_to(value))
            return self.closed_forms.ranked_types(question, parameter.stage, among)
        except (AppError, ValueError):
            return ()

    def competing_types(self, parameter: Parameter, far: float) -> tuple[str, ...]:
        """Types that may rank first between the current value and `far`: those that lead at either by closed forms."""
        ends = (self.leading_by_formulas(parameter, value) for value in (parameter.now, far))
        return tuple(dict.fromkeys(slug for ranked in ends for slug in ranked))

    def expected(self, parameter: Parameter, steps: tuple[float, ...]) -> Threshold[str] | None:
        """Where the closed forms change the first rank in one direction; None if they do not."""
        if self.closed_forms is None:

            def first_at(value: float) -> str:
                return self.probe.top_option(parameter.patch_to(value)).type

        else:
            ends = {value: self.leading_by_formulas(parameter, value) for value in (parameter.now, steps[-1])}
            among = self.competing_types(parameter, steps[-1])

            def first_at(value: float) -> str:
                ranked = ends[value] if value in ends else self.first_by_formulas(parameter, value, among)
                return next(iter(ranked), NO_OPTION)

        return find_threshold(first_at, parameter.now, steps, parameter.tolerance)

    def may_save(self, patch: Part) -> bool:
        """Whether a patch may lower the cost: not where the closed forms expect at least the present one."""
        if self.closed_forms is None:
            return True
        try:
            for part in ({}, patch):
                if (name := patch_name(part)) not in self.usd:
                    self.usd[name] = self.closed_forms.expected_usd(self.probe.question_of(part))
        except (AppError, ValueError):
            return True
        return not self.usd[patch_name({})] <= self.usd[patch_name(patch)] < np.inf

    def is_changed(self, parameter: Parameter, value: float) -> bool:
        """Whether the recommendation has another first type at a value, among the types that may rank first there."""
        ends = (steps[-1] for steps in parameter.steps if steps)
        far = next((end for end in ends if (end > parameter.now) == (value > parameter.now)), value)
        among = self.competing_types(parameter, far) if self.restricts else ()
        return self.probe.top_option(parameter.patch_to(value), among).type != self.now.type

    def confirmed(self, parameter: Parameter, steps: tuple[float, ...], value: float, last: float) -> Breakpoint | None:
        """The breakpoint between two values of the closed forms, as recommendations confirm it; None without one.

        Parameters:
            value: nearest value with a changed first rank by the closed forms.
            last: nearest value without.
        """
        same, changed, left = parameter.now, None, MAX_CORRECTIONS
        if not self.is_changed(parameter, value):
            same, changed, left = self.step_outward(parameter, value, steps[-1], left)
        elif last != same and self.is_changed(parameter, last):
            changed = last
        else:
            same, changed = last, value
        if changed is None:
            return None
        while left and max(same, changed) / min(same, changed) > 1 + parameter.tolerance:
            middle, left = (same * changed) ** 0.5, left - 1
            same, changed = (same, middle) if self.is_changed(parameter, middle) else (middle, changed)
        return self.describe(parameter, changed, same)

    def step_outward(self, parameter: Parameter, same: float, far: float, left: int) -> tuple[float, float | None, int]:
        """The last unchanged and the first changed value beyond `same`, and how many more values may be computed."""
        for count in OUTWARD_STEPS[:left]:
            times = (1 + parameter.tolerance) ** count
            beyond = min(same * times, far) if far > same else max(same / times, far)
            if beyond == same:
                break
            left -= 1
            if self.is_changed(parameter, beyond):
                return same, beyond, left
            same = beyond
        return same, None, left

    def describe(self, parameter: Parameter, value: float, last: float) -> Breakpoint:
        """A breakpoint of a parameter, computed at `value` and not yet at `last`."""
        patch = parameter.patch(value)
        then, moved = self.probe.top_option(patch), parameter.describe_change(value)
        text = describe_change(moved, then, self.now)
        if max(last, value) / min(last, value) > 1 + parameter.tolerance:
            low, high = sorted((last, value))
            text += f" The change lies between {parameter.format_value(low)} and {parameter.format_value(high)}."
        ends = round_value(value), round_value(last)
        return Breakpoint(parameter.name, text, then.type, patch, parameter.now, *ends, unit=parameter.unit)

    def nearest_changes(self, parameter: Parameter) -> tuple[list[Breakpoint], StableRange | None]:
        """The nearest breakpoint of one parameter in each direction, or the range without one."""
        flips: list[Breakpoint] = []
        tried = [steps for steps in parameter.steps if steps]
        for steps in tried:
            turn = self.expected(parameter, steps)
            if turn is not None:
                found = self.confirmed(parameter, steps, turn.value, turn.last_unchanged)
                flips += [] if found is None else [found]
        if flips or not tried:
            return flips, None
        for steps in tried:  # the closed forms found nothing: only the farthest value is left to compute
            if self.is_changed(parameter, steps[-1]):
                found = self.confirmed(parameter, steps, steps[-1], parameter.now)
                flips += [] if found is None else [found]
        if flips:
            return flips, None
        low, high = (end(v for steps in tried for v in (*steps, parameter.now)) for end in (min, max))
        shown = f"{parameter.format_value(low)} to {parameter.format_value(high)}"
        text = f"{parameter.label} from {shown}: {self.now.name} still ranks first."
        return [], StableRange(parameter.name, text[0].upper() + text[1:], low, high)

    def format_breakpoints(self, requested: tuple[str, ...]) -> Iterator[Breakpoint]:
        """The weight formats that make another type rank first."""
        for words, patch in format_changes(requested):
            then = self.probe.top_option(patch)
            if then.type not in (self.now.type, NO_OPTION):
                yield Breakpoint("weight_formats", describe_change(words, then, self.now), then.type, patch)


def find_breakpoints(
    asked: RequestProbe,
    body: Mapping[str, Any],
    catalog: Catalog,
    runners_up: list[tuple[str, str]],
    smaller: Callable[[str], str | None],
    *,
    start: int = 0,
    most: float = np.inf,
) -> Sensitivity:
    """The current first option, every breakpoint found, the ranges in which nothing changes, and cheaper patterns.

    The subjects are examined in one order: the patterns, each parameter, the weight formats. A subject in which the
    probe pauses is left out, too; examined again, it goes on with what was found.

    Formulas rank the hardware for sale. Hardware that the caller owns is therefore recommended at every value, and has
    no price to vary.

    Parameters:
        asked: the request to vary; values that it has kept are not computed again.
        body: the request as JSON.
        runners_up: slug and name of the types that rank below the first.
        smaller: the next smaller model of a family by name, or None.
        start: number of the first subject to examine.
        most: recommendations after which no further subject is begun.
    """
    question, now = asked.question_of({}), asked.top_option({})
    workload, closed_forms = question.workload, None
    if asked.new and not asked.may_go_on():
        return Sensitivity(now, (), (), (), len(asked.used), start)
    if isinstance(workload, InferenceWorkload) and needs_simulation(question) and not now.is_owned:
        closed_forms = ClosedForms.calibrate(Search.start(question, catalog).of(workload))
    one_pool = now.type in catalog.accelerator_index
    thresholds = Thresholds(asked, closed_forms, now, closed_forms is not None and one_pool and not question.inventory)
    flips: list[Breakpoint] = []
    holds: list[StableRange] = []
    savings: list[Saving] = []

    def examine_savings() -> None:
        patterns = (p for p in open_patterns(body, question, smaller) if now.usd and thresholds.may_save(p.patch))
        savings.extend(rank_savings(patterns, now.usd, asked.top_option, question.assumptions.near_tie_share))

    def examine_parameter(parameter: Parameter) -> None:
        found, stable = thresholds.nearest_changes(parameter)
        flips.extend(found)
        holds.extend([] if stable is None else [stable])

    parameters = tunable_parameters(body, question, [] if now.is_owned else runners_up)
    subjects: list[Callable[[], None]] = [
        examine_savings,
        *(partial(examine_parameter, parameter) for parameter in parameters),
    ]
    if isinstance(workload, InferenceWorkload):
        subjects.append(lambda: flips.extend(tuple(thresholds.format_breakpoints(question.constraints.weight_formats))))
    left_out = None
    for number, examine in enumerate(subjects[start:], start):
        if number > start and len(asked.used) >= most:
            left_out = number
            break
        try:
            examine()
        except PausedProbe:
            left_out = number
            break
    return Sensitivity(now, tuple(flips), tuple(holds), tuple(savings), len(asked.used), left_out)


def describe_change(moved: str, then: TopOption, now: TopOption) -> str:
    """One sentence on a change and its consequence."""
    lead = moved[0].upper() + moved[1:]
    if then.type == NO_OPTION:
        return f"{lead}: no option meets the limits."
    if now.type == NO_OPTION:
        return f"{lead}: {then.name} meets the limits at {then.price}."
    return f"{lead}: {then.name} ranks first at {then.price}. As requested, {now.name} ranks first at {now.price}."


def rank_savings(
    patterns: Iterable[Pattern], now_usd: float | None, top_option: Callable[[Part], TopOption], near_tie_share: float
) -> list[Saving]:
    """The patterns that save more than a near tie, largest saving first."""
    savings = []
    for pattern in patterns:
        then = top_option(pattern.patch)
        if now_usd and then.usd is not None and then.usd < now_usd * (1 - near_tie_share):
            savings.append(Saving(pattern, then.slug, then.usd, 1 - then.usd / now_usd))
    return sorted(savings, key=lambda saving: -saving.saves_share)


def round_value(value: float) -> float:
    """A value with the four digits used in the patch."""
    return float(f"{value:.4g}")
