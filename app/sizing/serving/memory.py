"""Device memory of a serving replica, part by part. Plans that do not fit are rejected by it."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from app.sizing.assumptions import Assumptions
from app.sizing.columns import GIB, MIB, Codes, Column, Mask
from app.sizing.formula import formula, trace_label
from app.sizing.hardware.engines import LATENT_COPIES, RULES
from app.sizing.hardware.tables import FORMATS, HOPPER_WIDTH_MULTIPLE, step_sizes
from app.sizing.model.architecture import ModelArchitecture
from app.sizing.model.counts import LOGIT_BYTES
from app.sizing.model.formats import WEIGHT_FORMATS
from app.sizing.serving.host_weights import HostMemory, HostOffload, host_sequences, remaining_on_accelerators
from app.sizing.serving.interfaces import Memory, Settings
from app.sizing.serving.kv_cache import Prefixes, longest_sequence_bytes, sequence_cache_bytes
from app.sizing.serving.layouts import fills_pipeline
from app.sizing.serving.plans import Plans

MXFP4_ROW_BLOCK = 256  # rows of MXFP4 experts are padded to a multiple of this many elements
# Sequences of the largest graph that SGLang captures on devices below a size (GiB): up to three ranks, and more ranks.
CAPTURED_SEQUENCES = ((20, 8, 8), (35, 24, 80), (60, 32, 160), (160, 256, 512))
STATIC_RULE, FREE_RULE = tuple(RULES).index("static"), tuple(RULES).index("free")
COPIED_IF_QUANTIZED, COPIED, PRODUCTS = (LATENT_COPIES.index(rule) for rule in ("quantized", "always", "products"))


@dataclass(frozen=True, slots=True)
class ServingMemory(Memory):
    """Memory of token-generating work: the KV cache gets what weights, workspace and overhead leave."""

    kv_pool_bytes: Column  # memory for KV blocks on one device, B
    cache_bytes_per_sequence: Column  # cache at the mean final length, per device, B
    held_bytes_per_sequence: Column  # mean cache while the sequence runs, per device, B
    longest_sequence_bytes: Column  # cache reserved for the longest context, per device, B
    max_sequences: Column  # the engine's own limit (max_num_seqs)
    max_batched_tokens: Column  # token budget of one engine step (max_num_batched_tokens)
    prefixes: Prefixes | None = None  # cached prefixes of idle sessions, if cache hits on them are counted
    host: HostMemory | None = None  # host memory, if part of the weights is there

    @property
    def fits(self) -> Mask:
        fits: Mask = self.needed_bytes <= self.usable_bytes
        return fits if self.host is None else fits & self.host.fits

    @property
    def memory_shortfall(self) -> Column:
        short = self.needed_bytes / np.maximum(self.usable_bytes, 1.0)
        if self.host is not None:
            short = np.maximum(short, self.host.needed_bytes / np.maximum(self.host.room_bytes, 1.0))
        return np.where(self.fits, 0.0, short)


@formula(unit="B", source="start-up logs of vLLM; memory that drivers report")
def capacity_bytes(memory_bytes: Column, memory_is_reported: Mask, assumed: Assumptions) -> Column:
    """Memory of a device that an engine can see: slightly less than the driver reports, and less than the nominal size.

    Parameters:
        memory_bytes: device memory in the catalog, B.
        memory_is_reported: whether that number is a driver's reading rather than the nominal size.
        assumed: assumptions: `visible_memory_fraction`, `unreported_memory_fraction`.
    Limits: other processes on the device are not counted.
    Check: 80 GB of nominal size, of which 0.93 are visible.
        >>> shares = row(visible_memory_fraction=0.99, unreported_memory_fraction=0.93)
        >>> round(float(capacity_bytes(80e9, False, shares)) / 1e9, 3)
        74.4
    """
    return memory_bytes * np.where(
        memory_is_reported, assumed.visible_memory_fraction, assumed.unreported_memory_fraction
    )


@formula(
    unit="1",
    source="vLLM 0.33: fused_moe/oracle/mxfp4.py, mxfp4_round_up_hidden_size_and_intermediate_size; logs of gpt-oss",
)
def mxfp4_padding_share(
    hidden_size: float, row_multiple: Column, expert_width: float, width_multiple: Column, expert_shards: Column
) -> Column:
    """Share by which MXFP4 expert weights grow when they are loaded, because kernels take whole tiles.

    Parameters:
        hidden_size: hidden size of the model, which is the row length.
        row_multiple: multiple to which rows are padded.
        expert_width: MLP width of one routed expert.
        width_multiple: multiple to which a rank's part of that width is padded.
        expert_shards: ranks that split every expert.
    Limits: ranks that hold whole experts (expert parallelism within a replica) need less than tensor parallel ones.
    Check: gpt-oss on an H100 (2,880 to 3,072), on an RTX 4090 (2,944 wide) and on two R9700 (1,440 to 1,536).
        >>> mxfp4_padding_share(2880, col(256), 2880, col(64, 128, 256), col(1, 1, 2)).round(4).tolist()
        [0.0667, 0.0904, 0.1378]
    """
    rows = np.ceil(hidden_size / row_multiple) * row_multiple / hidden_size
    width = expert_width / expert_shards
    return rows * np.ceil(width / width_multiple) * width_multiple / width - 1


@formula(unit="B", source="counted from the model configuration; start-up logs of vLLM for the load overhead")
def weights_bytes_per_accelerator(
    weights_bytes: Column,
    expert_bytes: Column,
    padding_share: Column | float,
    unsplit_bytes: Column | float,
    accelerators_per_replica: Column,
    tensor_parallel: Column,
    data_parallel: Column,
    assumed: Assumptions,
) -> Column:
    """Weights of one device, split evenly over the replica. Each data-parallel rank keeps a copy of everything but the
    routed experts, and each of its tensor-parallel ranks a copy of the matrices that are not split.

    Parameters:
        weights_bytes: weights of the model and of a draft on the accelerators, B.
        expert_bytes: routed experts among them, B.
        padding_share: share by which the experts grow when loaded.
        unsplit_bytes: matrices among the weights that tensor-parallel ranks do not split, B.
        accelerators_per_replica: accelerators of a replica.
        tensor_parallel: tensor-parallel ranks.
        data_parallel: data-parallel attention ranks of the replica.
        assumed: assumptions: `weights_load_overhead`.
    Limits: if layers cannot be split evenly, one device holds more.
    Check:
        >>> 131.417 / 8 * 1.002  # Llama-3.1-70B in BF16 over 8 devices, GiB
        16.45997925
    """
    copied = (data_parallel - 1) * (weights_bytes - expert_bytes)
    copied = copied + data_parallel * (tensor_parallel - 1) * unsplit_bytes
    split: Column = (weights_bytes + expert_bytes * padding_share + copied) / accelerators_per_replica
    return split * assumed.weights_load_overhead


@formula(
    unit="B",
    source="vLLM: v1/attention/backends/mla/common.py and (0.7) attention/backends/mla/utils.py, "
    "process_weights_after_loading; SGLang: models/deepseek_v2.py, post_load_weights; 2026-11-26",
)
def latent_copy_bytes(
    model: ModelArchitecture,
    copies: Codes,
    quantized: Mask,
    product_element_bytes: Column,
    tensor_parallel: Column,
    pipeline_parallel: Column,
) -> Column:
    """Matrices of latent attention (MLA) that an engine keeps in addition to the checkpoint, on one device.

    Decoding in the latent space needs the up-projection of keys and values by head, in 16 bit: SGLang and TensorRT-LLM
    copy it, vLLM only if the stored one is quantized. vLLM 0.7 multiplied it with the projections of queries and
    outputs and kept the products.

    Parameters:
        model: model architecture.
        copies: index of the engine's rule in `LATENT_COPIES`.
        quantized: whether the up-projection is stored in fewer than 16 bit.
        product_element_bytes: bytes of an element of the products.
        tensor_parallel: tensor-parallel ranks.
        pipeline_parallel: pipeline stages.
    Limits: none for other attention.
    Check: DeepSeek-V2-Lite with vLLM 0.7, GiB: 27 layers of (512 + 64) x 16 x 2,048 and 512 x 16 x 2,048.
        >>> lite = registered("deepseek-ai/DeepSeek-V2-Lite")
        >>> rule = np.array([LATENT_COPIES.index("products")])
        >>> round(float(latent_copy_bytes(lite, rule, np.array([True]), 2, 1, 1)[0]) / GIB, 2)
        1.79
    """
    copied = (copies == COPIED) | ((copies == COPIED_IF_QUANTIZED) & quantized)
    up = np.where(copied, 2.0 * model.latent_up_elements, 0.0)
    products = np.where(copies == PRODUCTS, product_element_bytes * model.latent_product_elements, 0.0)
    return (up + products) / (tensor_parallel * pipeline_parallel)


@formula(
    unit="B",
    source="vLLM: fused_moe/fused_marlin_moe.py (fused_marlin_moe), fused_moe/fused_moe.py (fused_experts_impl); "
    "SGLang: moe/fused_moe_triton/fused_moe.py; 2026-11-26",
)
def expert_workspace_bytes(
    model: ModelArchitecture, max_batched_tokens: Column, chunk_tokens: Column, expert_ranks: Column
) -> Column:
    """Buffers of the fused expert kernels: one for gate and up, reused for the output of every expert, and one for
    their product.

    Parameters:
        model: model architecture.
        max_batched_tokens: token budget of one engine step.
        chunk_tokens: most tokens that the kernels take at once (`VLLM_FUSED_MOE_CHUNK_SIZE`).
        expert_ranks: ranks that share the width of an expert; 1 where each rank has whole experts.
    Limits: a balanced routing; kernels that pad the rows of an expert (DeepGEMM) or keep buffers of their own
        (FlashInfer, Triton kernels of gpt-oss) differ.
    Check: Qwen3-30B-A3B, 8,192 tokens to 8 of its experts, each 768 wide.
        >>> sizes = row(experts_per_token=8, expert_width=768.0, hidden_size=2048)
        >>> float(expert_workspace_bytes(sizes, 8192, 32768, 1)) / 2**20
        352.0
    """
    rows = np.minimum(max_batched_tokens, chunk_tokens) * model.experts_per_token
    width = model.expert_width / expert_ranks
    return 2.0 * rows * (np.maximum(2 * width, model.hidden_size) + width)


@formula(unit="B", source="vLLM: v1/attention/backends/mla/indexer.py, get_max_prefill_buffer_size, 2026-11-26")
def index_workspace_bytes(model: ModelArchitecture, longest_tokens: float, gathered_contexts: Column) -> Column:
    """Buffer in which a prefill of sparse attention gathers the indexer's keys.

    An element takes one byte, and 128 of them a scale of four bytes.

    Parameters:
        model: model architecture, which gives the elements of an index key.
        longest_tokens: longest context (`max_model_len`).
        gathered_contexts: longest contexts that the buffer holds.
    Limits: none for dense attention.
    Check: DeepSeek-V3.2 at 163,840 tokens, 825 MiB in the comment of the source.
        >>> round(float(index_workspace_bytes(registered("deepseek-ai/DeepSeek-V3.2"), 163_840, 40)) / 2**20)
        825
    """
    return gathered_contexts * longest_tokens * model.index_elements * (1 + 4 / 128)


@formula(unit="B", source="vLLM: v1/worker/gpu_model_runner.py, profile_run; multimodal/encoder_budget.py; 2026-11-26")
def image_workspace_bytes(
    model: ModelArchitecture, item_patches: float, profiled_items: Column, live_elements: Column
) -> Column:
    """Memory of the vision tower while it reads the largest images at once, as an engine profiles them at start.

    Parameters:
        model: model architecture, which gives the pixels of a patch.
        item_patches: patches of the largest image or video.
        profiled_items: images or videos that the engine profiles at once.
        live_elements: elements of 16 bit that the widest moment of the tower holds per patch.
    Limits: the pixels are held in 32 and in 16 bit; attention scores are never materialized; nothing where the server
        disables images or their profile (`limit_mm_per_prompt`, `skip_mm_profiling`).
    Check: Qwen2.5-VL-7B, 458,752 patches of a video, GiB; vLLM 0.21 on an A100 logs 15.3.
        >>> round(float(image_workspace_bytes(row(patch_elements=1176), 458_752, 1, 15360)) / GIB, 1)
        16.1
    """
    return item_patches * profiled_items * (2 * live_elements + 6.0 * model.patch_elements)


@formula(
    unit="B",
    source="tensors of a layer; activation peaks and logits copies that vLLM 0.11 and 0.19 profile; vLLM: "
    "v1/worker/workspace.py, 2026-11-26",
)
def activation_bytes(
    model: ModelArchitecture,
    max_batched_tokens: Column,
    max_sequences: Column,
    logits_copies: Column,
    expert_workspace_bytes: Column,
    index_workspace_bytes: Column,
    image_workspace_bytes: Column,
    image_embedding_bytes: Column,
    keeps_workspace: Mask,
    tensor_parallel: Column,
    pipeline_parallel: Column,
    assumed: Assumptions,
) -> Column:
    """Workspace of the largest step: its live tensors or the logits copies that sampling holds, whichever is larger.

    Expert kernels and the indexer share one buffer. An engine that keeps it (vLLM from 0.12 on) holds it in addition to
    the rest (its WorkspaceManager); others allocate it within a step. An engine that profiles images needs their
    workspace before the step, and holds their embeddings during the step.

    Parameters:
        model: model architecture.
        max_batched_tokens: token budget of one engine step (`max_num_batched_tokens`).
        max_sequences: most sequences at once (`max_num_seqs`).
        logits_copies: copies of the logits that sampling holds.
        expert_workspace_bytes: buffers of the expert kernels, B.
        index_workspace_bytes: buffer of the indexer's keys, B.
        image_workspace_bytes: vision tower while it reads the profiled images, B.
        image_embedding_bytes: embeddings of these images, B.
        keeps_workspace: whether the engine keeps these buffers between steps.
        tensor_parallel: tensor-parallel ranks.
        pipeline_parallel: pipeline stages.
        assumed: assumptions: `activation_workspace_factor`.
    Limits: a pipeline stage needs half, because the embedding and the head are on different stages.
    Check:
        >>> round(3.8 * 1024 * 128256 * 4 / 2**30, 2)  # Llama-3.1-8B, 1024 sequences, GiB; measured: 1.89
        1.86
    """
    heads = 2 * model.num_heads + 2 * np.minimum(model.kv_heads, model.num_heads)
    widest = np.maximum(6 * model.dense_mlp_width, 2 * heads * model.head_dim)
    live: Column = max_batched_tokens * widest / tensor_parallel + 4 * max_batched_tokens * model.hidden_size
    logits = logits_copies * max_sequences * model.vocab_size * LOGIT_BYTES
    shared = np.maximum(expert_workspace_bytes, index_workspace_bytes)
    step = assumed.activation_workspace_factor * live + np.where(keeps_workspace, 0.0, shared)
    stages = np.where(pipeline_parallel > 1, 2.0, 1.0)
    text = np.maximum(step, logits) / stages + image_embedding_bytes
    return np.maximum(text, image_workspace_bytes) + np.where(keeps_workspace, shared, 0.0)


@formula(unit="B", source="start-up logs of vLLM")
def overhead_bytes(
    small_engine: Mask,
    graphs_inside: Mask,
    stage_accelerators: Column,
    scale_up: Mask,
    capacity_bytes: Column,
    assumed: Assumptions,
) -> Column:
    """Runtime, captured graphs and communication buffers of a device.

    Parameters:
        small_engine: whether the engine is a small one, such as llama.cpp.
        graphs_inside: whether captured graphs count within the engine's share of the device.
        stage_accelerators: accelerators that share each layer.
        scale_up: whether a scale-up link connects them, rather than PCIe.
        capacity_bytes: memory that the engine can see, B.
        assumed: assumptions: overheads in GiB and their largest share of a device.
    Limits: small devices are assumed to run engines whose context fits them.
    Check: a runtime of 1 GiB, graphs of 0.5 GiB and buffers of 0.7 GiB.
        >>> sizes = dict(runtime_overhead_gib=1.0, graph_overhead_gib=0.5, parallel_overhead_gib=0.7)
        >>> small = dict(small_runtime_overhead_gib=0.4, overhead_memory_fraction_limit=0.1)
        >>> yes, assumed = np.array(True), row(**sizes, **small, pcie_parallel_overhead_gib=0.2)
        >>> round(float(overhead_bytes(~yes, yes, 8, yes, 85e9, assumed)) / GIB, 6)
        2.2
    """
    engine = np.where(
        small_engine,
        assumed.small_runtime_overhead_gib,
        assumed.runtime_overhead_gib + assumed.graph_overhead_gib * graphs_inside,
    )
    shared = np.where(scale_up, assumed.parallel_overhead_gib, assumed.pcie_parallel_overhead_gib)
    buffers = np.where((stage_accelerators > 1) & ~small_engine, shared, 0.0)
    taken: Column = (engine + buffers) * GIB
    return np.minimum(taken, assumed.overhead_memory_fraction_limit * capacity_bytes)


@formula(unit="1", source="defaults in the documentation of the engines")
def memory_fraction(unified: Mask, small_engine: Mask, fraction: Column, assumed: Assumptions) -> Column:
    """Share of a device that an engine takes: the engine's default, or less if the device shares the system's memory.

    A request overrides it with `memory_fraction`.

    Parameters:
        unified: whether the device uses the system's memory.
        small_engine: whether the engine is a small one, such as llama.cpp.
        fraction: default share of the engine.
        assumed: assumptions: `unified_memory_fraction`, `small_engine_memory_fraction`.
    Check:
        >>> shares = row(unified_memory_fraction=0.75, small_engine_memory_fraction=0.95)
        >>> memory_fraction(np.array([True, False]), np.array([False, False]), 0.9, shares).tolist()
        [0.75, 0.9]
    """
    return np.where(
        unified,
        assumed.unified_memory_fraction,
        np.where(small_engine, assumed.small_engine_memory_fraction, fraction),
    )


@formula(unit="1", source="SGLang: server_args.py, _handle_gpu_memory_settings, 2026-11-26")
def fraction_after_reserve(
    capacity_bytes: Column, max_batched_tokens: Column, captured_sequences: Column, ranks: Column
) -> Column:
    """Share of a device that an engine takes by default if it reserves the rest for steps, graphs and communication.

    It reserves 512 MiB, 1.5 MiB per token of a step, 128 MiB per rank and 2 MiB per sequence of the largest captured
    graph, and at least 10 GiB of a device of more than 60 GiB.

    Parameters:
        capacity_bytes: memory that the engine can see, B.
        max_batched_tokens: token budget of one engine step (`chunked_prefill_size`).
        captured_sequences: sequences of the largest captured graph.
        ranks: ranks of a replica.
    Limits: the larger reserves of data-parallel attention, drafts and vision towers are not included.
    Check: an H100 of 80 GiB with steps of 8,192 tokens on one rank: 13,440 MiB.
        >>> round(float(fraction_after_reserve(col(80 * GIB), 8192, col(256), col(1))[0]), 3)
        0.836
    """
    reserved = (512 + 1.5 * np.maximum(max_batched_tokens, 2048) + 128 * ranks + 2 * captured_sequences) * MIB
    least = np.where(capacity_bytes > 60 * GIB, 10 * GIB, 0.0)
    return np.maximum(1 - np.maximum(reserved, least) / capacity_bytes, 0.0)


@formula(unit="B", source="sum of the parts")
def fixed_bytes(
    weights_bytes_per_accelerator: Column,
    latent_copy_bytes: Column,
    activation_bytes: Column,
    overhead_bytes: Column,
) -> Column:
    """Memory that is occupied before the first token is cached.

    Parameters:
        weights_bytes_per_accelerator: weights of one device, B.
        latent_copy_bytes: matrices of latent attention that the engine keeps twice, B.
        activation_bytes: workspace of the largest step, B.
        overhead_bytes: runtime, graphs and buffers, B.
    Check: 16 + 0.5 + 2 + 3 GB.
        >>> fixed_bytes(16e9, 0.5e9, 2e9, 3e9)
        21500000000.0
    """
    return weights_bytes_per_accelerator + latent_copy_bytes + activation_bytes + overhead_bytes


@formula(unit="B", source="documentation of vLLM, SGLang and TensorRT-LLM")
def usable_bytes(
    rule: Codes,
    capacity_bytes: Column,
    memory_fraction: Column,
    activation_bytes: Column,
    overhead_bytes: Column,
    fixed_bytes: Column,
) -> Column:
    """Memory of a device that an engine will use, by the engine's rule.

    The share applies to the whole device, to what the runtime and communication leave before loading (`static`, where
    workspace and overhead use the rest), or to the memory left after loading (`free`).

    Parameters:
        rule: index of the engine's rule in `RULES`.
        capacity_bytes: memory that the engine can see, B.
        memory_fraction: share that the engine takes.
        activation_bytes: workspace of the largest step, B.
        overhead_bytes: runtime, graphs and buffers, B.
        fixed_bytes: memory that is occupied before the first token is cached, B.
    Limits: no other engine runs on the device.
    Check: 20 GB are loaded; the cache may fill 0.9 of the other 60 of 80 GB.
        >>> float(usable_bytes(np.array(FREE_RULE), 80e9, 0.9, 2e9, 3e9, 20e9))
        74000000000.0
    """
    whole = capacity_bytes * memory_fraction
    static = np.minimum(whole + activation_bytes + (1 - memory_fraction) * overhead_bytes, capacity_bytes)
    free = np.minimum(fixed_bytes, capacity_bytes) + memory_fraction * np.maximum(capacity_bytes - fixed_bytes, 0.0)
    return np.where(rule == STATIC_RULE, static, np.where(rule == FREE_RULE, free, whole))


@formula(unit="B", source="Kwon et al. 2023 (arXiv:2309.06180)")
def kv_pool_bytes(usable_bytes: Column, fixed_bytes: Column) -> Column:
    """Memory for the KV blocks of a device.

    Parameters:
        usable_bytes: memory that the engine will use, B.
        fixed_bytes: memory that is occupied before the first token is cached, B.
    Limits: engines without a reserved pool fill this memory as sequences grow.
    Check: 72 GB less 20 GB.
        >>> float(kv_pool_bytes(72e9, 20e9))
        52000000000.0
    """
    return np.maximum(usable_bytes - fixed_bytes, 0.0)


@formula(unit="sequences", source="paged attention, Kwon et al. 2023 (arXiv:2309.06180)")
def max_running_sequences(kv_pool_bytes: Column, held_bytes_per_sequence: Column, max_sequences: Column) -> Column:
    """Sequences that can run at once with paged attention.

    Engines allocate KV blocks as a sequence grows, so a running sequence holds half its output on average. Near the
    limit the engine preempts some sequences for a while, which costs few recomputed prompts.

    Parameters:
        kv_pool_bytes: memory for KV blocks, B.
        held_bytes_per_sequence: mean cache of a running sequence, B.
        max_sequences: the engine's own limit (`max_num_seqs`).
    Limits: a steady state; sequences of a simultaneous burst reach their full outputs together and need more.
    Check: 52 GB at 1.5 GB per sequence.
        >>> float(max_running_sequences(52e9, 1.5e9, 256))
        34.0
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.maximum(
            1.0,
            np.floor(
                np.minimum(
                    np.where(held_bytes_per_sequence > 0, kv_pool_bytes / held_bytes_per_sequence, np.inf),
                    max_sequences,
                )
            ),
        )


