"""The scheduler of a replica as it is deployed."""

from __future__ import annotations

import numpy as np

from app.sizing.assumptions import Assumptions
from app.sizing.columns import Column
from app.sizing.hardware.engines import engine_named
from app.sizing.hardware.engines.scheduling import Scheduler, SchedulerSettings
from app.sizing.question import Deployment
from app.sizing.serving.measured import Settings
from app.sizing.serving.memory import serving_memory
from app.sizing.serving.scheduling import deployed_scheduler
from tests.sizing.serving.given import DENSE, planned
from tests.sizing.small import BIG


def deployed(
    engine: str, asked: SchedulerSettings | None = None, *, offline: bool = False, sequences: Column | None = None
) -> Scheduler:
    fixed = Deployment(BIG.slug, system="big-8", provider="sky", tensor_parallel=1, engine=engine, weight_format="bf16")
    plans = planned(fixed=fixed).take(np.array([0]))
    settings = Settings(max_sequences=sequences)
    memory = serving_memory(
        DENSE, plans, Assumptions(), final_tokens=1000, longest_tokens=1000, offline=offline, settings=settings
    )
    return deployed_scheduler(plans, memory, 0, asked)


def test_an_engine_schedules_as_its_record_says_on_such_a_device() -> None:
    for engine in ("vllm", "tensorrt-llm"):
        for offline in (False, True):
            own = engine_named(engine).scheduling.for_device(BIG.memory_bytes or 0.0, BIG.family, offline=offline)
            assert deployed(engine, offline=offline) == own


def test_what_is_set_is_set() -> None:
    assert deployed("vllm", sequences=np.array([12.0])).max_sequences == 12
    asked = SchedulerSettings(batch_wait_steps=20, batch_wait_share=0.9)
    found = deployed("tensorrt-llm", asked)
    assert (found.batch_wait_steps, found.batch_wait_share, found.chunked) == (20, 0.9, False)
    assert deployed("vllm", found.to_settings).to_settings == found.to_settings
