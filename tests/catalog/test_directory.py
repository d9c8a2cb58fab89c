"""Names of hardware, providers and regions as people write them find their entry, the choices or the nearest one."""

from __future__ import annotations

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from app.catalog.directory import Directory, close_to, plain, run_together
from app.catalog.places import AREAS, COUNTRIES, countries_named
from app.catalog.snapshot import SnapshotStore
from app.catalog.spellings import ALSO, PROVIDERS, TITLES, VENDORS
from tests.catalog.spellings import AMBIGUOUS, SPELLINGS

TABLE = [(name, slug) for slug, names in SPELLINGS.items() for name in names]


@pytest.fixture(scope="module")
def directory(snapshots: SnapshotStore) -> Directory:
    return snapshots.directory()


def test_the_table_is_large() -> None:
    assert len(TABLE) >= 250
    assert len(AMBIGUOUS) >= 30


@pytest.mark.parametrize(("name", "slug"), TABLE, ids=[name for name, _ in TABLE])
def test_a_name_finds_the_accelerator_meant(directory: Directory, name: str, slug: str) -> None:
    assert directory.named(name).accelerators == (slug,)
    assert directory.named(f"  {name.upper()} ").accelerators == (slug,)


@pytest.mark.parametrize("name", AMBIGUOUS)
def test_a_name_of_several_gives_the_choices(directory: Directory, name: str) -> None:
    assert directory.named(name).accelerators == AMBIGUOUS[name]
    assert directory.named(name.lower()).accelerators == AMBIGUOUS[name]


def test_everything_in_the_catalogue_finds_itself(directory: Directory) -> None:
    for accelerator in directory.market.accelerators:
        own = re.sub(r" *\(.*\)", "", accelerator.name)
        assert directory.named(accelerator.slug).accelerators == (accelerator.slug,)
        assert accelerator.slug in directory.named(own).accelerators, own
        assert accelerator.slug in directory.named(accelerator.name).accelerators
    for system in directory.market.systems.values():
        if system.provider == "generic":
            continue  # "4x RTX 4090 workstation" is four of them
        assert directory.named(system.slug).accelerators == (system.accelerator,), system.slug
    for offer in directory.market.offers:
        found = directory.named(offer.instance_type)
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
def test_a_named_machine_is_recognized(directory: Directory, name: str, system: str | None) -> None:
    assert directory.named(name).system == system


@pytest.mark.parametrize(("name", "count"), [("8x L40S", 8), ("8xL40S", 8), ("L40S x 4", 4), ("7900xtx", None)])
def test_a_number_before_a_name_is_recognized(directory: Directory, name: str, count: int | None) -> None:
    assert directory.named(name).count == count
    assert len(directory.named(name).accelerators) == 1


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
def test_patterns_fit_slugs_and_names(directory: Directory, pattern: str, slugs: int) -> None:
    assert len(directory.matching(pattern)) == slugs


def test_the_nearest_are_offered(directory: Directory) -> None:
    assert directory.nearest("RTX 4095")[0] == "nvidia-rtx-4090"
    assert "nvidia-h100-sxm5-80gb" in directory.nearest("nvidia-h100-sxm6-80gb")
    assert close_to("lamda", directory.providers.values())[0] == "lambda"
    assert close_to("NVDIA", directory.vendors.values()) == ("nvidia",)


def test_regions_are_taken_by_name_pattern_country_and_area(directory: Directory) -> None:
    assert directory.regions_named("US-East-1") == ("us-east-1",)
    assert directory.regions_named("us-east1") == ("us-east1",)
    assert directory.regions_named("US East 1") == ("us-east-1", "us-east1")
    assert {"eu-central-1", "europe-west3", "germanywestcentral"} <= {*directory.regions_named("Germany")}
    assert directory.regions_named("DE") == directory.regions_named("germany")
    eu, europe = ({*directory.regions_named(name)} for name in ("EU", "europe"))
    assert "uksouth" in europe - eu
    assert {"eu-west-1", "westeurope", "europe-west4"} <= eu < europe
    assert all(r.startswith("eu-") for r in directory.regions_named("eu-*"))
    assert directory.regions_named("atlantis") == ()


def test_every_curated_word_is_of_something_in_the_catalogue(directory: Directory) -> None:
    for beginning, words in ALSO:
        assert words
        assert any(slug.startswith(beginning) for slug in directory.slugs) or beginning == "intel-gaudi-hl205", (
            beginning
        )
    assert {*TITLES.values()} <= directory.slugs
    assert {*PROVIDERS.values()} <= {*directory.providers.values()}
    assert {*VENDORS.values()} <= {*directory.vendors.values()}
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
def test_no_name_breaks_anything(directory: Directory, name: str) -> None:
    found = directory.named(name)
    assert {*found.accelerators} <= directory.slugs
    assert {*directory.matching(name)} <= directory.slugs
    assert {*directory.nearest(name)} <= directory.slugs
    assert {*directory.regions_named(name)} <= {*directory.regions}
    assert {*close_to(name, directory.providers.values())} <= {*directory.providers.values()}
    assert run_together(plain(name)).isascii()
