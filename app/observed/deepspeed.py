"""Patterns for DeepSpeed logs.

Source: deepspeedai/DeepSpeed of 2026-08-22, deepspeed/utils/timer.py, runtime/pipe/engine.py and
runtime/checkpoint_engine/torch_checkpoint_engine.py, read 2026-11-23. Samples are sequences of all ranks, and 1 GB
is 2^30 bytes. Logs contain the parts of a step with wall_clock_breakdown.
"""

from __future__ import annotations

from app.observed.trainer import Trainer, compile_patterns

DEEPSPEED = Trainer(
    "deepspeed",
    "DeepSpeed",
    steps=compile_patterns(r"[=/]<step>, RunningAvgSamplesPerSec=", r"(?<!\w)steps: <step> loss:"),
    fields=compile_patterns(
        r"CurrSamplesPerSec=<samples>",
        r"MaxMemAllocated=<memory_gib>GB",
        r"iter time \(s\): <seconds> samples/sec:",
    ),
    others=compile_patterns(
        r"\| bwd_allreduce: <communication_ms> \| step: <optimizer_ms>",
        r"(?P<saving>Checkpoint \S+ is about to be saved)",
        r"(?P<saved>Checkpoint \S+ is ready now)",
    ),
)
