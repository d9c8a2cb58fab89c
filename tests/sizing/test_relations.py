"""Relations between answers, and within one, that hold of whatever is asked of the real catalogue."""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from app.sizing.assumptions import Assumptions
from app.sizing.hardware.parts import PricingModel
from app.sizing.model.architecture import ModelArchitecture
from app.sizing.question import CONFIDENCE_LEVELS, Constraints, Question
from app.sizing.recommend import recommend_hardware
from app.sizing.result import Answer, Level
from app.sizing.serving.load_curves import is_simulated
from app.sizing.snapshot import Catalog
from app.sizing.workload import InferenceWorkload, Lengths, Load, Method, Slo, TrainingWorkload
from tests.examples import CHAT, LLAMA_8B, PRETRAIN, present, registered
from tests.sizing.scores import best_score

SLOW = settings(max_examples=12)

MIXTURE, PICTURES = registered("Qwen/Qwen3-30B-A3B"), registered("stabilityai/stable-diffusion-xl-base-1.0")
DEADLINE_S = 2 * 86_400.0
SERVICES = st.builds(
    lambda model, load, count, prompt, output, burst, tpot, volume: replace(
        CHAT,
        model=model,
        load=load,
        in_flight=float(math.ceil(count)),
        peak_per_s=count,
        average_per_s=count / 2,
        burstiness=burst,
        input_tokens=Lengths(prompt, 2 * prompt),
        output_tokens=Lengths(output),
        slo=Slo(2.0, tpot, None, 95.0),
        max_context_tokens=2 * prompt + output,
        volume_requests=volume if load is Load.OFFLINE else None,
        deadline_s=DEADLINE_S if load is Load.OFFLINE and volume is not None else None,
    ),
    st.sampled_from([LLAMA_8B, MIXTURE, registered("google-t5/t5-large")]),
    st.sampled_from([Load.OPEN, Load.OPEN, Load.CLOSED, Load.BATCH, Load.OFFLINE]),
    st.floats(0.05, 100),
    st.floats(8, 4000),
    st.floats(2, 1000),
    st.sampled_from([0.0, 1.0, 3.0]),
    st.floats(0.01, 0.2),
    st.sampled_from([None, 1e4, 1e7]),
)
BOTH_WAYS = (PricingModel.ON_DEMAND, PricingModel.SPOT)
WHOLE_LLAMA, WHOLE_PICTURES = (LLAMA_8B, "training", Method.FULL), (PICTURES, "training", Method.FULL)


def run_of(
    kind: tuple[ModelArchitecture, str, Method], units: float, sequence: int, batch: int, days: float
) -> TrainingWorkload:
    """A run with a deadline; a run on samples has a thousandth of the units."""
    model, phase, method = kind
    in_samples = model.sample is not None
    return replace(
        PRETRAIN,
        model=model,
        phase=phase,
        method=method,
        units=units / 1e3 if in_samples else units,
        units_per_sequence=1.0 if in_samples else float(sequence),
        global_batch=batch,
        deadline_s=days * 86400.0,
    )


def question_of(
    workload: InferenceWorkload | TrainingWorkload, confidence: float, pricing: tuple[PricingModel, ...] = ()
) -> Question:
    return Question(workload, Constraints(confidence=confidence, pricing_models=pricing), limit=3)


RUNS = st.builds(
    run_of,
    st.sampled_from([WHOLE_LLAMA, (MIXTURE, "fine_tuning", Method.LORA), WHOLE_PICTURES]),
    st.floats(1e8, 1e11),
    st.sampled_from([512, 8192, 32768]),
    st.sampled_from([32, 128, 1024]),
    st.floats(0.5, 100),
)
QUESTIONS = st.builds(
    question_of,
    st.one_of(SERVICES, RUNS),
    st.sampled_from([0.5, 0.7, 0.8, 0.95]),
    st.sampled_from([(), (), BOTH_WAYS]),
)


def numbers(value: Any) -> Iterator[float]:
    if is_dataclass(value):
        value = [getattr(value, f.name) for f in fields(value)]
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, list | tuple):
        for each in value:
            yield from numbers(each)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield float(value)


def of_question(question: Question, catalog: Catalog, **constraints: Any) -> float:
    """What the best is ranked by; infinite where there is none."""
    asked = replace(question, limit=1, constraints=replace(question.constraints, **constraints))
    return best_score(asked, catalog)