def engine_limits(
    plans: Plans,
    capacity: Column,
    assumed: Assumptions,
    settings: Settings,
    in_flight: float,
    prompt_tokens: float,
    *,
    offline: bool,
) -> tuple[Column, Column]:
    """Most sequences at once (`max_num_seqs`) and most tokens per step: the requested values, or the engine's defaults
    for the device, in smaller steps where prompts of `prompt_tokens` then fill the pipeline.

    Engines that need an explicit number of slots get the assumed number. The engine is started with more sequences
    where a number of replicas shares more requests in flight; slots cost nothing, so there an open number of
    replicas counts as one.
    """
    rules = plans.scheduling_rules
    own_tokens, own = step_sizes(rules, capacity, offline=offline)
    most = settings.max_sequences
    if most is None or np.isnan(most).any():
        chosen = np.where(rules.slots, assumed.max_sequences_small_engine, own) if rules.slots.any() else own
        if in_flight and settings.replicas is not None:
            chosen = np.maximum(chosen, np.ceil(in_flight / settings.replicas))
        elif in_flight and rules.slots.any():
            chosen = np.where(rules.slots, np.maximum(chosen, in_flight), chosen)
        most = chosen if most is None else np.where(np.isnan(most), chosen, most)
    if settings.max_batched_tokens is not None:
        return most, settings.max_batched_tokens
    pipelined = plans.pipelines_chunks & (plans.pipeline_parallel > 1)
    if offline or not pipelined.any() or not fills_pipeline(prompt_tokens, assumed):
        return most, own_tokens
    smaller = pipelined_step_tokens(prompt_tokens, np.maximum(plans.pipeline_parallel, 2.0), own_tokens, assumed)
    return most, np.where(pipelined, smaller, own_tokens)


