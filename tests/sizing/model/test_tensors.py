"""The list of tensors: which are stored, multiplied or left out."""

from __future__ import annotations

from app.sizing.model.tensors import Inventory, Part, Per, Tensor


def test_experts_are_stored_all_and_multiplied_few() -> None:
    experts = Tensor("up_proj", Part.ROUTED_EXPERTS, 8, 4, (0, 1, 2), copies=16, used=2, per=Per.TOKEN)
    assert (experts.size, experts.count, experts.params) == (32, 48, 32 * 48)
    assert experts.multiplied_elements == 32 * 2 * 3
    assert experts.inactive_params == 32 * 14 * 3


def test_a_tied_head_is_multiplied_and_not_stored_again() -> None:
    for tied, stored in ((True, 0), (False, 4 * 100)):
        inventory = Inventory()
        inventory.add_head(4, 100, tied=tied)
        (head,) = inventory.tensors
        assert (head.params, head.multiplied_elements, head.inactive_params) == (stored, 400, 0)


def test_a_look_up_is_not_multiplied() -> None:
    inventory = Inventory()
    inventory.add_table("embed_tokens", 100, 4)
    assert (inventory.tensors[0].params, inventory.tensors[0].multiplied_elements) == (400, 0)


def test_a_matrix_comes_with_its_bias() -> None:
    inventory = Inventory()
    inventory.add_linear("q_proj", Part.ATTENTION, 4, 6, (0, 1), bias=True)
    inventory.add_linear("k_proj", Part.ATTENTION, 4, 6, (0, 1), bias=2)
    inventory.add_linear("v_proj", Part.ATTENTION, 4, 6, (0, 1))
    assert {t.role: t.params for t in inventory.tensors} == {
        "q_proj": 48,
        "q_proj.bias": 12,
        "k_proj": 48,
        "k_proj.bias": 4,
        "v_proj": 48,
    }
    # a bias is added, not multiplied, and stays in 16 bit
    assert {t.role for t in inventory.tensors if t.quantized and t.multiplied_elements} == {
        "q_proj",
        "k_proj",
        "v_proj",
    }


def test_what_is_in_no_layer_is_not_there() -> None:
    inventory = Inventory()
    inventory.add_linear("q_proj", Part.ATTENTION, 4, 6, ())
    assert inventory.tensors == []
