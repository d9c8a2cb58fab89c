"""Entry point of `headroom` and `python -m app`. Ctrl-C during the imports of a command exits quietly, too."""

from __future__ import annotations

import sys
from importlib.metadata import version

from app.command.ending import run_command

INTERRUPTED = 130  # the exit status that a shell reports for a program ended by SIGINT


def main() -> None:
    try:
        # Scripts and probes ask for the version often: it needs none of the imports of the command line.
        sys.exit(run_command(print_version if sys.argv[1:] == ["--version"] else run_cli))
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)


def print_version() -> None:
    sys.stdout.write(f"{version('headroom')}\n")
    sys.stdout.flush()


def run_cli() -> None:
    """Run the command that the arguments name."""
    from app.cli import cli  # noqa: PLC0415

    cli()


if __name__ == "__main__":
    main()