@formula(
    unit="tokens", source="docs.sglang.io/advanced_features/pipeline_parallelism.html: smaller chunks fill the stages"
)
def pipelined_step_tokens(
    prompt_tokens: float, pipeline_parallel: Column, own_tokens: Column, assumed: Assumptions
) -> Column:
    """Token budget of a step with which the chunks of one prompt keep all pipeline stages busy: a power of two.

    With n chunks, p stages wait for about p - 1 chunks of a prompt. Smaller steps than the least multiply slowly.

    Parameters:
        prompt_tokens: mean prompt, tokens.
        pipeline_parallel: pipeline stages, at least 2.
        own_tokens: the engine's default.
        assumed: assumptions: `pipelined_chunks_per_stage` and `least_pipelined_chunk_tokens`.
    Limits: engines that pipeline the chunks of one prompt.
    Check: 100,000 tokens in two and in four stages.
        >>> assumed = row(pipelined_chunks_per_stage=16, least_pipelined_chunk_tokens=2048)
        >>> pipelined_step_tokens(1e5, col(2, 4), col(8192, 8192), assumed).tolist()
        [4096.0, 2048.0]
    """
    chunk = prompt_tokens / (assumed.pipelined_chunks_per_stage * (pipeline_parallel - 1))
    rounded = np.exp2(np.floor(np.log2(np.maximum(chunk, 1.0))))
    return np.minimum(np.maximum(rounded, assumed.least_pipelined_chunk_tokens), own_tokens)


