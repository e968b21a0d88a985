"""The golden cases and public data that stand beside the repository, or a skip that says where they were looked for."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(os.environ.get("COSTGYM_SHARED", Path(__file__).resolve().parents[2].parent / "shared"))


def shared(path: str) -> Path:
    """A file or folder under the shared material; skips the test where it is not there."""
    full = ROOT / path
    if not full.exists():
        pytest.skip(f"{full} is not here; set COSTGYM_SHARED to the folder that holds {path}")
    return full


def shared_lines(path: str) -> list[Any]:
    """The records of a JSON-lines file."""
    return [json.loads(line) for line in shared(path).read_text(encoding="utf-8").splitlines() if line.strip()]


def shared_json(path: str) -> Any:
    """A JSON file."""
    return json.loads(shared(path).read_text(encoding="utf-8"))
