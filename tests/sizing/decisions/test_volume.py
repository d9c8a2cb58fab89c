"""How long a volume takes, and how many replicas are done in time, worked by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.sizing.assumptions import Assumptions
from app.sizing.decisions.volume import (
    can_meet_deadline,
    cold_start_s,
    min_run_s,
    replicas_for_volume,
    run_s,
)
from app.sizing.workload import InferenceWorkload, Load
from tests.examples import CHAT, col

OFFLINE = replace(CHAT, load=Load.OFFLINE)
VOLUME = replace(OFFLINE, volume_requests=1e6, deadline_s=36_000.0)


def replicas(workload: InferenceWorkload, capacity: float, *, batch: float = 20.0, start: float = 100.0) -> float:
    """Replicas that a workload takes where four of them share a machine."""
    return float(replicas_for_volume(workload, col(capacity), col(batch), col(start), col(4.0))[0])


@pytest.mark.parametrize(("nodes", "seconds"), [(1.0, 16.0), (2.0, 8.0)])
def test_a_cold_start_reads_the_weights_on_every_machine_and_starts_the_engine(nodes: float, seconds: float) -> None:
    assumed = replace(Assumptions(), model_load_gb_per_s=2.0, engine_start_s=45.0)
    assert cold_start_s(col(32e9), col(nodes), assumed).tolist() == pytest.approx([seconds + 45.0])


def test_a_run_is_its_start_and_an_even_share_of_no_less_than_a_batch() -> None:
    assert run_s(1e6, col(4.0), col(25.0), col(256.0), col(60.0)).tolist() == [60 + 1e6 / 4 / 25]
    assert run_s(100.0, col(4.0), col(25.0), col(256.0), col(60.0)).tolist() == [60 + 256 / 25]
    assert np.isfinite(run_s(100.0, col(4.0), col(0.0), col(1.0), col(60.0))).all()


def test_machines_are_filled_and_the_fewest_in_time() -> None:
    """A million at 3 a second in 35,900 s are 9.3 replicas: three machines of four."""
    assert replicas(VOLUME, 3.0) == 12
    assert replicas(replace(VOLUME, deadline_s=1e9), 3.0) == 4
    assert replicas(replace(VOLUME, deadline_s=None), 3.0) == 4  # as long as it takes
    assert replicas(OFFLINE, 3.0) == 4
    assert replicas(replace(VOLUME, deadline_s=99.0), 3.0) == 4  # no number is enough
    assert replicas(replace(VOLUME, volume_requests=36_000 * 12.0 - 1200), 3.0) == 4  # four, to the second


def test_no_number_of_replicas_goes_below_the_start_and_a_batch() -> None:
    hour = replace(VOLUME, deadline_s=3600.0)
    capacity, batch, start = col(1.0, 1.0, 2.0), col(100.0, 7100.0, 7100.0), col(100.0, 100.0, 100.0)
    assert min_run_s(capacity, batch, start).tolist() == [200.0, 7200.0, 3650.0]
    assert can_meet_deadline(hour, capacity, batch, start).tolist() == [True, False, False]
    assert can_meet_deadline(OFFLINE, capacity, batch, start).all()


@given(
    st.floats(1, 1e7),
    st.floats(200, 1e6),
    st.floats(0.01, 100),
    st.floats(1, 300),
    st.floats(1, 500),
    st.integers(1, 8),
    st.floats(0.1, 100),
)
def test_no_other_number_of_replicas_in_time_costs_less(
    volume: float, deadline: float, capacity: float, batch: float, start: float, each: int, usd: float
) -> None:
    """Compared with every number up to twice the chosen one; machines are paid from start to the end of the volume."""
    asked = replace(OFFLINE, volume_requests=volume, deadline_s=deadline)
    if not can_meet_deadline(asked, col(capacity), col(batch), col(start))[0]:
        return
    (chosen,) = replicas_for_volume(asked, col(capacity), col(batch), col(start), col(float(each))).tolist()
    tried = np.arange(1.0, min(2 * chosen + each, 1e5) + 1)
    lasts = run_s(volume, tried, np.full(len(tried), capacity), col(batch), col(start))
    total = usd * np.ceil(tried / each) * lasts
    if chosen > len(tried):
        return
    assert lasts[int(chosen) - 1] <= deadline * (1 + 1e-6)
    assert total[int(chosen) - 1] <= total[lasts <= deadline].min(initial=np.inf) * (1 + 1e-9)