def device_weights_bytes(model: ModelArchitecture, plans: Plans, assumed: Assumptions) -> Column:
    """Weights of the fullest device, padding included, B."""
    padded: Column | float = 0.0
    multiple = plans.expert_width_multiple
    if multiple.any() and model.expert_width:
        if model.family != "gpt_oss":  # AITER's kernels for a plain SwiGLU
            multiple = np.minimum(multiple, 128.0)
        as_stored = plans.memory_rules.hopper_rows_as_stored & (multiple == HOPPER_WIDTH_MULTIPLE)
        rows = np.where(as_stored, 1.0, MXFP4_ROW_BLOCK)
        shards = np.where(plans.data_parallel > 1, 1.0, plans.tensor_parallel)
        share = mxfp4_padding_share(model.hidden_size, rows, model.expert_width, np.maximum(multiple, 1.0), shards)
        padded = np.where(multiple > 0, share, 0.0)
    return weights_bytes_per_accelerator(
        plans.weights_bytes,
        plans.expert_bytes,
        padded,
        np.array([model.unsplit_bytes(WEIGHT_FORMATS[name]) for name in FORMATS])[plans.weight_format],
        plans.accelerators_per_replica,
        plans.tensor_parallel,
        plans.data_parallel,
        assumed,
    )


def latent_copies_of(model: ModelArchitecture, plans: Plans) -> Column:
    """Matrices of latent attention that the engine of every plan keeps in addition to the checkpoint, B."""
    formats = [WEIGHT_FORMATS[name] for name in FORMATS]
    quantized = np.array([f.linear_bits < 16 and not f.routed_experts_only for f in formats])[plans.weight_format]
    element = np.where(plans.weight_format == FORMATS.index("fp8"), 1.0, 2.0)
    return latent_copy_bytes(
        model, plans.memory_rules.latent_copies, quantized, element, plans.tensor_parallel, plans.pipeline_parallel
    )


