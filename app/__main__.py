"""`headroom` and `python -m app`: the command line. Importing it takes a second, in which Ctrl-C ends quietly too."""

from __future__ import annotations

import sys

INTERRUPTED = 130  # as a shell tells of a program that SIGINT ended


def main() -> None:
    try:
        from app.cli import cli  # noqa: PLC0415
        from app.command.ending import ended  # noqa: PLC0415

        sys.exit(ended(cli))
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)


if __name__ == "__main__":
    main()
