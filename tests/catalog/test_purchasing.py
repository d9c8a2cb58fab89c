"""Commodity codes and part numbers: well-formed, sourced, of things that exist, for every kind of line."""

from __future__ import annotations

import re

from app.catalog.snapshot import CatalogStore
from app.export.goods import MONTHLY_ITEMS, ONE_TIME_ITEMS
from tests.catalogued import rows

FORMS = {"unspsc": r"\d{8}", "cpv": r"\d{8}", "hs_code": r"\d{6}"}


def test_codes_are_of_their_form_and_sourced() -> None:
    for row in rows("commodity_codes.csv"):
        for name, form in FORMS.items():
            assert re.fullmatch(form, row[name]) or row[name] == ""
        assert row["unspsc_version"]
        assert row["source_ref"]
        assert row["as_of"]


def test_every_kind_of_line_has_codes(catalog_store: CatalogStore) -> None:
    known = catalog_store.directory().purchasing.codes
    kinds = {good.goods for good in (*ONE_TIME_ITEMS.values(), *MONTHLY_ITEMS.values())} | {
        "cloud",
        "installation",
        "storage",
    }
    assert kinds <= known.keys()


def test_part_numbers_are_of_things_that_exist(catalog_store: CatalogStore) -> None:
    directory = catalog_store.directory()
    numbers = directory.purchasing.part_numbers
    assert len(numbers) == len(rows("part_numbers.csv")) > 0
    assert numbers.keys() <= directory.slugs | directory.catalog.systems.keys()
