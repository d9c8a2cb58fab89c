"""Low-rank adapters: the matrices that they adapt, and the parameters that they train. What a token leaves for
backward, counted product by product. What attention keeps and reads, against counting token by token. Images
and source texts: positions a tower reads, tokens they become. Widths of a mean layer, counted by hand. What
follows from a model's counts: cache, adapters, work.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from app.catalog.seed import model_entries
from app.sizing.model.architecture import (
    AttentionGroup,
    EncoderPass,
    ImageInput,
    Targets,
    activation_bytes_per_layer,
    adapter_widths,
    attention_activation_bytes,
    attention_widths,
    is_adapted,
    layer_widths,
    logits_bytes,
    lora_params,
)
from app.sizing.model.counting.read import read_architecture
from app.sizing.model.tensors import Inventory, Part, Tensor
from tests.examples import LLAMA_8B, OPT_13B, registered


def tensors() -> list[Tensor]:
    """One layer of attention and an MLP, and what stands outside."""
    inventory = Inventory()
    for role in ("q_proj", "v_proj", "o_proj"):
        inventory.add_linear(role, Part.ATTENTION, 10, 20, (0,))
    inventory.add_linear("down_proj", Part.MLP, 40, 10, (0,))
    inventory.add_linear("expert", Part.ROUTED_EXPERTS, 10, 5, (0,), copies=8, used=2)
    inventory.add_table("embed_tokens", 1000, 10)
    inventory.add_head(10, 1000, tied=False)
    inventory.add_vector("norm", Part.NORMS, 10)
    return inventory.tensors


@pytest.mark.parametrize(
    ("targets", "roles", "elements"),
    [
        ("q_v", {"q_proj", "v_proj"}, 2 * 30),
        ("attention", {"q_proj", "v_proj", "o_proj"}, 3 * 30),
        # of each of eight experts
        ("all-linear", {"q_proj", "v_proj", "o_proj", "down_proj", "expert"}, 3 * 30 + 50 + 8 * 15),
        (("down_proj",), {"down_proj"}, 50),
        (("lm_head",), {"lm_head"}, 1010),
        (("norm",), set(), 0),
        (("embed_tokens",), set(), 0),
    ],
)
def test_an_adapter_trains_its_rank_times_inputs_and_outputs(
    targets: Targets, roles: set[str], elements: float
) -> None:
    found = tensors()
    assert {t.role for t in found if is_adapted(t, targets)} == roles
    assert lora_params(found, 4, targets) == 4 * elements


@pytest.mark.parametrize(
    ("gated", "fused", "expected"),
    [
        (True, True, 8 * 100 + 500 + 6 * 400),
        (True, False, 16 * 100 + 500 + 8 * 400 + 8),
        (False, True, 8 * 100 + 500 + 4 * 400),
        (False, False, 16 * 100 + 500 + 4 * 400 + 8),
    ],
)
def test_a_layer_keeps_its_inputs_and_products(gated: bool, fused: bool, expected: float) -> None:
    assert activation_bytes_per_layer(100, 400, 500, gated=gated, fused=fused) == expected


def test_attention_keeps_queries_keys_values_output_and_statistics() -> None:
    # 8 heads of 16 and 2 of keys and values, 16 bit; a float32 for each head
    group = AttentionGroup(4, 2 * 2 * 16.0, 2, 2 * 8 * 16.0, 2 * 8 * 16.0)
    expected = 2 * (2 * 8 + 2 * 2) * 16 + 4 * 8
    assert attention_activation_bytes([group], heads=8, kv_heads=2, head_dim=16) == expected
    assert attention_activation_bytes([], heads=8, kv_heads=2, head_dim=16) == expected


def test_latent_attention_is_as_wide_as_its_heads_while_training() -> None:
    # a latent of 40 elements, decoded absorbed: more multiply-adds than prefill
    latent = AttentionGroup(4, 40.0, 1, 256.0, 640.0)
    assert attention_activation_bytes([latent], heads=8, kv_heads=8, head_dim=16) == 2 * 4 * 128 + 4 * 8


def test_a_loss_holds_twelve_bytes_a_logit() -> None:
    assert logits_bytes(10.0, 1000) == 120_000


FULL = AttentionGroup(1, 64.0, 2, 256.0, 256.0)
WINDOWED = replace(FULL, window_tokens=100.0)
SPARSE = replace(FULL, read_tokens=50.0, index_elements=8.0)


@pytest.mark.parametrize(
    ("group", "kept", "read", "held", "read_elements"),
    [
        (FULL, 400, 400, 64 * 400, 64 * 400),
        (WINDOWED, 100, 100, 64 * 100, 64 * 100),
        # keeps all keys and their index, scans the index, reads fifty
        (SPARSE, 400, 50, 72 * 400, 64 * 50 + 8 * 400),
        (replace(FULL, crosses=True), 400, 400, 0, 0),
    ],
)
def test_what_is_kept_and_read_at_a_context(
    group: AttentionGroup, kept: float, read: float, held: float, read_elements: float
) -> None:
    assert (group.cached_tokens(400), group.tokens_read(400)) == (kept, read)
    assert (group.cached_elements(400), group.read_elements(400)) == (held, read_elements)


@pytest.mark.parametrize("group", [FULL, WINDOWED, SPARSE])
@pytest.mark.parametrize("tokens", [1, 50, 99, 100, 101, 400])
def test_a_prompts_mean_is_the_sum_over_its_tokens(group: AttentionGroup, tokens: int) -> None:
    assert group.mean_tokens_read(tokens) == pytest.approx(
        sum(group.tokens_read(i) for i in range(1, tokens + 1)) / tokens
    )


WHOLE = ImageInput(14, 2, max_tokens=1000)
TILED = ImageInput(14, tile_pixels=336, max_tiles=6, tokens_per_tile=144)


def test_every_position_attends_to_every_other() -> None:
    tower = EncoderPass(24, 1024, 2048.0, 4096.0)
    assert tower.attention_flops(100) == 2 * 24 * 2048 * 100**2
    assert tower.attention_flops(200) == 4 * tower.attention_flops(100)


@pytest.mark.parametrize(
    ("images", "width", "height", "tokens", "patches"),
    [
        (WHOLE, 280, 560, 10 * 20, 20 * 40),
        (WHOLE, 2800, 2800, 1000, 4000),  # 100 x 100 tokens would be too many
        (WHOLE, 1, 1, 1, 1),
        (ImageInput(14, 2, row_breaks=True), 280, 560, 10 * 20 + 20, 20 * 40),
        (TILED, 336, 336, 144, 24**2),
        (TILED, 672, 336, 3 * 144, 3 * 24**2),  # two tiles and an overview
        (TILED, 3360, 3360, 5 * 144, 5 * 24**2),  # ten by ten shrunk to two by two, and an overview
        (ImageInput(14, 2, tile_pixels=336), 336, 336, 144, 576),  # four patches to a token
    ],
)
def test_an_image_becomes_patches_and_tokens(
    images: ImageInput, width: int, height: int, tokens: int, patches: int
) -> None:
    assert (images.token_count(width, height), images.patch_count(width, height)) == (tokens, patches)


def test_attention_of_grouped_and_latent_heads() -> None:
    assert attention_widths([], heads=8, kv_heads=2, head_dim=16) == (256, 64)
    found = layer_widths(registered("deepseek-ai/DeepSeek-V3"))
    assert (found.queries, found.keys) == (128 * (192 + 128), 128 * (192 + 128))


def test_layers_of_experts_are_a_mean() -> None:
    found = layer_widths(registered("deepseek-ai/DeepSeek-V3"))  # 3 dense layers of 61, one shared expert
    assert found.dense == pytest.approx((3 * 18432 + 58 * 2048) / 61)
    assert found.routed == pytest.approx(58 * 8 * 2048 / 61)
    assert found.dispatched == pytest.approx(58 * 8 * 7168 / 61)
    assert (found.router, found.selected_experts) == pytest.approx((256 * 58 / 61, 8 * 58 / 61))


def test_blocks_side_by_side_have_one_norm() -> None:
    assert layer_widths(registered("microsoft/phi-1_5")).norms == 1
    assert layer_widths(LLAMA_8B).norms == layer_widths(OPT_13B).norms == 2
    assert (layer_widths(LLAMA_8B).norm_readers, layer_widths(OPT_13B).norm_readers) == (5, 4)


def test_adapters_read_each_input_once_unless_it_is_kept() -> None:
    found = adapter_widths(LLAMA_8B, "q_v")
    assert (found.inputs, found.unshared, found.matrices) == (2 * 4096, 4096, 2)
    widths = adapter_widths(registered("microsoft/phi-1_5"), "all-linear")
    assert widths.unshared == 2048 + 8192  # one norm for both, and the product
    assert adapter_widths(LLAMA_8B, ["o_proj"]).unshared == 0


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
