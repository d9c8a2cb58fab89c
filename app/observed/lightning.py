"""Patterns for PyTorch Lightning logs, which show progress bars.

Source: Lightning-AI/pytorch-lightning 2.6, callbacks/progress/tqdm_progress.py and docs/source-pytorch/visualize,
read 2026-11-23. Progress bars for training steps begin with the number of the epoch.
"""

from __future__ import annotations

from app.observed.huggingface import BAR
from app.observed.trainer import Trainer, compile_patterns

LIGHTNING = Trainer(
    "lightning",
    "PyTorch Lightning",
    steps=compile_patterns(r"^.{0,40}Epoch \d++: "),
    fields=compile_patterns(*BAR),
)
