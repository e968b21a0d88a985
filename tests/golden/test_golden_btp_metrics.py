"""The metrics of BTP, held to what its official evaluation says of recorded runs."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from costgym.experiments.play.metrics import summarise
from costgym.experiments.play.results import EpisodeResult
from tests.helpers.shared_data import shared

RUNS = "data/algorithms/btp_metrics.jsonl"


def btp_metrics(queries: Sequence[Mapping[str, Any]], budget: float) -> dict[str, float]:
    """AC, RFBC, PBC and PR of recorded runs of BTP's evaluation.

    Only executed calls of known functions have a cost. A query counts as solved if it has more passing than failing votes and
    its only step is not `finish`, or if it was judged unsolvable.

    Args:
        queries: each with `costs` by function, `calls` (`function`, `result`), `votes_passed`, `votes_failed`,
            `only_finish_step`, `unsolvable_votes`, `solvable_votes`.
        budget: limit of the summed cost of a query.

    Source: BTP, section 3.1.
    """
    results = []
    for index, query in enumerate(queries):
        paid = [query["costs"].get(call["function"], 0) for call in query["calls"] if call["result"] == "executed"]
        solved = query["votes_passed"] > query["votes_failed"] and not query["only_finish_step"]
        solved = solved or query["unsolvable_votes"] > query["solvable_votes"]
        results.append(
            EpisodeResult(
                agent="recorded", model=None, env="recorded", task=str(index), episode=index, seed=0, budget={"price": budget},
                strict=solved, judged=solved, share=float(solved), price=sum(paid), seconds=0.0, tokens=0, calls=len(paid),
                attempts=len(query["calls"]), errors={}, errors_by_status={}, exceeded="price" if sum(paid) > budget else None,
            )
        )  # fmt: skip
    row = summarise(results, resamples=1)
    names = {"AC": "average_cost", "RFBC": "budget_failure_rate", "PBC": "pass_rate_under_budget", "PR": "pass_rate"}
    return {short: row[name] for short, name in names.items()}


def test_every_recorded_run_has_the_official_figures():
    runs = [json.loads(line) for line in shared(RUNS).read_text(encoding="utf-8").splitlines()]
    assert len(runs) == 12
    for run in runs:
        assert btp_metrics(run["queries"], run["budget"]) == pytest.approx(run["official"], rel=1e-12), run["id"]
