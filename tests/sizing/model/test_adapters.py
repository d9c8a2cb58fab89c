"""Low-rank adapters: the matrices that they adapt, and the parameters that they train."""

from __future__ import annotations

import pytest

from app.sizing.model.adapters import Targets, is_adapted, lora_params
from app.sizing.model.tensors import Inventory, Part, Tensor


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
