"""Pipeline stages and the shape of the model in Megatron's flags. Its schedules refuse layers and micro-batches that
leave a rest.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import groupby

from app.sizing.hardware.benchmarks import Places
from app.sizing.model.architecture import ModelArchitecture
from app.sizing.model.tensors import Part, Tensor
from app.sizing.question import Deployment
from app.sizing.workload import Method, TrainingWorkload

MIN_OUTER_LAYERS = 2  # of the first and the last pipeline stage together, in Megatron Bridge


def pipeline_places(layers: int, stages: int, chunks: int, micro_batches: int) -> Places:
    """Placeholders of a pipeline: layers per chunk, or those of each chunk where they differ, and micro-batches that
    pass a chunk in a row, where as many as there are stages leave a rest.

    Parameters:
        layers: layers of the model.
        stages: pipeline stages.
        chunks: model chunks per stage.
        micro_batches: micro-batches of a step.
    Source: NVIDIA/Megatron-LM@d98e8a64: megatron/training/arguments.py, core/pipeline_parallel/schedules.py. Its
    interleaved schedule takes at least as many micro-batches as stages; with fewer, the chunks of a stage are one.
    """
    interleaved = chunks if micro_batches >= stages else 1
    even = layers % (stages * interleaved) == 0
    several = interleaved > 1
    return {
        "chunk": layers // (stages * interleaved) if even and several else None,
        "chunks": interleaved if even and several else None,
        "pipeline_layout": None if even else pipeline_layout(layers, stages, interleaved),
        "batch_group": micro_batch_group(micro_batches, stages) if several else None,
    }


def own_stage_places(layers: int, leading: int, stages: int, chunks: int, micro_batches: int) -> Places:
    """Placeholders of the stages of torchtitan and MaxText, whose defaults differ from the sized stages.

    torchtitan counts embedding and LM head as layers of the first and last stage, gives a stage one chunk, and passes
    one micro-batch. Stages of MaxText have one layer in several rounds; they are equal, and the layers that leave a
    rest run outside them, as leading dense layers do.

    Parameters:
        layers: layers of the model.
        leading: its dense layers ahead of MoE layers.
        stages: pipeline stages.
        chunks: model chunks per stage.
        micro_batches: micro-batches of a step.
    Source: pytorch/torchtitan@b5bcd76c: distributed/pipeline_parallel.py, trainer.py; maxtext 0.2.5: configs/types.py.
    Torch's interleaved schedule takes equal rounds of micro-batches.
    Check: 126 layers on 16 stages: 7 in the first and the last; of 61 with 3 dense, 4 stages hold 56.
        >>> own_stage_places(126, 0, 16, 7, 341)
        {'first_less': 1, 'looped': None, 'piped_batches': 341, 'even_layers': 1, 'piped_layers': 112}
        >>> own_stage_places(61, 3, 4, 1, 8)["piped_layers"], own_stage_places(32, 0, 4, 4, 8)["looped"]
        (56, 2)
    """
    each, rest = divmod(layers - leading, stages)
    if stages == 1 or not each:
        return dict.fromkeys(("first_less", "looped", "piped_batches", "even_layers", "piped_layers"))
    rounds = micro_batches // stages
    loops = chunks > 1 and layers % (stages * chunks) == 0 and rounds > 0 and micro_batches % rounds == 0
    return {
        "first_less": int(0 < layers % stages < stages - 1),
        "looped": layers // (stages * chunks) if loops else None,
        "piped_batches": micro_batches,
        "even_layers": each // max(count for count in range(1, chunks + 1) if each % count == 0),
        "piped_layers": each * stages if rest else None,
    }


def bridge_stage_places(layers: int, stages: int, places: Places) -> Places:
    """Placeholders of the pipeline of Megatron Bridge instead of its recipe's. If layers leave a rest, all stages but
    two are equal.

    Parameters:
        layers: layers of the model.
        stages: pipeline stages.
        places: those of `pipeline_places`.
    """
    chunks = places.get("chunks")
    uneven, each = layers % stages > 0, layers // stages
    middle = (stages - 2) * (each + 1 if layers - (stages - 2) * (each + 1) >= MIN_OUTER_LAYERS else each)
    return {
        "bridge_chunks": chunks or "null",
        "bridge_group": places.get("batch_group") if chunks else None,
        "first_layers": (layers - middle + 1) // 2 if uneven else None,
        "last_layers": (layers - middle) // 2 if uneven else None,
    }


def bridge_places(workload: TrainingWorkload, d: Deployment, staged: Places) -> Places:
    """Placeholders of Megatron Bridge, whose recipes set what a command leaves out."""
    tuned, stages = workload.phase == "fine_tuning", d.pipeline_parallel or 1
    kept = d.activation_checkpointing or "none"
    return {
        "bridge_mode": "pretrain" if not tuned else "sft" if workload.method is Method.FULL else "lora",
        "bridge_data": "squad" if tuned else "mock",
        "tuned": optional_flag(tuned),
        "pipeline_degree": stages,
        "context_degree": d.context_parallel or 1,
        "bridge_granularity": "null" if kept == "none" else kept,
        **bridge_stage_places(workload.model.num_layers, stages, staged),
    }


def leading_layers(model: ModelArchitecture) -> int:
    """Dense layers of an MoE model, where they are few and so come first; others alternate with MoE layers."""
    dense = model.num_layers - model.moe_layers
    return dense if model.is_moe and dense < model.moe_layers else 0


def passes_together(micro_batches: int, stages: int) -> int:
    """Micro-batches of one forward pass in MaxText, whose pipelines are filled within a pass: as many as there are
    stages. Where those leave a rest, one.

    Check:
        >>> passes_together(64, 16), passes_together(341, 16), passes_together(5, 1)
        (16, 1, 1)
    """
    return 1 if micro_batches % stages else stages


def stage_layers(layers: int, stages: int) -> list[int]:
    """Layers of each stage. The last and then the first stage get fewer: they also hold LM head and embedding.

    Check:
        >>> stage_layers(126, 16)[:2], stage_layers(126, 16)[-2:], stage_layers(61, 4), stage_layers(7, 2)
        ([7, 8], [8, 7], [15, 16, 15, 15], [4, 3])
    """
    each, rest = divmod(layers, stages)
    fuller = [*range(1, stages - 1), 0, stages - 1][:rest] if stages > 1 else []
    return [each + (stage in fuller) for stage in range(stages)]


def pipeline_layout(layers: int, stages: int, chunks: int) -> str:
    """Layers of each chunk in Megatron's notation: E embedding, t layer, L loss, and | between chunks.

    Check: the chunks of the first round have the layers that are left over.
        >>> pipeline_layout(126, 16, 7)
        'Et|(t*2|)*14(t|)*96tL'
        >>> pipeline_layout(7, 2, 1)
        'Et*4|t*3L'
    """
    totals = stage_layers(layers, stages)
    counts = [total // chunks + (turn < total % chunks) for turn in range(chunks) for total in totals]
    texts = ["" if count == 0 else "t" if count == 1 else f"t*{count}" for count in counts]
    runs = ((text, len(list(run))) for text, run in groupby(texts[1:-1]))
    middle = "".join(f"{text}|" if many == 1 else f"({text}|)*{many}" for text, many in runs)
    return f"E{texts[0]}|{middle}{texts[-1]}L"


def micro_batch_group(micro_batches: int, stages: int) -> int | None:
    """Micro-batches that pass one chunk before the next one; None where as many as there are stages leave no rest.

    A rest below the number of stages would leave stages idle, so Megatron refuses it.

    Check: 341 micro-batches on 16 stages leave 5, and in groups of 18 they leave 17.
        >>> micro_batch_group(341, 16), micro_batch_group(64, 16), micro_batch_group(20, 16)
        (18, None, 20)
    """
    groups = range(stages, micro_batches + 1)
    group = next(size for size in groups if not 0 < micro_batches % size < stages)
    return None if group == stages else group


def optional_flag(wanted: bool) -> str | None:
    """Empty placeholder that keeps a part of a command, or None to leave the part out."""
    return "" if wanted else None


def shape_places(model: ModelArchitecture, d: Deployment) -> Places:
    """Placeholders for the model's shape, for trainers that build the model from numbers."""
    shapes = {t.role: t for t in model.tensors}
    widths = {role: t.outputs for role, t in shapes.items()}
    dense, expert = widths.get("up_proj"), widths.get("experts.up_proj")
    return {
        "layers": model.num_layers,
        "hidden": model.hidden_size,
        "width": dense or expert or round(model.mlp_width),
        "heads": model.num_heads,
        "head_size": model.head_dim,
        "kv_heads": model.kv_heads,
        **latent_attention_places(model, shapes),
        "norms_keys": optional_flag(not {"q_norm", "k_norm", "kv_a_layernorm"}.isdisjoint(widths)),
        "biased_qkv": optional_flag("q_proj.bias" in widths),
        "mock_words": model.vocab_size,
        "expert_count": model.num_experts if model.is_moe else None,
        "expert_choice": model.experts_per_token if model.is_moe else None,
        "expert_width": expert or round(model.mlp_width / max(1, model.experts_per_token)),
        "shared_width": widths.get("shared_expert.up_proj"),
        "moe_pattern": moe_pattern(model, model.num_layers),
        "experts": d.expert_parallel or 1 if model.is_moe else None,
    }


