"""Data files become records, and a row that does not fit says where it is and what it needs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from importlib import resources
from pathlib import Path
from typing import Any

import pytest

from app.sizing import facts
from app.sizing.facts import (
    InvalidFact,
    build,
    build_rows,
    build_tables,
    parse_number,
    read_rows,
    read_tables,
    read_toml,
    require_source,
)


class Metal(StrEnum):
    IRON = "iron"
    GOLD = "gold"


@dataclass(frozen=True, slots=True)
class Nail:
    length_m: float
    metal: Metal = Metal.IRON


@dataclass(frozen=True, slots=True)
class Box:
    name: str
    source: str
    read: str
    nails: tuple[Nail, ...] = ()
    most: int | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    sealed: bool = False


@dataclass(frozen=True, slots=True)
class Shelf:
    name: str
    metals: tuple[Metal, ...] = ()
    place: tuple[int, int] | None = None
    load_kg: Mapping[str, float] = field(default_factory=dict)
    holds: str | tuple[str, ...] = "all"
    count: int = 1
    locked: bool = False
    source: str = ""
    as_of: str = ""


BOX: Mapping[str, Any] = {"name": "one", "source": "its label", "read": "2026-11"}


@pytest.fixture
def files(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, str]]:
    """Data files by name, in the place of those of the core."""
    texts: dict[str, str] = {}
    monkeypatch.setattr(facts, "_read_text", texts.__getitem__)
    yield texts
    read_toml.cache_clear()
    read_rows.cache_clear()


def test_a_table_becomes_its_record() -> None:
    nails = [{"length_m": 0.05, "metal": "gold"}, {"length_m": 1}]
    labels = {"color": "red"}
    assert build(Box, {**BOX, "nails": nails, "most": 9, "labels": labels, "sealed": True}, where="boxes") == Box(
        "one", "its label", "2026-11", (Nail(0.05, Metal.GOLD), Nail(1)), 9, labels, sealed=True
    )
    assert build(Box, BOX, where="boxes") == Box("one", "its label", "2026-11")


def test_every_table_may_state_its_source() -> None:
    assert build(Nail, {"length_m": 0.1, "source": "a ruler", "read": "2026-11-24"}, where="nails") == Nail(0.1)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"nail": []}, "boxes, row 2: unknown key 'nail'. Known keys: name, source, read, nails"),
        ({"name": 3}, "boxes, row 2, name: 3 is not of type"),
        ({"sealed": 1}, "boxes, row 2, sealed: 1 is not of type"),
        ({"most": True}, "boxes, row 2, most: True is not of type"),
        ({"most": 1.5}, "boxes, row 2, most: 1.5 is not of type"),
        ({"nails": {}}, "boxes, row 2, nails: {} is not of type"),
        ({"labels": [1]}, r"boxes, row 2, labels: \[1\] is not of type"),
        ({"labels": {"color": 3}}, "boxes, row 2, labels.color: 3 is not of type"),
        ({"nails": [{"length_m": 1}, {}]}, r"boxes, row 2, nails\[1\]: 'length_m' is missing"),
        ({"nails": [{"length_m": 1, "metal": "tin"}]}, r"boxes, row 2, nails\[0\], metal: 'tin' is not one of iron"),
        ({"source": ""}, "boxes, row 2: 'source' is empty"),
        ({"read": "in spring"}, "boxes, row 2: 'read' must be a date"),
        ({"read": "2026-13"}, "boxes, row 2: 'read' must be a date"),
    ],
)
def test_what_does_not_fit_names_its_file_row_and_key(changed: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidFact, match=said):
        build(Box, {**BOX, **changed}, where="boxes, row 2")


@pytest.mark.parametrize("missing", BOX)
def test_name_source_and_date_are_needed(missing: str) -> None:
    with pytest.raises(InvalidFact, match=f"boxes: '{missing}' is missing"):
        build(Box, {key: value for key, value in BOX.items() if key != missing}, where="boxes")


def test_a_source_can_be_required_of_a_table_without_such_fields() -> None:
    require_source({"sources": {"length_m": "a ruler"}, "as_of": "2026-11-24"}, where="nails")
    for table, said in (
        ({"read": "2026-11"}, "'source' or 'sources' is missing"),
        ({"source": "a ruler"}, "'read' or 'as_of' is missing"),
        ({"source": "a ruler", "read": "now"}, "'read' must be a date"),
    ):
        with pytest.raises(InvalidFact, match=f"nails: {said}"):
            require_source(table, where="nails")


def test_files_are_parsed_once(files: dict[str, str]) -> None:
    files |= {"boxes.toml": "[one]\nmost = 3\n", "boxes.csv": "name,most\none,3\n"}
    assert read_toml("boxes.toml") == {"one": {"most": 3}}
    assert read_rows("boxes.csv") == [{"name": "one", "most": "3"}]
    files.clear()
    assert (len(read_toml("boxes.toml")), len(read_rows("boxes.csv"))) == (1, 1)


@pytest.mark.parametrize("row", ["one", "one,3,4"])
def test_a_row_has_one_cell_per_column(files: dict[str, str], row: str) -> None:
    files["boxes.csv"] = f"name,most\nzero,0\n{row}\n"
    with pytest.raises(InvalidFact, match=r"boxes\.csv, row 3: the number of cells"):
        read_rows("boxes.csv")


def test_a_file_that_is_no_toml_is_named(files: dict[str, str]) -> None:
    files["boxes.toml"] = "[one\n"
    with pytest.raises(InvalidFact, match=r"boxes\.toml: .*line 1"):
        read_toml("boxes.toml")


def test_numbers_of_cells() -> None:
    assert parse_number("460.8", where="boxes") == 460.8
    with pytest.raises(InvalidFact, match=r"boxes, row 2: 'many' is not a number"):
        parse_number("many", where="boxes, row 2")


SHELF: Mapping[str, Any] = {"name": "top", "source": "a plan", "as_of": "2026-11"}


@pytest.mark.parametrize(("stated", "holds"), [("nails", "nails"), (["nails", "paint"], ("nails", "paint"))])
def test_a_field_may_be_one_text_or_several(stated: object, holds: object) -> None:
    assert build(Shelf, {**SHELF, "holds": stated}, where="shelves").holds == holds


@pytest.mark.parametrize("missing", ["source", "as_of"])
def test_a_default_is_no_source_and_no_date(missing: str) -> None:
    with pytest.raises(InvalidFact, match=f"shelves: '{missing}' is missing"):
        build(Shelf, {key: value for key, value in SHELF.items() if key != missing}, where="shelves")


def test_a_pair_has_two_items() -> None:
    assert build(Shelf, {**SHELF, "place": [2, 3]}, where="shelves").place == (2, 3)
    with pytest.raises(InvalidFact, match=r"shelves, place: \[2\] must have 2 items"):
        build(Shelf, {**SHELF, "place": [2]}, where="shelves")


def test_a_row_becomes_the_record_that_a_table_becomes(files: dict[str, str]) -> None:
    files["shelves.csv"] = (
        "name,source,as_of,metals,place,load_kg,count,locked,holds\n"
        "top,a plan,2026-11,iron|gold,2|3,nails:7.5|paint:0,4,true,\n"
        'low,"a plan, page 2",2026-11-24,,,,,,paint\n'
    )
    table = {"metals": ["iron", "gold"], "place": [2, 3], "load_kg": {"nails": 7.5, "paint": 0.0}}
    top, low = build_rows(Shelf, "shelves.csv")
    assert top == build(Shelf, {**SHELF, **table, "count": 4, "locked": True}, where="shelves")
    assert low == Shelf("low", holds="paint", source="a plan, page 2", as_of="2026-11-24")


@pytest.mark.parametrize(
    ("column", "cell", "said"),
    [
        ("count", "4.0", "row 2, count: '4.0' is not of type"),
        ("locked", "yes", "row 2, locked: 'yes' is not of type"),
        ("load_kg", "nails", "row 2, load_kg: '' is not a number"),
        ("metals", "iron|tin", r"row 2, metals\[1\]: 'tin' is not one of iron, gold"),
        ("size", "3", "row 2: unknown key 'size'"),
    ],
)
def test_a_cell_that_does_not_fit_names_its_row_and_column(
    files: dict[str, str], column: str, cell: str, said: str
) -> None:
    files["shelves.csv"] = f"name,source,as_of,{column}\ntop,a plan,2026-11,{cell}\n"
    with pytest.raises(InvalidFact, match=rf"^shelves\.csv, {said}"):
        build_rows(Shelf, "shelves.csv")


def test_tables_of_a_file_have_one_key(files: dict[str, str]) -> None:
    files["nails.toml"] = "[[nail]]\nlength_m = 0.1\n[[nail]]\nlength_m = 0.2\n"
    assert read_tables("nails.toml", "nail")[1] == ("nails.toml, nail 2", {"length_m": 0.2})
    assert build_tables(Nail, "nails.toml", "nail") == (Nail(0.1), Nail(0.2))
    with pytest.raises(InvalidFact, match=r"nails\.toml: unknown tables nail\. Known tables: \[\[box\]\]"):
        read_tables("nails.toml", "box")


def test_a_file_of_another_folder_is_read_by_its_full_path(tmp_path: Path) -> None:
    (tmp_path / "nails.toml").write_text("[[nail]]\nlength_m = 0.1\nwidth = 1\n")
    with pytest.raises(InvalidFact, match=r"^nails\.toml, nail 1: unknown key 'width'"):
        build_tables(Nail, tmp_path / "nails.toml", "nail")


def test_every_data_file_of_the_core_can_be_read() -> None:
    for file in resources.files("app.sizing").joinpath("data").iterdir():
        assert (read_toml if file.name.endswith(".toml") else read_rows)(file.name), file.name
