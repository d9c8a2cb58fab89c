"""Host processors that systems name: memory bandwidth, instruction set, and uses that driver licenses exclude."""

from __future__ import annotations

import pytest

from app.sizing.hardware.hosts import DRIVER_LICENSES, GENERATIONS, OTHER_HOSTS, other_host, socket_bytes_per_s
from app.sizing.hardware.parts import Segment
from tests.catalogued import accelerators, rows


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


@pytest.mark.parametrize("word", ["grace", "graviton", "vera ", "arm", "kunpeng"])
def test_systems_with_an_arm_processor_need_images_for_it(word: str) -> None:
    named = [s for s in rows("systems.csv") if word in f"{s['cpu_model']} ".lower()]
    assert named
    found = [other_host(s["cpu_model"], s["accelerator_slug"]) for s in named]
    assert {host and host.architecture for host in found} == {"aarch64"}


def test_systems_with_an_intel_or_amd_processor_need_no_other_images() -> None:
    named = [s for s in rows("systems.csv") if any(word in s["cpu_model"] for word in ("Xeon", "EPYC", "Threadripper"))]
    assert len(named) > 100
    assert [s["slug"] for s in named if other_host(s["cpu_model"], s["accelerator_slug"])] == []


def test_superchips_without_a_named_processor_have_the_host_of_their_board() -> None:
    slugs = [slug for slug in accelerators() if any(word in slug for word in ("gh200", "gb200", "gb300", "gb10"))]
    assert len(slugs) == 5
    assert {(host := other_host("", slug)) and host.architecture for slug in slugs} == {"aarch64"}
    assert other_host("", "nvidia-h100-sxm5-80gb") is None


def test_host_facts_are_about_accelerators_and_vendors_of_the_catalog() -> None:
    assert {slug for host in OTHER_HOSTS for slug in host.accelerators} <= accelerators().keys()
    assert {(a.vendor, a.segment) for a in accelerators().values()} >= {(d.vendor, d.segment) for d in DRIVER_LICENSES}
    assert all(isinstance(d.segment, Segment) for d in DRIVER_LICENSES)
