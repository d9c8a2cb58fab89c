"""Patterns for MaxText logs.

Source: AI-Hypercomputer/maxtext of 2026-08-22, src/maxtext/common/metric_logger.py and common/checkpointing.py, read
2026-11-23. MaxText dispatches the first steps asynchronously, so their times are meaningless.
"""

from __future__ import annotations

from app.observed.trainer import Trainer, compile_patterns

MAXTEXT = Trainer(
    "maxtext",
    "MaxText",
    steps=compile_patterns(r"completed step: <step>, seconds: <seconds>"),
    fields=compile_patterns(r"Tokens/s/device: <device_tokens>"),
    others=compile_patterns(r"(?P<saved>Saved a checkpoint) at step"),
)
