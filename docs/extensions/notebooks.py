"""Execute the tutorials from nothing: `make notebooks` stores what their cells print."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

import nbformat
from nbclient import NotebookClient

TUTORIALS = Path(__file__).parents[1] / "tutorials"


def execute(path: Path, folder: str) -> nbformat.NotebookNode:
    """Execute a notebook in a folder; returns it with its outputs, and without what differs between machines."""
    os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"  # cells call `costgym`
    book = nbformat.read(path, 4)
    NotebookClient(book, timeout=300, kernel_name="python3", resources={"metadata": {"path": folder}}).execute()
    book.metadata = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}
    for cell in book.cells:
        cell.metadata.pop("execution", None)
    return book


if __name__ == "__main__":
    for path in sorted(TUTORIALS.glob("*.ipynb")):
        with tempfile.TemporaryDirectory() as folder:
            nbformat.write(execute(path, folder), path)
