"""Entry point of `headroom` and `python -m app`. Imports take about a second; Ctrl-C during that second also exits
quietly.
"""

from __future__ import annotations

import sys

INTERRUPTED = 130  # the exit status that a shell reports for a program ended by SIGINT


def main() -> None:
    try:
        from app.cli import cli  # noqa: PLC0415
        from app.command.prepare import run_command  # noqa: PLC0415

        sys.exit(run_command(cli))
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)


if __name__ == "__main__":
    main()
