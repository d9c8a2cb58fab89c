"""Generations of chips agree with the catalogue's own words for them."""

from __future__ import annotations

from app.sizing.hardware.support.generations import GENERATIONS, RUNTIMES, generation_of
from app.sizing.hardware.support.rules import UNITS
from tests.catalogued import catalogued, rows
from tests.sizing.small import ACCELERATORS


def test_compute_capabilities_are_those_of_the_catalogue() -> None:
    listed = {r["slug"]: r["compute_capability_or_isa"] for r in rows("accelerators.csv") if r["vendor"] == "NVIDIA"}
    found = {slug: generation_of(catalogued(slug)).capability for slug in listed}
    numbers = {slug: float(said) for slug, said in listed.items() if said.replace(".", "").isdigit()}
    assert {slug: found[slug] for slug in numbers} == numbers


def test_instruction_sets_of_amd_are_those_of_the_catalogue() -> None:
    listed = {r["slug"]: r["compute_capability_or_isa"] for r in rows("accelerators.csv")}
    gfx = {slug: said for slug, said in listed.items() if said.startswith("gfx")}
    assert {slug: generation_of(catalogued(slug)).name for slug in gfx} == gfx


def test_every_accelerator_of_the_catalogue_has_a_generation_with_a_runtime() -> None:
    assert [r["slug"] for r in rows("accelerators.csv") if not generation_of(catalogued(r["slug"])).runtimes] == []


def test_runtimes_and_formats_of_generations_are_known() -> None:
    assert {r for g in GENERATIONS for r in g.runtimes} <= set(RUNTIMES)
    assert {f for g in GENERATIONS for f in g.multiplies} <= {*UNITS.values()}


def test_an_unknown_chip_multiplies_the_formats_of_its_data_sheet() -> None:
    unknown = next(a for a in ACCELERATORS if "bf16" in a.flops_per_s)
    found = generation_of(type(unknown)(**{f: getattr(unknown, f) for f in unknown.__slots__} | {"family": "acme"}))
    assert found.runtimes == ()
    assert set(found.multiplies) == set(unknown.flops_per_s)
