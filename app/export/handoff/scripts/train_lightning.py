"""Trains a language model with the Trainer of PyTorch Lightning.

train.sh sets the environment variables that name data, model and checkpoints; train.yaml has the sized settings. Each
rank loads the model into host memory.
"""

from __future__ import annotations

import os
import re
import sys
from contextlib import nullcontext
from pathlib import Path

import lightning
import torch
import yaml
from lightning.pytorch.callbacks import ModelCheckpoint
from lightning.pytorch.loggers import CSVLogger
from lightning.pytorch.strategies import FSDPStrategy
from load_inputs import load_model, load_records, load_tokenizer, to_messages
from peft import LoraConfig, get_peft_model
from torch.utils.data import DataLoader
from transformers import get_cosine_schedule_with_warmup


def tokens_of(record: dict, tokenizer) -> list[int]:
    """Tokens of a record: of a conversation through the chat template, or of text with an end token."""
    turns = record.get("messages") or record.get("conversations")
    if turns is None and "prompt" in record:
        turns = record["prompt"] + record["completion"]
    if isinstance(turns, list):
        return tokenizer.apply_chat_template(to_messages(turns), return_dict=False)
    return [*tokenizer(turns or record["text"])["input_ids"], tokenizer.eos_token_id]


def pack(batch: dict[str, list], tokenizer, length: int) -> dict[str, list]:
    """Sequences of `length` tokens: those of all records in a row, cut without padding; the rest is dropped."""
    records = (dict(zip(batch, values, strict=True)) for values in zip(*batch.values(), strict=True))
    row = [token for record in records for token in tokens_of(record, tokenizer)]
    return {"input_ids": [row[end - length : end] for end in range(length, len(row) + 1, length)]}


class PackedRecords(lightning.LightningDataModule):
    """Records as sequences of one length. One rank of each machine packs them; the others read its cache."""

    def __init__(self, length: int, micro_batch: int) -> None:
        super().__init__()
        self.length, self.micro_batch = length, micro_batch
        self.records = load_records(os.environ["DATASET"])
        self.tokenizer = load_tokenizer(os.environ["START_FROM"], self.records)

    def prepare_data(self) -> None:
        options = {"tokenizer": self.tokenizer, "length": self.length}
        packed = self.records.map(pack, batched=True, fn_kwargs=options, remove_columns=self.records.column_names)
        self.sequences = packed.with_format("torch")
        if len(packed) == 0:
            sys.exit(f"DATASET has no {self.length} tokens in a thousand records.")

    def setup(self, stage: str) -> None:  # noqa: ARG002
        self.prepare_data()

    def train_dataloader(self) -> DataLoader:
        return DataLoader(self.sequences, batch_size=self.micro_batch, shuffle=True, drop_last=True)


class Run(lightning.LightningModule):
    """A causal language model with its optimizer, its schedule and, on sharded weights, its clipping."""

    def __init__(self, settings: dict, sharded: bool) -> None:
        super().__init__()
        self.settings = settings
        self.model = load_model(os.environ["START_FROM"], settings["model"])
        if settings["model"]["recompute"]:
            self.model.gradient_checkpointing_enable({"use_reentrant": False})
        if "lora" in settings:
            # Sharding takes weights of one number format only.
            self.model = get_peft_model(self.model, LoraConfig(**settings["lora"]), autocast_adapter_dtype=not sharded)
        self.model.train()

    def training_step(self, batch: dict, _: int) -> torch.Tensor:
        offload = torch.autograd.graph.save_on_cpu() if self.settings["model"]["offload_activations"] else nullcontext()
        with offload:
            loss = self.model(input_ids=batch["input_ids"], labels=batch["input_ids"], use_cache=False).loss
        self.log("loss", loss, prog_bar=True)
        return loss

    def configure_optimizers(self) -> dict:
        path, name = self.settings["optimizer"]["class"].rsplit(".", 1)
        weights = [weight for weight in self.parameters() if weight.requires_grad]
        decay, rate = self.settings["optimizer"]["weight_decay"], float(os.environ["LEARNING_RATE"])
        optimizer = getattr(__import__(path, fromlist=[name]), name)(weights, lr=rate, weight_decay=decay)
        steps = int(os.environ["WARMUP_STEPS"]), int(os.environ["STEPS"])
        schedule = get_cosine_schedule_with_warmup(optimizer, *steps)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}

    def configure_gradient_clipping(self, optimizer, gradient_clip_val=None, gradient_clip_algorithm=None) -> None:
        if isinstance(self.trainer.strategy, FSDPStrategy):
            self.trainer.model.clip_grad_norm_(gradient_clip_val)
        else:
            self.clip_gradients(optimizer, gradient_clip_val, gradient_clip_algorithm)


def build_strategy(settings: dict, model: torch.nn.Module) -> FSDPStrategy | str:
    """Sharding over several accelerators, layer by layer; copies or a single one without it."""
    if "sharding" not in settings:
        return "auto"
    names = model._no_split_modules or []
    layers = {type(module) for module in model.modules() if type(module).__name__ in names}
    return FSDPStrategy(auto_wrap_policy=layers, state_dict_type="full", **settings["sharding"])


def last_checkpoint(output: Path) -> Path | None:
    """Checkpoint to resume from: RESUME_FROM, or the one of the latest step in the output folder, or none."""
    if (chosen := os.environ["RESUME_FROM"]) != "auto":
        return Path(chosen)
    steps = {int(re.search(r"\d+", path.name)[0]): path for path in output.glob("step=*.ckpt")}
    return steps[max(steps)] if steps else None


def main() -> None:
    """Trains, saves checkpoints on the way and the model at the end."""
    settings, smoke = yaml.safe_load(Path("train.yaml").read_text()), "SMOKE" in os.environ
    output, start_from = Path(os.environ["OUTPUT_DIR"]), os.environ["START_FROM"]
    lightning.seed_everything(int(os.environ["SEED"]), workers=True)
    run, data = Run(settings, "sharding" in settings), PackedRecords(**settings["data"])
    saved = ModelCheckpoint(
        output, "{step}", every_n_train_steps=int(os.environ["SAVE_STEPS"]), **settings["checkpoint"]
    )
    trainer = lightning.Trainer(
        **settings["trainer"],
        max_steps=int(os.environ["STEPS"]),
        strategy=build_strategy(settings, run.model),
        callbacks=[] if smoke else [saved],
        enable_checkpointing=not smoke,
        logger=CSVLogger(output),
    )
    resume = last_checkpoint(output)
    print(f"Resuming from {resume}." if resume else f"Starting from {start_from}.")
    trainer.fit(run, datamodule=data, ckpt_path=resume, weights_only=False)
    if torch.cuda.is_available():
        print(f"Peak memory of rank {trainer.global_rank}: {torch.cuda.max_memory_reserved() / 2**30:.2f} GiB.")
    if smoke:
        return
    weights = trainer.strategy.lightning_module_state_dict()  # gathered on all ranks, whole on the first one
    if trainer.is_global_zero:
        weights = {name.removeprefix("model."): weight for name, weight in weights.items()}
        run.model.save_pretrained(output, state_dict=weights)
        data.tokenizer.save_pretrained(output)
        print(f"Saved the model in {output}.")


if __name__ == "__main__":
    main()
