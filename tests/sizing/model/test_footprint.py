"""What a training step does with one sample grows with it, all but the kernels."""

from __future__ import annotations

from app.sizing.model.footprint import Footprint


def test_everything_but_the_kernels_grows_with_a_sample() -> None:
    one = Footprint(
        flops=2.0,
        kept_bytes=3.0,
        matrix_bytes=4.0,
        elementwise_bytes=5.0,
        operations=6.0,
        kept_wide_bytes=7.0,
        grouped_bytes=8.0,
        tiled_flops=9.0,
        grouped_taps=10.0,
        working_bytes=11.0,
        score_pairs=12.0,
    )
    double = one.scaled_by(2.0)
    assert {k: getattr(double, k) / getattr(one, k) for k in one.__slots__} == {
        k: 1 if k == "operations" else 2 for k in one.__slots__
    }
