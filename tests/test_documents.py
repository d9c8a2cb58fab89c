"""What the documents show is what happens: every command, program and request in them runs, and every link leads on."""

from __future__ import annotations

import ast
import json
import re
import shlex
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from app.api.guide import anchor_of
from app.cli import cli
from app.config import Settings
from artefacts.blocks import (
    ANSWER,
    JSON,
    NOT_RUN,
    OUTPUT,
    POST,
    PYTHON,
    SHELL,
    TYPESCRIPT,
    Block,
    document_paths,
    fenced_blocks,
    output_blocks,
    request_path,
    written_by_hand,
)
from artefacts.running import NotAsShownError, run_blocks

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
MOST_NOT_RUN = 6
MOST_LINES_OF_README = 150
# Parts of a request stand for the whole one that they are put into, and where it goes.
CHAT = {"phase": "inference", "model": "llama-3.1-8b-instruct"}
TUNING = {
    "phase": "fine_tuning",
    "model": "llama-3.1-8b",
    "method": "lora",
    "training_tokens": 1e8,
    "sequence_length": 4096,
}
H100 = {"accelerator": "h100 sxm", "total_accelerators": 8}
TEN = {"concurrent_requests": 10, "input_tokens": 1000, "output_tokens": 300}
PARTS: dict[str, tuple[str, Any]] = {
    "traffic": ("/estimate", lambda part: {"workload": {**CHAT, "traffic": part}, "deployment": H100}),
    "observed": (
        "/diagnose",
        lambda part: {
            "workload": {**CHAT, "traffic": {"peak_requests_per_s": 5}},
            "deployment": {**H100, "engine": "vllm"},
            "observed": part,
        },
    ),
    "inventory": ("/recommend", lambda part: {"workload": {**CHAT, "traffic": TEN}, "inventory": part}),
    "handoff": ("/recommend", lambda part: {"workload": TUNING, **part}),
    "observed training": ("/diagnose", lambda part: {"workload": TUNING, "deployment": H100, "observed": part}),
}
BLOCKS = {path.relative_to(ROOT).as_posix(): fenced_blocks(path.read_text()) for path in document_paths()}
TOP = "app|artefacts|benchmarks|calibration|changelog.d|deploy|docs|headroom_client|migrations|requirements|tests"
NAMING_FILES = [*written_by_hand(), ROOT / "ARCHITECTURE.md", ROOT / "CONTRIBUTING.md"]
RUN = [name for name, page in BLOCKS.items() if any(block.is_runnable for block in page)]
REQUESTS = [
    pytest.param(page, i, id=f"{name}-{i}")
    for name, page in BLOCKS.items()
    for i, block in enumerate(page)
    if block.language == JSON and block.info != ANSWER
]


@cache
def tracked_files() -> list[str]:
    """Every file of the rooms that documents name, from the root."""
    return [path.relative_to(ROOT).as_posix() for room in TOP.split("|") for path in (ROOT / room).rglob("*.*")]


def contained(part: Any, whole: Any, where: str = "") -> None:
    """Everything in `part` stands in `whole`; lists may be cut short."""
    if isinstance(part, dict):
        for key, value in part.items():
            assert key in whole, f"{where}/{key}"
            contained(value, whole[key], f"{where}/{key}")
    elif isinstance(part, list):
        assert len(part) <= len(whole), where
        for i, value in enumerate(part):
            contained(value, whole[i], f"{where}/{i}")
    else:
        assert part == whole, where


@pytest.mark.slow
@pytest.mark.parametrize("name", RUN)
def test_what_a_document_shows_runs_and_says_what_stands_there(name: str, live: str) -> None:
    page = BLOCKS[name]
    said = run_blocks(page, live)
    assert {i: page[i].text for i in output_blocks(page)} == {i: said[of] for i, of in output_blocks(page).items()}


@pytest.mark.parametrize(("page", "i"), REQUESTS)
def test_every_request_is_answered_as_shown(client: TestClient, page: list[Block], i: int) -> None:
    body = json.loads(page[i].text)
    if page[i].info in PARTS:
        path, whole = PARTS[page[i].info]
        body = whole(body)
    else:
        path = request_path(page[i])
    response = client.post(path, json=body)
    assert response.status_code == 200, response.text
    if page[i + 1 :] and page[i + 1].info == ANSWER:
        contained(json.loads(page[i + 1].text), response.json())


def test_a_failing_block_is_reported_with_its_output(live: str) -> None:
    text = "```sh\necho one\n```\n\n```text\none\n```\n\n```sh\ncurl -s localhost:8000/nowhere\n```\n"
    assert output_blocks(fenced_blocks(text)) == {1: 0}
    with pytest.raises(NotAsShownError, match=r"curl -s localhost:8000/nowhere\n.*22:"):
        run_blocks(fenced_blocks(text), live)


