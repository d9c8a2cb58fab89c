"""Published results beside predictions: how near, and how far off."""

from __future__ import annotations

from typing import Any

import numpy as np

from app.sizing.evidence import Compared, Evidence, Near, Setting, nearness


def setting(**changes: Any) -> Setting:
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


def compared(i: int, ratio: float, *, source: str = "a", near: Near = Near.STACK, **changes: Any) -> Compared:
    return Compared(
        f"m{i}", source, "r", "output_tokens_per_s", ratio * 100.0, 100.0, 100.0, near, False, "m", setting(**changes)
    )


def test_an_interval_widens_where_sources_disagree_and_far_from_data() -> None:
    agreeing = Evidence(
        [compared(i, r, source=s) for s in "ab" for i, r in enumerate(np.linspace(0.9, 1.1, 60).tolist())]
    )
    torn = Evidence(
        [
            compared(i, r * f, source=s)
            for s, f in (("a", 0.7), ("b", 1.4))
            for i, r in enumerate(np.linspace(0.9, 1.1, 60).tolist())
        ]
    )
    tight, wide = agreeing.spread("throughput", Near.STACK), torn.spread("throughput", Near.STACK)
    assert 0.9 <= tight[0] < 1 < tight[1] <= 1.1
    assert wide[0] < tight[0] and wide[1] > tight[1]
    assert Evidence(()).spread("throughput", Near.FAR)[0] < tight[0]


def test_neighbours_are_near_and_each_measurement_comes_once() -> None:
    rows = [
        compared(0, 1.0),
        compared(0, 1.0),
        compared(1, 1.0, params=8e9),
        compared(2, 1.0, family="apple", engine="mlx"),
    ]
    found = Evidence(rows).neighbours(setting())
    assert [n.compared.measurement for n in found] == ["m0", "m1", "m2"]
    assert found[0].distance == 0
    assert found[2].distance > 1.5
    seen = {("vllm", "nvidia_hopper", "fp8"), ("mlx", "apple", "weight_only")}
    assert nearness("vllm", "nvidia_hopper", "16bit", seen) is Near.ENGINE_ON_FAMILY
    assert nearness("vllm", "apple", "fp8", seen) is Near.ENGINE_AND_FAMILY
    assert nearness("sglang", "gaudi", "fp8", seen) is Near.FAR
