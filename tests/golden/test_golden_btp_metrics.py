"""The metrics of BTP, held to what its official evaluation says of recorded runs."""

from __future__ import annotations

import json

import pytest

from costgym.experiments.play.metrics import btp_metrics
from tests.helpers.shared_data import shared

RUNS = "data/algorithms/btp_metrics.jsonl"


def test_every_recorded_run_has_the_official_figures():
    runs = [json.loads(line) for line in shared(RUNS).read_text(encoding="utf-8").splitlines()]
    assert len(runs) == 12
    for run in runs:
        assert btp_metrics(run["queries"], run["budget"]) == pytest.approx(run["official"], rel=1e-12), run["id"]
