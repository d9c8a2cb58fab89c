"""Planted and equivalent mutants are those of the code as it is: one that no longer applies would stop a whole room."""

from __future__ import annotations

from pathlib import Path

from tests.mutants.__main__ import ROOMS, ROOT, equivalent, files_of
from tests.mutants.operators import mutants_of, tables_of
from tests.mutants.planted import PLANTED, planted_of


def test_every_planted_mutant_stands_in_its_function() -> None:
    files = {path for room in ROOMS for path in files_of(room, "")}
    planted = [m for path in sorted(files) for m in planted_of(path, ROOT)]
    assert len(planted) == len(PLANTED)
    for mutant in planted:
        assert mutant.code(str(ROOT / mutant.path)).co_name == mutant.where.rpartition(".")[2]


def test_every_equivalent_mutant_is_one_that_would_be_made() -> None:
    names = equivalent()
    tables = tables_of(ROOT / "app")
    files = sorted({ROOT / Path(name.split(" ")[0]) for name in names})
    made = {m.name for path in files for m in mutants_of(path, ROOT, tables)}
    assert names - made == set()
