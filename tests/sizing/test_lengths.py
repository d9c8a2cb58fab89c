"""How long prompts and answers are, and the lengths that are drawn from that."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.sizing.assumptions import Assumptions
from app.sizing.columns import Quantiles, exp_of, log_of, normal_cdf
from app.sizing.serving.interfaces import Settings
from app.sizing.serving.kinds import AUTOREGRESSIVE
from app.sizing.workload import Arrivals, Lengths, Load, build_inference_workload, z_score
from tests.examples import CHAT, LLAMA_8B, registered
from tests.sizing.serving.given import DENSE, on_big

ASSUMED = Assumptions()
RATE = Arrivals(Load.OPEN, peak_per_s=2.0)
SHARES = (np.arange(20_000) + 0.5) / 20_000
TOKENS = st.integers(1, 20_000)
SPREAD = st.floats(1.0, 3.8)
WEIGHED = st.lists(st.tuples(TOKENS, st.floats(0, 100)), min_size=1, max_size=20).filter(
    lambda each: sum(weight for _, weight in each) > 0
)


@given(st.floats(-700, 700))
def test_exponentials_and_logarithms_are_those_of_mathematics(x: float) -> None:
    power = exp_of(np.array([x]))
    assert power[0] == pytest.approx(math.exp(x), rel=1e-12)
    assert log_of(power)[0] == pytest.approx(x, rel=1e-12, abs=1e-12)


@given(st.floats(0.001, 99.999))
def test_the_normal_distribution_is_that_of_statistics(percentile: float) -> None:
    assert normal_cdf(np.array([z_score(percentile)]))[0] == pytest.approx(percentile / 100, rel=1e-9)


def shapes() -> st.SearchStrategy[Lengths]:
    return st.one_of(
        st.builds(lambda mean, ratio: Lengths(mean, mean * ratio), st.floats(20, 20_000), SPREAD),
        st.builds(
            lambda mean, ratio, more: Lengths(mean, mean * ratio, mean * ratio * more),
            st.floats(20, 20_000),
            SPREAD,
            st.floats(1.0, 5.0),
        ),
        st.builds(lambda low, more: Lengths.uniform(low, low + more), TOKENS, st.integers(0, 20_000)),
        st.builds(lambda each: Lengths.from_histogram(*zip(*each, strict=True)), WEIGHED),
    )


@given(shapes())
def test_what_is_drawn_is_as_the_distribution_says(lengths: Lengths) -> None:
    drawn = lengths.draw_lengths(Quantiles(SHARES))
    assert drawn.dtype == np.int64
    assert drawn.min() >= 1
    assert (np.diff(drawn) >= 0).all()
    assert drawn.mean() == pytest.approx(lengths.mean, rel=0.02, abs=1)
    assert drawn.var() / drawn.mean() ** 2 == pytest.approx(lengths.squared_variation, rel=0.2, abs=0.002)
    below = [(drawn <= lengths.quantile(q) + 1).mean() for q in (5, 50, 95)]
    assert all(found >= q / 100 - 1e-3 for found, q in zip(below, (5, 50, 95), strict=True))
    assert (drawn < lengths.quantile(95) - 1).mean() <= 0.95 + 1e-3


@given(st.integers(1, 100_000), st.floats(1, 99))
def test_a_fixed_length_is_the_same_however_it_is_said(tokens: int, percentile: float) -> None:
    fixed = Lengths(tokens)
    for same in (Lengths(tokens, tokens), Lengths.uniform(tokens, tokens), Lengths.from_histogram([tokens], [7.5])):
        assert (same.mean, same.sigma, same.squared_variation) == (tokens, 0, 0)
        assert same.quantile(percentile) == fixed.quantile(percentile) == tokens
        assert (
            same.draw_lengths(Quantiles(SHARES[:50])).tolist()
            == fixed.draw_lengths(Quantiles(SHARES[:50])).tolist()
            == [tokens] * 50
        )


def test_the_first_and_the_last_share_have_a_length_too() -> None:
    ends = np.array([0.0, np.nextafter(1.0, 0.0)])
    assert Lengths.uniform(3, 7).draw_lengths(Quantiles(ends)).tolist() == [3, 7]
    assert Lengths.from_histogram([9, 4, 6], [1, 2, 0]).draw_lengths(Quantiles(ends)).tolist() == [
        4,
        9,
    ]  # what has no weight never comes
    assert Lengths.from_histogram([4, 9], [1, 1]).draw_lengths(Quantiles(np.array([0.49, 0.5]))).tolist() == [4, 9]
    few, many = Lengths(100.0, 200.0).draw_lengths(Quantiles(ends))
    assert 1 <= few < 100 < many < 10_000
    assert Lengths(0.0).draw_lengths(Quantiles(ends)).tolist() == [0, 0]


def test_drawn_lengths_are_these_on_every_machine() -> None:
    assert Lengths(800.0, 1600.0).draw_lengths(Quantiles(np.arange(1, 10) / 10)).tolist() == [
        374,
        466,
        545,
        624,
        707,
        802,
        918,
        1074,
        1336,
    ]


@given(shapes(), st.integers(0, 5000))
def test_tokens_of_images_lengthen_every_prompt(lengths: Lengths, tokens: int) -> None:
    longer = lengths.add_tokens(tokens)
    assert longer.mean == pytest.approx(lengths.mean + tokens)
    assert longer.quantile(95) == pytest.approx(lengths.quantile(95) + tokens, rel=1e-6)


@given(st.floats(2, 8000), st.floats(2, 8000))
def test_a_mean_is_spread_as_it_is_assumed_to_be(prompt: float, output: float) -> None:
    bare = build_inference_workload(LLAMA_8B, RATE, ASSUMED, input_tokens=prompt, output_tokens=output)
    said = {"input_tokens": Lengths(prompt, 2 * prompt), "output_tokens": Lengths(output, 2 * output)}
    assert build_inference_workload(LLAMA_8B, RATE, ASSUMED, **said) == bare  # type: ignore[arg-type]
    fixed = build_inference_workload(
        LLAMA_8B, RATE, ASSUMED.with_overrides({"length_p95_to_mean": 1}), input_tokens=prompt, output_tokens=output
    )
    assert fixed.input_tokens.sigma == fixed.output_tokens.sigma == 0
    assert fixed.max_context_tokens <= bare.max_context_tokens


@given(st.floats(1, 60_000), SPREAD, SPREAD)
def test_a_wider_spread_never_needs_less_room(mean: float, one: float, other: float) -> None:
    longest = [
        build_inference_workload(
            replace(LLAMA_8B, max_context_tokens=10**9), RATE, ASSUMED, input_tokens=Lengths(mean, mean * ratio)
        ).max_context_tokens
        for ratio in sorted((one, other))
    ]
    assert longest[0] <= longest[1]


@given(st.floats(1, 4000), st.floats(2, 2000), SPREAD, SPREAD)
def test_a_wider_spread_never_takes_less_memory(prompt: float, output: float, one: float, other: float) -> None:
    needed = []
    for ratio in sorted((one, other)):
        assumed = ASSUMED.with_overrides({"length_p95_to_mean": ratio})
        workload = build_inference_workload(DENSE, RATE, assumed, input_tokens=prompt, output_tokens=output)
        needed.append(AUTOREGRESSIVE.estimate_memory(workload, on_big(), assumed, Settings()).needed_bytes)
    assert (needed[0] <= needed[1]).all()


@pytest.mark.parametrize(
    ("arrivals", "longest"),
    [
        (RATE, 2 * 800 + 2 * 300),
        (Arrivals(Load.CLOSED, in_flight=64.0), 2 * 800 + 2 * 300),
        (Arrivals(Load.CLOSED, in_flight=4.0), 800 + 300),  # a few people's own machine
        (Arrivals(Load.BATCH, in_flight=64.0), 800 + 300),
        (Arrivals(Load.OFFLINE), 800 + 300),
    ],
)
def test_an_assumed_spread_asks_for_room_where_many_are_served(arrivals: Arrivals, longest: float) -> None:
    def room(model: str | None = None, prompt: float = 800.0) -> float:
        known = LLAMA_8B if model is None else registered(model)
        return build_inference_workload(
            known, arrivals, ASSUMED, input_tokens=prompt, output_tokens=300.0
        ).max_context_tokens

    assert room() == longest
    window = LLAMA_8B.max_context_tokens or 0
    assert room(prompt=window - 300.0) == window  # it never asks for more than the model has


def test_prompts_and_answers_are_no_longer_than_the_sequence_that_holds_them() -> None:
    wide = replace(CHAT, input_tokens=Lengths(6000, 20_000), output_tokens=Lengths(4000, 12_000))
    assert wide.long_prompt(99) == wide.long_answer(99) == CHAT.max_context_tokens
    assert CHAT.long_prompt(95) == pytest.approx(3000)
    narrow = replace(wide, model=replace(LLAMA_8B, max_context_tokens=8192))
    prompts, answers = narrow.draw_lengths(Quantiles(SHARES), Quantiles(SHARES[::-1]))
    assert (prompts + answers).max() <= 8192
    assert answers.min() >= 1


@given(st.floats(20, 20_000), SPREAD)
def test_lengths_end_at_a_percentile_or_the_window_and_keep_mean_and_p95(mean: float, ratio: float) -> None:
    endless = Lengths(mean, mean * ratio)
    cut = endless.cut_at(99.9, math.inf)
    assert cut.cut_at(99.0, 1.0) == cut  # a longest value stays
    drawn = cut.draw_lengths(Quantiles(SHARES))
    assert drawn.max() <= endless.quantile(99.9) <= endless.draw_lengths(Quantiles(SHARES)).max() + 1
    assert drawn.mean() == pytest.approx(mean, rel=0.002, abs=1)
    assert cut.quantile(95) == pytest.approx(endless.quantile(95))
    assert cut.squared_variation <= endless.squared_variation * (1 + 1e-6)
    window = endless.quantile(95) * 1.1
    assert endless.cut_at(99.9999, window).draw_lengths(Quantiles(SHARES)).max() <= window
    assert endless.cut_at(99.9, 1.0).quantile(100 - 1e-9) == pytest.approx(endless.quantile(95))  # never below the p95


def test_a_longest_value_bounds_the_default_spread() -> None:
    workload = build_inference_workload(LLAMA_8B, RATE, ASSUMED, output_tokens=Lengths(300, longest=500))
    assert (workload.output_tokens.p95, workload.output_tokens.longest) == (500, 500)
    usual = build_inference_workload(LLAMA_8B, RATE, ASSUMED, output_tokens=300.0).output_tokens
    assert usual.p95 == pytest.approx(600)
    assert usual.longest == pytest.approx(Lengths(300, 600).quantile(99.9))