def near_tie(workload: InferenceWorkload | TrainingWorkload) -> float:
    """Allowed distance from the best: of a run's layouts in a near tie the one without a pipeline is taken."""
    return Assumptions.default_value("near_tie_share") if isinstance(workload, TrainingWorkload) else 1e-9


def money(level: Level) -> float:
    """The cost of a level; infinite if no number is enough."""
    spent = level.usd_per_hour if level.usd_total is None else level.usd_total
    return math.inf if level.total_accelerators is None or spent is None else spent


def is_plain(answer: Answer) -> None:
    """Finite numbers, no text with nan or inf, intervals that contain their point, and a command that can be run."""
    assert all(math.isfinite(n) for n in numbers(answer))
    for ranked in answer.recommendations:
        text = " ".join(reason.text for reason in ranked.estimate.explanation)
        assert not {"nan", "inf"} & set(text.split())
        p = present(ranked.estimate.performance)
        point = getattr(p, p.interval.quantity)
        assert 0 <= p.interval.low <= point <= p.interval.high
        assert p.mfu is None or p.mfu * p.interval.high <= point * (1 + 1e-9)
    if answer.verification is not None:
        assert shlex.split(answer.verification.command)
        assert answer.verification.minutes > 0


@pytest.mark.slow
@SLOW
@given(QUESTIONS)
# The cheapest size lies between the smallest and the largest that meet the deadline, and the largest is late.
@example(question_of(run_of(WHOLE_LLAMA, 8.638e10, 512, 1024, 0.5), 0.7, BOTH_WAYS))
# The framework shards all states or none.
@example(question_of(run_of(WHOLE_PICTURES, 1.8895e10, 512, 128, 0.5), 0.7))
@example(question_of(run_of(WHOLE_PICTURES, 3.8093e10, 512, 1024, 66.8), 0.8, BOTH_WAYS))
@example(question_of(run_of(WHOLE_PICTURES, 3.2619e10, 512, 32, 5.02), 0.7))
def test_answers_are_plain_and_no_level_beats_what_is_best_with_its_confidence(
    catalog: Catalog, question: Question
) -> None:
    """The requirement of the first at another confidence is a candidate of the search for that confidence, and a higher
    confidence costs no less.
    """
    answer = recommend_hardware(question, catalog)
    is_plain(answer)
    asked = question.workload
    # Endless work is ranked by the cost of its tokens. The levels of a simulated service are those of its simulation; a
    # search at another confidence may choose others to simulate.
    compared = isinstance(asked, TrainingWorkload) or not (
        is_simulated(asked) or (asked.load is Load.OFFLINE and not asked.is_finite)
    )
    best = {level: of_question(question, catalog, confidence=level) for level in CONFIDENCE_LEVELS}
    slack = near_tie(question.workload)
    assert all(one <= other * (1 + slack) for one, other in zip(best.values(), list(best.values())[1:], strict=False))
    for ranked in answer.recommendations[:1]:
        assert ranked.estimate.assurance is not None
        for level in ranked.estimate.assurance.by_level:
            if level.confidence in best and compared:
                assert best[level.confidence] <= money(level) * (1 + slack)


@pytest.mark.slow
@SLOW
@given(st.one_of(SERVICES, RUNS), st.sampled_from(["pricing_models", "engines"]))
def test_one_way_to_pay_or_one_engine_is_never_better_than_several(
    catalog: Catalog, workload: InferenceWorkload | TrainingWorkload, kind: str
) -> None:
    """No option hides another: spot does not hide on-demand capacity, nor an engine with BF16 one with FP16 only.

    Engines are named, since engines that are only expected to run compete if they are named.
    """
    question = Question(workload, assumptions=Assumptions(no_recipe_saving=0.0, no_result_saving=0.0))
    if kind == "engines":
        named = ("llama.cpp", "mlc-llm", "transformers", "maxtext", "megatron", "vllm")
        whole, parts = of_question(question, catalog, engines=named), [(each,) for each in named]
    else:
        both = (PricingModel.ON_DEMAND, PricingModel.SPOT)
        whole, parts = of_question(question, catalog, pricing_models=both), [(each,) for each in both]
    slack = near_tie(workload)
    assert all(whole <= of_question(question, catalog, **{kind: part}) * (1 + slack) for part in parts)
