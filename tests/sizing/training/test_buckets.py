"""Buffers of exchanged gradients and gathered weights, worked by hand."""

from __future__ import annotations

import numpy as np
import pytest

from app.sizing.training.buckets import gradient_bucket_bytes, live_bytes
from tests.examples import col

YES = np.array([True])


@pytest.mark.parametrize("gradients", [1e6, 1e9, 1e12])
@pytest.mark.parametrize("bucket", [0.0, 2.5e7, 1e9, np.inf])
def test_buckets_are_never_more_than_the_gradients(gradients: float, bucket: float) -> None:
    found = gradient_bucket_bytes(col(bucket), col(gradients), YES)[0]
    assert found == min(bucket, gradients)
    assert gradient_bucket_bytes(col(bucket), col(gradients), ~YES).tolist() == [0.0]


def test_what_is_live_is_as_much_as_may_be() -> None:
    assert live_bytes(YES, col(70e9), col(1e9)).tolist() == [2e9]
    assert live_bytes(YES, col(70e9), col(0)).tolist() == [0]
    assert live_bytes(~YES, col(70e9), col(1e9)).tolist() == [0]
