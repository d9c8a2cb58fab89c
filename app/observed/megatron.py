"""Patterns for logs of Megatron-LM, Megatron Bridge and NeMo.

Source: NVIDIA/Megatron-LM of 2026-08-22, megatron/training/training.py, megatron/training/checkpointing.py and
megatron/core/timers.py; NVIDIA-NeMo/Megatron-Bridge, training/utils/train_utils.py; the progress printer of NeMo 2,
as its performance scripts show it; read 2026-11-23. Timers are the means per step of the slowest rank. Logs contain
them with --timing-log-level 1 and above.
"""

from __future__ import annotations

from app.observed.trainer import Trainer, compile_patterns

MEGATRON = Trainer(
    "megatron",
    "Megatron-LM",
    steps=compile_patterns(r"iteration +<step>/ *\d+ \|"),
    fields=compile_patterns(
        r"elapsed time per iteration \(ms\): <milliseconds>",
        r"power per GPU \(W/GPU\): <watts>",
        r"global batch size: *<step_sequences>",
    ),
    others=compile_patterns(
        r"(?P<saving>saving checkpoint at iteration)",
        r"successfully (?P<saved>saved) ?checkpoint (?:from|at) iteration",
        r"save-checkpoint \.*: \(?(?:[\d.]+, )?<saved_ms>",
        r"(?<![\w-])optimizer \.*: \(?(?:[\d.]+, )?<optimizer_ms>",
        r"batch-generator \.*: \(?(?:[\d.]+, )?<input_ms>",
        r"all-grads-sync \.*: \(?(?:[\d.]+, )?<communication_ms>",
        r"evaluate \.*: \(?(?:[\d.]+, )?<evaluated_ms>",
        r"(?P<begun>training \.\.\.)",
    ),
)
NEMO = Trainer(
    "nemo",
    "NeMo",
    steps=compile_patterns(r"Training epoch \d+, iteration \d+/\d+ \|"),
    fields=compile_patterns(
        r"global_batch_size: <step_sequences>",
        r"global_step: <step>",
        r"max_memory_reserved: <memory_bytes>",
        r"train_step_timing in s: <seconds>",
    ),
)
