"""The digest of what code computes: tidying leaves it unchanged, a changed number does not. The compiled
simulation: where it is kept, and where it cannot be.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from app import compiled
from app.compiled import ENGINE_ROOTS, ROOT, CodeBase, _cached_engine_version
from app.config import Settings
from app.sizing.serving.simulation import native

MAIN = """\
from app.physics import Load, Work, seconds


def total(rows: list[Work], load: Load) -> float:
    found = [seconds(row, times=2.0) for row in rows]
    return sum(found) if load is Load.OPEN else max(found)
"""
PHYSICS = """\
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

LOST = 0.5
SHARE = 0.5


class Load(StrEnum):
    OPEN = "open"
    CLOSED = "closed"


@dataclass
class Work:
    flops: float
    moved_bytes: float

    def heavy(self) -> float:
        largest = np.maximum(self.flops, self.moved_bytes)
        return largest * LOST


def seconds(row: Work, times: float, base: float = 1.0) -> float:
    return row.heavy() * times - base + half(row.flops)


def half(value: float) -> float:
    return value / 2


def double(value: float) -> float:
    return value * 2


def unrelated(row):
    return row
"""


def digest(root: Path, main: str, **files: str) -> str:
    """The digest of a repository of one package."""
    folder = root / "app"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    for name, text in {"main": main, **files}.items():
        (folder / f"{name}.py").write_text(text)
    return CodeBase(root).digest_from(["app.main"])


def changed(before: str, after: str) -> list[str]:
    """Both files with a text, or every whole word, replaced."""
    texts = [
        re.sub(rf"\b{before}\b", after, text) if before.isidentifier() else text.replace(before, after)
        for text in (MAIN, PHYSICS)
    ]
    assert texts != [MAIN, PHYSICS]
    return texts


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("def half(value: float) -> float:\n", 'def half(value: float) -> float:\n    """Half of a value."""\n'),
        ("class Work:\n", 'class Work:\n    """Work of a row."""\n\n'),
        ("return value / 2", "return (value / 2)  # half of it"),
        ("def half(value: float) -> float:", "def half(value) -> object:"),
        ("half", "halve"),  # a function
        ("Work", "Job"),  # a class
        ("heavy", "largest_part"),  # a method
        ("moved_bytes", "traffic_bytes"),  # a field
        ("times", "factor"),  # a parameter that is passed by keyword
        ("largest", "most"),  # a local variable
        ("found", "each"),  # one that a comprehension fills
        ("OPEN", "ARRIVALS"),  # a member of an enumeration
        ("LOST", "LOSS"),  # a constant
        ("return row\n", "return None\n"),  # a definition that is not reached
        ("value * 2", "value * 3"),  # likewise
    ],
)
def test_tidying_leaves_it_unchanged(tmp_path: Path, before: str, after: str) -> None:
    texts = changed(before, after)
    assert digest(tmp_path, texts[0], physics=texts[1]) == digest(tmp_path, MAIN, physics=PHYSICS)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("LOST = 0.5", "LOST = 0.6"),
        ('OPEN = "open"', 'OPEN = "open_loop"'),
        ("value / 2", "value * 2"),
        ("row.heavy() * times - base", "base - row.heavy() * times"),
        ("half(row.flops)", "double(row.flops)"),  # another function
        ("half(row.flops)", "half(row.moved_bytes)"),  # another field
        ("half(row.flops)", "half(times)"),  # another variable
        ("Load.OPEN", "Load.CLOSED"),
        ("times=2.0", "base=2.0, times=1.0"),
        ("base: float = 1.0", "base: float = 2.0"),
        ("np.maximum", "np.minimum"),
        ("    flops: float\n    moved_bytes: float\n", "    moved_bytes: float\n    flops: float\n"),
    ],
)
def test_what_changes_a_number_changes_it(tmp_path: Path, before: str, after: str) -> None:
    texts = changed(before, after)
    assert digest(tmp_path, texts[0], physics=texts[1]) != digest(tmp_path, MAIN, physics=PHYSICS)


def test_definitions_may_move_to_another_file_and_place(tmp_path: Path) -> None:
    head, _, functions = PHYSICS.partition("def seconds")
    imports, _, classes = head.partition("class Load")
    physics = f"from app.hardware import LOST, Work\n\n\ndef seconds{functions}"
    hardware = f"{imports}class Load{classes}"
    main = MAIN.replace("import Load, Work, seconds", "import seconds\nfrom app.hardware import Load, Work")
    assert digest(tmp_path, main, physics=physics, hardware=hardware) == digest(tmp_path, MAIN, physics=PHYSICS)


def test_files_may_merge(tmp_path: Path) -> None:
    """Also where both have the same helper, and where one reads the other as a module or has types for the checker."""
    typed = "from typing import TYPE_CHECKING\n\nif TYPE_CHECKING:\n    Name = str\nelse:\n    Name = object\n\n\n"
    helper = "def half(value):\n    return value / 2\n\n\n"
    area = f"{helper}def area(x):\n    return half(x)\n"
    volume = f"{typed}{helper}def volume(x):\n    return half(half(x))\n"
    apart = "from app import area, volume\n\n\ndef total(x):\n    return area.area(x) + volume.volume(x)\n"
    together = "from app.sizes import area, volume\n\n\ndef total(x):\n    return area(x) + volume(x)\n"
    sizes = f"{typed}{area}\n\n{volume.removeprefix(typed + helper)}"
    assert digest(tmp_path, together, sizes=sizes) == digest(tmp_path, apart, area=area, volume=volume)
    assert digest(tmp_path, together, sizes=sizes.replace("/ 2", "/ 3")) != digest(tmp_path, together, sizes=sizes)


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the service's own code."""
    root = tmp_path_factory.mktemp("engine")
    shutil.copytree(ROOT / "app", root / "app", ignore=shutil.ignore_patterns("__pycache__", "data", "static"))
    return root


