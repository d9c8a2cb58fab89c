"""Published throughput of networks that generate no tokens is met within a factor of two."""

from __future__ import annotations

import statistics
from collections import defaultdict

import pytest
from sqlalchemy.orm import Session

from app.catalog.snapshot import CatalogStore
from app.db import make_engine
from benchmarks.accuracy import compare_all, speed_rows

# Families with published throughput in the measurement table, and their model types there. The
# medians are over all rows of a type; the table's XLM-RoBERTa rows (47 a second on 12 chips on which
# RoBERTa does 24,000) contradict their neighbours and are excluded.
FAMILIES = {
    "embeddings and rerankers": ("bert", "roberta", "electra"),
    "image classification": ("resnet", "vit", "swin", "convnext", "efficientnet", "mobilenet_v3", "clip"),
    "speech recognition": ("whisper",),
    "diffusion": ("unet2d_condition",),
}


@pytest.fixture(scope="module")
def by_type(sqlite_url: str, catalog_store: CatalogStore) -> dict[str, list[float]]:
    engine = make_engine(sqlite_url)
    with Session(engine) as session:
        rows = [r for r in speed_rows(session) if r.kind == "inference" and not r.payload.get("ttft_ms_mean")]
    engine.dispose()
    found, _ = compare_all(rows, catalog_store)
    ratios: dict[str, list[float]] = defaultdict(list)
    for c in found:
        if c.metric.startswith("samples/s, "):
            ratios[c.metric.removeprefix("samples/s, ")].append(c.ratio)
    return ratios


@pytest.mark.parametrize("kind", [t for types in FAMILIES.values() for t in types])
def test_published_throughput_is_met_within_a_factor_of_two(by_type: dict[str, list[float]], kind: str) -> None:
    ratios = by_type[kind]
    assert 0.5 <= statistics.median(ratios) <= 2
    assert statistics.fmean(0.5 <= r <= 2 for r in ratios) >= 0.5
