"""The recipe that determines the memory of a run, as the answer states it."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from app.errors import AppError
from app.sizing.answer.recipe import recipe_reason, resolve_recipe
from app.sizing.estimate import estimate_deployment
from app.sizing.hardware.recipes import ADAPTER_FIELDS, RECIPES, VOCABULARIES, RecipeSettings
from app.sizing.question import Deployment, Question
from app.sizing.snapshot import Catalog
from app.sizing.workload import Method
from tests.sizing.training.layouts import H100, SINGLE, WORKLOAD, one


def test_what_is_said_of_adapters_goes_with_adapters(catalog: Catalog) -> None:
    for method, adapted in ((Method.FULL, 0), (Method.LORA, 2), (Method.QLORA, 3)):
        workload = replace(WORKLOAD, method=method)
        found = resolve_recipe(workload, one(catalog, framework="fsdp", zero_stage=0), 0)
        assert found is not None
        stated = (found.adapter_precision, found.adapter_dropout, found.kbit_widening)
        assert sum(value is not None for value in stated) == adapted


def test_recomputation_is_the_layouts_own(catalog: Catalog) -> None:
    for layout, said, text in (("none", None, "none"), ("selective", "attention", "attention"), ("full", None, "full")):
        plans = one(
            catalog, activation_checkpointing=layout, zero_stage=1, recipe=RecipeSettings(recomputation=said), **SINGLE
        )
        found = resolve_recipe(WORKLOAD, plans, 0)
        assert found is not None and found.recomputation == text


def test_one_sentence_names_whose_recipe_it_is() -> None:
    (said,) = recipe_reason(RecipeSettings(name="torchtune 0.6", loss="chunked", kernels="eager"))
    assert said.text.startswith("Memory follows the recipe of torchtune 0.6: eager kernels;")
    assert recipe_reason(None) == ()


def said(data: st.DataObject) -> RecipeSettings:
    """A recipe of which any part is said."""
    words: dict[str, Any] = {
        name: data.draw(st.sampled_from([None, *words])) for name, words in VOCABULARIES.items() if name != "selective"
    }
    flags: dict[str, Any] = {name: data.draw(st.sampled_from([None, True, False])) for name in ADAPTER_FIELDS[1:]}
    return RecipeSettings(**words, **flags)


@given(data=st.data())
def test_any_recipe_comes_back_whole_and_gives_the_same_memory_again(catalog: Catalog, data: st.DataObject) -> None:
    workload = replace(WORKLOAD, method=data.draw(st.sampled_from(list(Method))))
    recipe = said(data)
    framework = data.draw(st.sampled_from(["fsdp", "deepspeed", "megatron", "torchtune", "trl", "transformers"]))
    deployment = Deployment(
        H100,
        accelerators_per_replica=8,
        framework=framework,
        recipe=recipe,
        activation_checkpointing=recipe.recomputation_layout,
        optimizer_offload=recipe.offloads_optimizer,
    )
    try:
        found = estimate_deployment(Question(workload), deployment, catalog)
    except AppError:
        return
    recipe_shown = found.deployment.recipe
    if recipe_shown is None or recipe_shown.name is None:  # what does not run there is echoed as it was asked
        return
    wanted = {name: word for name, word in asdict(recipe).items() if word is not None}
    adapts = workload.method is not Method.FULL
    for name, word in wanted.items():
        if (adapts or name not in ADAPTER_FIELDS) and (workload.method is Method.QLORA or name != "kbit_widening"):
            assert getattr(recipe_shown, name) == word
    assert recipe_shown.name in {r.name for r in RECIPES}
    again = estimate_deployment(Question(workload), found.deployment, catalog)
    assert again.deployment == found.deployment
    assert again.memory == found.memory
