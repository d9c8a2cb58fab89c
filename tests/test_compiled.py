"""Machine code that is kept, and where it cannot be."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from app import compiled
from app.sizing.serving.simulation import kernel

ASK = """
import sys
from pathlib import Path
from app.compiled import compile_simulation
from app.sizing.serving.simulation import kernel
compile_simulation(Path(sys.argv[1]))
loop = kernel.run_events
print(len(loop.signatures), sum(loop.stats.cache_hits.values()) if loop.stats else 0)
"""


def asked(folder: Path) -> list[str]:
    found = subprocess.run(
        [sys.executable, "-c", ASK, str(folder)], capture_output=True, text=True, check=True, env=dict(os.environ)
    )
    return found.stdout.split()


@pytest.mark.slow
def test_the_second_process_reads_what_the_first_compiled(tmp_path: Path) -> None:
    assert asked(tmp_path) == ["1", "0"]
    assert asked(tmp_path) == ["1", "1"]
    assert [folder.name for folder in tmp_path.iterdir()] == [compiled.source_version()]


def test_the_name_changes_with_the_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = compiled.source_version()
    for module in Path(kernel.__file__).parent.glob("*.py"):
        (tmp_path / module.name).write_bytes(module.read_bytes() + b"#")
    monkeypatch.setattr(kernel, "__file__", str(tmp_path / "kernel.py"))
    assert compiled.source_version() != before


def test_a_request_compiles_nothing() -> None:
    compiled.compile_simulation()
    assert len(kernel.run_events.signatures) == 1  # type: ignore[attr-defined]
