"""The recipe of each framework and version."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.sizing.facts import InvalidFact
from app.sizing.hardware.engines import ALIASES, ENGINES
from app.sizing.hardware.recipes import RECIPES, VOCABULARIES, TrainingRecipe, recipe_of_framework, recipes_today
from app.sizing.hardware.recipes.frameworks import PLACES, read_recipes
from app.sizing.hardware.support.builds import BUILDS

FIELDS = {name for name in TrainingRecipe.__slots__ if name not in ("framework", "since", "version", "sources", "note")}


def test_no_two_recipes_are_for_the_same() -> None:
    assert len(PLACES) == len(RECIPES)


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda r: f"{r.name} {'+'.join(r.methods)}")
def test_a_recipe_says_where_it_was_read_and_when(recipe: TrainingRecipe) -> None:
    assert recipe.source and recipe.as_of
    assert len(recipe.source) <= 300  # as a request takes it back
    assert {*recipe.sources} <= FIELDS
    assert recipe.framework not in ALIASES


@pytest.mark.parametrize("name", sorted({recipe.framework for recipe in RECIPES}))
def test_versions_of_a_framework_are_listed_oldest_first(name: str) -> None:
    first = [recipe.since or (0, 0) for recipe in RECIPES if recipe.framework == name]
    assert first == sorted(first)


def test_what_trains_and_is_no_other_engine_underneath_has_a_recipe_of_its_own() -> None:
    known = {recipe.framework for recipe in RECIPES}
    trains = {name for name, builds in BUILDS.items() if any(build.methods for build in builds)}
    own = {name for name in trains if name not in ENGINES or ENGINES[name].judged_as is None}
    assert own - known <= {"cerebras", "torchax"}


def test_a_framework_without_a_recipe_has_that_of_the_engine_underneath() -> None:
    assert recipe_of_framework("axlearn").name == "maxtext"
    assert recipe_of_framework("kohya").name == "fsdp"
    assert recipe_of_framework("kohya", None, "lora").framework == "peft+bitsandbytes"  # which adapts for it


def test_recipes_of_today_have_a_row_a_framework_by_method() -> None:
    today = recipes_today(["trl", "mlx"])
    assert {*today} == {"full", "lora", "qlora"}
    narrow = VOCABULARIES["adapter_precision"].index("16bit")
    assert [(today[m].adapter_precision == narrow).tolist() for m in ("lora", "qlora")] == [[False] * 2, [True, False]]


def test_an_undescribed_framework_is_pytorchs_own_loop() -> None:
    assert recipe_of_framework("something-new").weights == "sharded"


TWO = """
[[recipe]]
framework = "trl"
version = "0.24"
since = [0, 20]
methods = ["lora"]
source = "TRL v0.24"
as_of = "2025-10-15"
loss = "held"
packing = "padded"
[recipe.sources]
loss = "trainer/sft_config.py"

[[recipe]]
framework = "trl"
source = "TRL v1.9.0"
as_of = "2026-07-24"
"""


def test_a_recipe_that_is_like_another_takes_over_what_it_does_not_state(tmp_path: Path) -> None:
    (tmp_path / "two.toml").write_text(TWO + 'like = "trl 0.24"\nloss = "fused"\n')
    _, recipe = read_recipes(tmp_path / "two.toml")
    assert (recipe.version, recipe.since, recipe.methods, recipe.source) == ("", None, (), "TRL v1.9.0")
    assert (recipe.loss, recipe.packing, recipe.sources) == ("fused", "padded", {"loss": "trainer/sft_config.py"})


@pytest.mark.parametrize(
    ("added", "message"),
    [
        ('like = "trl 1.9"', "no earlier recipe is named 'trl 1.9'"),
        ('loss = "chunky"', "loss: 'chunky' is not one of shifted, held"),
        ('lost = "held"', "unknown key 'lost'"),
    ],
)
def test_a_mistake_in_a_recipe_is_an_error_that_says_where(tmp_path: Path, added: str, message: str) -> None:
    (tmp_path / "two.toml").write_text(f"{TWO}{added}\n")
    with pytest.raises(InvalidFact, match=rf"^two\.toml, recipe 2[:,] {message}"):
        read_recipes(tmp_path / "two.toml")
