"""What caches take of a device, worked by hand. Memory of a serving device, worked by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from app.sizing.assumptions import Assumptions
from app.sizing.columns import GIB, MIB, Column
from app.sizing.hardware.engines import LATENT_COPIES
from app.sizing.hardware.support.records import EngineSupport
from app.sizing.model.architecture import ModelKind
from app.sizing.model.formats import WEIGHT_FORMATS
from app.sizing.question import Deployment
from app.sizing.serving.interfaces import Settings
from app.sizing.serving.kv_cache import (
    Prefixes,
    cache_bytes,
    idle_session_prefixes,
    latent_padding_factor,
    length_biased_output_tokens,
    longest_sequence_bytes,
    mean_cache_bytes,
    sequence_cache_bytes,
)
from app.sizing.serving.memory import (
    ServingMemory,
    activation_bytes,
    device_weights_bytes,
    expert_workspace_bytes,
    fraction_after_reserve,
    image_workspace_bytes,
    index_workspace_bytes,
    latent_copy_bytes,
    mxfp4_padding_share,
    overhead_bytes,
    serving_memory,
    weights_bytes_per_accelerator,
)
from app.sizing.serving.plans import Plans, host_prefixes
from app.sizing.workload import InferenceWorkload, Lengths, Load
from tests.examples import LLAMA_8B, LLAMA_70B, col, registered
from tests.sizing.serving.given import DENSE, MIXTURE, on_big, planned, varied
from tests.sizing.small import ACCELERATORS, BIG, SUPPORT, snapshot

TOKEN = 4 * 2 * 4 * 128 * 2  # bytes of cache: keys and values of four heads in four layers
CHAT_TURN = varied(input_tokens=Lengths(1000.0), cached_prefix_fraction=0.75, turn_gap_s=60.0)


def kept(workload: InferenceWorkload, **layout: Any) -> Prefixes:
    found = idle_session_prefixes(workload, on_big(workload.model, **layout))
    assert found is not None
    return found


def test_a_sequence_at_its_end_in_the_mean_and_at_its_longest() -> None:
    final, held = sequence_cache_bytes(DENSE, on_big(), 1000.0, 400.0, 0.0)
    longest = longest_sequence_bytes(DENSE, 4000.0, col(8192), on_big())
    assert (final[0], held[0], longest[0]) == (1000 * TOKEN, 800 * TOKEN, 4000 * TOKEN)
    # of outputs that vary by a half what runs is the longer ones: 600 + 400 * 1.25 / 2
    assert sequence_cache_bytes(DENSE, on_big(), 1000.0, 400.0, 0.25)[1][0] == 850 * TOKEN


def test_a_window_holds_the_tokens_of_a_step_as_well() -> None:
    windows = replace(DENSE, attention=tuple(replace(group, window_tokens=1000.0) for group in DENSE.attention))
    plan, step = on_big(windows), col(2048)
    assert plan.memory_rules.window_holds_step.all()
    assert longest_sequence_bytes(windows, 8000.0, step, plan)[0] == (1000 + 2047) * TOKEN
    assert longest_sequence_bytes(windows, 2000.0, step, plan)[0] == 2000 * TOKEN  # no more than the context
    assert longest_sequence_bytes(windows, 800.0, step, plan)[0] == 800 * TOKEN
    compressed = replace(windows, step_state_bytes=100.0)  # the states of every token of a step are held, too
    assert longest_sequence_bytes(compressed, 8000.0, step, plan)[0] == (1000 + 2047) * TOKEN + 2047 * 100


def test_an_engine_that_reserves_the_output_holds_it() -> None:
    assert length_biased_output_tokens(400.0, 0.25) == 500
    assert mean_cache_bytes(col(800), col(1000), col(0.0, 0.5, 1.0)).tolist() == [800, 900, 1000]


def test_an_idle_session_keeps_what_the_next_turn_begins_with() -> None:
    found = kept(CHAT_TURN)
    assert (found.own_bytes[0], found.shared_bytes[0], found.turn_gap_s) == (750 * TOKEN, 0, 60)
    assert kept(CHAT_TURN, tensor_parallel=2).own_bytes[0] == 750 * TOKEN / 2


def test_what_all_share_is_nobodys_own() -> None:
    found = kept(replace(CHAT_TURN, shared_prefix_fraction=0.5))
    assert (found.own_bytes[0], found.shared_bytes[0]) == (250 * TOKEN, 500 * TOKEN)
    whole = kept(replace(CHAT_TURN, shared_prefix_fraction=0.75))
    assert (whole.own_bytes[0], whole.shared_bytes[0]) == (0, 750 * TOKEN)


def test_windows_bound_a_prefix_and_a_state_is_kept_once_for_each_session() -> None:
    windows = replace(DENSE, attention=tuple(replace(g, window_tokens=100.0) for g in DENSE.attention))
    assert kept(replace(CHAT_TURN, model=windows)).own_bytes[0] == 100 * TOKEN
    states = replace(DENSE, state_bytes_per_sequence=8e6)
    shared = kept(replace(CHAT_TURN, model=states, shared_prefix_fraction=0.5))
    assert shared.own_bytes[0] == pytest.approx(250 * TOKEN + 8e6)
    assert shared.shared_bytes[0] == pytest.approx(500 * TOKEN + 8e6)
    # of a session that adds nothing of its own, not even a state
    assert kept(replace(CHAT_TURN, model=states, shared_prefix_fraction=0.75)).own_bytes[0] == 0
    assert cache_bytes(states, 0.0, on_big(states))[0] == 8e6


@pytest.mark.parametrize(
    "changed",
    [
        {"cached_prefix_fraction": 0.0},
        {"turn_gap_s": 0.0},
        {"load": Load.OFFLINE},
        {"load": Load.BATCH},
        {"model": replace(DENSE, kind=ModelKind.ENCODER)},
    ],
)
def test_nothing_waits_where_there_is_no_next_turn(changed: dict[str, Any]) -> None:
    assert idle_session_prefixes(replace(CHAT_TURN, **changed), on_big()) is None


def test_a_closed_loop_has_turns_too() -> None:
    assert kept(replace(CHAT_TURN, load=Load.CLOSED, in_flight=4.0)).own_bytes[0] == 750 * TOKEN


ASSUMED = Assumptions()


def test_weights_are_split_evenly() -> None:
    total = col(LLAMA_70B.weights_bytes(WEIGHT_FORMATS["bf16"]))
    # 131.417 GiB / 8 * 1.002
    whole = weights_bytes_per_accelerator(total, col(0), 0.0, 0.0, col(8), col(8), col(1), ASSUMED)[0]
    assert whole / GIB == pytest.approx(16.460, abs=1e-3)
    # experts of a tenth more
    padded = weights_bytes_per_accelerator(col(100), col(60), 0.1, 0.0, col(2), col(2), col(1), ASSUMED)[0]
    assert padded == pytest.approx((100 + 6) / 2 * 1.002)
    # two data-parallel ranks: each has the 40 that are no experts, and half of the 60
    wide = weights_bytes_per_accelerator(col(100), col(60), 0.0, 10.0, col(2), col(1), col(2), ASSUMED)[0]
    assert wide == pytest.approx((40 + 30) * 1.002)
    # each of two tensor-parallel ranks has the 10 that are not split, and half of the other 90
    copied = weights_bytes_per_accelerator(col(100), col(60), 0.0, 10.0, col(2), col(2), col(1), ASSUMED)[0]
    assert copied == pytest.approx((10 + 45) * 1.002)


def test_down_projections_of_latent_attention_and_routers_are_on_every_tensor_parallel_rank() -> None:
    """DeepSeek-R1 in FP8 on eight ranks: an even split, and seven eighths of what every rank has a copy of."""
    model = registered("deepseek-ai/DeepSeek-R1")
    unsplit = model.unsplit_bytes(WEIGHT_FORMATS["fp8"])
    plans = on_big(model, weight_format="fp8", tensor_parallel=8)
    even = plans.weights_bytes[0] / 8 * 1.002
    assert device_weights_bytes(model, plans, ASSUMED)[0] - even == pytest.approx(unsplit * 7 / 8 * 1.002)
    assert LLAMA_70B.unsplit_bytes(WEIGHT_FORMATS["bf16"]) == 0


def activations(
    model: Any,
    tokens: Column,
    sequences: Column,
    copies: Column,
    tensor_parallel: Column,
    pipeline_parallel: Column,
    *buffers: float,
    keeps: bool = False,
) -> Column:
    """Activations with the buffers of experts, indexer, images and their embeddings, which are 0 unless given."""
    experts, index, images, embeddings = (*map(col, buffers), *[col(0.0)] * 4)[:4]
    return activation_bytes(
        model,
        tokens,
        sequences,
        copies,
        experts,
        index,
        images,
        embeddings,
        np.array([keeps]),
        tensor_parallel,
        pipeline_parallel,
        ASSUMED,
    )


def test_activation_workspace() -> None:
    live = activations(LLAMA_8B, col(8192), col(64), col(3.8), col(1), col(1))[0] / GIB
    # 1.2 * (8192 * 6 * 14336 + 4 * 8192 * 4096) bytes: more than the logits of 64 sequences
    assert live == pytest.approx(1.2 * (704_643_072 + 134_217_728) / GIB)
    sampled = activations(LLAMA_8B, col(8192), col(1024), col(3.8), col(1), col(1))[0] / GIB
    # 3.8 * 1024 * 128256 * 4 bytes; vLLM 0.19 on an H100 reports 1.89 GiB
    assert sampled == pytest.approx(1.859, abs=1e-3)


def test_live_tensors_are_split_over_ranks_and_the_ends_of_a_pipeline_lie_apart() -> None:
    # the wider of 6 * 4096 and 2 * (2 * 8 + 2 * 4) heads * 128; hidden states stay whole
    one = 1.2 * (1000 * 6 * 4096 / 4 + 4 * 1000 * 1024)
    split = activations(DENSE, col(1000, 1000), col(1, 1), col(1, 1), col(4, 4), col(1, 2))
    assert split.tolist() == pytest.approx([one, one / 2])
    # attention of a mixture is wider than the rest of its layer without experts
    found = activations(MIXTURE, col(1000), col(1), col(1), col(2), col(1))[0]
    assert found == pytest.approx(1.2 * (1000 * 2 * 24 * 128 / 2 + 4 * 1000 * 1024))


def test_buffers_of_experts_outlast_a_step_where_the_engine_keeps_them() -> None:
    step = 1.2 * (1000 * 6 * 4096 + 4 * 1000 * 1024)
    one = DENSE, col(1000), col(1000), col(1), col(1), col(1)
    logits = 1000 * 32000 * 4
    assert activations(*one)[0] == logits > step
    # within a step they add to its live tensors, which stay below the logits
    assert activations(*one, 50e6, 90e6)[0] == pytest.approx(max(step + 90e6, logits))
    assert activations(*one, 50e6, 90e6, keeps=True)[0] == pytest.approx(logits + 90e6)
    # the tower reads its images before the step, which holds their embeddings
    assert activations(*one, 0.0, 0.0, 4e9, 1e6)[0] == 4e9
    assert activations(*one, 0.0, 0.0, 4e6, 1e6)[0] == pytest.approx(logits + 1e6)


def test_workspaces_of_real_models() -> None:
    """GLM-5.2 on four B200 with vLLM 0.26 logs 6.31 GiB of activations, Qwen2.5-VL-7B on an A100 with 0.21 15.3."""
    glm, lite = registered("zai-org/GLM-5.2"), registered("deepseek-ai/DeepSeek-V2-Lite")
    gathered = index_workspace_bytes(glm, 819_200, col(40))[0]
    experts = expert_workspace_bytes(glm, col(8192), col(16384), col(4))[0]
    assert gathered / GIB == pytest.approx(4.03, abs=0.01)
    assert experts / GIB == pytest.approx(8192 * 8 * 2 * (6144 + 512) / GIB)
    found = activations(glm, col(8192), col(1024), col(3.8), col(4), col(1), experts, gathered, keeps=True)[0]
    assert found / GIB == pytest.approx(6.31, rel=0.02)
    whole = expert_workspace_bytes(lite, col(65536), col(32768), col(1))[0]
    assert whole == 32768 * 6 * 2 * (2 * 1408 + 1408)  # at most a chunk
    eyes = registered("Qwen/Qwen2.5-VL-7B-Instruct")
    assert eyes.images is not None
    tokens, patches = eyes.images.largest_item(128_000)
    assert (tokens, patches) == (114_688, 458_752)
    assert image_workspace_bytes(eyes, patches, col(1), col(12 * 1280))[0] / GIB == pytest.approx(15.3, rel=0.06)
    assert eyes.images.largest_item(32_000)[0] == eyes.images.largest_item(100)[0] == 16_384
    assert registered("llava-hf/llava-1.5-7b-hf").images.largest_item(4096) == (576, 576)  # type: ignore[union-attr]


def test_latent_attention_keeps_what_it_decodes_with() -> None:
    lite = registered("deepseek-ai/DeepSeek-V2-Lite")
    rules = np.array([LATENT_COPIES.index(rule) for rule in ("none", "quantized", "quantized", "always", "products")])
    narrow = np.array([True, True, False, False, False])
    ones = np.ones(5)
    found = latent_copy_bytes(lite, rules, narrow, 2.0 * ones, 2.0 * ones, ones)
    up = 27 * 512 * 4096 * 2 / 2
    products = 27 * 16 * (576 * 2048 + 512 * 2048) * 2 / 2
    assert found.tolist() == [0, up, 0, up, products]
    assert LLAMA_8B.latent_up_elements == LLAMA_8B.latent_product_elements == 0
    assert latent_padding_factor(576.0, col(2, 1, 2), col(256, 256, 0)).tolist() == [1280 / 1152, 768 / 576, 1.0]


def test_padding_of_mxfp4_experts() -> None:
    """Loads of gpt-oss-20b: 13.72 GiB on RTX 4090, 14.31 on R9700, 7.46 on each of two, 13.02 on H100 today."""
    experts, rest = 9.456, 3.361  # GiB as stored
    marlin, rocm, rocm_2, hopper = mxfp4_padding_share(
        2880, col(256, 256, 256, 1), 2880, col(128, 256, 256, 64), col(1, 1, 2, 1)
    )
    assert experts * (1 + marlin) + rest == pytest.approx(13.72, rel=0.01)
    assert experts * (1 + rocm) + rest == pytest.approx(14.31, rel=0.02)
    assert (experts * (1 + rocm_2) + rest) / 2 == pytest.approx(7.46, rel=0.06)
    assert experts * (1 + hopper) + rest == pytest.approx(13.02, rel=0.02)
    assert mxfp4_padding_share(4096, col(256), 2048, col(128), col(4)).tolist() == [0]


def memory(plans: Plans, *, model: Any = DENSE, assumed: Assumptions = ASSUMED, **settings: Column) -> ServingMemory:
    """Of sequences of 1000 tokens in the end, 400 of them output, of at most 4000."""
    return serving_memory(
        model,
        plans,
        assumed,
        final_tokens=1000.0,
        output_tokens=400.0,
        longest_tokens=4000.0,
        settings=Settings(**settings),
    )


# The small model on one device of 80 GiB: a step of 8192 tokens and 1024 sequences.
WEIGHTS = (DENSE.total_params * 2) * 1.002


def workspace(sequences: float = 1024, tokens: float = 8192, *, logits_copies: float = 3.8) -> float:
    return max(1.2 * (tokens * 6 * 4096 + 4 * tokens * 1024), logits_copies * sequences * 32000 * 4)


def test_the_cache_gets_what_weights_workspace_and_runtime_leave() -> None:
    found = memory(on_big())
    capacity = 80 * GIB * 0.994
    overhead = 1.25 * GIB  # runtime and graphs
    fixed = WEIGHTS + workspace() + overhead
    assert found.capacity_bytes[0] == pytest.approx(capacity)
    assert found.weights_bytes[0] == pytest.approx(WEIGHTS)
    assert found.activation_bytes[0] == pytest.approx(workspace())
    assert found.overhead_bytes[0] == pytest.approx(overhead)
    assert (found.memory_fraction[0], found.max_sequences[0], found.max_batched_tokens[0]) == (0.92, 1024, 8192)
    assert found.usable_bytes[0] == pytest.approx(0.92 * capacity)
    assert found.kv_pool_bytes[0] == pytest.approx(0.92 * capacity - fixed)
    assert found.needed_bytes[0] == pytest.approx(fixed + 4000 * TOKEN)
    assert found.cache_bytes_per_sequence[0] == pytest.approx(1000 * TOKEN)
    assert found.longest_sequence_bytes[0] == pytest.approx(4000 * TOKEN)
    # in the mean a sequence holds its prompt and half its output; what fits is more than the engine runs
    assert (0.92 * capacity - fixed) / (800 * TOKEN) > 1024
    assert found.sequences.tolist() == [1024]
    few = memory(on_big(), assumed=Assumptions(runtime_overhead_gib=4.0), memory_fraction=col(0.10))
    pool = 0.10 * capacity - WEIGHTS - workspace() - 5 * GIB
    assert few.sequences.tolist() == [np.floor(pool / (800 * TOKEN))]
    assert memory(on_big(), memory_fraction=col(0.01)).sequences.tolist() == [1]
    assert memory(on_big(), memory_fraction=col(0.01)).kv_pool_bytes.tolist() == [0]


def test_a_replica_of_several_devices_splits_weights_and_cache_and_adds_buffers() -> None:
    found = memory(on_big(tensor_parallel=2, pipeline_parallel=2))
    assert found.weights_bytes[0] == pytest.approx(WEIGHTS / 4)
    assert found.overhead_bytes[0] == pytest.approx(2.25 * GIB)
    assert found.cache_bytes_per_sequence[0] == pytest.approx(1000 * TOKEN / 4)
    wide = memory(on_big(tensor_parallel=8))
    assert wide.cache_bytes_per_sequence[0] == pytest.approx(1000 * TOKEN / 4)  # four heads: copied beyond
    assert memory(on_big(pipeline_parallel=2)).overhead_bytes[0] == pytest.approx(1.25 * GIB)
    states = replace(DENSE, state_bytes_per_sequence=8e6)
    held = memory(on_big(tensor_parallel=2, pipeline_parallel=2), model=states)
    assert held.cache_bytes_per_sequence[0] == pytest.approx((1000 * TOKEN + 8e6) / 4)


def test_what_a_caller_sets_of_the_engine_is_taken() -> None:
    found = memory(on_big(), max_sequences=col(16), max_batched_tokens=col(2048), memory_fraction=col(0.5))
    assert (found.max_sequences[0], found.max_batched_tokens[0], found.memory_fraction[0]) == (16, 2048, 0.5)
    assert found.sequences.tolist() == [16]
    assert found.activation_bytes[0] == pytest.approx(workspace(16, 2048))
    assert found.usable_bytes[0] == pytest.approx(0.5 * 80 * GIB * 0.994)


def engine(name: str, **fixed: Any) -> Plans:
    """The small model on the large board under another engine."""
    of = snapshot(support=[*SUPPORT, EngineSupport(name, BIG.family, "inference", {"bf16": True}, ("bf16",), "a test")])
    layout: dict[str, Any] = {"tensor_parallel": 1, "engine": name, "weight_format": "bf16"} | fixed
    found = planned(of=of, fixed=Deployment(BIG.slug, system="big-8", provider="sky", **layout))
    return found.take(np.array([0]))


def test_a_default_share_is_what_a_reserve_for_steps_leaves() -> None:
    """SGLang's mem_fraction_static: 0.847 on a 4090 of 24,564 MiB, 0.836 on 80 GiB; 10 GiB of large devices."""
    small, h100 = 24_564 * MIB, 80 * GIB
    found = fraction_after_reserve(
        col(small, h100, h100, 300 * GIB), col(2048, 8192, 8192, 2048), col(24, 256, 512, 512), col(1, 1, 8, 1)
    )
    many = round(1 - (512 + 12288 + 1024 + 1024) / 81_920, 3)
    assert found.round(3).tolist() == [0.847, 0.836, many, round(1 - 10 / 300, 3)]
    assert memory(engine("sglang", engine_version="0.4.6")).memory_fraction[0] == 0.88


