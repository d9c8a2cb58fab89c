"""Renders the documents of docs/ as HTML, each when it is first read, and searches their sections."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from html import escape
from itertools import count, pairwise
from pathlib import Path
from urllib.parse import quote

from markdown_it import MarkdownIt
from markdown_it.token import Token

# In a source tree, and where an installation puts them.
FOLDERS = (Path(__file__).parents[2] / "docs", Path(sys.prefix) / "share" / "headroom" / "docs")
INDEX = "README.md"
FILES = "/guide/files"  # pictures of the documents
MOST_RESULTS = 40
_ENTRY = re.compile(r"\[([^\]]+)\]\((\w+\.md)\)(?: \| (.+) \|)?")
_HEADING = re.compile(r"^#{1,4} (.+)$")
_LINK = re.compile(r"!?\[([^\]]*)\]\([^)]*\)")
_MARKUP = re.compile(r"^[-|: ]+$|[`*|]+")
_OUTSIDE = re.compile(r"^(?:[a-z]+:|/|#)")  # links that need no change


def docs_folder() -> Path | None:
    """Folder of the documentation pages; None if they are not installed."""
    return next((path for path in FOLDERS if (path / INDEX).exists()), None)


def list_pages(index: str) -> dict[str, str]:
    """Files of the index, each with the question that it answers, or with its name in the index if there is no
    question.

    Check:
        >>> list_pages("| [cli.md](cli.md) | How do I ask from a shell? |")
        {'cli.md': 'How do I ask from a shell?'}
    """
    return {name: question or label for label, name, question in _ENTRY.findall(index)}


def anchor_of(heading: str) -> str:
    """Anchor of a heading, formed as on GitHub.

    Check:
        >>> anchor_of("Where is `p95`, and why?")
        'where-is-p95-and-why'
    """
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


@dataclass(frozen=True, slots=True)
class Section:
    """A heading of a document with the text below it."""

    page: str
    heading: str
    text: str

    @property
    def address(self) -> str:
        """Path of the section in the guide."""
        return f"{page_address(self.page)}#{quote(anchor_of(self.heading))}"

    def excerpt(self, word: str, around: int = 110) -> str:
        """Text around the first place of a word, at most `around` characters on each side."""
        at = max(0, self.text.lower().find(word))
        return self.text[max(0, at - around) : at + around].strip()


def page_address(name: str) -> str:
    """Path of a document in the guide."""
    return "/guide" if name == INDEX else f"/guide/{name.removesuffix('.md')}"


def plain_text(line: str) -> str:
    """A line of Markdown without its markup.

    Check:
        >>> plain_text("| `ttft_ms` | see [limits](limits.md) |"), plain_text("| --- | ---: |")
        ('ttft_ms see limits', '')
    """
    return " ".join(_MARKUP.sub(" ", _LINK.sub(r"\1", line.partition("<!--")[0])).split())


def split_sections(name: str, text: str) -> Iterator[Section]:
    """Sections of a document. Lines in code blocks are no headings."""
    heading, lines, in_code = "", list[str](), False
    for line in text.splitlines():
        if line.startswith("```"):
            in_code = not in_code
        elif not in_code and (found := _HEADING.match(line)):
            if heading:
                yield Section(name, heading, " ".join(lines))
            heading, lines = plain_text(found[1]), []
        elif part := line.strip() if in_code else plain_text(line):
            lines.append(part)
    yield Section(name, heading, " ".join(lines))


class Guide:
    """The documents of a folder that its index lists."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.questions = list_pages(self.read(INDEX))
        self.render = cache(self._render)

    def __contains__(self, name: str) -> bool:
        return name == INDEX or name in self.questions

    def read(self, name: str) -> str:
        """Text of a document in Markdown."""
        return (self.folder / name).read_text(encoding="utf-8")

    def _render(self, name: str) -> tuple[str, str]:
        """Title and HTML of a document."""
        markdown = MarkdownIt("commonmark").enable("table")
        tokens = markdown.parse(self.read(name))
        headings = [
            (opening, plain_text(inline.content))
            for opening, inline in pairwise(tokens)
            if opening.type == "heading_open"
        ]
        title = next(heading for opening, heading in headings if opening.tag == "h1")
        for opening, heading in headings:
            opening.attrSet("id", anchor_of(heading))
        for token in tokens:
            self._fix_links(token.children or ())
            # The content policy of the page allows no style attributes.
            if str(token.attrs.pop("style", "")).endswith("right"):
                token.attrSet("class", "number")
        html = markdown.renderer.render(tokens, markdown.options, {})
        number = count(1)  # regions have different names
        scroll = '<div class="scroll" tabindex="0" role="region" aria-label="Table {}"><table'
        html = re.sub("<table", lambda _: scroll.format(next(number)), html)
        return title, html.replace("</table>", "</table></div>")

    def _fix_links(self, parts: list[Token] | tuple[()]) -> None:
        """Leads links to documents into the guide, without file endings; shows links to other files as text."""
        for at, part in enumerate(parts):
            if part.type == "image":
                part.attrSet("src", f"{FILES}/{part.attrGet('src')}")
            href = str(part.attrGet("href") or "")
            if part.type == "link_open" and not _OUTSIDE.match(href):
                name, _, anchor = href.partition("#")
                if name in self:
                    part.attrSet("href", page_address(name) + (f"#{anchor}" if anchor else ""))
                    parts[at + 1].content = parts[at + 1].content.removesuffix(".md")
                else:
                    part.attrs = {}

    @cached_property
    def sections(self) -> tuple[Section, ...]:
        """Sections of all documents, in the order of the index."""
        return tuple(section for name in self.questions for section in split_sections(name, self.read(name)))

    def search(self, text: str) -> list[Section]:
        """Sections that contain every word of a text, those with all words in their heading first."""
        words = text.lower().split()
        found = [s for s in self.sections if all(word in f"{s.heading} {s.text}".lower() for word in words)]
        return sorted(found, key=lambda section: not all(word in section.heading.lower() for word in words))

    def results_page(self, text: str) -> str:
        """HTML of the first results of a search. The text has at least one word."""
        found, words = self.search(text), text.lower().split()
        items = "".join(
            f'<li><a href="{section.address}">{escape(section.heading)}</a> <small>{escape(section.page)}</small>'
            f"<p>{escape(section.excerpt(words[0]))}</p></li>"
            for section in found[:MOST_RESULTS]
        )
        more = f"<p>These are the first {MOST_RESULTS}. Add a word.</p>" if len(found) > MOST_RESULTS else ""
        return f"<h1>{len(found):,} sections with “{escape(text)}”</h1>{more}<ol class='results'>{items}</ol>"
