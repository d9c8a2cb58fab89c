"""Where an answer warns or stops explaining."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class AnswerAssumptions:
    # Warnings
    pass
