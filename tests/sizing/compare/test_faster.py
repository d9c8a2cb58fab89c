"""Why an accelerator does more: hardware, what limits it first; formats, engines, layouts, batches."""

from __future__ import annotations

from dataclasses import replace

from app.sizing.compare import explain_speed
from app.sizing.outcomes import Outcome
from app.sizing.question import Pools
from tests.sizing.answer.given import SPEED
from tests.sizing.compare.given import made, nothing, on_big, run
from tests.sizing.small import BIG, CARD, DESK


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


def test_hardware_that_is_nearly_alike_is_not_a_reason() -> None:
    for times, shown in ((1.02, False), (0.98, False), (1.05, True), (0.95, True)):
        other = replace(BIG, memory_bytes_per_s=3.2e12 / times)
        assert BIG.memory_bytes_per_s == 3.2e12
        text = explain_speed(made(), made(accelerator=other))
        assert ("times the memory bandwidth" in text) == shown
        fuller, less = (made(performance=replace(SPEED, batch_at_peak=100.0 * t)) for t in (times, 1.0))
        assert ("a batch of" in explain_speed(fuller, less)) == shown
    # The better of both 16-bit rates counts, and an unknown rate is no reason.
    half = replace(BIG, flops_per_s={"fp16": 1e15, "bf16": 5e14})
    assert explain_speed(made(), made(accelerator=half)) == ""
    assert "2 times the 16-bit" in explain_speed(made(), made(accelerator=replace(half, flops_per_s={"bf16": 5e14})))
    assert "10 times the 16-bit" in explain_speed(made(), made(accelerator=DESK))
    assert "link" not in explain_speed(made(), made(accelerator=CARD))
    no_link = replace(BIG, scaleup_bytes_per_s=0.0)
    assert explain_speed(made(), made(accelerator=no_link)) == explain_speed(made(accelerator=no_link), made()) == ""


def test_layouts_are_compared_where_both_are_known() -> None:
    for field, value in (("weight_format", "fp8"), ("kv_format", "fp8"), ("engine", "sglang")):
        one, two = changed(made(), **{field: "bf16"}), changed(made(), **{field: value})
        assert explain_speed(one, two).count("instead of") == 1
        absent = changed(made(), **{field: None})
        assert explain_speed(one, absent) == explain_speed(absent, one) == ""
    trained, other = (changed(made(), engine=None, framework=name) for name in ("fsdp", "megatron"))
    assert explain_speed(trained, other) == "FSDP instead of Megatron-LM"
    unknown = changed(made(), accelerators_per_replica=None)
    assert explain_speed(unknown, made()) == explain_speed(made(), unknown) == ""
    # Two pools are compared by the pool that writes.
    side = made().estimate.deployment  # type: ignore[union-attr]
    plain, other = (changed(made(), pools=Pools(side, replace(side, weight_format=f))) for f in ("bf16", "fp8"))
    assert explain_speed(other, plain) == "weights in FP8 instead of BF16"
    mixed = changed(made(), pools=Pools(replace(side, weight_format="fp8"), side))
    assert explain_speed(mixed, plain) == ""
    unmeasured = made(performance=None)
    assert explain_speed(unmeasured, made()) == explain_speed(made(), unmeasured) == ""
    no_batch = made(performance=replace(SPEED, batch_at_peak=None))
    filled = made(performance=replace(SPEED, batch_at_peak=8.0))
    assert explain_speed(no_batch, filled) == explain_speed(filled, no_batch) == ""


def test_no_more_than_four_reasons_are_given() -> None:
    other = changed(made(accelerator=CARD), weight_format="fp8", kv_format="fp8", engine="sglang")
    text = explain_speed(changed(made(), kv_format="bf16"), other)
    assert text.count(",") + 2 == 4
    for one, two in ((made(), nothing()), (nothing(), made())):
        assert explain_speed(one, two) == ""
    assert explain_speed(replace(made(), accelerator=None), made()) == ""