def test_each_engine_takes_its_own_share() -> None:
    capacity = 80 * GIB * 0.994
    # SGLang: weights and cache share a fraction of what the runtime leaves, the workspace and graphs lie in the rest
    static = memory(engine("sglang"))
    reserve = (512 + 1.5 * 8192 + 128 + 2 * 256) * MIB
    fraction = 1 - reserve / capacity
    assert static.memory_fraction[0] == pytest.approx(fraction)
    shared = fraction * (capacity - 0.25 * GIB)
    assert static.usable_bytes[0] == pytest.approx(shared + workspace() + 0.25 * GIB)
    assert static.kv_pool_bytes[0] == pytest.approx(shared - WEIGHTS)
    full = memory(engine("sglang"), memory_fraction=col(0.999))
    assert full.usable_bytes[0] == pytest.approx(capacity)  # never more than there is
    # TensorRT-LLM: a fraction of what loading left, a whole request's room, 2048 at once
    free = memory(engine("tensorrt-llm"))
    fixed = WEIGHTS + workspace(2048, logits_copies=1.0) + 1.25 * GIB
    assert free.usable_bytes[0] == pytest.approx(fixed + 0.9 * (capacity - fixed))
    assert free.max_sequences.tolist() == [2048]
    tight = memory(engine("tensorrt-llm"), memory_fraction=col(0.05))
    assert tight.sequences.tolist() == [np.floor(0.05 * (capacity - fixed) / (1000 * TOKEN))]


