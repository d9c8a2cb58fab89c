"""What follows from a model's counts: cache, adapters, work."""

from __future__ import annotations

import pytest

from app.catalog.seed import model_entries
from app.sizing.model.counting.read import read_architecture
from tests.examples import LLAMA_8B, OPT_13B

ENTRIES = {e["hf_id"]: e for e in model_entries()}


def test_kv_cache_per_token_matches_the_vllm_paper() -> None:
    # 2 (K and V) * 40 layers * 40 heads * 128 * 2 bytes: the paper's "800 KB"
    assert OPT_13B.kv_cache_bytes_per_token(2.0) == 819_200


def test_tensor_parallel_splits_heads_and_copies_them_beyond_their_number() -> None:
    assert LLAMA_8B.kv_cache_bytes_per_token(tensor_parallel=8) == 131_072 / 8
    assert LLAMA_8B.kv_cache_bytes_per_token(tensor_parallel=16) == 131_072 / 8


def test_mla_latent_is_copied_to_every_rank() -> None:
    model = read_architecture(ENTRIES["deepseek-ai/DeepSeek-V3"]["config"], name="v3")
    assert model.kv_cache_bytes_per_token(tensor_parallel=8) == 61 * (512 + 64) * 2


@pytest.mark.parametrize(
    ("targets", "rank", "expected"),
    [
        ("q_v", 8, 3_407_872),
        ("attention", 16, 13_631_488),
        ("all-linear", 16, 41_943_040),
        ("all-linear", 64, 167_772_160),
    ],
)
def test_lora_sizes_equal_peft(targets: str, rank: int, expected: int) -> None:
    assert LLAMA_8B.lora_params(rank, targets) == expected


def test_training_flops_match_the_published_405b_figure() -> None:
    model = read_architecture(ENTRIES["meta-llama/Llama-3.1-405B"]["config"], name="405b")
    assert model.training_flops_per_token(4096) / 1e9 == pytest.approx(2473, rel=0.002)
    assert 6 * model.total_params * 15.6e12 == pytest.approx(3.80e25, rel=0.001)
