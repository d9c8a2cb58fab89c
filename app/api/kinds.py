"""Lists every kind of problem response and renders the page that its type links to."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from html import escape
from importlib import resources

PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title} - Headroom</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="/static/page.css">
</head>
<body>
<header><h1>{title}</h1></header>
<main>
{body}
</main>
</body>
</html>
"""


@dataclass(frozen=True, slots=True)
class ProblemKind:
    """One kind of problem: HTTP status, title, what happened and what to do."""

    status: int
    title: str
    happened: str
    remedy: str


@cache
def problem_kinds() -> dict[str, ProblemKind]:
    """Returns the kinds of problems by the last part of their type URI."""
    text = resources.files("app.api.schemas").joinpath("problems.toml").read_text(encoding="utf-8")
    return {slug: ProblemKind(**fields) for slug, fields in tomllib.loads(text).items()}


def problem_page(slug: str) -> str:
    """Returns the HTML page of one kind of problem. Raises KeyError if there is none."""
    kind = problem_kinds()[slug]
    body = (
        f"<p>{escape(kind.happened)}</p>\n<h2>What to do</h2>\n<p>{escape(kind.remedy)}</p>\n"
        f"<p>Answered with status {kind.status} as <code>application/problem+json</code> (RFC 9457) of type "
        f'<code>/problems/{escape(slug)}</code>. <a href="/problems">All problems</a>, <a href="/docs">the API</a>.</p>'
    )
    return PAGE.format(title=escape(kind.title), body=body)


def problem_index_page() -> str:
    """Returns the HTML page that lists every kind of problem."""
    rows = "\n".join(
        f'<tr><td>{kind.status}</td><td><a href="/problems/{slug}">{slug}</a></td><td>{escape(kind.happened)}</td></tr>'
        for slug, kind in problem_kinds().items()
    )
    head = "<tr><th>Status</th><th>Type</th><th>What happened</th></tr>"
    return PAGE.format(title="Problems", body=f"<table>\n<thead>{head}</thead>\n<tbody>\n{rows}\n</tbody>\n</table>")
