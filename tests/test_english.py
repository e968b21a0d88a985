"""Sentences and names that readers stumbled over stay out of the tree."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
FOLDERS = ("simulators", "envs", "agents", "experiments", "costgym/cli", "tests", "docs", "examples", "benchmarks")
FILES = [
    path
    for folder in FOLDERS
    for path in sorted((ROOT / folder).rglob("*"))
    if path.suffix in (".py", ".md", ".html", ".js", ".ipynb", ".toml") and path != Path(__file__)
] + sorted(ROOT.glob("*.md"))


@pytest.mark.parametrize(
    ("found", "better"),
    [
        (r"\banew\b", "again"),
        (r"\bthereof\b", "of it"),
        (r"\bcompares it whole\b", "compares it byte for byte"),
        (r"\b[Aa]gents of one's own\b", "your agents"),
        (r"\bis no (YAML|JSON|number)\b", "is not valid YAML"),
        (r"\bwho counts the episodes\b", "counting the episodes"),
        (r"\bstrangers?\b", "unexpected files, untrusted documents"),
        (r"\bclass (Port|Told|News|_Asked)\b", "ModelHandle, EpisodeStory, PendingEvents, Overrides"),
        (r"\bdef (behind|ported)\b", "model_of, wrap_model"),
        (r"\btest_sizes_that_are_none\b", "a name that says what holds"),
        (r"\bpass rate in budget\b", "pass %"),
    ],
)
def test_words_that_readers_stumbled_over_are_gone(found: str, better: str) -> None:
    assert len(FILES) > 800
    said = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip():.120}"
        for path in FILES
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if re.search(found, line)
    ]
    assert said == [], f"write: {better}"