def latent_attention_places(model: ModelArchitecture, shapes: Mapping[str, Tensor]) -> Places:
    """Placeholders for multi-head latent attention (MLA), which takes the place of grouped queries; empty without it.

    Parameters:
        shapes: tensors of the model by role.
    """
    down, up, queries = (shapes.get(role) for role in ("kv_a_proj_with_mqa", "kv_b_proj", "q_b_proj"))
    if down is None or up is None:
        return {}
    value_size = shapes["o_proj"].inputs // model.num_heads
    return {
        "kv_heads": None,
        "head_size": value_size,
        "kv_rank": up.inputs,
        "key_size": up.outputs // model.num_heads - value_size,
        "rope_size": down.outputs - up.inputs,
        "query_rank": None if queries is None else queries.inputs,
    }


def moe_pattern(model: ModelArchitecture, layers: int) -> str | None:
    """Which of the last layers have experts (1) and which are dense (0), as a Python expression; None if all are alike.

    Check:
        >>> [moe_pattern(registered("deepseek-ai/DeepSeek-V3"), layers) for layers in (61, 6)]
        ['[0]*3+[1]*58', None]
        >>> moe_pattern(registered("meta-llama/Llama-4-Maverick-17B-128E-Instruct"), 48)
        '([0]*1+[1]*1)*24'
    """
    routed = {layer for t in model.tensors if t.part is Part.ROUTED_EXPERTS for layer in t.layers}
    kinds = [int(layer in routed) for layer in range(model.num_layers)][-layers:]
    period = next(n for n in range(1, layers + 1) if layers % n == 0 and kinds == kinds[:n] * (layers // n))
    if period == 1:
        return None
    runs = "+".join(f"[{kind}]*{len(list(run))}" for kind, run in groupby(kinds[:period]))
    return runs if period == layers else f"({runs})*{layers // period}"
