"""How a command ends when what is around it gives way: one sentence and a status, never a traceback."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

import typer

from app.command.prepare import why
from app.command.reach import Exit
from app.db import DatabaseError

BROKEN_PIPE = 141  # as a shell tells of a program that SIGPIPE ended


def ended(command: Callable[[], object]) -> int:
    """What a command ends with; a database or a file that fails is told on standard error."""
    try:
        command()
    except SystemExit as left:
        if isinstance(left.__context__, BrokenPipeError):  # who reads had enough
            silence()
            return BROKEN_PIPE
        return left.code if isinstance(left.code, int) else int(left.code is not None)
    except DatabaseError as error:
        return failed(f"The database does not do it: {why(error)}. Run `headroom doctor` for what mends it.")
    except OSError as error:
        if error.filename is None:  # what is written without a name is standard output
            silence()
        return failed(f"{error.filename or 'The output'} cannot be used: {error.strerror or error}.")
    return 0


def failed(sentence: str) -> int:
    typer.echo(sentence, err=True)
    return Exit.FAILED


def silence() -> None:
    """What is left unwritten goes nowhere: the interpreter would try once more, and tell of it."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)