def test_small_devices_take_smaller_steps_and_llama_cpp_its_own() -> None:
    card = Deployment(
        "acme-card", system="card-1", provider="sky", tensor_parallel=1, engine="vllm", weight_format="bf16"
    )
    small = memory(planned(fixed=card).take(np.array([0])))
    capacity = 24 * GIB * 0.994
    assert (small.max_sequences[0], small.max_batched_tokens[0]) == (256, 2048)
    assert small.overhead_bytes[0] == pytest.approx(1.25 * GIB)
    assert small.usable_bytes[0] == pytest.approx(0.92 * capacity)
    desk = Deployment("bolt-desk", tensor_parallel=1, engine="llama.cpp", weight_format="gguf-q4_k_m")
    found = memory(planned(fixed=desk))
    assert found.capacity_bytes[0] == pytest.approx(48 * GIB * 0.98)  # the label: no driver's reading
    assert (found.max_sequences[0], found.max_batched_tokens[0], found.memory_fraction[0]) == (16, 512, 0.98)
    assert found.overhead_bytes[0] == pytest.approx(0.6 * GIB)


def test_a_tiny_device_is_served_by_a_runtime_cut_to_it() -> None:
    tiny = replace(BIG, memory_bytes=4 * GIB)
    of = snapshot(accelerators=[tiny, *ACCELERATORS[1:]])
    plans = planned(
        of=of, fixed=Deployment(BIG.slug, provider="sky", tensor_parallel=1, engine="vllm", weight_format="bf16")
    )
    assert memory(plans.take(np.array([0]))).overhead_bytes[0] == pytest.approx(0.12 * 4 * GIB * 0.994)


