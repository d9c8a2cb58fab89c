"""What formats ask of a chip. The rule that keeps work from an accelerator: of several the one that comes last.
Verdicts: what forbids comes first, then evidence, then what follows from the rules. What software does, in
words.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from app.sizing.hardware.support.builds import BUILDS, accepted_formats, covers_work
from app.sizing.hardware.support.generations import GENERATIONS
from app.sizing.hardware.support.records import PHASES, EngineSupport, Level, Verdict, Work
from app.sizing.hardware.support.rules import (
    FORBIDDEN,
    UNITS,
    PublishedResult,
    SupportEvidence,
    evidence_phases,
    find_refusal,
    format_words,
    keeps_16_bit,
    least_capability,
    no_engine_text,
    stored_as,
    unsupported_text,
    verdict,
    work_name,
)
from app.sizing.model.formats import WEIGHT_FORMATS
from app.sizing.model.tasks import ModelTask
from tests.catalogued import catalogued, support
from tests.examples import present


def test_formats_without_a_rate_ask_nothing_of_a_chip() -> None:
    assert {f.name for f in WEIGHT_FORMATS.values() if f.name in UNITS} == {
        f.name for f in WEIGHT_FORMATS.values() if f.rate
    }


def test_some_chip_multiplies_every_unit() -> None:
    assert set(UNITS.values()) <= {unit for g in GENERATIONS for unit in g.multiplies}


def test_least_capabilities_and_words() -> None:
    assert [least_capability(u) for u in ("fp16", "bf16", "fp8", "fp4")] == [6.0, 8.0, 8.9, 10.0]
    assert stored_as("bf16-true") == "bf16"
    assert [p for p in ("bf16", "bf16-true", "fp32", "fp8") if keeps_16_bit(p)] == ["bf16-true"]
    assert format_words("gguf-q4_k_m") == "GGUF Q4_K_M"


DOCUMENTS = SupportEvidence(support())


def test_the_last_rule_is_reported() -> None:
    t4, serving = catalogued("nvidia-t4"), Work("inference")
    found = present(find_refusal(t4, ("tensorrt-llm", "vllm"), ("fp8",), serving, DOCUMENTS))
    assert "FP8 requires 8.9" in found.rule
    runs = present(find_refusal(t4, (), ("fp8", "fp16"), serving, DOCUMENTS))
    assert runs.is_supported


def test_a_chip_that_nothing_is_built_for_says_so() -> None:
    lpu = catalogued("groq-lpu-v1")
    pictures = Work("sample_inference", task=ModelTask.VISION)
    assert find_refusal(lpu, (), ("fp16",), pictures, DOCUMENTS) is None
    assert no_engine_text(lpu, pictures) == "No known engine serves vision models on the Groq runtime."


SERVING = Work("inference")
FULL, QLORA = Work("training", "full"), Work("fine_tuning", "qlora", precision="bf16")


def asked(accelerator: str, engine: str, weight_format: str, work: Work = SERVING) -> Verdict:
    return verdict(catalogued(accelerator), engine, weight_format, work, DOCUMENTS)


@pytest.mark.parametrize(
    ("accelerator", "engine", "weight_format", "work", "said"),
    [
        ("nvidia-t4", "vllm", "fp8", SERVING, "compute capability 7.5; FP8 requires 8.9"),
        ("nvidia-t4", "vllm", "bf16", SERVING, "BF16 requires 8.0"),
        ("nvidia-v100-sxm2-32gb", "sglang", "fp16", SERVING, "SGLang requires 7.5"),
        ("amd-rx-7900-xtx", "vllm", "fp8", SERVING, "gfx1100, which does not compute in FP8"),
        ("aws-inferentia1", "neuronx", "bf16", SERVING, "generate text"),
        ("google-tpu-v5p", "maxtext", "fp8", FULL, "does not compute in FP8"),
        ("nvidia-h100-sxm5-80gb", "megatron", "mxfp8", FULL, "MXFP8 requires 10.0"),
        ("nvidia-t4", "peft+bitsandbytes", "nf4", QLORA, "BF16 requires 8.0"),
        ("amd-mi300x", "tensorrt-llm", "fp8", SERVING, "TensorRT-LLM has no known build for ROCm"),
        ("nvidia-h100-sxm5-80gb", "deepspeed", "nf4", QLORA, "does not support QLoRA fine-tuning"),
        (
            "nvidia-h100-sxm5-80gb",
            "text-embeddings-inference",
            "fp16",
            SERVING,
            "does not serve text generation models",
        ),
        ("nvidia-h100-sxm5-80gb", "unlisted", "fp16", SERVING, "does not record which hardware unlisted runs on"),
    ],
)
def test_a_refusal_says_which_rule_it_is(
    accelerator: str, engine: str, weight_format: str, work: Work, said: str
) -> None:
    found = asked(accelerator, engine, weight_format, work)
    assert not found.is_supported
    assert said in found.rule


def test_evidence_documents_and_rules_expect() -> None:
    assert asked("nvidia-h100-sxm5-80gb", "vllm", "bf16").level is Level.DOCUMENTED
    embeddings = Work("sample_inference", task=ModelTask.EMBEDDING)
    assert asked("nvidia-l4", "vllm", "bf16", embeddings).level is Level.DOCUMENTED
    assert asked("nvidia-l4", "sglang", "bf16", embeddings).level is Level.EXPECTED
    assert asked("apple-m4-max-40c", "mlx", "nf4", QLORA).level is Level.DOCUMENTED


@pytest.mark.parametrize(
    ("accelerator", "weight_format", "native"),
    [
        ("nvidia-h100-sxm5-80gb", "fp8", True),
        ("nvidia-a100-sxm4-80gb", "fp8", False),
        ("nvidia-h100-sxm5-80gb", "mxfp4", False),
        ("nvidia-b200-sxm-180gb", "nvfp4", True),
        ("nvidia-jetson-agx-orin-64gb", "fp8", False),
        ("nvidia-jetson-thor-t5000", "fp8", True),
        ("google-tpu-v6e", "fp8", False),
        ("amd-mi300x", "mxfp4", False),
        ("amd-mi355x", "mxfp4", True),
    ],
)
def test_only_what_the_chip_multiplies_is_native(accelerator: str, weight_format: str, native: bool) -> None:
    found = asked(accelerator, "vllm", weight_format)
    assert (found.is_supported, found.native) == (True, native)


@pytest.mark.parametrize(
    ("engine", "accelerator", "narrow"),
    [
        ("vllm", "nvidia-b200-sxm-180gb", {"nvfp4", "int4"}),
        ("vllm", "nvidia-h100-sxm5-80gb", {"int4"}),
        ("sglang", "nvidia-b200-sxm-180gb", {"nvfp4"}),
        ("sglang", "nvidia-h100-sxm5-80gb", set()),
        ("tensorrt-llm", "nvidia-b200-sxm-180gb", {"nvfp4"}),
        ("lmdeploy", "nvidia-a100-sxm4-80gb", {"int4"}),
    ],
)
def test_caches_of_4_bits_are_those_that_the_engine_has_on_the_chip(
    engine: str, accelerator: str, narrow: set[str]
) -> None:
    found = asked(accelerator, engine, "bf16")
    assert {name for name in found.kv_formats if name in ("nvfp4", "int4")} == narrow


def test_what_is_forbidden_names_known_engines_generations_formats_and_phases() -> None:
    assert {e for f in FORBIDDEN for e in f.engines} <= {*BUILDS}
    assert {g for f in FORBIDDEN for g in f.generations} <= {g.name for g in GENERATIONS}
    assert {name for f in FORBIDDEN for name in f.formats} <= {*WEIGHT_FORMATS, *UNITS}
    assert {p for f in FORBIDDEN for p in f.phases} <= {*PHASES}


def test_a_rule_that_forbids_holds_against_evidence_and_results() -> None:
    row = EngineSupport("vllm", "amd_rdna", "inference", {"fp8": True}, (), "a log")
    documents = SupportEvidence([row], [PublishedResult("vllm", "amd_rdna", "fp8", trains=False)])
    old, new = (catalogued(slug) for slug in ("amd-rx-7900-xtx", "amd-rx-9070-xt"))
    assert not verdict(old, "vllm", "fp8", SERVING, documents).is_supported
    assert verdict(new, "vllm", "fp8", SERVING, documents).level is Level.DOCUMENTED


def test_one_unsure_source_is_no_document_until_somebody_measures() -> None:
    row = EngineSupport("acme", "nvidia_hopper", "inference", {"bf16": True}, (), "hearsay")
    chip = catalogued("nvidia-h100-sxm5-80gb")
    measured = [PublishedResult("acme", "nvidia_hopper", "16bit", trains=False)]
    unsure = replace(row, tentative=True)
    assert verdict(chip, "acme", "bf16", SERVING, SupportEvidence([row])).level is Level.DOCUMENTED
    assert verdict(chip, "acme", "bf16", SERVING, SupportEvidence([unsure])).level is Level.EXPECTED
    assert verdict(chip, "acme", "bf16", SERVING, SupportEvidence([unsure], measured)).level is Level.DOCUMENTED
    assert verdict(chip, "acme", "bf16", SERVING, SupportEvidence()).level is Level.REFUSED


def test_evidence_of_one_kind_of_model_is_none_of_another() -> None:
    assert not covers_work("text-embeddings-inference", SERVING)
    assert covers_work("unlisted", SERVING)
    assert "fp8" in accepted_formats("vllm", SERVING)
    assert accepted_formats("vllm", FULL) == ()


def test_who_trains_whole_models_goes_on_training_them() -> None:
    assert evidence_phases(Work("fine_tuning", "full")) == ("training", "fine_tuning")
    assert evidence_phases(Work("fine_tuning", "lora")) == ("fine_tuning",)


def test_every_build_says_what_it_does_and_where_it_is_from() -> None:
    records = [b for of_engine in BUILDS.values() for b in of_engine]
    assert [b.engine for b in records if not (b.source and b.as_of and b.runtimes)] == []
    assert [b.engine for b in records if not (b.serves or (b.trains and b.methods))] == []
    assert [b.engine for b in records if not (b.multiplies or b.unpacks)] == []


def test_results_of_formats_that_are_computed_alike_document_none_that_no_row_names() -> None:
    measured = [PublishedResult("vllm", "nvidia_hopper", "weight_only", trains=False)]
    chip, documents = catalogued("nvidia-h100-sxm5-80gb"), SupportEvidence([], measured)
    assert verdict(chip, "vllm", "nvfp4", SERVING, documents).level is Level.EXPECTED
    row = EngineSupport("vllm", "nvidia_hopper", "inference", {"int4-awq": False}, (), "a log", tentative=True)
    assert verdict(chip, "vllm", "int4-awq", SERVING, SupportEvidence([row], measured)).level is Level.DOCUMENTED


def test_results_of_whole_models_document_no_adapters() -> None:
    documents = SupportEvidence([], [PublishedResult("fsdp", "nvidia_ada", "16bit", trains=True)])
    chip = catalogued("nvidia-l40s")
    assert verdict(chip, "fsdp", "bf16", FULL, documents).level is Level.DOCUMENTED
    assert verdict(chip, "fsdp", "bf16", Work("fine_tuning", "lora"), documents).level is Level.EXPECTED


def test_results_of_one_kind_of_model_tell_of_no_other() -> None:
    """MaxText's results are of language models: they do not make it train encoders."""
    gh200 = catalogued("nvidia-gh200-96gb")
    published = SupportEvidence(measured=[PublishedResult("maxtext", gh200.family, "16bit", trains=True)])
    for task, level in ((ModelTask.DECODER, Level.DOCUMENTED), (ModelTask.EMBEDDING, Level.REFUSED)):
        assert verdict(gh200, "maxtext", "bf16", Work("training", "full", task), published).level is level


