"""DEER: does a trained decider know when to search for a tool, and when none of the candidates fits?

Two decisions are scored separately: answer directly or search, then call one of the candidates or none. A small decider that is
trained here stands beside a rule and beside simulated deciders with the paper's rates, on seen and on unseen tools.

Source: DEER (arXiv 2402.16696), Section 4, Tables 1 and 3.
"""

from collections.abc import Mapping, Sequence
from math import hypot
from statistics import pstdev
from typing import Any

import numpy as np

from costgym.agents.deer import DECISION, RATES, Decider, RuleDecider, SimulatedDecider, examples
from costgym.agents.deer.learnt import load_decider
from costgym.agents.registry import find_agent, run_folder
from costgym.envs.decision import DecisionAwareEnv
from costgym.experiments.papers.claims import (
    ALIKE,
    UNPUBLISHED,
    Points,
    Printed,
    effect,
    in_words,
    interval_ends,
    levels_of,
    printed,
)
from costgym.experiments.papers.paper import PUBLISHED, Job, Paper, Protocol, Row, Tables, published
from costgym.experiments.play.decisions import ACCURACIES, DecisionRecord, accuracies, evaluate, evaluate_together
from costgym.simulators.decision.samples import CALL, NO_CALL, NO_SEARCH
from costgym.simulators.decision.toolsets import NEAREST

# -- protocol ----------------------------------------------------------------------------------------------------------------

NEAR = "near"
PROTOCOLS = (
    Protocol(
        PUBLISHED,
        "candidates drawn at random, within and across clusters, in the paper's mixture; for unseen tools at random",
    ),
    Protocol(
        NEAR,
        "the candidates whose descriptions are most like the right tool's, each for another fact",
        source={"mixture": {NEAREST: 1}, "test_mixture": {NEAREST: 1}},
    ),
)

# -- agents ------------------------------------------------------------------------------------------------------------------

TRAINED = "zoo:deer"  # scored beside the others where the extra `train` is installed
TRAINED_IN_PAPER = "ToolDEER-13B"
PROMPTED = {
    "GPT-4": ("GPT-4, 6 shots", "deer (gpt-4)"),
    "GPT-3.5": ("GPT-3.5-Turbo, 6 shots", "deer (gpt-3.5-turbo)"),
    "LLaMA2-13B": ("LLaMA2-13B-Chat, 6 shots", "deer (llama2-13b-chat)"),
}
"""Names of the prompted deciders in the paper's rows and in ours, which have the paper's rates on our samples."""

# -- play --------------------------------------------------------------------------------------------------------------------

FITTED_ON = 3000  # training samples from which the rule's thresholds are fitted


def reproduce(job: Job) -> Tables:
    """Score the deciders under both protocols; on the samples of a ToolDEER folder under the published one alone."""
    tables: Tables = {"ours": [], "effects": []}
    for protocol in PROTOCOLS[: 1 if job.data else None]:
        rows = decision_rows(job.episodes or None, job.seed, job.data, dict(protocol.source) or None)
        tables["ours"] += [{**row, "protocol": protocol.name} for row in rows]
        tables["effects"] += [{**row, "protocol": protocol.name} for row in check_claims(rows)]
    return tables


def decision_rows(
    episodes: int | None = None, seed: int = 0, data: str | None = None, samples: dict[str, Any] | None = None
) -> list[Row]:
    """Score the rule, the simulated deciders and the trained one on the first (None: all) samples with seen (`valid`) and
    unseen tools (`test`): generated ones, by fields of `DecisionSettings`, or those of a ToolDEER folder. If that has no
    training samples, the rule is fitted on one half of the validation samples and scored on the other half."""
    world = DecisionAwareEnv(data=data, split="valid", samples=samples).world
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
    for split, split_examples in splits.items():
        for name, decider in deciders:
            rows.append(decision_row(name, decider.model or None, split, evaluate(decider, split_examples, seed), seed))
        if trained is not None:
            rows.append(decision_row(TRAINED, trained.model, split, evaluate_together(trained, split_examples), seed))
    return rows


# -- table -------------------------------------------------------------------------------------------------------------------

# kinds of samples that each accuracy covers, in the order of `ACCURACIES`
COVERED = ((NO_SEARCH,), (NO_CALL, CALL), (NO_SEARCH, NO_CALL, CALL), (NO_CALL,), (CALL,), (NO_CALL, CALL))
COLUMNS = (
    ("p_no_search", "NoSearch %", "rate"),
    ("p_search", "Search %", "rate"),
    ("p_ds", "DS %", "rate"),
    ("p_no_call", "NoCall %", "rate"),
    ("p_call", "Call %", "rate"),
    ("p_dc", "DC %", "rate"),
)