def test_shared_memory_leaves_the_system_its_part() -> None:
    shared = replace(BIG, memory_is_shared=True)
    of = snapshot(accelerators=[shared, *ACCELERATORS[1:]])
    plans = planned(
        of=of, fixed=Deployment(BIG.slug, provider="sky", tensor_parallel=1, engine="vllm", weight_format="bf16")
    )
    assert memory(plans.take(np.array([0]))).memory_fraction.tolist() == [0.75]


def test_experts_in_mxfp4_are_padded_when_they_are_loaded() -> None:
    """Rows of 1024 need no padding; a hidden size of 960 does, to 1024."""
    support = EngineSupport("sglang", BIG.family, "inference", {"mxfp4": True}, ("bf16",), "a test")
    plans = planned(
        MIXTURE,
        of=snapshot(support=[support]),
        fixed=Deployment(BIG.slug, provider="sky", tensor_parallel=1, engine="sglang", weight_format="mxfp4"),
    )
    narrow = replace(MIXTURE, hidden_size=960)
    stored, experts = plans.weights_bytes[0], plans.expert_bytes[0]
    assert experts > 0
    assert memory(plans, model=MIXTURE).weights_bytes[0] == pytest.approx(stored * 1.002)
    assert memory(plans, model=narrow).weights_bytes[0] == pytest.approx((stored + experts * 64 / 960) * 1.002)


