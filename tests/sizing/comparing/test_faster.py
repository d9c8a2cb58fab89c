"""Why an accelerator does more: hardware, what limits it first; formats, engines, layouts, batches."""

from __future__ import annotations

from dataclasses import replace

from app.sizing.comparing.faster import explain_speed
from app.sizing.comparing.outcomes import Outcome
from app.sizing.question import Pools
from tests.sizing.comparing.given import nothing, on_big, run
from tests.sizing.small import CARD


def changed(o: Outcome, **fields: object) -> Outcome:
    assert o.estimate is not None
    deployment = replace(o.estimate.deployment, **fields)  # type: ignore[arg-type]
    return replace(o, estimate=replace(o.estimate, deployment=deployment))


def test_the_resource_that_limits_comes_first() -> None:
    other = replace(on_big(), accelerator=CARD)
    assert on_big().estimate is not None and on_big().accelerator is not None
    for limit, name in (
        ("memory_bandwidth", "times the memory bandwidth"),
        ("compute", "times the 16-bit matrix rate"),
    ):
        e = on_big().estimate
        assert e is not None
        limited = replace(on_big(), estimate=replace(e, bottleneck=limit))
        assert name in explain_speed(limited, other).split(",")[0].split(" and ")[0]


def test_differences_name_formats_engines_and_layouts() -> None:
    plain = changed(on_big(), weight_format="bf16", engine="vllm", accelerators_per_replica=2)
    other = changed(on_big(), weight_format="fp8", engine="sglang", accelerators_per_replica=4)
    text = explain_speed(other, plain)
    assert text == "weights in FP8 instead of BF16, SGLang instead of vLLM and replicas of 4 instead of 2 accelerators"


def test_differences_name_two_pools_and_one() -> None:
    assert on_big().estimate is not None
    side = on_big().estimate.deployment  # type: ignore[union-attr]
    split = changed(on_big(), pools=Pools(side, side))
    assert explain_speed(split, on_big()) == "two pools instead of one"
    assert explain_speed(on_big(), split) == "one pool instead of two"
    assert explain_speed(split, split) == ""


def test_differences_name_a_larger_batch() -> None:
    e = on_big().estimate
    assert e is not None and e.performance is not None
    fuller = replace(on_big(), estimate=replace(e, performance=replace(e.performance, batch_at_peak=100.0)))
    less = replace(on_big(), estimate=replace(e, performance=replace(e.performance, batch_at_peak=50.0)))
    assert explain_speed(fuller, less) == "a batch of 100 instead of 50"


def test_nothing_is_said_of_nothing() -> None:
    assert explain_speed(nothing(), on_big()) == explain_speed(run(), run()) == ""
