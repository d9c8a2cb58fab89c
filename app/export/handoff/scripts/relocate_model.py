"""Replaces the folder of the model in a configuration of torchtune, which names it in /tmp."""

from __future__ import annotations

import re
import sys
from pathlib import Path


def main() -> None:
    """Edits the file of the first argument; the second argument is the folder of the model."""
    path, folder = Path(sys.argv[1]), sys.argv[2]
    path.write_text(re.sub(r"/tmp/(?!torchtune)[\w.-]+", lambda _: folder, path.read_text()))


if __name__ == "__main__":
    main()
