"""torchtitan's configuration of this run: that of the model, with the data and the checkpoints that train.sh names."""

from __future__ import annotations

import importlib
import os
from pathlib import Path

from torchtitan.components.data import (
    ConcatThenSplitPackingConfig,
    GrainDataLoader,
    HuggingFaceRandomAccessSource,
    SingleDatasetConfig,
)
from torchtitan.components.optimizer import default_adamw
from torchtitan.components.validate import Validator
from torchtitan.distributed.activation_checkpoint import FullAC, SelectiveAC
from torchtitan.hf_datasets.text_datasets import ChatProcessor, TextProcessor
from torchtitan.trainer import Trainer

LOADERS = {".json": "json", ".jsonl": "json", ".parquet": "parquet"}
RECOMPUTATION = {"full": FullAC.Config, "selective": SelectiveAC.Config, "none": lambda: None}


def training_data() -> SingleDatasetConfig:
    """Training data of DATASET: plain text, or conversations if the run fine-tunes."""
    source = os.environ["DATASET"]
    loader = LOADERS.get(Path(source).suffix)
    where = {"path": loader, "load_dataset_kwargs": {"data_files": source}} if loader else {"path": source}
    text = os.environ["DATA_KIND"] == "text"
    processor = TextProcessor.Config() if text else ChatProcessor.Config(messages_fn=lambda record: record["messages"])
    return SingleDatasetConfig(
        source=HuggingFaceRandomAccessSource.Config(split=os.environ["DATASET_SPLIT"], **where),
        processor=processor,
        post_filters=(lambda sample: sample is not None,),
    )


def run() -> Trainer.Config:
    """Configuration of the model with this run's data, optimizer, recomputation and checkpoints."""
    registry = importlib.import_module(f"torchtitan.models.{os.environ['MODULE']}.config_registry")
    config = getattr(registry, os.environ["CONFIG"])()
    config.hf_assets_path = os.environ["ASSETS_DIR"]
    config.dataloader = GrainDataLoader.Config(dataset=ConcatThenSplitPackingConfig(dataset=training_data()))
    config.optimizer = default_adamw(lr=float(os.environ["LEARNING_RATE"]))
    config.activation_checkpoint = RECOMPUTATION[os.environ["RECOMPUTATION"]]()
    config.validator = Validator.Config(enable=False)
    if os.environ["DATA_KIND"] != "text":
        config.checkpoint.initial_load_path = os.environ["ASSETS_DIR"]
        config.checkpoint.initial_load_in_hf = True
        config.checkpoint.last_save_in_hf = True
    if os.environ["RESUME_FROM"] != "auto":
        config.checkpoint.initial_load_path = os.environ["RESUME_FROM"]
        config.checkpoint.initial_load_model_only = False
        config.checkpoint.initial_load_in_hf = False
    return config
