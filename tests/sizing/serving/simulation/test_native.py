"""The compiled loop and the same loop in Python give equal results, bit for bit; what has no equal in C is refused."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields
from multiprocessing.pool import Pool
from types import FunctionType
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from app.compiled import compile_simulation
from app.sizing.serving.simulation import Gaps, Replica, Requests, kernel, native
from app.sizing.serving.simulation.c_source import UntranslatableError, c_source
from app.sizing.serving.simulation.state import NOW, State
from tests.sizing.serving.simulation.given import poisson, replica, requests, simulated

COUNT = 60
LONGEST_S = 60.0  # a compiled loop that takes longer than this, including the start of its process, never ends


def drawn(rng: np.random.Generator) -> tuple[Replica, Requests]:
    """A replica with any scheduler and requests of any lengths, which together reach every branch of the loop."""

    def one_of(*values: Any) -> Any:
        return values[rng.integers(len(values))]

    windows = int(rng.integers(3))
    r = replica(
        policy=one_of(0, 1),
        chunked=one_of(True, False),
        max_batched_tokens=one_of(256, 2048, 8192),
        max_sequences=one_of(4, 64),
        preemption=one_of(0, 1, 2),
        receive_interval_steps=one_of(1, 10),
        batch_wait_steps=one_of(0, 20),
        batch_wait_share=one_of(0.5, 0.9),
        planning_lag_steps=one_of(0, 1),
        decode_s=0.005 + 0.01 * rng.random() + np.arange(300) * 1e-5,
        linear_s=np.cumsum(rng.random(200)) * 1e-5,
        linear_exact=one_of(199, 100),
        linear_stride=one_of(1, 64),
        prompt_equivalent=2 * rng.random(),
        prompt_fixed_tokens=3 * rng.random(),
        padding_equivalent=one_of(0.0, 20.0),
        expert_share=1 / 16,
        dispatch_s=one_of(0.0, 0.01),
        graph_dispatch_s=one_of(0.0, 0.001),
        graph_tokens=one_of(0, 512),
        prompt_attention_s=np.cumsum(rng.random(169)) * 1e-9,
        stages=one_of(1, 4),
        ranks=one_of(1, 4),
        pooled_share=rng.random(),
        stages_overlap=one_of(True, False),
        attention_token_s=1e-8 * rng.random(),
        window_tokens=np.array([128, 1024][:windows], np.int64),
        window_attention_s=1e-8 * rng.random(windows),
        window_cache_bytes=3 * rng.random(windows),
        cache_token_bytes=one_of(0.0, 1.0, 2.5),
        cache_bytes=one_of(1e12, 5e4, 5e3),
        output_reserve_share=one_of(0.0, 1.0),
        ingest_s=one_of(0.0, 0.01),
        stream_token_s=one_of(0.0, 1e-5),
    )
    prompts, answers = rng.integers(100, 3000, COUNT), rng.integers(1, 300, COUNT)
    arrival_s = poisson(one_of(1.0, 5.0, 20.0), COUNT) if rng.random() < 0.6 else np.zeros(0)
    return r, requests(
        prompts,
        answers,
        count=COUNT,
        arrival_s=arrival_s,
        in_flight=one_of(1, 16),
        prefix_tokens=rng.integers(0, 100, COUNT),
        shared_tokens=one_of(0, 50),
        reuse_gap_s=one_of(0.0, 10.0),
    )


def results(r: Replica, q: Requests) -> list[bytes]:
    """Every number of a simulation."""
    found = simulated(r, q, warm=5, wanted=COUNT - 5)
    values = [getattr(found, field.name) for field in fields(found)]
    return [np.asarray(value.tokens if isinstance(value, Gaps) else value).tobytes() for value in values]


def compiled_results(seed: int) -> list[bytes]:
    """Every number of a drawn simulation as the compiled loop gives it."""
    assert native.is_compiled()
    return results(*drawn(np.random.default_rng(seed)))


@pytest.fixture(scope="module")
def other_process() -> Iterator[Pool]:
    """A process for the compiled loop, which can be ended where a loop in C would run for ever."""
    with multiprocessing.get_context("spawn").Pool(1, compile_simulation) as pool:
        yield pool


class InRange(list[Any]):
    """A list that refuses negative indices, which C would read before the array."""

    def __getitem__(self, index: Any) -> Any:
        assert index >= 0
        return super().__getitem__(index)

    def __setitem__(self, index: Any, value: Any) -> None:
        assert index >= 0
        super().__setitem__(index, value)


# A seed is not simplified: every smaller one draws something else.
@settings(phases=[Phase.generate], report_multiple_bugs=False)
@given(seed=st.integers(0, 2**32))
def test_compiled_and_python_agree_to_the_last_bit(other_process: Pool, seed: int) -> None:
    compiled = other_process.apply_async(compiled_results, (seed,)).get(LONGEST_S)
    r, q = drawn(np.random.default_rng(seed))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(native, "_loaded", [])
        patched.setattr(native, "_as_lists", lambda record: type(record)(*map(listed, record)))
        assert results(r, q) == compiled


def listed(value: Any) -> Any:
    return InRange(value.tolist()) if isinstance(value, np.ndarray) else value


def test_the_tests_run_the_compiled_loop() -> None:
    assert native.is_compiled()


def test_a_library_that_does_not_exist_changes_nothing(tmp_path: Any) -> None:
    with pytest.raises(OSError, match="nothing"):
        native.load_library(tmp_path / "nothing.so")
    assert native.is_compiled()


def test_every_operation_keeps_its_meaning() -> None:
    text = c_source(cast(FunctionType, kernel.run_events))
    assert "static inline int64 ceiling(double a)" in text
    assert "floor_div(r->max_batched_tokens, r->ranks)" in text  # as Python rounds, not as C
    assert "bit_length(((int64)tokens))" in text
    assert "((double)time_s / (double)step_s)" in text
    assert text.count("\nvoid run_events(const Replica *r, const Requests *q, const State *s, int64 warm) {") == 1
    assert "#include" not in text


def power(s: State) -> None:
    """No C."""
    s.clock[NOW] = s.clock[NOW] ** 2


def strided(s: State) -> None:
    """No C."""
    for i in range(0, 10, 2):
        s.clock[i] = 0.0


def sliced(s: State) -> None:
    """No C."""
    s.clock[:] = 0.0


def collected(s: State) -> None:
    """No C."""
    s.clock[NOW] = [1.0][0]


def narrowed(s: State, at: int) -> None:
    """No C: an integer of C cannot become a float."""
    at = 0.5  # type: ignore[assignment]
    s.clock[at] = 1.0


def otherwise(s: State, at: int) -> None:
    """No C."""
    while at > 0:
        if at == 1:
            break
        at -= 1
    else:
        s.clock[NOW] = 1.0


UNTRANSLATABLE: Sequence[Callable[..., None]] = (power, strided, sliced, collected, narrowed, otherwise)


@pytest.mark.parametrize("function", UNTRANSLATABLE, ids=lambda f: f.__name__)
def test_what_has_no_equal_in_c_is_refused_with_its_line(function: Callable[..., None]) -> None:
    with pytest.raises(UntranslatableError, match=r"test_native.py:\d+: no C for"):
        c_source(cast(FunctionType, function))
