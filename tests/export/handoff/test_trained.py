"""A tiny random Llama is trained from the files as they are handed over: two steps, saved, resumed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from app.export.handoff.targets import build_files
from tests.export.handoff.runs import run_option

pytestmark = pytest.mark.torch
TINY: dict[str, Any] = {
    "maker": "none",  # no tool reads its memory
    "numbers": "fp32",
    "model": "./tiny",
    "length": 64,
    "micro_batch": 1,
    "accumulated": 1,
    "all_steps": 4,
    "performance": {},
    "deployment": {"activation_checkpointing": "none"},
}
TEMPLATE = "{% for m in messages %}{{ m['role'] }} {{ m['content'] }} </s> {% endfor %}"
RECORD = {
    "messages": [
        {"role": "user", "content": "add two and three"},
        {"role": "assistant", "content": "five hello world"},
    ]
}


def save_tiny_model(folder: Path) -> None:
    """A random Llama of two layers with a tokenizer of words."""
    import tokenizers  # noqa: PLC0415
    import transformers  # noqa: PLC0415

    words = tokenizers.Tokenizer(tokenizers.models.WordLevel(unk_token="<unk>"))
    words.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    trainer = tokenizers.trainers.WordLevelTrainer(special_tokens=["<unk>", "<s>", "</s>"])
    words.train_from_iterator(["user assistant add two and three five hello world"], trainer)
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=words, unk_token="<unk>", bos_token="<s>", eos_token="</s>", chat_template=TEMPLATE
    )
    tokenizer.save_pretrained(folder)
    config = transformers.LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=256,
    )
    transformers.LlamaForCausalLM(config).save_pretrained(folder)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of a tiny model."""
    folder = tmp_path_factory.mktemp("tiny")
    save_tiny_model(folder)
    return folder


def train(folder: Path, model: Path, steps: int, *arguments: str) -> str:
    """Output of train.sh."""
    environment = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "START_FROM": str(model),
        "DATASET": "data.jsonl",
        "OUTPUT_DIR": "out",
        "LEARNING_RATE": "1e-3",
        "STEPS": str(steps),
        "SAVE_STEPS": "2",
    }
    done = subprocess.run(
        ["bash", "train.sh", *arguments], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


@pytest.mark.parametrize(
    ("tool", "trains", "saved", "checkpoint"),
    [
        ("trl", "lora", "adapter_model.safetensors", "checkpoint-{}"),
        ("lightning", "full", "model.safetensors", "step={}.ckpt"),
    ],
)
def test_a_tiny_model_trains_saves_and_resumes(
    tool: str, trains: str, saved: str, checkpoint: str, model: Path, tmp_path: Path
) -> None:
    pytest.importorskip(tool)
    for file in build_files(run_option(tool, trains, **TINY), "shell", None).files:
        (tmp_path / file.name).write_text(file.text)
    (tmp_path / "data.jsonl").write_text(60 * (json.dumps(RECORD) + "\n"))
    second, fourth = (tmp_path / "out" / checkpoint.format(step) for step in (2, 4))
    if trains == "full":  # the lines of the smoke step are the same for every tool
        assert f"Starting from {model}." in train(tmp_path, model, 2, "--smoke")
        assert not (tmp_path / "out" / "smoke" / second.name).exists()
    assert f"Starting from {model}." in train(tmp_path, model, 2)
    assert second.exists()
    assert (tmp_path / "out" / saved).is_file()
    assert f"Resuming from {second}." in train(tmp_path, model, 4)
    assert fourth.exists()
