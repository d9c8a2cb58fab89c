"""What sets engines apart."""

from __future__ import annotations

from app.sizing.hardware.engines import engine_named


def test_engines_divide_a_device_by_their_own_rules() -> None:
    assert engine_named("vllm").memory.fraction == 0.92
    old = engine_named("vllm").memory_at("0.11.2.dev690+g67475a6e8")
    assert (old.fraction, old.logits_copies, old.graphs_inside) == (0.9, 9.6, False)
    assert engine_named("sglang").memory.fraction_of == "static"
    assert engine_named("tensorrt-llm").memory_at("1.0").fraction_of == "free"
