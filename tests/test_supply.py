"""What others made and is bundled or installed: each licence is named, and one that Apache-2.0 goes with."""

from __future__ import annotations

import re
from importlib.metadata import PackageNotFoundError, metadata
from pathlib import Path

import pytest

from app.sizing.hardware.licenses import source_licenses

ROOT = Path(__file__).parents[1]
NOTICE = (ROOT / "NOTICE").read_text()
# Files of others by their names: bundles, fonts, archives, and their licences.
FOREIGN = re.compile(r"\.(min\.js|LICENSE|woff2?|ttf|otf|zip|whl|jar|wasm)$|-bundle\.js$")
LICENCES = {"axe.min.js": "axe.LICENSE", "swagger-ui-bundle.js": "swagger-ui.LICENSE"}  # and their licence
# What a licence may be, in its SPDX name or as older packages write it. LGPL holds of psycopg, which is used unchanged.
ALLOWED = {
    *("0BSD", "Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "CC0-1.0", "ISC", "LGPL-3.0-only", "MIT", "MIT-0"),
    *("MPL-2.0", "PSF-2.0", "Zlib", "Apache-2.0 WITH LLVM-exception"),
    *("BSD", "3-Clause BSD License", "ISC License", "MIT License"),
}
ELSEWHERE = re.compile(r"sys_platform == '(win32|emscripten)'")  # never installed where tests run


def locked() -> list[str]:
    """Names of what the lock of the image installs here."""
    lines = (ROOT / "requirements" / "service.lock").read_text().splitlines()
    return sorted({line.split("==")[0] for line in lines if re.match(r"[a-z0-9]", line) and not ELSEWHERE.search(line)})


def licences(name: str) -> set[str]:
    """What a package says its licences are."""
    said = metadata(name)
    whole = said.get_all("License-Expression") or said.get_all("License")
    if not whole:
        classifiers = [each for each in said.get_all("Classifier") or [] if each.startswith("License ::")]
        return {each.split("::")[-1].strip() for each in classifiers}
    stated = re.split(r"\s+(?:AND|OR)\s+|[()]", whole[0].splitlines()[0])
    return {each.strip().removeprefix("The ") for each in stated if each.strip()}


@pytest.mark.parametrize("name", locked())
def test_installed_packages_have_an_allowed_licence(name: str) -> None:
    try:
        found = licences(name)
    except PackageNotFoundError:
        pytest.skip("of another version of Python")
    assert found, "no licence is stated"
    assert found <= ALLOWED


def test_each_source_whose_license_answers_name_is_credited() -> None:
    notice = " ".join(NOTICE.split()).lower()
    for source in source_licenses():
        names = (source.name.partition(" (")[0], source.source_ref.rstrip("/").rpartition("/")[2])
        assert any(name.lower() in notice for name in names), source


def test_each_file_of_others_is_named_in_the_notice() -> None:
    rooms = (ROOT / room for room in ("app", "headroom_client", "tests", "deploy", "docs"))
    found = [path for room in rooms for path in room.rglob("*") if FOREIGN.search(path.name)]
    assert {path.name for path in found} >= set(LICENCES)
    for path in found:
        licence = path.with_name(LICENCES.get(path.name, path.name))
        assert licence.exists()
        assert licence.relative_to(ROOT).as_posix() in NOTICE, path
