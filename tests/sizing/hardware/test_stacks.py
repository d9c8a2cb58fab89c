"""Stacks: one row for what runs alike, and where it competes."""

from __future__ import annotations

import numpy as np

from app.sizing.hardware.stacks import Stack, all_stacks, competing_mask, group_by_family, known_engines, stack_columns
from app.sizing.hardware.support.records import LEVELS, PHASES, EngineSupport, Level
from app.sizing.hardware.support.verdicts import SupportEvidence
from app.sizing.hardware.tables import FORMATS, index_by_name
from app.sizing.model.tasks import TASKS, ModelTask
from tests.catalogued import catalogued, support
from tests.sizing.small import SMALL

CHIPS = [catalogued(s) for s in ("nvidia-h100-sxm5-80gb", "nvidia-jetson-agx-orin-64gb", "nvidia-jetson-thor-t5000")]
STACKS = all_stacks(CHIPS, SupportEvidence(support()))


def found(engine: str, weight_format: str, phase: str = "inference") -> list[Stack]:
    return [s for s in STACKS if (s.engine, s.weight_format, s.phase) == (engine, weight_format, phase)]


def test_a_format_is_multiplied_natively_or_widened_to_sixteen_bits() -> None:
    assert Stack("vllm", "nvidia_hopper", "inference", "fp8", native=True).rate == "fp8"
    assert Stack("vllm", "nvidia_hopper", "inference", "fp8", native=False).rate == "16bit"
    assert Stack("vllm", "nvidia_hopper", "inference", "int4-awq", native=True).rate == "16bit"


def test_chips_of_a_family_that_compute_otherwise_have_stacks_of_their_own() -> None:
    jetson = {(s.native, s.accelerators) for s in found("vllm", "fp8") if s.family == "jetson"}
    assert jetson == {(False, ("nvidia-jetson-agx-orin-64gb",)), (True, ("nvidia-jetson-thor-t5000",))}
    assert len(group_by_family(CHIPS)["jetson"]) == 2
    assert "vllm" in known_engines(CHIPS[:1], SupportEvidence())


def test_levels_are_by_kind_of_model() -> None:
    (h100,) = (s for s in found("sglang", "bf16", "sample_inference") if s.family == "nvidia_hopper")
    said = dict(zip(TASKS, h100.levels, strict=True))
    assert said[ModelTask.EMBEDDING] is Level.EXPECTED
    assert said[ModelTask.DIFFUSION] is said[ModelTask.DECODER] is Level.REFUSED


def test_the_surer_come_first_and_columns_say_the_same() -> None:
    surest = [max(LEVELS.index(level) for level in s.levels) for s in STACKS]
    assert surest == sorted(surest, reverse=True)
    columns = stack_columns(
        STACKS,
        SMALL.stacks.achieved.take(np.zeros(len(STACKS), dtype=np.int64)),
        np.zeros(len(STACKS), dtype=np.int64),
        accelerators=index_by_name([a.slug for a in CHIPS]),
        engines=index_by_name(sorted({s.engine for s in STACKS})),
        families=index_by_name(sorted({s.family for s in STACKS})),
        formats=index_by_name(FORMATS),
        phases=index_by_name(PHASES),
    )
    assert columns.on.sum(axis=1).tolist() == [len(s.accelerators) for s in STACKS]
    assert columns.expected.tolist() == [Level.DOCUMENTED not in s.levels for s in STACKS]


def test_what_only_rules_say_competes_where_nothing_is_documented_and_fronts_nowhere() -> None:
    on = np.array([[True, False], [True, True], [True, True]])
    found = competing_mask(on, np.array([False, True, False]), np.array([False, False, True]))
    assert found.tolist() == [[True, False], [False, True], [False, False]]


def test_evidence_of_an_engine_without_builds_is_a_stack() -> None:
    row = EngineSupport("acme", "nvidia_hopper", "inference", {"bf16": True}, ("bf16",), "a test")
    assert [s.weight_format for s in all_stacks(CHIPS[:1], SupportEvidence([row])) if s.engine == "acme"] == ["bf16"]
