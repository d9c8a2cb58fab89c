"""What the formulas of training read of a workload, counted by hand from the model's shape."""

from __future__ import annotations

from dataclasses import replace

import pytest

from app.sizing.training.counts import adapter_flops_per_token, adapter_params, counts_of, score_flops_per_token
from app.sizing.workload import Method
from tests.examples import LLAMA_8B, PRETRAIN, PRETRAIN_COUNTS, registered

LORA = replace(PRETRAIN, method=Method.LORA)
MATRICES = LLAMA_8B.total_params - 128_256 * 4096 - 65 * 4096  # all but the look-up table and the norms


def test_parts_of_a_model_are_apart_and_sum_to_what_a_token_multiplies() -> None:
    c = PRETRAIN_COUNTS
    assert c.head_matmul_params == c.head_params == c.embedding_params == 128_256 * 4096
    assert c.dense_matmul_params + c.head_matmul_params + c.routed_matmul_params == MATRICES
    assert c.routed_matmul_params == c.routing_layers == 0
    assert (c.attention_width, c.kv_elements) == (32 * 128, 32 * 2 * 8 * 128)


def test_full_training_is_six_flops_a_parameter_and_three_times_its_attention() -> None:
    # a mean token of 4096 sees 2048.5 others: 4 FLOPs of each head's 128 elements, in 32 layers of 32 heads
    scores = 4 * 2048.5 * 32 * 32 * 128
    assert PRETRAIN_COUNTS.score_flops_per_token == pytest.approx(scores)
    assert score_flops_per_token(LLAMA_8B, 4096.0) == pytest.approx(scores)
    assert PRETRAIN_COUNTS.flops_per_unit == pytest.approx(6 * MATRICES + 3 * scores)
    assert (PRETRAIN_COUNTS.adapter_params, PRETRAIN_COUNTS.adapter_flops_per_token) == (0, 0)
    assert PRETRAIN_COUNTS.checkpointed_params == LLAMA_8B.total_params


def test_adapters_leave_out_the_gradients_of_frozen_matrices() -> None:
    c = counts_of(LORA)
    # rank 16 of the seven matrices of a layer, as PEFT counts them
    assert c.adapter_params == c.checkpointed_params == adapter_params(LORA) == 41_943_040
    assert c.adapter_flops_per_token == 6 * 41_943_040
    assert c.flops_per_unit == pytest.approx(4 * MATRICES + 3 * c.score_flops_per_token + 6 * 41_943_040)


def test_a_token_passes_the_adapters_of_its_own_experts_only() -> None:
    mixture = registered("Qwen/Qwen3-30B-A3B")
    # 8 of 128 experts
    assert adapter_flops_per_token(mixture, 1e9) == pytest.approx(6e9 * 8 / 128)
    c = counts_of(replace(PRETRAIN, model=mixture))
    assert (c.is_moe, c.routing_layers, c.experts_per_token) == (True, 48, 8)
    # three matrices of 2048 x 768 of 8 experts in each of 48 layers
    assert c.routed_matmul_params == 48 * 8 * 3 * 2048 * 768
    assert c.routed_params == 48 * 128 * 3 * 2048 * 768


def test_samples_have_no_attention_of_tokens_and_three_forwards() -> None:
    vit = registered("google/vit-base-patch16-224")
    assert vit.sample is not None
    c = counts_of(replace(PRETRAIN, model=vit, units_per_sequence=1.0))
    assert c.in_samples
    assert c.flops_per_unit == 3 * vit.sample.forward_flops == 3 * c.sample_forward_flops
    assert (c.score_flops_per_token, c.weight_layers) == (0.0, vit.sample.layers)


def test_what_was_not_said_is_nothing() -> None:
    c = PRETRAIN_COUNTS
    assert (c.dataset_bytes, c.asked_checkpoint_interval_s) == (0, 0)
    said = counts_of(replace(PRETRAIN, dataset_bytes=1e12, checkpoint_interval_s=600.0))
    assert (said.dataset_bytes, said.asked_checkpoint_interval_s) == (1e12, 600)
    assert (c.layer.dense, c.layer.written_products) == (14336, 4)


def test_text_encoders_and_decoder_of_a_picture_stay_as_they_are() -> None:
    picture = registered("stabilityai/stable-diffusion-2-base")
    counts = counts_of(replace(PRETRAIN, model=picture, units_per_sequence=1.0))
    assert counts.checkpointed_params == 865_910_724
    assert counts.frozen_params == picture.total_params - 865_910_724
    assert PRETRAIN_COUNTS.frozen_params == 0


@pytest.mark.parametrize("name", ["Qwen/Qwen3-30B-A3B", "meta-llama/Llama-3.1-8B-Instruct", "google/gemma-3-4b-it"])
@pytest.mark.parametrize("method", list(Method))
def test_counts_of_a_model_add_up_whatever_is_trained(name: str, method: Method) -> None:
    model = registered(name)
    c = counts_of(replace(PRETRAIN, model=model, method=method))
    assert c.dense_matmul_params + c.head_matmul_params + c.routed_matmul_params == model.training_matmul_params
    trained = c.total_params - c.frozen_params if method is Method.FULL else c.adapter_params
    assert c.checkpointed_params == trained
    assert c.total_params * (1 - c.unquantised_share) == pytest.approx(c.linear_params)
    assert c.tied_params == (c.head_matmul_params if model.tied_head else 0)
    assert c.embedding_params == model.vocab_size * model.hidden_size
    assert c.largest_matrix_params == max(t.size for t in model.tensors if t.copies) > 0
    assert c.routed_params == (0 if not model.is_moe else model.routed_params) and (c.routed_params > 0) == model.is_moe
