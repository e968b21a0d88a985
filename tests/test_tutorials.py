"""The tutorials' notebooks run from nothing and print what they are stored with."""

from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(__file__).parent.parent / "docs" / "tutorials"
SLOW = {"own_tools", "train_and_look"}


def texts(cell: Any) -> list[tuple[str, str]]:
    """What a cell shows, but for pictures. Cells with the tag `varies` depend on the build of PyTorch."""
    if "varies" in cell.metadata.get("tags", ()):
        return []
    shown = []
    for output in cell.get("outputs", ()):
        kinds = {"stream": output["text"]} if output.output_type == "stream" else dict(output.get("data", {}))
        for kind, text in sorted(kinds.items()):
            if kind == "stream" and shown and shown[-1][0] == "stream":
                shown[-1] = kind, shown[-1][1] + text  # a slow machine reads what a command prints in pieces
            elif kind in ("stream", "text/plain", "text/html"):
                shown.append((kind, text))
    return shown


@pytest.mark.parametrize(
    "path",
    [pytest.param(path, marks=pytest.mark.slow if path.stem in SLOW else ()) for path in sorted(FOLDER.glob("*.ipynb"))],
    ids=lambda path: path.stem,
)
def test_a_tutorial_runs_from_nothing_and_prints_what_it_is_stored_with(path: Path, tmp_path: Path) -> None:
    nbformat = pytest.importorskip("nbformat", reason="needs the extra `dev`")
    pytest.importorskip("nbclient", reason="needs the extra `dev`")
    from docs.extensions.notebooks import execute

    stored, executed = nbformat.read(path, 4), execute(path, str(tmp_path))
    assert any(cell.get("outputs") for cell in stored.cells), "stored without outputs: run `make notebooks`"
    for before, after in zip(stored.cells, executed.cells, strict=True):
        assert texts(after) == texts(before), before.source
