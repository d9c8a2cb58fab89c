"""Numbers of a small run that arithmetic on paper can follow, and columns for them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from app.sizing.columns import column
from app.sizing.training.counts import Layer
from tests.examples import PRETRAIN_COUNTS, row

COUNTS = replace(
    PRETRAIN_COUNTS,
    units=1e9,
    units_per_sequence=1000.0,
    global_batch=64.0,
    num_layers=12.0,
    num_sublayers=24.0,
    weight_layers=12.0,
    hidden_size=100.0,
    mlp_width=400.0,
    num_heads=10.0,
    attention_width=120.0,
    kv_heads=2.0,
    kv_elements=480.0,
    vocab_size=5000.0,
    experts_per_token=2.0,
    expert_inputs=100.0,
    routing_layers=6.0,
    total_params=10e6,
    routed_params=4e6,
    embedding_params=0.5e6,
    head_params=0.7e6,
    dense_matmul_params=5e6,
    head_matmul_params=0.7e6,
    routed_matmul_params=1e6,
    linear_params=9e6,
    adapter_params=0.2e6,
    score_flops_per_token=8e6,
    recurrent_flops_per_token=0.5e6,
    adapter_flops_per_token=0.3e6,
    attention_activation_bytes=1000.0,
    layer=Layer(
        queries=240.0,
        keys=48.0,
        dense=400.0,
        routed=0.0,
        sent=0.0,
        router=0.0,
        choices=0.0,
        norms=2.0,
        written_norms=2.0,
        readers=5.0,
        products=3.0,
        written_products=4.0,
        last_kept=1.0,
        adapted_inputs=0.0,
        unshared_inputs=0.0,
        adapted_outputs=0.0,
        adapts_mlp=0.0,
        adapted_matrices=0.0,
    ),
    unquantised_share=0.1,
    tied_params=0.0,
    largest_matrix_params=0.7e6,
)


def layout(**columns: Any) -> Any:
    """One layout: tensor 4, pipeline 3, context 2; a test says what differs."""
    known: dict[str, Any] = {
        "tensor_parallel": 4,
        "pipeline_parallel": 3,
        "context_parallel": 2,
        "expert_parallel": 8,
        "zero_stage": 1,
        "activation_checkpointing": 0,
        "micro_batch_sequences": 2,
        "asked_virtual_pipeline": 0,
        "interleaved_pipeline": True,
        "sequence_parallel": True,
        "fp32_gradients": False,
        "fused_kernels": True,
        "flash_attention": True,
        "recomputes_half": False,
        "gathers_to_recompute": False,
    }
    return row(**{n: np.array([v]) if isinstance(v, bool) else column([v]) for n, v in (known | columns).items()})
