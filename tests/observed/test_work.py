"""Work that a pasted text causes: proportional to its length, and stopped when the request's time is over."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.garbage import paused_collection
from app.observed import read
from app.observed.benchmarks import read_measured_runs
from app.observed.exposition import MAX_LINE_CHARACTERS, MAX_MOMENTS, parse_scrape, parse_scrapes
from app.observed.figures import RunContext, UnreadableText
from app.observed.lines import MAX_LINES, LineIndex, required_literals
from app.observed.logs import ENGINE_LOGS, TRAINERS, read_log
from app.observed.read import read_metrics
from app.observed.startup import LINES, TABLES, UNSIZED
from app.work import CHECK_EVERY, OutOfTime, report_stages_to
from tests.observed.result_files import GUIDELLM

RUNS = RunContext(accelerator="nvidia-l4")
GAUGE = "vllm:num_requests_running"


def read_exposition(text: str) -> None:
    read_metrics([(text, 1.0)], RUNS)


def read_any_log(text: str) -> None:
    read_log(text, RUNS)


def query_range(series: int, points: int) -> str:
    values = [[at, "1"] for at in range(points)]
    result = [{"metric": {"__name__": GAUGE, "pod": f"p{i}"}, "values": values} for i in range(series)]
    return json.dumps({"data": {"resultType": "matrix", "result": result}})


# Each text by its size; the hostile ones are what took minutes: a line of escapes, of labels, of one accelerator each.
TEXTS: dict[str, tuple[Callable[[str], None], Callable[[int], str]]] = {
    "escapes": (read_exposition, lambda n: f'{GAUGE}{{a="' + '\\"' * 20 * n + '"} 1'),
    "labels": (read_exposition, lambda n: f"{GAUGE}{{" + ",".join(f'a{i}="1"' for i in range(5 * n)) + "} 1"),
    "lines of escapes": (read_exposition, lambda n: "\n".join([f'{GAUGE}{{a="' + '\\"' * 4000 + '"} 1'] * (n // 100))),
    "accelerators": (
        read_exposition,
        lambda n: "\n".join(f'DCGM_FI_DEV_GPU_TEMP{{gpu="{i}",modelName="m{i}"}} 1' for i in range(n)),
    ),
    "engines": (read_exposition, lambda n: "\n".join(f'{GAUGE}{{pod="p{i}"}} 1' for i in range(n))),
    "buckets": (
        read_exposition,
        lambda n: "\n".join(f'vllm:time_to_first_token_seconds_bucket{{le="{i}"}} {i}' for i in range(n)),
    ),
    "unknown metrics": (read_exposition, lambda n: "\n".join(f"m{i} 1" for i in range(10 * n))),
    "times": (read_exposition, lambda n: query_range(1, n)),
    "series": (read_exposition, lambda n: query_range(n // 10, 10)),
    "letters": (read_any_log, lambda n: "a\n" * 4 * n),
    "steps": (read_any_log, lambda n: "\n".join(f"step: {i} loss: 1 memory: 3GiB tps: 4" for i in range(n))),
    "batches": (read_any_log, lambda n: ("Decode batch" * 160 + "\n") * (n // 10)),
    "buffers": (read_any_log, lambda n: "\n".join(f"CUDA{i} buffer size = 4 MiB" for i in range(n))),
    "status": (read_any_log, lambda n: "\n".join([f"Engine {i}: Running: 3 reqs" for i in range(n)])),
}
SMALL = 1000  # parts of the small text; the large one has four times as many
LINEAR, QUADRATIC = 4, 16


def cpu_seconds(read: Callable[[str], None], text: str) -> float:
    began = time.process_time()
    with suppress(UnreadableText), paused_collection():
        read(text)
    return time.process_time() - began


@pytest.mark.parametrize("name", TEXTS)
def test_work_is_proportional_to_the_length_of_a_text(name: str) -> None:
    reader, text = TEXTS[name]
    small, large = text(SMALL), text(LINEAR * SMALL)
    ratios = []
    for _ in range(3):  # the best of three: another process can only lengthen a measurement
        ratios.append(cpu_seconds(reader, large) / max(cpu_seconds(reader, small), 0.003))
        if ratios[-1] < QUADRATIC / 2:
            break
    assert min(ratios) < QUADRATIC / 2, f"four times the text takes {min(ratios):.0f} times as long"


@pytest.mark.parametrize("scrapes", [[51], [26, 25], [1] * 13])
def test_all_scrapes_of_a_request_are_limited_together(scrapes: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read, "MAX_SAMPLES", 50)
    monkeypatch.setattr(read, "MAX_MOMENTS", 11)
    texts = [
        ("\n".join(f'{GAUGE}{{pod="p{i}"}} 1' for i in range(samples)), at) for at, samples in enumerate(scrapes, 1)
    ]
    with pytest.raises(UnreadableText, match="Send fewer scrapes"):
        read_metrics(texts, RUNS)
    assert read_metrics([("\n".join(text.split("\n")[:24]), at) for text, at in texts[:2]], RUNS).figures


PATTERNS = (
    *(pattern for t in (*TRAINERS, *ENGINE_LOGS) for pattern in (*t.steps, *t.fields, *t.others)),
    *(line.pattern for line in LINES),
    *(pattern for pattern, _ in UNSIZED),
    *TABLES,
)


@settings(max_examples=100)
@given(st.data())
def test_a_match_of_a_pattern_contains_one_of_the_texts_that_are_searched_first(data: st.DataObject) -> None:
    pattern = data.draw(st.sampled_from(PATTERNS))
    assert any(literal in data.draw(st.from_regex(pattern)) for literal in required_literals(pattern))


@pytest.mark.parametrize(
    ("pattern", "literals"),
    [
        (re.compile("a b c", re.VERBOSE), ("abc",)),
        (re.compile("(?i:abc)de"), ("de",)),
        (re.compile("abc", re.IGNORECASE), ("",)),
        (re.compile("(?:abc|)(?:d|e)*(?=xyz)(?<!x)"), ("",)),
        (re.compile("(?:abcd)?(?:xyz|uv)+w"), ("xyz", "uv")),
    ],
)
def test_only_texts_that_each_match_contains_are_required(pattern: re.Pattern[str], literals: tuple[str, ...]) -> None:
    assert required_literals(pattern) == literals


def test_each_pattern_is_compared_with_few_lines_of_a_text() -> None:
    """Cost of the lines of another program: patterns of thirteen trainers and four engines see none of them."""
    rare = [pattern for pattern in PATTERNS if min(map(len, required_literals(pattern))) < 2]
    assert [pattern.pattern for pattern in rare] == []
    status = ["INFO 10:00:00 [metrics.py:486] Running: 3 reqs, GPU KV cache usage: 3.0%, step 7 of 9 in 2.0 s"] * 1000
    index = LineIndex(status)
    assert sum(len(index.candidates(pattern)) for pattern in PATTERNS) <= 4 * len(status)


class Limit:
    """A listener whose time is over after some checks."""

    def __init__(self, most: int) -> None:
        self.checks, self._most = 0, most

    def check(self) -> None:
        self.checks += 1
        if self.checks > self._most:
            raise OutOfTime

    def enter(self, stage: str) -> str:
        return stage

    def leave(self, before: str) -> None:
        pass


@pytest.mark.parametrize("name", ["unknown metrics", "engines", "times", "series", "letters", "steps", "buffers"])
def test_every_parser_asks_each_thousandth_line_whether_to_go_on(name: str) -> None:
    reader, text = TEXTS[name]
    limit = Limit(3)
    with report_stages_to(limit), pytest.raises(OutOfTime):
        reader(text(10 * CHECK_EVERY))
    assert limit.checks == 4


def test_a_log_of_too_many_lines_is_refused_before_any_is_read() -> None:
    limit = Limit(0)
    with report_stages_to(limit), pytest.raises(UnreadableText, match="more than 40,000 lines"):
        read_any_log("step: 1 loss: 1\n" * (MAX_LINES + 1))
    assert limit.checks == 0


def test_work_of_a_file_with_too_many_runs_is_proportional_to_its_length() -> None:
    """Each digest takes the whole file, so those of runs that are refused must not be made."""
    files = [json.dumps({**GUIDELLM, "benchmarks": GUIDELLM["benchmarks"] * n}) for n in (400, 1600)]

    def read(text: str) -> None:
        read_measured_runs(text, {})

    ratio = min(cpu_seconds(read, files[1]) / max(cpu_seconds(read, files[0]), 0.003) for _ in range(3))
    assert ratio < QUADRATIC / 2


def test_a_line_longer_than_the_limit_counts_as_unread() -> None:
    fits = f'{GAUGE}{{a="{"x" * (MAX_LINE_CHARACTERS - 40)}"}} 1'
    scrape = parse_scrape(f'{fits}\n{GAUGE}{{a="{"x" * MAX_LINE_CHARACTERS}"}} 1\n', None, lambda _: True)
    assert len(scrape.values) == 1 and scrape.unread.lines == 1
    assert scrape.unread.first[0].startswith('line 2: vllm:num_requests_running{a="xxx')


def test_more_times_than_prometheus_returns_count_as_unread() -> None:
    scrapes = parse_scrapes(query_range(1, MAX_MOMENTS + 5), None, lambda _: True)
    assert sum(bool(scrape.values) for scrape in scrapes) == MAX_MOMENTS
    assert sum(scrape.unread.lines for scrape in scrapes) == 5


@pytest.mark.parametrize("text", ['{"\\ud800\\u202e": 1}', '{"request_throughput": 1, "\\udfff": 2}', '["\\ud800"]'])
def test_an_error_shows_the_names_of_a_file_printable(text: str) -> None:
    with pytest.raises(UnreadableText) as refused:
        read_measured_runs(text, {})
    assert refused.value.detail.isprintable() and refused.value.detail.encode()
