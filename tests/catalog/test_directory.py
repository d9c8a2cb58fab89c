"""Names of hardware, providers and regions as people write them find their entry, the choices or the nearest one."""

from __future__ import annotations

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from app.catalog.directory import CatalogIndex, closest_names, compact_name, normalize_name
from app.catalog.places import AREAS, COUNTRIES, countries_named
from app.catalog.snapshot import CatalogStore
from app.catalog.spellings import EXTRA_WORDS, PROVIDERS, TITLES, VENDORS
from tests.catalog.spellings import AMBIGUOUS, SPELLINGS

TABLE = [(name, slug) for slug, names in SPELLINGS.items() for name in names]


@pytest.fixture(scope="module")
def catalog_index(catalog_store: CatalogStore) -> CatalogIndex:
    return catalog_store.directory()


def test_the_table_is_large() -> None:
    assert len(TABLE) >= 250
    assert len(AMBIGUOUS) >= 30


@pytest.mark.parametrize(("name", "slug"), TABLE, ids=[name for name, _ in TABLE])
def test_a_name_finds_the_accelerator_meant(catalog_index: CatalogIndex, name: str, slug: str) -> None:
    assert catalog_index.resolve_name(name).accelerators == (slug,)
    assert catalog_index.resolve_name(f"  {name.upper()} ").accelerators == (slug,)


@pytest.mark.parametrize("name", AMBIGUOUS)
def test_a_name_of_several_gives_the_choices(catalog_index: CatalogIndex, name: str) -> None:
    assert catalog_index.resolve_name(name).accelerators == AMBIGUOUS[name]
    assert catalog_index.resolve_name(name.lower()).accelerators == AMBIGUOUS[name]


def test_everything_in_the_catalogue_finds_itself(catalog_index: CatalogIndex) -> None:
    for accelerator in catalog_index.catalog.accelerators:
        own = re.sub(r" *\(.*\)", "", accelerator.name)
        assert catalog_index.resolve_name(accelerator.slug).accelerators == (accelerator.slug,)
        assert accelerator.slug in catalog_index.resolve_name(own).accelerators, own
        assert accelerator.slug in catalog_index.resolve_name(accelerator.name).accelerators
    for system in catalog_index.catalog.systems.values():
        if system.provider == "generic":
            continue  # "4x RTX 4090 workstation" is four of them
        assert catalog_index.resolve_name(system.slug).accelerators == (system.accelerator,), system.slug
    for offer in catalog_index.catalog.offers:
        found = catalog_index.resolve_name(offer.instance_type)
        assert offer.accelerator in found.accelerators, offer.instance_type


@pytest.mark.parametrize(
    ("name", "system"),
    [
        ("p5.48xlarge", "aws-p5-48xlarge"),
        ("Standard_ND96isr_H100_v5", "azure-nd96isr-h100-v5"),
        ("a3-highgpu-8g", "gcp-a3-highgpu-8g"),
        ("BM.GPU.H100.8", "oci-bm-gpu-h100-8"),
        ("v5litepod-8", "gcp-tpu-v5e-8"),
        ("dgx h100", "dgx-h100"),
        ("H100 SXM", None),
        ("p5", None),
    ],
)
def test_a_named_machine_is_recognized(catalog_index: CatalogIndex, name: str, system: str | None) -> None:
    assert catalog_index.resolve_name(name).system == system


@pytest.mark.parametrize(("name", "count"), [("8x L40S", 8), ("8xL40S", 8), ("L40S x 4", 4), ("7900xtx", None)])
def test_a_number_before_a_name_is_recognized(catalog_index: CatalogIndex, name: str, count: int | None) -> None:
    assert catalog_index.resolve_name(name).count == count
    assert len(catalog_index.resolve_name(name).accelerators) == 1


@pytest.mark.parametrize(
    ("pattern", "slugs"),
    [
        ("nvidia-h100-*", 3),
        ("H100*", 3),
        ("RTX 40?0", 4),
        ("*4090*", 1),
        ("MI3*", 7),
        ("NVIDIA GeForce RTX 50*", 5),
        ("zz*", 0),
        ("[a-z]*", 0),
    ],
)
def test_patterns_fit_slugs_and_names(catalog_index: CatalogIndex, pattern: str, slugs: int) -> None:
    assert len(catalog_index.match_pattern(pattern)) == slugs


def test_the_nearest_are_offered(catalog_index: CatalogIndex) -> None:
    assert catalog_index.nearest_accelerators("RTX 4095")[0] == "nvidia-rtx-4090"
    assert "nvidia-h100-sxm5-80gb" in catalog_index.nearest_accelerators("nvidia-h100-sxm6-80gb")
    assert closest_names("lamda", catalog_index.providers.values())[0] == "lambda"
    assert closest_names("NVDIA", catalog_index.vendors.values()) == ("nvidia",)


def test_regions_are_taken_by_name_pattern_country_and_area(catalog_index: CatalogIndex) -> None:
    assert catalog_index.find_regions("US-East-1") == ("us-east-1",)
    assert catalog_index.find_regions("us-east1") == ("us-east1",)
    assert catalog_index.find_regions("US East 1") == ("us-east-1", "us-east1")
    assert {"eu-central-1", "europe-west3", "germanywestcentral"} <= {*catalog_index.find_regions("Germany")}
    assert catalog_index.find_regions("DE") == catalog_index.find_regions("germany")
    eu, europe = ({*catalog_index.find_regions(name)} for name in ("EU", "europe"))
    assert "uksouth" in europe - eu
    assert {"eu-west-1", "westeurope", "europe-west4"} <= eu < europe
    assert all(r.startswith("eu-") for r in catalog_index.find_regions("eu-*"))
    assert catalog_index.find_regions("atlantis") == ()


def test_every_curated_word_is_of_something_in_the_catalogue(catalog_index: CatalogIndex) -> None:
    for beginning, words in EXTRA_WORDS:
        assert words
        assert any(slug.startswith(beginning) for slug in catalog_index.slugs) or beginning == "intel-gaudi-hl205", (
            beginning
        )
    assert {*TITLES.values()} <= catalog_index.slugs
    assert {*PROVIDERS.values()} <= {*catalog_index.providers.values()}
    assert {*VENDORS.values()} <= {*catalog_index.vendors.values()}
    for codes in AREAS.values():
        assert {*codes.split()} <= {*COUNTRIES}
    assert countries_named("atlantis") == frozenset()


NAMES = st.one_of(
    st.text(max_size=200),
    st.lists(st.sampled_from([*"xX8*?[]()+-_. 0", "h100", "rtx", "4090", "gpu", "ti", "80 GB", "٣", "nvidia"])).map(
        "".join
    ),
    st.sampled_from([name for name, _ in TABLE]).flatmap(
        lambda name: st.integers(0, len(name)).map(lambda cut: name[:cut] + name[cut + 1 :])
    ),
)


@pytest.mark.slow
@given(name=NAMES)
@example(name="8" * 120 + "x")
@example(name="h100" * 50)
def test_no_name_breaks_anything(catalog_index: CatalogIndex, name: str) -> None:
    found = catalog_index.resolve_name(name)
    assert {*found.accelerators} <= catalog_index.slugs
    assert {*catalog_index.match_pattern(name)} <= catalog_index.slugs
    assert {*catalog_index.nearest_accelerators(name)} <= catalog_index.slugs
    assert {*catalog_index.find_regions(name)} <= {*catalog_index.regions}
    assert {*closest_names(name, catalog_index.providers.values())} <= {*catalog_index.providers.values()}
    assert compact_name(normalize_name(name)).isascii()
