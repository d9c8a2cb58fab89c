"""How commands end: their exit statuses, and the sentence of one that cannot go on."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from enum import IntEnum

LOCK_SIGNS = ("LockNotAvailable", "database is locked")  # signs of a lock that another process holds
RESTORE = "Stop the service and restore the newest backup (docs/operating.md#backing-up-and-restoring)."
BROKEN_PIPE = 141  # exit status that a shell reports for a program ended by SIGPIPE


class Exit(IntEnum):
    """Exit status of a command other than 0."""

    FAILED = 1  # no answer: the service or database failed, or a setting is invalid
    REFUSED = 2  # the request is invalid; the message names the accepted values
    INFEASIBLE = 3  # answered, but nothing meets the requirements


def run_command(command: Callable[[], object]) -> int:
    """Run a command and return its exit status. Reports a missing extra, a database or a file error on standard
    error.
    """
    try:
        command()
    except SystemExit as exit_request:
        if isinstance(exit_request.__context__, BrokenPipeError):  # the reader closed the pipe
            discard_output()
            return BROKEN_PIPE
        return exit_request.code if isinstance(exit_request.code, int) else int(exit_request.code is not None)
    except OSError as error:
        if error.filename is None:  # an error without a file name concerns standard output
            discard_output()
        return report_failure(f"{error.filename or 'The output'} cannot be used: {error.strerror or error}.")
    except Exception as error:
        sentence = describe_obstacle(error)
        if sentence is None:
            raise
        return report_failure(sentence)
    return 0


def describe_obstacle(error: Exception) -> str | None:
    """What a user can remove: a missing extra or an error of the database. None for an unexpected error."""
    from app.db import DatabaseError
    from app.extras import MissingExtra

    if isinstance(error, MissingExtra):
        return error.detail
    if isinstance(error, DatabaseError):
        return f"Database error: {describe_cause(error)}. Run `headroom doctor` to find the cause."
    return None


def report_failure(sentence: str) -> int:
    """Print a sentence on standard error and return the exit status of a failure."""
    sys.stderr.write(f"{sentence}\n")
    return Exit.FAILED


def discard_output() -> None:
    """Redirect standard output to the null device, so that the interpreter does not retry the write at exit."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


def describe_cause(error: Exception) -> str:
    """Cause of a database error, in the database's own words where it gives them."""
    from alembic.util import CommandError

    from app.errors import describe_error

    details = describe_error(error)
    if any(sign in f"{details['error']} {details['message']}" for sign in LOCK_SIGNS):
        return "another process is changing it; wait for that process to finish, then run the command again"
    if isinstance(error, CommandError):
        return f"{details['message'].rstrip('.')}. The database may belong to a newer release"
    return details["message"].rstrip(".")