def test_buffers_are_those_of_several_devices_under_an_engine_that_is_not_small() -> None:
    """In GiB: 0.6 of a small runtime; 0.25 of another, 1 of graphs inside its share, 1 of buffers between devices."""
    small, graphs = np.array([True, True, False, False, False]), np.array([True, True, True, True, False])
    linked = np.full(5, True)
    found = overhead_bytes(small, graphs, col(1, 8, 1, 8, 8), linked, np.full(5, 80 * GIB), ASSUMED)
    assert (found / GIB).tolist() == pytest.approx([0.6, 0.6, 1.25, 2.25, 1.25])
    # devices without a scale-up link have smaller buffers
    found = overhead_bytes(small, graphs, col(1, 8, 1, 8, 8), ~linked, np.full(5, 80 * GIB), ASSUMED)
    assert (found / GIB).tolist() == pytest.approx([0.6, 0.6, 1.25, 1.45, 0.45])
    # of a device of 4 GiB no more than the largest share
    least = overhead_bytes(small, graphs, col(1, 8, 1, 8, 8), linked, np.full(5, 4 * GIB), ASSUMED)
    assert (least / GIB).tolist() == pytest.approx([4 * 0.12] * 5)


@pytest.mark.parametrize("share", [0.5, 0.92])
def test_a_margin_of_memory_is_a_share_of_the_device_whatever_its_engine_takes(share: float) -> None:
    """5 % of the visible part of 80 GiB is occupied before the first token, and the cache has as much less."""

    def reserved(unforeseen: float) -> ServingMemory:
        return serving_memory(
            DENSE,
            on_big(),
            ASSUMED,
            final_tokens=1000.0,
            longest_tokens=4000.0,
            settings=Settings(memory_fraction=col(share)),
            unforeseen_share=col(unforeseen),
        )

    margin = 0.05 * 80 * GIB * 0.994
    none, some = reserved(0.0), reserved(0.05)
    assert some.needed_bytes[0] - none.needed_bytes[0] == pytest.approx(margin)
    assert none.kv_pool_bytes[0] - some.kv_pool_bytes[0] == pytest.approx(margin)
    assert some.usable_bytes[0] == none.usable_bytes[0]


def test_prefixes_fit_in_host_memory_where_running_sequences_fit_on_the_device() -> None:
    plans = on_big()
    with_host = replace(plans, host_prefixes=host_prefixes(plans, Assumptions()))
    prefixes = idle_session_prefixes(CHAT_TURN, with_host)
    assert prefixes is not None and prefixes.host is not None
    room, load_s = prefixes.host.room_bytes[0], prefixes.host.load_s[0]
    assert room == pytest.approx(0.8 * 2e12 / 8)  # the machine has 2 TB for eight accelerators
    assert load_s == pytest.approx(prefixes.own_bytes[0] / (0.7 * BIG.slot_bytes_per_s))

    def fit(running: float, waiting: float, rate_per_s: float = 1.0) -> bool:
        return bool(prefixes.fit(col(rate_per_s), col(running), col(waiting), col(1e11))[0])

    assert fit(0.9e11, room) and not fit(0.9e11, 1.01 * room)
    assert not fit(1.1e11, room)  # running sequences need their whole cache on the device
    assert not fit(0.9e11, room, rate_per_s=1.01 / load_s)  # the slot sends one prefix after another
    none = replace(prefixes, host=None)
    assert not none.fit(col(1.0), col(0.9e11), col(0.2e11), col(1e11))[0]
