"""Lines of Prometheus and OpenMetrics text as samples."""

from __future__ import annotations

from app.observed.exposition import canonical_name, parse_scrape


def read(text: str) -> dict[str, float]:
    return {sample.name: value for sample, value in parse_scrape(text, None, lambda _: True).values.items()}


def test_names_are_the_same_through_every_exporter() -> None:
    assert canonical_name("vllm:num_requests_running") == canonical_name("kserve_vllm:num_requests_running")
    assert canonical_name("ray_vllm_num_requests_running") == "vllm_num_requests_running"


def test_open_metrics_has_exemplars_moments_in_seconds_and_an_end() -> None:
    text = '# TYPE a counter\na_total{b="x # y"} 3 1790000000.5 # {trace_id="z"} 0.3\n# EOF\n'
    scrape = parse_scrape(text, None, lambda _: True)
    assert list(scrape.values.values()) == [3.0] and scrape.at_s == 1790000000.5


def test_prometheus_writes_moments_in_milliseconds() -> None:
    assert parse_scrape("a 3 1790000000500\n", None, lambda _: True).at_s == 1790000000.5


def test_a_broken_line_is_reported_and_the_others_are_read() -> None:
    scrape = parse_scrape('a 1\na{b="c} 1\nnot a metric\nb{\nc NaN\nd 2', None, lambda _: True)
    assert {sample.name: value for sample, value in scrape.values.items()} == {"a": 1.0, "d": 2.0}
    assert scrape.unread.lines == 3 and scrape.unread.first[0] == 'line 2: a{b="c} 1'


def test_metrics_that_mean_nothing_here_are_counted_once_each() -> None:
    scrape = parse_scrape(
        'x_bucket{le="1"} 1\nx_bucket{le="+Inf"} 2\nx_sum 3\nx_count 2\na 1\n', None, lambda n: n == "a"
    )
    assert scrape.unread.metrics == ("x",) and len(scrape.values) == 1


def test_the_part_of_a_line_that_is_shown_is_short_and_printable() -> None:
    (shown,) = parse_scrape("\x1b[31m" + "z" * 5000, None, lambda _: True).unread.first
    assert len(shown) < 100 and shown.isprintable()
