"""Why a layout and not its neighbours."""

from __future__ import annotations

from dataclasses import replace

from app.sizing.snapshot import Catalog
from tests.examples import LLAMA_70B
from tests.sizing.training.layouts import WORKLOAD, asked


def test_neighbouring_layouts_are_turned_down_in_numbers(catalog: Catalog) -> None:
    found = asked(catalog, replace(WORKLOAD, model=LLAMA_70B, global_batch=512), accelerators_per_replica=64)
    words = next(r.text for r in found.explanation if r.code == "alternatives")
    assert any(w in words for w in ("slower", "faster", "GiB"))
