"""What kind of work a model does."""

from __future__ import annotations

import pytest

from app.sizing.model.counting.read import read_architecture
from app.sizing.model.tasks import TASKS, ModelTask, classify_task
from tests.examples import LLAMA_8B_CONFIG, registered


@pytest.mark.parametrize(
    ("name", "task"),
    [
        ("meta-llama/Llama-3.1-8B", ModelTask.DECODER),
        ("BAAI/bge-m3", ModelTask.EMBEDDING),
        ("Qwen/Qwen3-Embedding-8B", ModelTask.EMBEDDING),
        ("BAAI/bge-reranker-v2-m3", ModelTask.RERANKER),
        ("Qwen/Qwen3-Reranker-4B", ModelTask.RERANKER),
        ("openai/whisper-large-v3", ModelTask.SPEECH),
    ],
)
def test_tasks_of_registered_models(name: str, task: ModelTask) -> None:
    assert registered(name).task is task


def test_every_task_is_one_of_a_known_model_and_a_pasted_scorer_reranks() -> None:
    scorer = {**LLAMA_8B_CONFIG, "architectures": ["LlamaForSequenceClassification"], "num_labels": 1}
    assert read_architecture(scorer, name="scorer").reranks
    assert not read_architecture(scorer | {"num_labels": 9}, name="classes").reranks
    assert {
        classify_task(kind, None, reranks=r) for kind in ("decoder", "encoder", "samples") for r in (True, False)
    } < set(TASKS)
