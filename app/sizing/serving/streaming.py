"""Work of the server in front of an engine: tokenizing prompts and streaming tokens to clients."""

from __future__ import annotations

import numpy as np

from app.sizing.columns import Column
from app.sizing.formula import formula
from app.sizing.hardware.achieved import Achieved
from app.sizing.workload import Load


def uses_server(load: Load) -> float:
    """1 where requests arrive through a server; 0 where the engine's own process has them all beforehand."""
    return float(load in (Load.OPEN, Load.CLOSED))


@formula(unit="s/prompt", source="calibration: fitted to measurements")
def tokenise_s(prompt_tokens: Column, served: Column | float, achieved: Achieved) -> Column:
    """Time that a server works on a prompt before the engine sees it.

    Parameters:
        prompt_tokens: tokens of the prompt.
        served: 1 where requests arrive through a server, else 0.
        achieved: fitted coefficients; `tokenise_token_s` is the time per prompt token, s.
    Limits: one process tokenizes prompts one after another.
    Check:
        >>> round(one(tokenise_s(col(2000), 1.0, row(tokenise_token_s=2e-6))), 6)
        0.004
    """
    return served * prompt_tokens * achieved.tokenise_token_s


@formula(unit="s", source="calibration: one server process streams tokens one after another")
def decode_step_s(engine_step_s: Column, batch: Column, stream_token_s: Column) -> Column:
    """Time of a decode step that is no faster than the server streams its tokens.

    Parameters:
        engine_step_s: decode step of the engine, s.
        batch: sequences that decode.
        stream_token_s: time of the server per streamed token, s.
    Limits: one server process in front of each replica.
    Check:
        >>> one(decode_step_s(col(0.01), col(512), col(50e-6)))
        0.0256
    """
    return np.maximum(engine_step_s, batch * stream_token_s)