def test_every_setting_that_is_shown_is_one() -> None:
    shown = [b for page in BLOCKS.values() for b in page if b.language == "ini"]
    assert shown
    for block in shown:
        pairs = dict(each.split("=", 1) for each in shlex.split(block.text))
        Settings.model_validate(
            {
                key.removeprefix("HEADROOM_").lower(): json.loads(value) if value[0] in "[{" else value
                for key, value in pairs.items()
            }
        )


def test_settings_are_documented_in_one_place_with_their_defaults() -> None:
    operating = (ROOT / "docs" / "operating.md").read_text()
    documented = re.findall(r"^\| `HEADROOM_([A-Z_]+)` \| `?(.*?)`? \|", operating, flags=re.MULTILINE)
    for name, field in Settings.model_fields.items():
        usual = "none" if field.default in (None, ()) else format(field.default, "g" if name.endswith("_s") else "")
        assert (name.upper(), usual.lower() if field.annotation is bool else usual) in documented
    assert sorted(name.lower() for name, _ in documented) == sorted(Settings.model_fields)
    elsewhere = [path.name for path in document_paths() if re.search(r"^\| `HEADROOM_", path.read_text(), re.MULTILINE)]
    assert elsewhere == ["operating.md"]


def test_every_event_of_the_log_is_documented() -> None:
    logged = {
        event.value
        for path in (ROOT / "app").rglob("*.py")
        if re.search(r"\blog\.", text := path.read_text())
        for call in ast.walk(ast.parse(text))
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute)
        if isinstance(call.func.value, ast.Name) and call.func.value.id == "log"
        for event in ast.walk(call.args[0])
        if isinstance(event, ast.Constant)
    }
    log = (ROOT / "docs" / "operating.md").read_text().split("## Logs")[1].split("\n## ")[0]
    rows = "".join(line.split("|")[1] for line in log.splitlines() if line.startswith("| `"))
    assert set(re.findall(r"`(\w+)`", rows)) - {"event"} == logged


def test_every_block_is_run_or_says_that_it_is_not() -> None:
    kinds = {SHELL, PYTHON, JSON, OUTPUT, TYPESCRIPT, "ini", "toml"}
    wrong = [(name, b.language, b.info) for name, page in BLOCKS.items() for b in page if b.language not in kinds]
    assert [each for each in wrong if each[2] != NOT_RUN] == []
    json_blocks = [b.info for page in BLOCKS.values() for b in page if b.language == JSON]
    assert [said for said in json_blocks if said not in (ANSWER, *PARTS) and not said.startswith(POST)] == []
    assert sum(b.info == NOT_RUN for page in BLOCKS.values() for b in page) <= MOST_NOT_RUN
    for path in written_by_hand():
        text = re.sub(r"^```.*?^```$", "", path.read_text(), flags=re.MULTILINE | re.DOTALL)
        assert re.findall(r"(?:^|\n)\n {4}\S.*", text) == [], path.name


@cache
def anchors(path: Path) -> set[str]:
    """What links of a page may lead to: its headings as the viewer names them."""
    heads = re.findall(r"^#+ (.*)$", path.read_text(), flags=re.MULTILINE)
    return {anchor_of(head) for head in heads}


@pytest.mark.parametrize("path", document_paths(), ids=lambda path: path.name)
def test_every_link_leads_somewhere(path: Path) -> None:
    text = re.sub(r"```.*?```|`[^`\n]*`", "", path.read_text(), flags=re.DOTALL)
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if "://" in target:
            continue
        file, _, anchor = target.partition("#")
        there = (path.parent / file).resolve() if file else path
        assert there.exists(), target
        assert not anchor or anchor in anchors(there), target


@pytest.mark.parametrize("path", [*(ROOT / "docs").rglob("*.md"), *ROOT.glob("*.md")], ids=lambda path: path.name)
def test_no_placeholder_is_published(path: Path) -> None:
    assert not re.findall(r"@[A-Z]{3,}\b|\b(?:TO" + r"DO|TBD|FIX" + r"ME|XXX)\b", path.read_text())


def test_every_page_is_in_the_index() -> None:
    linked = set(re.findall(r"\]\((\w+\.md)", (ROOT / "docs" / "README.md").read_text()))
    assert {path.name for path in document_paths()} - {"README.md"} <= linked


def code_spans(text: str) -> list[str]:
    """The texts in backquotes, outside fenced code."""
    return re.findall(r"`([^`\n]+)`", re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL))


@pytest.mark.parametrize("path", NAMING_FILES, ids=lambda path: path.name)
def test_every_file_that_is_named_exists(path: Path) -> None:
    """Paths from the root, and the end of the path of a module or a data file."""
    text = path.read_text()
    own = set(re.findall(r"This is `([\w.]+)`:", text))
    for span in code_spans(text):
        if re.fullmatch(rf"(?:{TOP})/[\w./-]*", span):
            assert (ROOT / span).exists(), span
        elif re.fullmatch(r"[\w./-]+\.(?:py|csv|jsonl|toml)", span) and span not in own:
            assert any(f"/{file}".endswith(f"/{span}") for file in tracked_files()), span


