"""Patterns for logs of the Hugging Face Trainer and tools based on it: TRL, axolotl, LLaMA-Factory, Swift and Unsloth.

Source: huggingface/transformers, src/transformers/trainer_utils.py (speed_metrics), trainer_callback.py; numbers are
quoted since 5.0; read 2026-11-23. The progress bar is that of tqdm and shows a mean over the last steps.
"""

from __future__ import annotations

from app.observed.trainer import Trainer, compile_patterns

BAR = (
    r"<step>/<of> \[[\d:]+<[^,\]]*, *<seconds>s/it",
    r"<step>/<of> \[[\d:]+<[^,\]]*, *<rate>it/s",
)
HUGGINGFACE = Trainer(
    "huggingface",
    "the Hugging Face Trainer",
    steps=compile_patterns(*BAR, r"[\"']train_steps_per_second[\"']: *[\"']?<run_rate>"),
    others=compile_patterns(
        r"[\"']train_runtime[\"']: *[\"']?<ran_s>",
        r"[\"']eval_runtime[\"']: *[\"']?<evaluated_s>",
        r"[\"']memory/max_(?:mem_)?(?:active|allocated) ?\(GiB\)[\"']: *[\"']?<memory_gib>",
        r"[\"']memory\(GiB\)[\"']: *[\"']?<memory_gib>",
        r"(?P<saving>Saving model checkpoint) to",
        r"[\"'](?P<known>loss)[\"']:",
        r"Total train batch size \([^)]*\) = <step_sequences>",
    ),
)
