"""The pair question: everything that is left open is answered for. What software does is looked up once. Stacks:
one row for what runs alike, and where it competes. Who trains, and where.
"""

from __future__ import annotations

import numpy as np

from app.sizing.hardware.stacks import (
    PairQuery,
    PairVerdict,
    Software,
    Stack,
    all_stacks,
    answer_pair,
    competing_mask,
    find_trainers,
    group_by_family,
    known_engines,
    stack_columns,
    training_work,
)
from app.sizing.hardware.support.builds import BUILDS
from app.sizing.hardware.support.records import LEVELS, PHASES, EngineSupport, Level, Work
from app.sizing.hardware.support.rules import SupportEvidence
from app.sizing.hardware.tables import FORMATS, index_by_name
from app.sizing.model.tasks import TASKS, ModelTask
from tests.catalogued import accelerators, catalogued, support
from tests.sizing.small import BIG, DESK, SMALL

CHIPS = tuple(accelerators().values())
ENGINES = tuple(sorted({row.engine for row in support()}))
SOFTWARE = Software(CHIPS, SupportEvidence(support()), ENGINES, tuple(sorted({a.family for a in CHIPS})))


def asked(slug: str, engine: str, **known: object) -> list[PairVerdict]:
    row = next(i for i, a in enumerate(CHIPS) if a.slug == slug)
    return answer_pair(PairQuery(row, engine, **known), SOFTWARE)  # type: ignore[arg-type]


def test_one_format_and_phase_is_one_verdict() -> None:
    (found,) = asked("nvidia-t4", "vllm", weight_format="fp8", phase="inference", task=ModelTask.DECODER)
    assert found.verdict.level is Level.REFUSED
    assert "FP8 requires 8.9" in found.verdict.rule


def test_what_is_left_open_is_answered_for() -> None:
    found = asked("nvidia-h100-sxm5-80gb", "vllm")
    assert {f.work.phase for f in found} == set(PHASES)
    assert {f.work.task for f in found} == set(ModelTask)
    assert {f.verdict.level for f in found} == set(Level)
    diffusion = [f for f in found if f.work.task is ModelTask.DIFFUSION]
    assert {f.verdict.level for f in diffusion} == {Level.REFUSED}


def test_a_kind_of_model_decides_in_which_phase_it_is_served() -> None:
    (found,) = asked("nvidia-l4", "sglang", weight_format="bf16", phase="inference", task=ModelTask.RERANKER)
    assert (found.work.phase, found.verdict.level) == ("sample_inference", Level.EXPECTED)


def test_adapters_on_a_quantised_base_train_in_what_the_chip_has() -> None:
    (turing,) = asked("nvidia-t4", "unsloth", phase="fine_tuning", method="qlora")
    assert (turing.weight_format, turing.work.precision, turing.verdict.is_supported) == ("nf4", "fp16", True)
    (wide,) = asked("nvidia-t4", "unsloth", phase="fine_tuning", method="qlora", weight_format="bf16")
    assert not wide.verdict.is_supported
    assert {f.work.method for f in asked("nvidia-t4", "unsloth", method="lora")} == {"lora"}


BIG_ROW, DESK_ROW = (SMALL.accelerator_index[a.slug] for a in (BIG, DESK))


def test_the_same_is_answered_again() -> None:
    work = Work("training", "full")
    assert SMALL.software.trainers("bf16", work) is SMALL.software.trainers("bf16", work)
    asked = DESK_ROW, ("tensorrt-llm",), frozenset({"fp8"}), Work("inference")
    first = SMALL.software.refusal_reason(*asked)
    assert first == "TensorRT-LLM has no known build for ROCm or Vulkan."
    assert SMALL.software.refusal_reason(*asked) is first


def test_verdicts_of_a_catalogue_read_its_own_evidence() -> None:
    assert SMALL.software.verdict(BIG_ROW, "vllm", "bf16", Work("inference")).level is Level.DOCUMENTED
    embeddings = Work("sample_inference", task=ModelTask.EMBEDDING)
    assert SMALL.software.verdict(BIG_ROW, "vllm", "bf16", embeddings).level is Level.EXPECTED
    assert SMALL.software.refusal_reason(BIG_ROW, ("vllm",), frozenset({"bf16"}), embeddings) == ""


