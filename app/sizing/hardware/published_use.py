"""How much published use a software stack has for a task on the accelerators of a maker."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache

from app.sizing.facts import build_rows
from app.sizing.hardware.engines import engine_named
from app.sizing.hardware.support.records import FINE_TUNING, FULL, LORA, PRETRAINING, QLORA, SERVING, Work
from app.sizing.model.tasks import ModelTask

# Tasks of the table, by phase and method for models that generate text, and by kind of model for other serving.
_TEXT_TASKS = {
    (SERVING, ""): "LLM serving",
    (PRETRAINING, FULL): "pre-training",
    (FINE_TUNING, FULL): "full fine-tuning",
    (FINE_TUNING, LORA): "LoRA",
    (FINE_TUNING, QLORA): "QLoRA",
}
_SERVED_TASKS = {
    ModelTask.EMBEDDING: "embeddings",
    ModelTask.RERANKER: "embeddings",
    ModelTask.SPEECH: "speech",
    ModelTask.DIFFUSION: "images",
}


@dataclass(frozen=True, slots=True)
class PublishedUse:
    """Recipes, models or guides that a project publishes for one task of one stack.

    Without `families`, the row is about every family of the maker. Rows of different projects count different things,
    so that only large ratios matter (`familiar_first` in `decisions.ranking`).
    """

    task: str
    stack: str
    maker: str
    recipes: int
    counted: str  # what the number counts
    source: str
    as_of: str
    families: tuple[str, ...] = ()


PUBLISHED_USE = build_rows(PublishedUse, "published_use.csv")


# Tasks with rows of their own for mixtures of experts, and for runs on one accelerator.
_WITH_EXPERTS = {"pre-training": "MoE pre-training"}
_ON_ONE = {"full fine-tuning": "full fine-tuning on one accelerator"}


def use_task(work: Work, *, experts: bool = False, on_one: bool = False) -> str | None:
    """The task of the table for a piece of work; None for work that the table does not cover.

    Parameters:
        experts: whether the model is a mixture of experts.
        on_one: whether the run takes one accelerator.
    Check:
        >>> use_task(Work("fine_tuning", "lora")), use_task(Work("sample_inference", task=ModelTask.VISION))
        ('LoRA', None)
        >>> use_task(Work("training", "full"), experts=True), use_task(Work("fine_tuning", "full"), on_one=True)
        ('MoE pre-training', 'full fine-tuning on one accelerator')
    """
    if work.task is ModelTask.DECODER:
        task = _TEXT_TASKS.get((work.phase, work.method), "")
        return (_WITH_EXPERTS if experts else {}).get(task) or (_ON_ONE if on_one else {}).get(task) or task or None
    return None if work.is_training else _SERVED_TASKS.get(work.task)


@cache
def published_recipes(task: str | None, engine: str, family: str, maker: str) -> int:
    """Recipes that are published for a task with an engine on a family of accelerators; 0 if the table has none.

    A front without rows of its own counts those of the engine that it runs on.

    Parameters:
        task: a task of the table, or None.
        maker: the vendor of the family; empty where several vendors sell it.
    Check: MaxText has recipes for pre-training on NVIDIA GPUs, and none for LoRA.
        >>> [published_recipes(task, "maxtext", "nvidia_hopper", "NVIDIA") for task in ("pre-training", "LoRA")]
        [8, 0]
    """
    found = _count_recipes(task, engine, family, maker)
    base = engine_named(engine).base_engine()
    return found if found or base == engine else _count_recipes(task, base, family, maker)


def _count_recipes(task: str | None, stack: str, family: str, maker: str) -> int:
    rows = (row for row in PUBLISHED_USE if (row.task, row.stack) == (task, stack))
    return sum(row.recipes for row in rows if (family in row.families if row.families else row.maker == maker))


def covers_task(task: str | None) -> bool:
    """Whether the table has rows for a task."""
    return any(row.task == task for row in PUBLISHED_USE)


def maker_of(vendors: Iterable[str]) -> str:
    """The one vendor of a family; empty if there are several.

    Check:
        >>> maker_of({"NVIDIA"}), maker_of({"AMD", "Intel"})
        ('NVIDIA', '')
    """
    several = set(vendors)
    return several.pop() if len(several) == 1 else ""
