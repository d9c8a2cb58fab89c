"""Cache sizes that engines logged at their start."""

from __future__ import annotations

import numpy as np
import pytest

from app.catalog.files import read_rows
from calibration.case import NotCompared
from calibration.memory_logs import compare_log, read_logs, version_of
from calibration.serving.cases import ServingCases
from tests.examples import rows_in


def test_cache_sizes_of_start_up_logs(builder: ServingCases) -> None:
    logs, left_out = read_logs(builder, list(read_rows("measurements_kv_cache.csv")))
    off = np.abs([log.relative_error for log in logs])
    assert len(logs) >= 50
    assert np.median(off) <= 0.025
    assert np.quantile(off, 0.9) <= 0.15
    assert sum(left_out.values()) + len(logs) == rows_in("measurements_kv_cache.csv")
    row = {**next(iter(read_rows("measurements_kv_cache.csv"))), "notes": "start failed"}
    with pytest.raises(NotCompared, match="did not start"):
        compare_log(builder, row)
    assert version_of({"engine_version": "", "engine": "vLLM", "source_date": "2024-12-02"}) == "0.6"
    assert version_of({"engine_version": "", "engine": "vLLM", "source_date": "2026-09-01"}) is None
