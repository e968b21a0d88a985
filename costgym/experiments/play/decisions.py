"""Score deciders on labelled decisions: DEER's six accuracies.

Source: DEER (arXiv 2402.16696), Section 4.1 and Eq. 1 and 2: the two decisions are scored apart.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from costgym.agents.deer.deciders import Decider, TrainedDecider
from costgym.simulators.decision.samples import CALL, NO_CALL, NO_SEARCH, Example
from costgym.simulators.draws import stable_integer

ACCURACIES = ("p_no_search", "p_search", "p_ds", "p_no_call", "p_call", "p_dc")


class DecisionRecord(NamedTuple):
    """The decisions about an example."""

    kind: str  # of the example: NoSearch, NoCall or Call
    searched: bool
    right_call: bool | None  # the second decision was right; None where it was not taken


def accuracies(records: Iterable[DecisionRecord]) -> dict[str, float | None]:
    """DEER's six accuracies, `ACCURACIES`, each a share of right decisions; None without an example of that kind. A call
    decision that was never reached, since no search was made, counts as wrong."""
    known = list(records)
    nos = [not r.searched for r in known if r.kind == NO_SEARCH]
    search = [r.searched for r in known if r.kind != NO_SEARCH]
    noc = [r.right_call is True for r in known if r.kind == NO_CALL]
    call = [r.right_call is True for r in known if r.kind == CALL]
    counted = zip(ACCURACIES, (nos, search, nos + search, noc, call, noc + call), strict=True)
    return {name: sum(flags) / len(flags) if flags else None for name, flags in counted}


def evaluate(decider: Decider, known: Sequence[Example], seed: int = 0, forced: bool = True) -> list[DecisionRecord]:
    """Ask a decider about examples, one after the other. `forced` asks for a choice among the candidates of every example that
    needs a tool, as in the paper; without it only after the decider chose to search, as in an episode."""
    records = []
    for example in known:
        decider.begin(example.task, stable_integer(seed, "decider", example.task.id) >> 1)
        searched = decider.search(example.query)
        right: bool | None = None
        if example.kind != NO_SEARCH and (searched or forced):
            right = decider.choose(example.query, example.candidates) == example.gold
        records.append(DecisionRecord(example.kind, searched, right))
    return records


def evaluate_together(decider: TrainedDecider, known: Sequence[Example]) -> list[DecisionRecord]:
    """Ask a trained decider about all examples at once; the same as `evaluate` with `forced`."""
    searched = decider.search_many([example.query for example in known])
    to_choose = [example for example in known if example.kind != NO_SEARCH]
    chosen = iter(decider.choose_many([(example.query, example.candidates) for example in to_choose]))
    return [
        DecisionRecord(example.kind, searching, None if example.kind == NO_SEARCH else next(chosen) == example.gold)
        for example, searching in zip(known, searched, strict=True)
    ]
