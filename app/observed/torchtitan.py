"""Patterns for torchtitan logs.

Source: pytorch/torchtitan, torchtitan/components/metrics.py, trainer.py and components/checkpointer/dcp.py (0.2 and
main of 2026-08-21), read 2026-11-23. tps is per accelerator. An asynchronous checkpoint reports the time for which
it stops the run.
"""

from __future__ import annotations

from app.observed.trainer import Trainer, compile_patterns

TORCHTITAN = Trainer(
    "torchtitan",
    "torchtitan",
    steps=compile_patterns(r"(?<!validate )step: *<step> +loss:"),
    fields=compile_patterns(r"memory: *<memory_gib>GiB", r"tps: <device_tokens>", r"mfu: <mfu>%"),
    others=compile_patterns(
        r"<step_tokens> tokens per train step",
        r"global batch size <step_sequences>, gradient accumulation",
        r"Finished (?:saving|staging) the checkpoint(?: \(or staging[\w ]*\))? ?in <saved_s> seconds",
        r"<retries> \w+ memory allocation retries",
        r"(?P<begun>Training starts) at step",
    ),
)
