"""What sets engines apart."""

from __future__ import annotations

from app.catalog.names import engine_slug, fold_name
from app.sizing.hardware.engines import ALIASES, ENGINES, FRONTS, engine_named, engine_rank
from app.sizing.hardware.engines.record import OFFLOADS


def test_engines_divide_a_device_by_their_own_rules() -> None:
    assert engine_named("vllm").memory.fraction == 0.92
    old = engine_named("vllm").memory_at("0.11.2.dev690+g67475a6e8")
    assert (old.fraction, old.logits_copies, old.graphs_inside) == (0.9, 9.6, False)
    assert old.window_holds_step and not engine_named("vllm").memory_at("0.7.3").window_holds_step
    assert engine_named("sglang").memory.fraction_of == "static"
    assert engine_named("tensorrt-llm").memory_at("1.0").fraction_of == "free"


def test_vllms_rule_changed_with_its_releases() -> None:
    vllm = engine_named("vllm")
    rules = {version: vllm.memory_at(version) for version in ("0.6.3", "0.12.0", "0.21.1", "0.22.0", "1.0")}
    assert [r.fraction for r in rules.values()] == [0.9, 0.9, 0.9, 0.92, 0.92]
    assert [r.logits_copies for r in rules.values()] == [9.6, 3.8, 3.8, 3.8, 3.8]
    assert [r.graphs_inside for r in rules.values()] == [False, False, True, True, True]
    assert vllm.memory_at("nightly") == vllm.memory


def test_a_version_identifies_a_generation_before_a_date_does() -> None:
    sglang = engine_named("sglang")
    assert sglang.generation_at("0.4.9") == "before"
    assert sglang.generation_at("0.5.0", "2024-01") == "today"
    assert sglang.generation_at(None, "2025-07") == "before"
    assert sglang.generation_at(None, "2025-08") == "today"
    llama = engine_named("llama.cpp")  # builds without a version
    assert [llama.generation_at("b6077", month) for month in ("2025-07", "2025-09", "")] == ["before", "today", "today"]
    assert engine_named("tgi").generation_at("0.1", "2020-01") == "today"  # no older generation is known


def test_an_engine_without_a_record_is_as_most_are() -> None:
    usual = engine_named("an-engine-of-tomorrow")
    assert usual.runtime == "captured"
    assert usual.memory == engine_named("vllm").memory
    assert usual.framework.shards and not usual.framework.splits
    assert engine_rank(usual.name) > max(map(engine_rank, ENGINES))


def test_frameworks_offload_known_parts() -> None:
    assert {part for engine in ENGINES.values() for part in engine.framework.offloads} == {*OFFLOADS}


def test_names_are_given_once() -> None:
    names = [*ENGINES, *ALIASES]
    assert len(names) == len(set(names)) and not ENGINES.keys() & ALIASES.keys()


def test_aliases_are_written_as_names_fold() -> None:
    assert [alias for alias in ALIASES if fold_name(alias) != alias] == []
    typed = {
        "TensorRT-LLM": "tensorrt-llm",
        "TEI": "text-embeddings-inference",
        "ONNX Runtime": "onnxruntime",
        "faster-whisper": "ctranslate2",
        "LLaMA-Factory": "llama-factory",
        "Megatron-LM": "megatron",
        "Megatron-Bridge": "nemo",
        "PEFT+bitsandbytes": "peft+bitsandbytes",
        "mistralrs": "mistral.rs",
        "LM Studio": "lm-studio",
    }
    assert {name: engine_slug(name) for name in typed} == typed


def test_a_front_is_the_engine_underneath_by_another_name() -> None:
    for front in FRONTS:
        below = engine_named(front.judged_as or "")
        assert below.name in ENGINES and below.judged_as is None, front.name
        assert (front.runtime, front.memory, front.framework) == (below.runtime, below.memory, below.framework)
        assert front.base_engine() == below.name and front.base_engine(adapts=True) in ENGINES
        assert front.generation_at("0.1") == "today"  # its versions are its own
    # Published results name the engine underneath, but where a front has a recipe of its own.
    assert [front.name for front in FRONTS if front.published_as] == ["megatron-deepspeed"]


def test_adapters_are_trained_by_peft_where_a_front_says_so() -> None:
    trl = engine_named("trl")
    assert (trl.base_engine(), trl.base_engine(adapts=True)) == ("fsdp", "peft+bitsandbytes")
    assert engine_named("primus").base_engine(adapts=True) == "megatron"
    assert engine_named("vllm").base_engine(adapts=True) == "vllm"
