"""Who trains, and where."""

from __future__ import annotations

from app.sizing.hardware.support.builds import BUILDS
from app.sizing.hardware.support.verdicts import SupportEvidence
from app.sizing.hardware.trainers import find_trainers, training_work
from app.sizing.model.tasks import ModelTask
from tests.catalogued import catalogued, support

CHIPS = [catalogued(s) for s in ("nvidia-h100-sxm5-80gb", "nvidia-t4", "apple-m4-max-40c")]
ENGINES = tuple(sorted({*BUILDS, *(row.engine for row in support())}))
FAMILIES = ("apple", "nvidia_hopper", "nvidia_turing")


def runs(phase: str, method: str, precision: str) -> set[tuple[str, str, bool]]:
    """(engine, accelerator, only expected) of a way of training."""
    asked = training_work(phase, method, precision, ModelTask.DECODER)
    found = find_trainers(CHIPS, SupportEvidence(support()), *asked, engines=ENGINES, families=FAMILIES)
    return {
        (ENGINES[int(found.engine[row])], CHIPS[column].slug, bool(found.expected[row]))
        for row in range(len(found))
        for column in range(len(CHIPS))
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
