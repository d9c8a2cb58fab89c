"""Recipes of training on samples."""

from app.sizing.hardware.recipes.record import OPTIMIZER_IMPLEMENTATIONS, RECOMPUTATIONS
from app.sizing.hardware.recipes.samples import SAMPLE_PRECISIONS, SAMPLE_RECIPES, sample_recipe_of
from app.sizing.model.tasks import ModelTask
from app.sizing.training.recipes import OPTIMIZERS


def test_a_recipe_says_known_words_where_it_was_read_and_when() -> None:
    for recipe in SAMPLE_RECIPES:
        assert recipe.precision in SAMPLE_PRECISIONS
        assert recipe.recomputation in RECOMPUTATIONS
        assert recipe.optimizer_implementation in OPTIMIZER_IMPLEMENTATIONS
        assert recipe.optimizer in OPTIMIZERS
        assert recipe.source and recipe.as_of
    assert len({recipe.name for recipe in SAMPLE_RECIPES}) == len(SAMPLE_RECIPES)
    usual = [recipe.task for recipe in SAMPLE_RECIPES if recipe.is_usual]
    assert sorted(usual) == [ModelTask.DIFFUSION, ModelTask.SPEECH, ModelTask.VISION]


def test_an_undescribed_framework_trains_as_is_usual_of_its_kind() -> None:
    assert sample_recipe_of("fsdp", ModelTask.VISION).channels_last
    assert sample_recipe_of("fsdp", ModelTask.DIFFUSION).name == "diffusers diffusion"
    assert sample_recipe_of("pytorch", ModelTask.VISION).precision == "fp32"
