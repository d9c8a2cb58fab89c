"""The table of published use: its rows, and the rows that count for a stack."""

from __future__ import annotations

from collections import Counter

import pytest

from app.sizing.hardware.engines import ENGINES
from app.sizing.hardware.published_use import (
    PUBLISHED_USE,
    PublishedUse,
    covers_task,
    maker_of,
    published_recipes,
    use_task,
)
from app.sizing.hardware.support.records import FINE_TUNING, PRETRAINING, SAMPLES, SERVING, Work
from app.sizing.model.tasks import ModelTask
from tests.catalogued import accelerators

VENDORS = {a.vendor for a in accelerators().values()}
FAMILIES = {
    a.family: maker_of(b.vendor for b in accelerators().values() if b.family == a.family)
    for a in accelerators().values()
}
TASKS = {
    use_task(work)
    for work in (
        Work(SERVING),
        Work(PRETRAINING, "full"),
        *(Work(FINE_TUNING, method) for method in ("full", "lora", "qlora")),
        *(Work(SAMPLES, task=task) for task in ModelTask if task not in (ModelTask.DECODER, ModelTask.VISION)),
    )
} | {use_task(Work(PRETRAINING, "full"), experts=True), use_task(Work(FINE_TUNING, "full"), on_one=True)}


def test_every_row_is_about_known_software_hardware_and_work() -> None:
    assert {row.stack for row in PUBLISHED_USE} <= ENGINES.keys()
    assert {row.maker for row in PUBLISHED_USE} <= VENDORS
    assert {family for row in PUBLISHED_USE for family in row.families} <= FAMILIES.keys()
    assert {row.task for row in PUBLISHED_USE} == TASKS
    assert min(row.recipes for row in PUBLISHED_USE) >= 1


def test_a_stack_is_counted_once_for_a_task_and_a_family() -> None:
    counted = Counter(
        (row.task, row.stack, family)
        for row in PUBLISHED_USE
        for family in row.families or [f for f, maker in FAMILIES.items() if maker == row.maker]
    )
    assert [key for key, times in counted.items() if times > 1] == []


@pytest.mark.parametrize("row", PUBLISHED_USE, ids=lambda row: f"{row.task} {row.stack} {row.maker} {row.families}")
def test_the_rows_of_a_stack_are_found_for_its_families_only(row: PublishedUse) -> None:
    for family, maker in FAMILIES.items():
        meant = family in row.families if row.families else maker == row.maker
        if meant:
            assert published_recipes(row.task, row.stack, family, maker) == row.recipes


def test_a_front_counts_the_recipes_of_the_engine_underneath() -> None:
    own = published_recipes("LLM serving", "vllm", "nvidia_hopper", "NVIDIA")
    assert own > 0 and published_recipes("LLM serving", "aphrodite", "nvidia_hopper", "NVIDIA") == own


def test_work_that_the_table_does_not_cover_has_no_recipes() -> None:
    vision = use_task(Work(SAMPLES, task=ModelTask.VISION))
    assert vision is None and not covers_task(vision)
    assert published_recipes(vision, "vllm", "nvidia_hopper", "NVIDIA") == 0
    assert use_task(Work(PRETRAINING, "full", task=ModelTask.EMBEDDING)) is None