def decision_row(agent: str, model: str | None, split: str, records: list[DecisionRecord], seed: int = 0) -> Row:
    """Return a decider's six accuracies on a split with their intervals; None for an accuracy without samples."""
    # the first three accuracies are of the decision to search, the others of the call
    right = [[record.searched == (record.kind != NO_SEARCH)] * 3 + [record.right_call is True] * 3 for record in records]
    covered = np.array([[record.kind in kinds for kinds in COVERED] for record in records], np.float64)
    figures = {name: value for name, value in accuracies(records).items() if value is not None}
    ends = interval_ends(ACCURACIES, np.array(right, np.float64) * covered, covered, seed=seed)
    about = {"agent": agent, "model": model, "env": DECISION, "split": split, "episodes": len(records)}
    return {**about, **figures, "ci95": {name: ends[name] for name in figures}}


# -- claims ------------------------------------------------------------------------------------------------------------------

CLAIMED = (("valid", "p_ds", "seen", "Table 1"), ("valid", "p_dc", "seen", "Table 1"), ("test", "p_dc", "unseen", "Table 3"))
"""Accuracies in which the trained decider is ahead: split, accuracy, its tools in words, and where the paper says it."""


def check_claims(rows: Sequence[Row]) -> list[Row]:
    """Check the claims about the trained decider; none where it was not played."""
    table = {(row["split"], row["agent"]): row for row in rows}
    effects: list[Row] = []
    for split, metric, tools, source in CLAIMED:
        if (split, TRAINED) in table:
            effects += _check_accuracy(table, split, metric, tools, source)
    if ("test", TRAINED) in table:
        seen, unseen = table["valid", TRAINED], table["test", TRAINED]
        text, points = _difference(unseen, seen, "p_dc")
        values = {row["split"]: 100 * row["p_dc"] for row in published("deer") if row["agent"] == TRAINED_IN_PAPER}
        paper = Printed(values["valid"], values["test"], pstdev(100 * row["p_dc"] for row in published("deer")))
        claim = f"P_DC on unseen tools is at most {ALIKE:g} points below that on seen ones"
        levels = levels_of(seen, unseen, "p_dc")
        effects.append(effect(claim, text, points[1] >= -ALIKE, "", "Table 3", points=points, paper=paper, levels=levels))
    return effects


def _check_accuracy(table: Mapping[tuple[str, str], Row], split: str, metric: str, tools: str, source: str) -> list[Row]:
    """Check that an accuracy of the trained decider is above that of the prompted ones, and of a rule."""
    effects = []
    trained, shown = table[split, TRAINED], metric.upper()
    for name, (in_paper, base) in PROMPTED.items():
        paper = printed("deer", TRAINED_IN_PAPER, in_paper, metric, split=split)
        claim = f"{tools} tools: {shown} of the trained decider is above that of {name}"
        text, points = _difference(trained, table[split, base], metric)
        levels = levels_of(table[split, base], trained, metric)
        effects.append(effect(claim, text, points[1] > 0, "", source, points=points, paper=paper, levels=levels))
    text, points = _difference(trained, table[split, "deer-rule"], metric)
    effects.append(effect(f"{tools} tools: {shown} is above a rule's", text, points[1] > 0, source=UNPUBLISHED))
    return effects


def _difference(ours: Row, base: Row, metric: str) -> tuple[str, Points]:
    """Return the difference of two rows in points; the half-widths of their intervals add in squares."""
    (our_low, our_high), (base_low, base_high) = ours["ci95"][metric], base["ci95"][metric]
    difference = 100 * (ours[metric] - base[metric])
    below = 100 * hypot(ours[metric] - our_low, base_high - base[metric])
    above = 100 * hypot(our_high - ours[metric], base[metric] - base_low)
    return in_words((difference, difference - below, difference + above))


PAPER = Paper(
    "deer",
    "DEER",
    PROTOCOLS,
    0,
    reproduce,
    "The error rates of the simulated deciders are those of the paper's table, so their rows only check the scoring; "
    "deer-rule and zoo:deer, which is trained here, are measured.",
    COLUMNS,
    trained=TRAINED,
)
