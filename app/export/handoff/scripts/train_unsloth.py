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
from datasets import Dataset
from load_inputs import load_records, to_messages
from transformers.trainer_utils import get_last_checkpoint
from trl import SFTConfig, SFTTrainer

COLUMNS = ("messages", "conversations", "text")


def load_texts(source: str, tokenizer) -> Dataset:
    """Training data as one column `text`: conversations pass through the chat template of the tokenizer."""
    records = load_records(source, COLUMNS)
    column = next(name for name in COLUMNS if name in records.column_names)
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
    model, tokenizer = FastLanguageModel.from_pretrained(
        model_name=start_from, revision=os.environ["REVISION"], **settings["model"]
    )
    if "lora" in settings:
        model = FastLanguageModel.get_peft_model(model, random_state=seed, **settings["lora"])
    trainer = SFTTrainer(
        model=model,
        processing_class=tokenizer,
        train_dataset=load_texts(os.environ["DATASET"], tokenizer),
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
