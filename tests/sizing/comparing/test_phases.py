"""One model in several phases: what each asks of hardware, and each on the other's."""

from __future__ import annotations

import pytest

from app.sizing.comparing.phases import compare_hardware, hardware_priority, memory_shares
from app.sizing.question import Constraints, Question
from app.sizing.recommend import recommend_hardware
from tests.sizing.comparing.given import HEAVY, best, nothing, on_big, run
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
