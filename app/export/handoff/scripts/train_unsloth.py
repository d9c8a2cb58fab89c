"""Fine-tunes a language model with Unsloth's FastLanguageModel and TRL's SFTTrainer.

train.sh sets the environment variables that name data, model and checkpoints; train.yaml has the sized settings.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from unsloth import FastLanguageModel  # isort: skip  # it patches the libraries below, so its import comes first

import torch
import yaml
from datasets import Dataset, load_dataset
from transformers.trainer_utils import get_last_checkpoint
from trl import SFTConfig, SFTTrainer

LOADERS = {".json": "json", ".jsonl": "json", ".parquet": "parquet", ".csv": "csv", ".txt": "text"}
COLUMNS = ("messages", "conversations", "text")
ROLES = {"human": "user", "gpt": "assistant"}  # roles of conversations whose turns have `from` and `value`


def load_records(source: str, tokenizer) -> Dataset:
    """Training data as one column `text`: conversations pass through the chat template of the tokenizer."""
    path, split = Path(source), os.environ["DATASET_SPLIT"]
    if path.is_file():
        if path.suffix not in LOADERS:
            sys.exit(f"DATASET is {source}. Use a file that ends in one of: {', '.join(LOADERS)}.")
        records = load_dataset(LOADERS[path.suffix], data_files=source, split="train")
    else:
        records = load_dataset(source, split=split)
    column = next((name for name in COLUMNS if name in records.column_names), None)
    if column is None:
        sys.exit(f"DATASET has the columns {', '.join(records.column_names)}. It needs one of: {', '.join(COLUMNS)}.")
    if column == "text":
        return records.select_columns(["text"])
    if template := os.environ["CHAT_TEMPLATE"]:
        tokenizer.chat_template = Path(template).read_text()
    if tokenizer.chat_template is None:
        sys.exit(
            "DATASET has conversations, but the tokenizer has no chat template. Set CHAT_TEMPLATE to a file with a "
            "Jinja template, or start from the instruct version of the model."
        )
    return records.map(
        lambda record: {"text": tokenizer.apply_chat_template(to_messages(record[column]), tokenize=False)},
        remove_columns=records.column_names,
    )


def to_messages(turns: list[dict]) -> list[dict]:
    """Turns of a conversation as messages with role and content."""
    return [
        {"role": ROLES.get(turn["from"], turn["from"]), "content": turn["value"]} if "from" in turn else turn
        for turn in turns
    ]


def last_checkpoint(output: str) -> str | None:
    """Checkpoint to resume from: RESUME_FROM, or the last one in the output folder, or none."""
    chosen = os.environ["RESUME_FROM"]
    if chosen != "auto":
        return chosen
    return get_last_checkpoint(output) if Path(output).is_dir() else None


def main() -> None:
    """Trains, saves checkpoints on the way and the model at the end."""
    settings = yaml.safe_load(Path("train.yaml").read_text())
    if "SMOKE" in os.environ:
        settings["arguments"]["save_strategy"] = "no"
    output, start_from, seed = os.environ["OUTPUT_DIR"], os.environ["START_FROM"], int(os.environ["SEED"])
    model, tokenizer = FastLanguageModel.from_pretrained(model_name=start_from, **settings["model"])
    if "lora" in settings:
        model = FastLanguageModel.get_peft_model(model, random_state=seed, **settings["lora"])
    trainer = SFTTrainer(
        model=model,
        processing_class=tokenizer,
        train_dataset=load_records(os.environ["DATASET"], tokenizer),
        args=SFTConfig(
            **settings["arguments"],
            output_dir=output,
            max_steps=int(os.environ["STEPS"]),
            save_steps=int(os.environ["SAVE_STEPS"]),
            learning_rate=float(os.environ["LEARNING_RATE"]),
            warmup_steps=int(os.environ["WARMUP_STEPS"]),
            seed=seed,
            data_seed=seed,
        ),
    )
    resume = last_checkpoint(output)
    print(f"Resuming from {resume}." if resume else f"Starting from {start_from}.")
    trainer.train(resume_from_checkpoint=resume)
    print(f"Peak memory: {torch.cuda.max_memory_reserved() / 2**30:.2f} GiB.")
    if "SMOKE" not in os.environ:
        model.save_pretrained(output)
        tokenizer.save_pretrained(output)
        print(f"Saved the model in {output}.")


if __name__ == "__main__":
    main()
