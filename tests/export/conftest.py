"""The schemas of other people's documents, unpacked once."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest
from lxml import etree

ZIPPED = Path(__file__).parents[1] / "reference" / "procurement_schemas.zip"


@pytest.fixture(scope="session")
def schemas(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("schemas")
    with zipfile.ZipFile(ZIPPED) as held:
        held.extractall(folder)
    return folder


@pytest.fixture(scope="session")
def cxml_dtd(schemas: Path) -> etree.DTD:
    with (schemas / "cXML-1.2.063.dtd").open("rb") as file:
        return etree.DTD(file)


@pytest.fixture(scope="session")
def ubl_schema(schemas: Path) -> etree.XMLSchema:
    return etree.XMLSchema(etree.parse(schemas / "ubl-2.1" / "maindoc" / "UBL-RequestForQuotation-2.1.xsd"))
