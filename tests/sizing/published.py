"""Published results made by hand: a test changes what it is about."""

from __future__ import annotations

from typing import Any

from app.sizing.evidence import Compared, Familiarity, Setting


def setting(**changes: Any) -> Setting:
    """vLLM on four of Hopper in FP8, a model of 70 billion parameters, 1024 tokens in and out."""
    known: dict[str, Any] = {
        "engine": "vllm",
        "family": "nvidia_hopper",
        "format_class": "fp8",
        "accelerator": "nvidia-h100-sxm5-80gb",
        "load": "closed",
        "params": 70e9,
        "devices": 4.0,
        "in_flight": 16.0,
        "input_tokens": 1024.0,
        "output_tokens": 1024.0,
    }
    return Setting(**known | changes)


def result(name: str = "m", measured: float = 100.0, **changes: Any) -> Compared:
    """A result that was predicted to be 100, between 50 and 200, and planned for as 80 of a rate; words and numbers of
    its setting can be changed too.
    """
    known: dict[str, Any] = {
        "source": "a",
        "reference": "r",
        "metric": "output_tokens_per_s",
        "predicted": 100.0,
        "held_out": 100.0,
        "near": Familiarity.STACK,
        "neighbor_sources": 1.0,
        "distance": 0.0,
        "low": 50.0,
        "high": 200.0,
        "promised": 80.0,
        "excluded": False,
        "model": "m",
    }
    of_setting = {k: v for k, v in changes.items() if k not in known}
    known |= {k: v for k, v in changes.items() if k in known}
    return Compared(measurement=name, measured=measured, setting=setting(**of_setting), **known)
