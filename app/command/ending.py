"""Exit of a command when a database or file fails: one sentence and a status, never a traceback."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

import typer

from app.command.prepare import describe_cause
from app.command.reach import Exit
from app.db import DatabaseError

BROKEN_PIPE = 141  # exit status that a shell reports for a program ended by SIGPIPE


def run_command(command: Callable[[], object]) -> int:
    """Run a command and return its exit status. Reports a database or file error on standard error."""
    try:
        command()
    except SystemExit as exit_request:
        if isinstance(exit_request.__context__, BrokenPipeError):  # the reader closed the pipe
            discard_output()
            return BROKEN_PIPE
        return exit_request.code if isinstance(exit_request.code, int) else int(exit_request.code is not None)
    except DatabaseError as error:
        return report_failure(f"Database error: {describe_cause(error)}. Run `headroom doctor` to find the cause.")
    except OSError as error:
        if error.filename is None:  # an error without a file name concerns standard output
            discard_output()
        return report_failure(f"{error.filename or 'The output'} cannot be used: {error.strerror or error}.")
    return 0


def report_failure(sentence: str) -> int:
    """Print a sentence on standard error and return the exit status of a failure."""
    typer.echo(sentence, err=True)
    return Exit.FAILED


def discard_output() -> None:
    """Redirect standard output to the null device. Otherwise the interpreter would retry the write at exit and print an
    error.
    """
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)