STACKS_CHIPS = [
    catalogued(s) for s in ("nvidia-h100-sxm5-80gb", "nvidia-jetson-agx-orin-64gb", "nvidia-jetson-thor-t5000")
]
STACKS = all_stacks(STACKS_CHIPS, SupportEvidence(support()))


def found(engine: str, weight_format: str, phase: str = "inference") -> list[Stack]:
    return [s for s in STACKS if (s.engine, s.weight_format, s.phase) == (engine, weight_format, phase)]


def test_a_format_is_multiplied_natively_or_widened_to_sixteen_bits() -> None:
    assert Stack("vllm", "nvidia_hopper", "inference", "fp8", native=True).rate == "fp8"
    assert Stack("vllm", "nvidia_hopper", "inference", "fp8", native=False).rate == "16bit"
    assert Stack("vllm", "nvidia_hopper", "inference", "int4-awq", native=True).rate == "16bit"


def test_chips_of_a_family_that_compute_otherwise_have_stacks_of_their_own() -> None:
    jetson = {(s.native, s.accelerators) for s in found("vllm", "fp8") if s.family == "jetson"}
    assert jetson == {(False, ("nvidia-jetson-agx-orin-64gb",)), (True, ("nvidia-jetson-thor-t5000",))}
    assert len(group_by_family(STACKS_CHIPS)["jetson"]) == 2
    assert "vllm" in known_engines(STACKS_CHIPS[:1], SupportEvidence())


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
        np.zeros(len(STACKS), dtype=bool),
        accelerators=index_by_name([a.slug for a in STACKS_CHIPS]),
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
    assert [s.weight_format for s in all_stacks(STACKS_CHIPS[:1], SupportEvidence([row])) if s.engine == "acme"] == [
        "bf16"
    ]


TRAINERS_CHIPS = [catalogued(s) for s in ("nvidia-h100-sxm5-80gb", "nvidia-t4", "apple-m4-max-40c")]
TRAINERS_ENGINES = tuple(sorted({*BUILDS, *(row.engine for row in support())}))
FAMILIES = ("apple", "nvidia_hopper", "nvidia_turing")


def runs(phase: str, method: str, precision: str) -> set[tuple[str, str, bool]]:
    """(engine, accelerator, only expected) of a way of training."""
    asked = training_work(phase, method, precision, ModelTask.DECODER)
    found = find_trainers(
        TRAINERS_CHIPS, SupportEvidence(support()), *asked, engines=TRAINERS_ENGINES, families=FAMILIES
    )
    return {
        (TRAINERS_ENGINES[int(found.engine[row])], TRAINERS_CHIPS[column].slug, bool(found.expected[row]))
        for row in range(len(found))
        for column in range(len(TRAINERS_CHIPS))
        if found.on[row, column]
    }


def test_the_base_under_quantised_adapters_is_in_nf4() -> None:
    assert training_work("fine_tuning", "lora", "bf16-true", ModelTask.DECODER)[0] == "bf16"
    weights, work = training_work("fine_tuning", "qlora", "fp16", ModelTask.DECODER)
    assert (weights, work.precision) == ("nf4", "fp16")


def test_evidence_and_rules_are_distinguished_by_accelerator() -> None:
    found = runs("fine_tuning", "qlora", "bf16")
    assert ("peft+bitsandbytes", "nvidia-h100-sxm5-80gb", False) in found
    assert ("mlx", "apple-m4-max-40c", False) in found
    assert ("torchtune", "nvidia-h100-sxm5-80gb", True) in found
    assert not {slug for _, slug, _ in found} & {"nvidia-t4"}
    assert "nvidia-t4" in {slug for _, slug, _ in runs("fine_tuning", "qlora", "fp16")}


def test_megatron_keeps_its_masters_in_32_bit() -> None:
    assert "megatron" in {engine for engine, _, _ in runs("training", "full", "bf16")}
    found = {engine for engine, _, _ in runs("training", "full", "bf16-true")}
    assert "fsdp" in found
    assert not found & {"megatron", "nemo"}
