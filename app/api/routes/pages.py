"""The web pages: sizing at /, the pages for single tasks, the guide, the API documentation and the problem types."""

from __future__ import annotations

from html import escape
from importlib import resources
from string import Template
from typing import Any

from fastapi import FastAPI, Response
from fastapi.responses import HTMLResponse
from fastapi.staticfiles import StaticFiles

from app.api.guide import FILES, INDEX, Guide, docs_folder
from app.api.problems import problem_index_page, problem_kinds, problem_page
from app.errors import NotFound
from app.sizing.words import API_HOSTS, PRODUCTS, PROVIDERS

CONTENT_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
# Swagger UI uses inline styles.
DOCS_POLICY = CONTENT_POLICY.replace("style-src 'self'", "style-src 'self' 'unsafe-inline'")

# Pages that app/api/static/page/pages has a module for: title and purpose. The navigation lists those with a purpose.
PAGES = {
    "compare": ("Compare", "Compare deployments that you name, or let the service size each option."),
    "diagnose": ("Diagnose", "Find out why a service or a training run is slower than expected."),
    "market": ("Market", "Hourly prices per accelerator: lowest, median and highest price, and how they change."),
    "answers": ("Answers", "Stored answers: find, approve, check and price them again."),
    "inventory": ("Inventory", "Hardware that you own, and prices quoted to you. Later answers use them."),
    "measurements": ("Measurements", "Your own benchmarks and training logs. They move later predictions."),
    "accuracy": ("Accuracy", "Errors of the predictions against published results."),
    "share": ("Recommendation", ""),
}
LINKS = {
    "/": "Size",
    **{f"/pages/{name}": title for name, (title, purpose) in PAGES.items() if purpose},
    "/guide": "Guide",
    "/docs": "API",
}
# Names of sellers and software by their keys, as makers write them.
NAMES = {**API_HOSTS, **PROVIDERS, **PRODUCTS}
HEADER_MODULE = "/static/page/header.js"
NO_SCRIPT = '<noscript><p class="warning">This page needs JavaScript. You can also use the API.</p></noscript>'


class RevalidatedFiles(StaticFiles):
    """Files that a browser compares with the service before use, so a page never has modules of two releases."""

    def file_response(self, *arguments: Any, **options: Any) -> Response:
        response = super().file_response(*arguments, **options)
        response.headers["Cache-Control"] = "no-cache"
        return response


def static_text(name: str) -> str:
    return resources.files("app.api").joinpath("static", name).read_text(encoding="utf-8")


def shared_modules() -> list[str]:
    """Returns the addresses of the modules in static/page, so that a browser requests all of them at once."""
    files = resources.files("app.api").joinpath("static", "page").iterdir()
    return sorted(f"/static/page/{file.name}" for file in files if file.name.endswith(".js"))


def shell_page(
    title: str, content: str, *, current: str = "", module: str | None = None, preloaded: list[str] | None = None
) -> str:
    """Returns a page with the navigation. `current` is the address of the link that is marked as the current page."""
    links = "".join(
        f'<li><a href="{address}"{" aria-current=page" if address == current else ""}>{name}</a></li>'
        for address, name in LINKS.items()
    )
    scripts = [f'<script type="module" src="{each}"></script>' for each in (HEADER_MODULE, module) if each]
    scripts += [f'<link rel="modulepreload" href="{address}">' for address in preloaded or ()]
    return Template(static_text("shell.html")).substitute(
        title=escape(title), links=links, content=content, scripts="\n".join(scripts)
    )


def text_page(title: str, html: str, *, kind: str = "", current: str = "", module: str | None = None) -> str:
    content = f'<main id="content" class="page {kind}">{html}</main>'
    return shell_page(f"{title} – Headroom", content, current=current, module=module)


def task_page(name: str) -> str:
    title, purpose = PAGES[name]
    heading = f"<h1>{title}</h1>" + (f"<p>{purpose}</p>" if purpose else "")
    html = f'{heading}{NO_SCRIPT}<div id="view"></div>'
    return text_page(title, html, current=f"/pages/{name}", module=f"/static/page/pages/{name}.js")


def guide_page(title: str, html: str, sought: str = "") -> str:
    search = (
        '<form class="search" action="/guide" role="search"><label for="q">Search the guide</label> '
        f'<input id="q" type="search" name="q" value="{escape(sought)}"> <button>Search</button> '
        '<a href="/guide">All pages</a></form>'
    )
    return text_page(title, search + html, kind="guide", current="/guide")


def html_page(text: str, policy: str = CONTENT_POLICY) -> HTMLResponse:
    return HTMLResponse(text, headers={"Content-Security-Policy": policy})


def install_pages(app: FastAPI) -> None:
    """Serves the pages from the package's own files."""
    app.mount("/static", RevalidatedFiles(packages=[("app.api", "static")]), name="static")
    index = shell_page(
        "Headroom",
        static_text("index.html"),
        current="/",
        module="/static/page/main.js",
        preloaded=shared_modules(),
    )
    tasks, docs = {name: task_page(name) for name in PAGES}, static_text("docs.html")

    @app.get("/", include_in_schema=False)
    def show_index() -> HTMLResponse:
        return html_page(index)

    @app.get("/pages/names.json", include_in_schema=False)
    def show_names() -> dict[str, str]:
        return NAMES

    @app.get("/pages/{name}", include_in_schema=False)
    def show_task(name: str) -> HTMLResponse:
        if name not in tasks:
            raise NotFound(f"Unknown page. The pages are {', '.join(PAGES)}.")
        return html_page(tasks[name])

    @app.get("/docs", include_in_schema=False)
    def show_docs() -> HTMLResponse:
        return html_page(docs, DOCS_POLICY)

    @app.get("/problems", include_in_schema=False)
    def all_problems() -> HTMLResponse:
        return html_page(text_page("Problems", problem_index_page()))

    @app.get("/problems/{slug}", include_in_schema=False)
    def one_problem(slug: str) -> HTMLResponse:
        if slug not in problem_kinds():
            raise NotFound("Unknown problem type. /problems lists all types.")
        return html_page(text_page(problem_kinds()[slug].title, problem_page(slug), kind="guide"))

    install_guide(app)


def install_guide(app: FastAPI) -> None:
    """Serves the documents under /guide if they are installed."""
    folder = docs_folder()
    if folder is None:
        return
    guide = Guide(folder)
    app.mount(FILES, StaticFiles(directory=folder), name="guide-files")

    @app.get("/guide", include_in_schema=False)
    def show_guide(q: str = "") -> HTMLResponse:
        if q.strip():
            return html_page(guide_page("Search", guide.results_page(q.strip()), q.strip()))
        return html_page(guide_page(*guide.render(INDEX)))

    @app.get("/guide/{name}", include_in_schema=False)
    def show_document(name: str) -> HTMLResponse:
        if f"{name}.md" not in guide:
            raise NotFound("Unknown document. /guide lists all documents.")
        return html_page(guide_page(*guide.render(f"{name}.md")))
