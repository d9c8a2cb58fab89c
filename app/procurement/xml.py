"""Parses untrusted XML: no entities, no internal subset, no network access, limited depth."""

from __future__ import annotations

import re
from typing import Any

from lxml import etree

from app.procurement.refusals import NOT_ACCEPTABLE, PunchoutRefused

MAX_DEPTH = 32
ENCODINGS = ("utf-8", "us-ascii", "iso-8859-1")
ENCODING_DECLARATION = re.compile(rb"""\s*<\?xml[^>]{0,200}?encoding\s*=\s*["']([A-Za-z0-9._-]{1,40})["']""")
DECLARATION = re.compile(r"<!(?:ENTITY|ELEMENT|ATTLIST|NOTATION)|<!DOCTYPE[^>]*\[")


def read_xml(raw: bytes) -> Any:
    """Root element of a document. Raises PunchoutRefused.

    The text is decoded before parsing, so that no encoding can hide a declaration from the check.
    """
    declared = ENCODING_DECLARATION.match(raw[:400])
    encoding = declared[1].decode("ascii").lower() if declared else "utf-8"
    if encoding not in ENCODINGS:
        raise PunchoutRefused(NOT_ACCEPTABLE, f"The encoding is not supported. Use one of: {', '.join(ENCODINGS)}.")
    try:
        text = raw.decode("utf-8-sig" if encoding == "utf-8" else encoding)
    except UnicodeDecodeError:
        raise PunchoutRefused(NOT_ACCEPTABLE, f"The document is not valid {encoding}.") from None
    if DECLARATION.search(text):
        raise PunchoutRefused(NOT_ACCEPTABLE, "Entity declarations and internal DTD subsets are not accepted.")
    parser = etree.XMLParser(
        encoding="utf-8",
        resolve_entities=False,
        no_network=True,
        load_dtd=False,
        huge_tree=False,
        remove_comments=True,
        remove_pis=True,
    )
    try:
        root = etree.fromstring(text.encode("utf-8"), parser)
    except etree.XMLSyntaxError as error:
        raise PunchoutRefused(NOT_ACCEPTABLE, f"The document is not well-formed XML: line {error.lineno}.") from None
    if next(root.iter(etree.Entity), None) is not None:
        raise PunchoutRefused(NOT_ACCEPTABLE, "Entities are not accepted.")
    if _element_depth(root) > MAX_DEPTH:
        raise PunchoutRefused(NOT_ACCEPTABLE, f"The document is nested deeper than {MAX_DEPTH} levels.")
    return root


def _element_depth(root: Any) -> int:
    depth = deepest = 0
    for event, _ in etree.iterwalk(root, events=("start", "end")):
        depth += 1 if event == "start" else -1
        deepest = max(deepest, depth)
    return deepest
