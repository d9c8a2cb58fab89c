"""`python -m calibration.tracing`: `compare` traces the deployment of one request, `grid` the whole reference grid."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import orjson
import typer
from sqlalchemy.orm import Session, sessionmaker

from app.api.problems import InvalidBody, MalformedRequest
from app.api.routes.recommendations import compute_estimate
from app.catalog.holdings import NOTHING_HELD
from app.catalog.snapshot import CatalogStore
from app.catalog.tables import ModelRow
from app.command.settings import load_settings
from app.db import make_engine
from app.errors import AppError
from calibration.tracing.grid import all_cases
from calibration.tracing.report import comparison_lines
from calibration.tracing.requests import setup_of
from calibration.tracing.rows import Case, rows_in, write_grid
from calibration.tracing.setups import GIB_BYTES, Setup, Traced

GRID = Path(__file__).resolve().parents[2] / "tests" / "reference" / "traced_memory.csv"

cli = typer.Typer(
    no_args_is_help=True,
    help="Traces the peak memory of a training step with PyTorch.",
    pretty_exceptions_enable=False,
)


@cli.command()
def compare(
    request: Annotated[
        Path, typer.Argument(help="File with a body of POST /estimate: a training workload and its deployment.")
    ],
) -> None:
    """Trace the deployment of one request and compare it with the estimate, by component and phase."""
    trace = load_tracer()
    engine = make_engine(load_settings().database_url)
    sessions = sessionmaker(engine)
    try:
        answer, setup = estimate_and_setup(request.read_bytes(), sessions)
    except (AppError, MalformedRequest) as error:
        typer.echo(error.detail, err=True)
        raise typer.Exit(1) from error
    except InvalidBody as error:
        typer.echo(str(error.error), err=True)
        raise typer.Exit(1) from error
    finally:
        engine.dispose()
    for line in comparison_lines(answer["memory"], trace(setup)):
        typer.echo(line)


@cli.command()
def grid(
    new: Annotated[bool, typer.Option("--new", help="Keep existing rows and trace the missing ones.")] = False,
) -> None:
    """Trace every case of the grid and every case from other tools, and rewrite the file."""
    trace = load_tracer()
    gc.freeze()  # imported objects stay: collections between traces skip them
    before = list(rows_in(GRID)) if GRID.exists() else []
    write_grid(GRID, trace_cases(before, trace, keep=new))


def load_tracer() -> Callable[[Setup], Traced]:
    """Returns the function that traces a setup. Exits with a message if PyTorch is not installed."""
    if find_spec("torch") is None:
        typer.echo("PyTorch is not installed. Install the extra `trace`: pip install -e '.[trace]'", err=True)
        raise typer.Exit(1)
    trace: Callable[[Setup], Traced] = import_module("calibration.tracing.step").trace
    return trace


def estimate_and_setup(raw: bytes, sessions: sessionmaker[Session]) -> tuple[dict[str, Any], Setup]:
    """Returns the estimate for a request body, and the training setup to trace with its full deployment."""
    catalog_store = CatalogStore(sessions, check_s=3600)
    answer: dict[str, Any] = orjson.loads(
        compute_estimate(raw, catalog_store, datetime.now(UTC).date(), NOTHING_HELD).body
    )
    request = orjson.loads(raw)
    model = request["workload"]["model"]
    if isinstance(model, dict):
        config = model.get("huggingface_config", {})
    else:
        with sessions() as session:
            row = session.get(ModelRow, catalog_store.find_model(model).name)
            config = {} if row is None else row.facts["config"]
    return answer, setup_of({**request, "deployment": answer["deployment"]}, config)


def trace_cases(
    before: list[tuple[Case, Traced]], trace: Callable[[Setup], Traced], *, keep: bool
) -> Iterator[tuple[Case, Traced]]:
    """Every case with its trace, one at a time; existing rows are reused if `keep` is set."""
    known = {(case.model, case.layers, case.setup): (case, traced) for case, traced in before}
    elsewhere = [case for case, _ in before if case.elsewhere[0]]
    for i, case in enumerate((*elsewhere, *all_cases())):
        there = known.get((case.model, case.layers, case.setup))
        traced = there[1] if keep and there is not None else trace(case.setup)
        sys.stderr.write(f"{i} {case.model} {traced.peak_bytes / GIB_BYTES:.3f} GiB, {traced.seconds:.1f} s\n")
        yield case, traced


if __name__ == "__main__":
    cli()
