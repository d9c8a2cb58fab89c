"""One model in several phases: what each asks of hardware, and each on the other's."""

from __future__ import annotations

from dataclasses import replace

import pytest

from app.sizing.compare import compare_hardware, hardware_priority, memory_shares
from app.sizing.question import Constraints, Question
from app.sizing.recommend import recommend_hardware
from app.sizing.result import DeviceMemory
from tests.sizing.answer.given import COST
from tests.sizing.compare.given import HEAVY, best, made, nothing, on_big, run
from tests.sizing.small import SMALL


def test_shares_of_memory_add_up_and_training_holds_what_serving_does_not() -> None:
    for o in (best(), run()):
        assert o.estimate is not None and o.estimate.memory is not None
        shares = memory_shares(o.estimate.memory)
        assert sum(shares.values()) == pytest.approx(1)
        assert list(shares.values()) == sorted(shares.values(), reverse=True)
        assert ("optimizer" in shares) == (o is run())


def test_a_phase_is_chosen_by_what_limits_it() -> None:
    found = hardware_priority(run())
    assert found is not None and run().estimate is not None
    assert found.text.startswith(f"Training is limited by {found.chosen_by}. Its memory holds ")
    assert hardware_priority(nothing()) is None


def test_each_is_judged_on_the_accelerator_of_the_other() -> None:
    theirs, usd = run().accelerator, best().usd
    assert theirs is not None and usd is not None and theirs != best().accelerator
    training, service = compare_hardware((run(), best()), SMALL)
    cost = (
        recommend_hardware(Question(HEAVY, Constraints(accelerators=(theirs.slug,))), SMALL)
        .recommendations[0]
        .estimate.cost
    )
    assert cost is not None and cost.usd_per_hour is not None
    assert (service.name, service.on, service.usd) == ("best", "training", cost.usd_per_hour)
    assert service.times == pytest.approx(cost.usd_per_hour / usd)
    assert training.times is None and training.text.startswith("Training: "), "no training on cards here"
    assert training.text.endswith(", but its hosts lack memory for the offloaded states.")


def test_the_same_accelerator_needs_no_second_look() -> None:
    assert compare_hardware((on_big(), on_big(), nothing()), SMALL) == ()


def test_memory_is_named_from_a_twentieth_of_it_on() -> None:
    memory = DeviceMemory(50.0, 5.0, 41.0, 4.0, 0.0, 0.0, 200.0, 200.0)
    assert memory_shares(memory) == {"weights": 0.5, "activations": 0.41, "cache": 0.05, "overhead": 0.04}
    o = made("inference", bottleneck="memory_bandwidth")
    assert o.estimate is not None
    found = hardware_priority(replace(o, estimate=replace(o.estimate, memory=memory)))
    assert found is not None and found.chosen_by == "memory bandwidth"
    assert found.text.endswith("weights, 41 % activations and 5 % cache.")
    assert hardware_priority(o) is None
    unknown = replace(o.estimate, memory=memory, bottleneck=None)
    assert hardware_priority(replace(o, estimate=unknown)) is None


def test_other_hardware_is_dearer_or_cheaper_by_the_ratio_of_both_costs() -> None:
    usd = on_big().usd
    assert usd is not None and on_big().accelerator != best().accelerator
    limited = replace(best(), question=replace(best().question, constraints=Constraints(accelerators=("acme-card",))))
    for own, word in ((usd / 2, "more"), (usd * 2, "less"), (usd, "0 % more")):
        assert limited.estimate is not None
        mine = replace(limited, estimate=replace(limited.estimate, cost=replace(COST, usd_per_hour=own)))
        here, there = compare_hardware((mine, on_big()), SMALL)
        assert (here.name, here.on, here.accelerator) == ("best", "big", "acme-big")
        assert here.usd == pytest.approx(usd) and here.times == pytest.approx(usd / own)
        assert word in here.text and ("100 %" in here.text or "50 %" in here.text or own == usd)
        assert there.on == "best"
    unpriced = replace(best(), estimate=replace(best().estimate, cost=None))  # type: ignore[type-var]
    first, _ = compare_hardware((unpriced, on_big()), SMALL)
    assert first.times is None and first.usd is None
    assert compare_hardware((best(), nothing()), SMALL) == compare_hardware((best(), best()), SMALL) == ()
