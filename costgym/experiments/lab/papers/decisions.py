"""Measure DEER's six accuracies for deciders on seen and unseen tools, with intervals.

Source: DEER (arXiv 2402.16696), Section 4.1 (the two decisions are scored separately).
"""

from typing import Any

import numpy as np

from costgym.agents.deer import DECISION, RATES, Decider, RuleDecider, SimulatedDecider, examples
from costgym.agents.deer.learnt import load_decider
from costgym.agents.registry import find_agent, run_folder
from costgym.envs.decision import DecisionAwareEnv
from costgym.experiments.lab.papers.common import Row, interval_ends
from costgym.experiments.play.decisions import ACCURACIES, DecisionRecord, accuracies, evaluate, evaluate_together
from costgym.simulators.decision.samples import CALL, NO_CALL, NO_SEARCH

FITTED_ON = 3000
TRAINED = "zoo:deer"  # scored beside the others where the extra `train` is installed
# kinds of samples that each accuracy covers, in the order of `ACCURACIES`
_COVERED = ((NO_SEARCH,), (NO_CALL, CALL), (NO_SEARCH, NO_CALL, CALL), (NO_CALL,), (CALL,), (NO_CALL, CALL))


def decision_row(agent: str, model: str | None, split: str, records: list[DecisionRecord], seed: int = 0) -> Row:
    """Return a decider's six accuracies on a split with their intervals; None for an accuracy without samples."""
    # the first three accuracies are of the decision to search, the others of the call
    right = [[record.searched == (record.kind != NO_SEARCH)] * 3 + [record.right_call is True] * 3 for record in records]
    counted = np.array([[record.kind in kinds for kinds in _COVERED] for record in records], np.float64)
    known = {name: value for name, value in accuracies(records).items() if value is not None}
    ends = interval_ends(ACCURACIES, np.array(right, np.float64) * counted, counted, seed=seed)
    about = {"agent": agent, "model": model, "env": DECISION, "split": split, "episodes": len(records)}
    return {**about, **known, "ci95": {name: ends[name] for name in known}}


def decision_rows(
    episodes: int | None = None, seed: int = 0, data: str | None = None, samples: dict[str, Any] | None = None
) -> list[Row]:
    """Score the rule, the simulated deciders and the trained one on the first (None: all) samples with seen (`valid`) and
    unseen tools (`test`): generated ones, by fields of `DecisionSettings`, or those of a ToolDEER folder. If that has no
    training samples, the rule is fitted on one half of the validation samples and scored on the other half."""
    env = DecisionAwareEnv(data=data, split="valid", samples=samples)
    world = env.world
    splits = {"valid": examples(world, "valid", episodes), "test": examples(world, "test", episodes)}
    if "train" in world.tasks.splits:
        rule = RuleDecider.fit(examples(world, "train", FITTED_ON))
    else:
        rule = RuleDecider.fit(splits["valid"][::2])
        splits["valid"] = splits["valid"][1::2]
    deciders: list[tuple[str, Decider]] = [("deer-rule", rule)]
    deciders += [(f"deer ({name})", SimulatedDecider(name=name)) for name in RATES]
    trained = load_decider(run_folder(TRAINED), TRAINED) if find_agent(TRAINED).playable else None
    rows = []
    for split, known in splits.items():
        for name, decider in deciders:
            rows.append(decision_row(name, decider.model or None, split, evaluate(decider, known, seed), seed))
        if trained is not None:
            rows.append(decision_row(TRAINED, trained.model, split, evaluate_together(trained, known), seed))
    return rows