def test_every_package_of_the_tree_exists() -> None:
    """A line starts with packages or modules of the last name that is indented less."""
    tree = next(b.text for b in fenced_blocks((ROOT / "ARCHITECTURE.md").read_text()) if b.language == OUTPUT)
    above = {0: ROOT}
    for line in tree.splitlines():
        indent = len(line) - len(line.lstrip())
        listed = re.findall(r"[\w.]+", line.strip().partition("  ")[0])
        for each in listed:
            assert any((above[indent] / file).exists() for file in (each, f"{each}.py")), line
        above[indent + 2] = above[indent] / listed[0]


def test_every_function_of_the_table_is_in_the_file_that_it_names() -> None:
    table = (ROOT / "docs" / "README.md").read_text().split("### Where is ...?")[1].split("\n## ")[0]
    rows = [code_spans(row) for row in table.splitlines() if row.startswith("| ") and "`" in row]
    assert len(rows) > 20
    for row in rows:
        files = [span for span in row if "/" in span]
        text = "".join((ROOT / file).read_text() for file in files)
        for name in set(row) - set(files):
            assert re.search(rf"^ *(?:def|class) {name.rpartition('.')[2]}\b", text, re.MULTILINE), f"{name}: {files}"


def test_every_command_that_is_named_exists() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE))
    commands = {c.name or getattr(c.callback, "__name__", "").replace("_", "-") for c in cli.registered_commands}
    commands |= {str(group.name) for group in cli.registered_groups}
    for path in written_by_hand():
        text = re.sub(r"^```text\n.*?^```", "", path.read_text(), flags=re.MULTILINE | re.DOTALL)
        assert set(re.findall(r"(?:`|^ *)make ([a-z-]+)", text, flags=re.MULTILINE)) <= targets, path.name
        assert set(re.findall(r"(?:`|^)headroom ([a-z][a-z-]+)", text, flags=re.MULTILINE)) <= commands, path.name


def test_readme_is_short_and_has_every_endpoint(client: TestClient) -> None:
    assert len(README.splitlines()) <= MOST_LINES_OF_README
    paths = set(client.get("/openapi.json").json()["paths"])
    named = {n if n in paths else f"/catalog{n}" for n in re.findall(r"`(?:GET |POST )?(/[\w/{}.-]+)`", README)}
    assert paths <= named


def named(page: str) -> set[str]:
    """Every word in backquotes of a page, parts of a path apart."""
    return set(re.findall(r"\w+", " ".join(re.findall(r"`([^`\n]+)`", (ROOT / "docs" / page).read_text()))))


def test_every_part_of_an_answer_is_documented(client: TestClient) -> None:
    shapes = client.get("/openapi.json").json()["components"]["schemas"]
    documented = named("reading.md")
    for shape in ("RecommendResponse", "RecommendationShown", "ConfidenceShown", "VerificationShown"):
        assert set(shapes[shape]["properties"]) <= documented, shape


def test_every_number_that_is_computed_leads_to_its_formula(client: TestClient) -> None:
    shapes = client.get("/openapi.json").json()["components"]["schemas"]
    documented = named("computing.md")
    numbers = {
        name
        for shape in ("PerformanceShown", "CostShown", "MemoryShown", "MemoryPartsShown")
        for name, field in shapes[shape]["properties"].items()
        if "number" in json.dumps(field) or "integer" in json.dumps(field)
    }
    assert numbers <= documented, numbers - documented


def test_words_of_the_glossary_are_defined_once_and_those_of_answers_are_there() -> None:
    words = re.findall(r"^\| ([^|]+?) \| [A-Z1]", (ROOT / "docs" / "glossary.md").read_text(), flags=re.MULTILINE)
    each = [part.strip().lower() for word in words for part in re.split(r",|\(|\)", word) if part.strip()]
    assert len(words) > 60
    answer = (ROOT / "docs" / "reading.md").read_text()
    for word in ("ttft", "tpot", "e2e", "p95", "replica", "kv cache", "basis", "confidence", "interval", "knee", "mfu"):
        assert word in each and word.split()[-1] in answer.lower(), word


def test_every_metric_is_documented_and_every_documented_one_exists(client: TestClient) -> None:
    shown = set(re.findall(r"^# TYPE (headroom_\w+)", client.get("/metrics").text, flags=re.MULTILINE))
    operating = (ROOT / "docs" / "operating.md").read_text()
    rows = "".join(row.split("|")[1] for row in operating.splitlines() if row.startswith("| `headroom_"))
    assert set(re.findall(r"`(headroom_\w+)`", rows)) == shown
