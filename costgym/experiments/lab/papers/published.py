"""The papers' published results, with which `reproduce` compares ours.

`published.json` holds a row a line in the format of leaderboard rows: the metrics that the paper reports, and its table as the
`source`. Shares are from 0 to 1.
"""

import json
from pathlib import Path

from costgym.experiments.lab.papers.common import Row
from costgym.simulators.errors import check_known

PUBLISHED: dict[str, list[Row]] = json.loads(Path(__file__).with_suffix(".json").read_text(encoding="utf-8"))


def published(name: str) -> list[Row]:
    """Return copies of a paper's rows."""
    check_known("paper", name, PUBLISHED)
    return [{**row, "ci95": {}} for row in PUBLISHED[name]]
