"""What a server in front of an engine adds: prompts turned into tokens, and tokens handed to clients."""

from __future__ import annotations

import numpy as np

from app.sizing.columns import Column
from app.sizing.formula import formula
from app.sizing.hardware.achieved import Achieved
from app.sizing.workload import Load


def served(load: Load) -> float:
    """1 where requests come through a server; 0 where the engine's own process has them all beforehand."""
    return float(load in (Load.OPEN, Load.CLOSED))


@formula(unit="s/prompt", source="fitted to measurements")
def tokenise_s(prompt_tokens: Column, served: Column | float, achieved: Achieved) -> Column:
    """A server's work on a prompt before the engine sees it. Source: calibration. Limits: one process, in turn."""
    return served * prompt_tokens * achieved.tokenise_token_s


@formula(unit="s", source="a server's process hands out one token after another")
def decode_step_s(engine_step_s: Column, batch: Column, stream_token_s: Column) -> Column:
    """A step no faster than the server in front hands out its tokens.

    Source: calibration. Limits: one process in front of each replica.
    Check:
        >>> one(decode_step_s(col(0.01), col(512), col(50e-6)))
        0.0256
    """
    return np.maximum(engine_step_s, batch * stream_token_s)
