"""Trains a language model with TRL's SFTTrainer.

train.sh sets the environment variables that name data, model and checkpoints; train.yaml has the sized settings.
"""

from __future__ import annotations

import os
from pathlib import Path

import torch
import yaml
from load_inputs import load_model, load_records, load_tokenizer
from peft import LoraConfig
from transformers.trainer_utils import get_last_checkpoint
from trl import SFTConfig, SFTTrainer


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
    output, start_from = os.environ["OUTPUT_DIR"], os.environ["START_FROM"]
    arguments = SFTConfig(
        **settings["arguments"],
        output_dir=output,
        max_steps=int(os.environ["STEPS"]),
        save_steps=int(os.environ["SAVE_STEPS"]),
        learning_rate=float(os.environ["LEARNING_RATE"]),
        warmup_steps=int(os.environ["WARMUP_STEPS"]),
        seed=int(os.environ["SEED"]),
        data_seed=int(os.environ["SEED"]),
    )
    records = load_records(os.environ["DATASET"])
    trainer = SFTTrainer(
        model=load_model(start_from, settings["model"]),
        args=arguments,
        train_dataset=records,
        processing_class=load_tokenizer(start_from, records),
        peft_config=LoraConfig(**settings["lora"]) if "lora" in settings else None,
    )
    resume = last_checkpoint(output)
    print(f"Resuming from {resume}." if resume else f"Starting from {start_from}.")
    trainer.train(resume_from_checkpoint=resume)
    if torch.cuda.is_available():
        print(f"Peak memory of rank {arguments.process_index}: {torch.cuda.max_memory_reserved() / 2**30:.2f} GiB.")
    if "SMOKE" in os.environ:
        return
    if trainer.is_fsdp_enabled:
        trainer.accelerator.state.fsdp_plugin.set_state_dict_type("FULL_STATE_DICT")
    trainer.save_model(output)
    print(f"Saved the model in {output}.")


if __name__ == "__main__":
    main()
