"""What an engine's scheduler puts into a step."""

from __future__ import annotations

from dataclasses import fields, replace

from app.sizing.columns import GIB
from app.sizing.hardware.engines.record import Policy, Scheduler, SchedulerSettings, Scheduling, StepSize

H100_BYTES, L4_BYTES = 79.6 * GIB, 22.5 * GIB
USUAL = Scheduling()


def test_large_devices_take_larger_steps() -> None:
    assert (USUAL.for_device(H100_BYTES).max_batched_tokens, USUAL.for_device(H100_BYTES).max_sequences) == (8192, 1024)
    assert (USUAL.for_device(L4_BYTES).max_batched_tokens, USUAL.for_device(L4_BYTES).max_sequences) == (2048, 256)


def test_without_a_server_in_front_steps_are_larger() -> None:
    assert USUAL.for_device(H100_BYTES, offline=True).max_batched_tokens == 16384
    same = Scheduling(steps=(StepSize(0, 8192, 2048),))
    assert same.for_device(H100_BYTES, offline=True) == same.for_device(H100_BYTES)


def test_a_family_that_keeps_the_smaller_steps_keeps_them_however_large_it_is() -> None:
    rule = Scheduling(steps_of={"nvidia_ampere": (StepSize(0, 2048, 256, 8192),)})
    assert rule.for_device(H100_BYTES, "nvidia_ampere") == rule.for_device(L4_BYTES, "nvidia_ampere")
    assert rule.for_device(H100_BYTES, "nvidia_hopper").max_batched_tokens == 8192


def test_what_a_caller_sets_is_set_and_the_rest_stays_the_engines() -> None:
    own = USUAL.for_device(H100_BYTES)
    assert own.with_settings(None) == own == own.with_settings(SchedulerSettings())
    asked = SchedulerSettings(max_batched_tokens=4096, policy=Policy.PREFILL_FIRST, prefix_cache=False)
    found = own.with_settings(asked)
    assert found == replace(own, max_batched_tokens=4096, policy=Policy.PREFILL_FIRST, prefix_cache=False)


def test_all_that_can_be_set_is_part_of_a_scheduler() -> None:
    assert {f.name for f in fields(SchedulerSettings)} <= {f.name for f in fields(Scheduler)}