def workspace_bytes(
    model: ModelArchitecture,
    plans: Plans,
    max_batched_tokens: Column,
    max_sequences: Column,
    longest_tokens: float,
    assumed: Assumptions,
    settings: Settings,
) -> Column:
    """Activations and workspaces of every plan, with the buffers of expert kernels and indexers, and images."""
    rules, tp, none = plans.memory_rules, plans.tensor_parallel, np.zeros(len(plans))
    experts, index = none, none
    if model.is_moe:
        ranks = np.where(plans.data_parallel > 1, 1.0, tp)
        experts = expert_workspace_bytes(model, max_batched_tokens, rules.expert_chunk_tokens, ranks)
    if model.index_elements:
        index = index_workspace_bytes(model, longest_tokens, rules.index_contexts)
    tower = embedded = none
    skips = settings.skip_mm_profiling
    profiles = rules.profiles_images if skips is None else rules.profiles_images & (skips == 0)
    if model.images is not None and model.encoder is not None and profiles.any():
        item_tokens, patches = model.images.largest_item(longest_tokens)
        items = np.where(profiles, np.maximum(1.0, max_batched_tokens // max(item_tokens, 1.0)), 0.0)
        rotary = model.images.tile_pixels is None
        live = model.encoder.live_elements(rotary=rotary, gated=model.has_gated_tower, tensor_parallel=tp)
        tower = image_workspace_bytes(model, patches, items, live)
        embedded = 2.0 * items * item_tokens * model.hidden_size
    return activation_bytes(
        model,
        max_batched_tokens,
        max_sequences,
        rules.logits_copies if settings.logits_copies is None else settings.logits_copies,
        experts,
        index,
        tower,
        embedded,
        rules.keeps_workspace,
        tp,
        plans.pipeline_parallel,
        assumed,
    )


def engine_memory_share(
    plans: Plans, capacity: Column, max_batched_tokens: Column, assumed: Assumptions, settings: Settings
) -> Column:
    """Share of a device that an engine takes: the requested share, or the engine's default."""
    if settings.memory_fraction is not None:
        return settings.memory_fraction
    rules, own = plans.memory_rules, plans.memory_rules.fraction
    if rules.reserves_for_steps.any():
        many = plans.tensor_parallel >= 4
        sizes = [np.where(many, most, few) for _, few, most in CAPTURED_SEQUENCES]
        captured = np.select([capacity < gib * GIB for gib, _, _ in CAPTURED_SEQUENCES], sizes, default=512)
        ranks = plans.tensor_parallel * plans.pipeline_parallel
        left = fraction_after_reserve(capacity, max_batched_tokens, captured, ranks)
        own = np.where(rules.reserves_for_steps, left, own)
    return memory_fraction(plans.has_unified_memory, plans.small_engine, own, assumed)


def serving_memory(
    model: ModelArchitecture,
    plans: Plans,
    assumed: Assumptions,
    *,
    final_tokens: float,
    longest_tokens: float,
    output_tokens: float = 0.0,
    output_variation: float = 0.0,
    in_flight: float = 0.0,
    prompt_tokens: float = 0.0,
    offline: bool = False,
    settings: Settings | None = None,
    unforeseen_share: Column | None = None,
) -> ServingMemory:
    """Memory of every plan: weights, workspace and overhead, then the cache in the rest of the engine's share.

    Parameters:
        final_tokens: mean context of a request at its end.
        longest_tokens: longest context that must fit.
        output_tokens: mean output of a request.
        output_variation: squared coefficient of variation of output lengths.
        in_flight: requests in flight at all replicas; 0 for other loads.
        prompt_tokens: mean prompt without its cached prefix; 0 keeps the engine's default steps.
        offline: whether the engine runs without a server.
        settings: engine settings fixed by the request.
        unforeseen_share: share of a device reserved for unforeseen use, in addition to the above.
    """
    settings = Settings() if settings is None else settings
    rules, small = plans.memory_rules, plans.small_engine
    capacity = capacity_bytes(plans.memory_bytes, plans.memory_is_reported, assumed)
    most, tokens = engine_limits(plans, capacity, assumed, settings, in_flight, prompt_tokens, offline=offline)
    share = engine_memory_share(plans, capacity, tokens, assumed, settings)
    weights = device_weights_bytes(model, plans, assumed)
    copies = latent_copies_of(model, plans) if model.latent_up_elements else np.zeros(len(plans))
    activations = workspace_bytes(model, plans, tokens, most, longest_tokens, assumed, settings)
    overhead = overhead_bytes(small, rules.graphs_inside, plans.stage_accelerators, plans.scale_up, capacity, assumed)
    fixed = fixed_bytes(weights, copies, activations, overhead)
    if unforeseen_share is not None:
        fixed = fixed + unforeseen_share * capacity
    usable = usable_bytes(np.where(small, 0, rules.rule), capacity, share, activations, overhead, fixed)
    pool = kv_pool_bytes(usable, fixed)
    final, mean = sequence_cache_bytes(model, plans, final_tokens, output_tokens, output_variation)
    longest = longest_sequence_bytes(model, longest_tokens, tokens, plans)
    memory = ServingMemory(
        weights_bytes=weights + copies,
        activation_bytes=activations,
        overhead_bytes=overhead,
        capacity_bytes=capacity,
        usable_bytes=usable,
        needed_bytes=fixed + longest,
        memory_fraction=share,
        sequences=max_running_sequences(pool, mean, most),
        kv_pool_bytes=pool,
        cache_bytes_per_sequence=final,
        held_bytes_per_sequence=mean,
        longest_sequence_bytes=longest,
        max_sequences=most,
        max_batched_tokens=tokens,
    )
    return memory if plans.on_host is None else split_memory_with_host(memory, plans, plans.on_host)


def split_memory_with_host(memory: ServingMemory, plans: Plans, on: HostOffload) -> ServingMemory:
    """The memory without the part of the cache that the host keeps, and the host memory that the plan needs."""
    there = on.layers_share * plans.accelerators_per_replica
    host = HostMemory(on.weights_bytes, memory.longest_sequence_bytes * there, on.room_bytes)
    with trace_label("accelerator part"):
        with trace_label("at full length"):
            final = remaining_on_accelerators(memory.cache_bytes_per_sequence, on.layers_share)
        with trace_label("mean over its run"):
            mean = remaining_on_accelerators(memory.held_bytes_per_sequence, on.layers_share)
        with trace_label("longest context"):
            longest = remaining_on_accelerators(memory.longest_sequence_bytes, on.layers_share)
        on_accelerators = max_running_sequences(memory.kv_pool_bytes, mean, memory.max_sequences)
    on_host = host_sequences(on.room_bytes, on.weights_bytes, memory.held_bytes_per_sequence * there)
    return replace(
        memory,
        needed_bytes=memory.needed_bytes - (memory.longest_sequence_bytes - longest),
        sequences=np.minimum(on_accelerators, on_host),
        cache_bytes_per_sequence=final,
        held_bytes_per_sequence=mean,
        longest_sequence_bytes=longest,
        host=host,
    )
