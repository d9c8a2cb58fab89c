"""The pair question: everything that is left open is answered for."""

from __future__ import annotations

from app.sizing.hardware.answered import PairQuery, PairVerdict, answer_pair
from app.sizing.hardware.software import Software
from app.sizing.hardware.support.records import PHASES, Level
from app.sizing.hardware.support.verdicts import SupportEvidence
from app.sizing.model.tasks import ModelTask
from tests.catalogued import accelerators, support

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
