"""Schemas and answers as agents get them: less of each, nothing of it changed."""

from __future__ import annotations

import doctest
import importlib
from pathlib import Path
from typing import Any

from app.agents.tools import recommendation_text, request_schema, shorten_answer

ROOT = Path(__file__).parents[2]
REF = "#/components/schemas/"
SCHEMAS: dict[str, Any] = {
    "Question": {
        "type": "object",
        "title": "Question",
        "additionalProperties": False,
        "properties": {
            "title": {"type": "string", "maxLength": 9, "description": "A field that is called so."},
            "work": {"anyOf": [{"$ref": f"{REF}Work"}, {"type": "null"}], "description": "The work."},
            "rare": {"$ref": f"{REF}Rare"},
        },
        "required": ["work"],
    },
    "Work": {"type": "object", "properties": {"load": {"type": "number", "minimum": 0}}, "examples": [{"load": 1}]},
    "Rare": {"type": "object", "description": "Seldom.", "properties": {"deep": {"$ref": f"{REF}Deep"}, "b": {}}},
    "Deep": {"type": "object", "properties": {}},
}


def test_a_request_is_reduced_to_the_names_of_its_fields() -> None:
    assert request_schema("Question", SCHEMAS, omitted=("title",)) == {
        "type": "object",
        "properties": {
            "work": {"type": "object", "description": "Fields: load."},
            "rare": {"type": "object", "description": "Fields: deep, b."},
        },
        "required": ["work"],
    }
    shape = request_schema("Question", SCHEMAS, elsewhere=("work",))
    assert shape["properties"]["work"] == {"type": "object"}


def test_an_answer_is_shortened_by_name_and_lists_the_parts_left_out() -> None:
    answer = {"id": "rec_1", "trace": [1], "warnings": [], "recommendations": [{"rank": 1, "explanation": ["x"]}]}
    usual = ("id", "recommendations")
    short = shorten_answer(answer, usual, [])
    assert short == {"id": "rec_1", "recommendations": [{"rank": 1}], "left_out": ["trace", "warnings"]}
    assert shorten_answer(answer, usual, ["trace", "explanation"]) == {
        "id": "rec_1",
        "trace": [1],
        "recommendations": answer["recommendations"],
        "left_out": ["warnings"],
    }
    assert shorten_answer(answer, usual, ["all"]) == answer


def test_an_empty_result_lists_five_misses_and_what_would_change_it() -> None:
    misses = [{"accelerator": f"a{i}", "text": f"too slow by {i}"} for i in range(9)]
    answer = {
        "id": "rec_1",
        "summary": "Nothing.",
        "recommendations": [],
        "rejected": misses,
        "rejected_by_code": {"too_slow": 9},
        "sensitivity": [{"change": "raise ttft_ms", "effect": "feasible with 2 x a1"}],
    }
    text = recommendation_text(answer)
    assert text.count("too slow by") == 5
    assert "What would change the answer\n- raise ttft_ms: feasible with 2 x a1" in text
    assert "too_slow 9" in text
    assert shorten_answer(answer, ("id", "recommendations"), [])["rejected"] == misses[:5]


def test_examples_of_docstrings_hold() -> None:
    """Those of `sizing` and `observed` are tested there."""
    paths = [path for path in ROOT.glob("app/**/*.py") if not {"sizing", "observed"} & {*path.parts}]
    modules = [".".join(p.relative_to(ROOT).with_suffix("").parts) for p in paths if ">>> " in p.read_text("utf-8")]
    found = {name: doctest.testmod(importlib.import_module(name)) for name in modules}
    assert len(found) > 20
    assert [name for name, tried in found.items() if tried.failed or not tried.attempted] == []