@pytest.mark.parametrize(
    ("work", "words"),
    [
        (Work("inference"), "serving"),
        (Work("training", "full"), "training"),
        (Work("fine_tuning", "full"), "full fine-tuning"),
        (Work("fine_tuning", "lora"), "LoRA fine-tuning"),
    ],
)
def test_ways_in_words(work: Work, words: str) -> None:
    assert work_name(work) == words


def test_refusals_name_the_kind_of_model() -> None:
    assert unsupported_text("", Work("sample_inference", task=ModelTask.RERANKER)) == "No known engine serves rerankers"
    assert unsupported_text("megatron", Work("training", "full")).startswith(
        "Megatron-LM does not support training of text"
    )


def test_a_format_is_documented_only_by_a_statement_about_it() -> None:
    formats = {"fp8": True, "int4-awq": False}
    row = EngineSupport(
        "vllm", "nvidia_hopper", "inference", formats, (), "a page", statements={"fp8": "FP8 x Hopper: yes"}
    )
    hopper, evidence = catalogued("nvidia-h100-sxm5-80gb"), SupportEvidence([row])
    stated, silent = (verdict(hopper, "vllm", name, Work("inference"), evidence) for name in formats)
    assert stated.level is Level.DOCUMENTED and "FP8 x Hopper: yes" in stated.rule
    assert silent.level is Level.EXPECTED and silent.is_supported
    everything = SupportEvidence([replace(row, statements={"*": "all formats"})])
    assert verdict(hopper, "vllm", "int4-awq", Work("inference"), everything).level is Level.DOCUMENTED
    tentative = SupportEvidence([replace(row, tentative=True)])
    assert verdict(hopper, "vllm", "fp8", Work("inference"), tentative).level is Level.EXPECTED
