"""Lines of Prometheus and OpenMetrics text as samples. Several scrapes together: increases, means, quantiles."""

from __future__ import annotations

import math
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.observed.exposition import Histogram, Metric, Series, _parse_sample, canonical_name, parse_scrape
from tests.observed.written import FIRST_TOKEN_BUCKETS, STARTED_S, written


def read(text: str) -> dict[str, float]:
    return {sample.name: value for sample, value in parse_scrape(text, None, lambda _: True).values.items()}


def test_names_are_the_same_through_every_exporter() -> None:
    assert canonical_name("vllm:num_requests_running") == canonical_name("kserve_vllm:num_requests_running")
    assert canonical_name("ray_vllm_num_requests_running") == "vllm_num_requests_running"
    assert canonical_name("num_requests_running") == "vllm_num_requests_running"  # NVIDIA NIM


def test_open_metrics_has_exemplars_moments_in_seconds_and_an_end() -> None:
    text = '# TYPE a counter\na_total{b="x # y"} 3 1790000000.5 # {trace_id="z"} 0.3\n# EOF\n'
    scrape = parse_scrape(text, None, lambda _: True)
    assert list(scrape.values.values()) == [3.0] and scrape.at_s == 1790000000.5


def test_prometheus_writes_moments_in_milliseconds() -> None:
    assert parse_scrape("a 3 1790000000500\n", None, lambda _: True).at_s == 1790000000.5


def test_a_broken_line_is_reported_and_the_others_are_read() -> None:
    late = f"e 1 {'9' * 400}\nf {'9' * 400}"
    scrape = parse_scrape(f'a 1\na{{b="c}} 1\nnot a metric\nb{{\nc NaN\n{late}\nd 2', None, lambda _: True)
    assert {sample.name: value for sample, value in scrape.values.items()} == {"a": 1.0, "d": 2.0}
    assert scrape.unread.lines == 5 and scrape.unread.first[0] == 'line 2: a{b="c} 1'


LABELS = st.lists(
    st.tuples(
        st.sampled_from(["a", "le", "engine", "_a", "__name__"]), st.sampled_from(["", "0", "+Inf", "a,b", "#", "é"])
    )
)


@settings(max_examples=40)
@given(
    name=st.sampled_from(["a", "v:b", "_x"]),
    labels=LABELS,
    rest=st.from_regex(r" [0-9.e]{1,3}( [0-9.-]{1,3})?", fullmatch=True),
)
def test_plain_lines_are_read_as_the_library_reads_them(name: str, labels: list[tuple[str, str]], rest: str) -> None:
    line = name + "{" * bool(labels) + ",".join(f'{key}="{value}"' for key, value in labels) + "}" * bool(labels) + rest
    with pytest.MonkeyPatch.context() as patch:
        plain = _parse_sample(line, 0)
        patch.setattr("app.observed.exposition.PLAIN", re.compile("(?!)"))
        assert repr(_parse_sample(line, 0)) == repr(plain)


def test_metrics_that_mean_nothing_here_are_counted_once_each() -> None:
    scrape = parse_scrape(
        'x_bucket{le="1"} 1\nx_bucket{le="+Inf"} 2\nx_sum 3\nx_count 2\na 1\n', None, lambda n: n == "a"
    )
    assert scrape.unread.metrics == ("x",) and len(scrape.values) == 1


def test_the_part_of_a_line_that_is_shown_is_short_and_printable() -> None:
    (shown,) = parse_scrape("\x1b[31m" + "z" * 5000, None, lambda _: True).unread.first
    assert len(shown) < 100 and shown.isprintable()


def series(*texts: tuple[str, float]) -> Series:
    return Series.from_scrapes([parse_scrape(text, at_s, lambda _: True) for text, at_s in texts])


def test_a_counter_that_fell_began_anew() -> None:
    texts = ((written({"a": value}), at_s) for value, at_s in ((100, 0.0), (160, 60.0), (40, 120.0)))
    found = series(*texts)
    assert sum(found.counter_increase(Metric("a_total")).values()) == 60 + 40 and found.window_s == 120


def test_of_one_scrape_all_since_the_start_is_counted() -> None:
    found = series((written({"a": 100}), STARTED_S + 50))
    assert sum(found.counter_increase(Metric("a_total")).values()) == 100 and found.window_s == 50


def test_a_gauge_is_the_mean_of_its_scrapes() -> None:
    found = series((written(gauges={"g": 2}), 0.0), (written(gauges={"g": 4}), 60.0))
    assert list(found.mean_gauge(Metric("g")).values()) == [3.0]


def test_a_histogram_that_is_cut_off_is_not_read() -> None:
    text = written(histograms={"h": (FIRST_TOKEN_BUCKETS, [0.2, 0.3])})
    cut = "\n".join(line for line in text.splitlines() if '+Inf"' not in line)
    assert series((text, 0.0)).merged_histogram(Metric("h")) is not None
    assert series((cut, 0.0)).merged_histogram(Metric("h")) is None


@given(st.lists(st.floats(0.002, 9.0), min_size=3, max_size=60), st.sampled_from([0.5, 0.95, 0.99]))
def test_a_quantile_lies_in_the_bucket_of_the_true_one(values: list[float], share: float) -> None:
    found = series((written(histograms={"h": (FIRST_TOKEN_BUCKETS, values)}), 0.0)).merged_histogram(Metric("h"))
    assert found is not None and found.mean == pytest.approx(math.fsum(values) / len(values))
    true = sorted(values)[math.ceil(share * len(values) - 1e-9) - 1]
    low, high = found.bucket_bounds(share)
    assert low < true <= high and low <= found.quantile(share) <= high


def test_beyond_the_last_bound_no_more_is_claimed_than_that() -> None:
    assert Histogram(Metric("h"), (0.1, math.inf), (1.0, 10.0), 40.0).quantile(0.5) == 0.1


@given(st.floats(0.0105, 0.0245), st.sampled_from([0.5, 0.95, 0.99]))
def test_waits_at_one_end_of_a_wide_bucket_are_not_taken_for_the_other(value: float, share: float) -> None:
    found = Histogram(Metric("h"), (0.01, 0.025, math.inf), (0.0, 1000.0, 1000.0), 1000 * value)
    evenly = 0.01 + 0.015 * share
    assert abs(found.quantile(share) - value) <= abs(evenly - value) + 1e-3
    assert found.quantile(0.5) == pytest.approx(value, rel=0.15)
