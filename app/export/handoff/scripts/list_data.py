"""Writes the list of data sets that LLaMA-Factory reads, with the data set DATASET as `train`."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

CONVERSATIONS = {
    "formatting": "sharegpt",
    "columns": {"messages": "messages"},
    "tags": {
        "role_tag": "role",
        "content_tag": "content",
        "user_tag": "user",
        "assistant_tag": "assistant",
        "system_tag": "system",
    },
}
TEXT = {"columns": {"prompt": "text"}}


def main() -> None:
    """Writes the file named by the first argument."""
    source = Path(os.environ["DATASET"])
    where = {"file_name": str(source.resolve())} if source.exists() else {"hf_hub_url": os.environ["DATASET"]}
    columns = TEXT if os.environ["DATA_KIND"] == "text" else CONVERSATIONS
    Path(sys.argv[1]).write_text(json.dumps({"train": {**where, **columns}}, indent=2))


if __name__ == "__main__":
    main()
