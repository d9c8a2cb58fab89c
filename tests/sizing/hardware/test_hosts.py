"""Memory bandwidth of the processors that systems name."""

from __future__ import annotations

import pytest

from app.sizing.hardware.hosts import GENERATIONS, socket_bytes_per_s
from tests.catalogued import rows


@pytest.mark.parametrize(
    ("name", "gb_per_s"),
    [
        ("2x EPYC 9575F", 576.0),
        ("AMD EPYC 9B14", 460.8),
        ("AMD EPYC 7R13", 204.8),
        ("Intel Xeon 8480+", 307.2),
        ("2x Xeon 6", 409.6),
        ("Intel Xeon Platinum 8259CL (Cascade Lake)", 128.0),
        ("Threadripper PRO", 332.8),
        ("Threadripper", 166.4),
        ("8-core desktop", 89.6),
    ],
)
def test_names_of_processors_say_how_fast_their_memory_is(name: str, gb_per_s: float) -> None:
    assert socket_bytes_per_s(name) == pytest.approx(gb_per_s * 1e9)


@pytest.mark.parametrize("name", [None, "", "Arm", "Intel Xeon", "12-core CPU"])
def test_what_a_name_does_not_say_is_not_guessed(name: str | None) -> None:
    assert socket_bytes_per_s(name) is None


def test_sockets_of_the_catalogue_have_the_bandwidth_of_their_own_row() -> None:
    published = {
        row["slug"]: float(row["memory_bandwidth_gb_s"]) for row in rows("accelerators.csv") if row["kind"] == "cpu"
    }
    for slug, name in (
        ("intel-xeon-8480plus", "Intel Xeon 8480+"),
        ("amd-epyc-9654", "AMD EPYC 9654"),
        ("aws-graviton3", "AWS Graviton3"),
        ("aws-graviton4", "AWS Graviton4"),
    ):
        assert socket_bytes_per_s(name) == pytest.approx(published[slug] * 1e9)


def test_every_generation_has_its_source_and_date() -> None:
    assert all(g.source and g.as_of and g.name_patterns for g in GENERATIONS)
    assert all(word == word.lower() for g in GENERATIONS for word in g.name_patterns)