def test_the_engine_of_this_service(engine: Path) -> None:
    """The identity of answers: unchanged by comments and moves, changed by the arithmetic of a formula."""
    before = compiled.engine_version(Settings().cache_dir).partition("-")[0]
    memory = engine / "app" / "sizing" / "serving" / "memory.py"
    memory.write_text("# A remark.\n" + memory.read_text().replace('"""', '"""A remark. ', 1))
    moved = engine / "app" / "sizing" / "bounds"
    moved.mkdir()
    (moved / "__init__.py").write_text("")
    for file in (engine / "app").rglob("*.py"):
        file.write_text(file.read_text().replace("app.sizing.serving.step", "app.sizing.bounds.step"))
    roofline = (engine / "app" / "sizing" / "serving" / "step.py").rename(moved / "step.py")
    assert CodeBase(engine).digest_from(ENGINE_ROOTS) == before
    text = roofline.read_text()
    assert "1.0 + ratio" in text
    roofline.write_text(text.replace("1.0 + ratio", "1.1 + ratio", 1))
    assert CodeBase(engine).digest_from(ENGINE_ROOTS) != before


def test_the_version_is_computed_once_and_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder that takes nothing is no error."""
    computed: list[object] = []

    def compute(_: CodeBase, roots: object) -> str:
        computed.append(roots)
        return "f" * 16

    monkeypatch.setattr(CodeBase, "digest_from", compute)
    first = _cached_engine_version(tmp_path)
    assert first.partition("-")[0] == "f" * 16
    assert _cached_engine_version(tmp_path) == first
    assert computed == [ENGINE_ROOTS]
    assert [file.read_text() for file in tmp_path.iterdir()] == [first]
    (tmp_path / "file").write_text("")
    assert _cached_engine_version(tmp_path / "file" / "below") == first
    assert len(computed) == 2


ASK = """
import sys
from pathlib import Path
from app import compiled
print(compiled.compile_simulation(Path(sys.argv[1])))
"""


def answered(folder: Path, path: str | None = None) -> str:
    """What a new process answers that finds its programs in `path`."""
    found = subprocess.run(
        [sys.executable, "-c", ASK, str(folder)],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PATH": os.environ["PATH"] if path is None else path},
    )
    return found.stdout.strip()


def test_a_process_without_a_compiler_uses_what_another_has_compiled(tmp_path: Path) -> None:
    library = tmp_path / "kept" / compiled.library_name()
    assert answered(tmp_path / "kept", path="") == "False"
    assert answered(tmp_path / "kept") == "True"
    written = library.stat().st_mtime_ns
    assert answered(tmp_path / "kept", path="") == "True"
    assert [path.name for path in library.parent.iterdir()] == [library.name]
    assert library.stat().st_mtime_ns == written


def test_a_library_that_is_damaged_is_compiled_again(tmp_path: Path) -> None:
    library = tmp_path / compiled.library_name()
    library.write_bytes(b"torn")
    assert answered(tmp_path) == "True"
    assert library.stat().st_size > 4


def test_it_is_compiled_without_a_folder_to_keep_it_in(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert answered(tmp_path / "file" / "below") == "True"


def test_a_compiler_that_fails_is_none(tmp_path: Path) -> None:
    failing = tmp_path / "bin" / "cc"
    failing.parent.mkdir()
    failing.write_text("#!/bin/sh\nexit 1\n")
    failing.chmod(0o755)
    assert answered(tmp_path / "kept", path=f"{failing.parent}:{os.environ['PATH']}") == "False"


def test_the_machine_s_own_compiler_comes_before_the_one_from_a_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled, "find_spec", lambda name: name)
    monkeypatch.setattr(shutil, "which", {"gcc": "/bin/gcc"}.get)
    assert compiled.c_compiler() == ("/bin/gcc",)
    monkeypatch.setattr(shutil, "which", lambda _: None)
    assert compiled.c_compiler()[1:4] == ("-m", "ziglang", "cc")
    monkeypatch.setattr(compiled, "find_spec", lambda _: None)
    assert compiled.c_compiler() == ()


def test_the_name_changes_with_the_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = compiled.library_name()
    for module in Path(native.__file__).parent.glob("*.py"):
        (tmp_path / module.name).write_bytes(module.read_bytes() + b"#")
    monkeypatch.setattr(native, "__file__", str(tmp_path / "native.py"))
    assert compiled.library_name() != before
