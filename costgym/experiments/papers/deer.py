"""DEER: does a trained decider know when to search for a tool, and when none of the candidates fits?

Two decisions are scored separately: answer directly or search, then call one of the candidates or none. With a ToolDEER folder
deciders are trained on samples drawn from the authors' tools, and played on the authors' four sets beside the paper's figures.
On generated samples a small decider that ships stands beside a rule and simulated deciders with the paper's rates, on seen and
on unseen tools.

Source: DEER (arXiv 2402.16696), Section 4, Tables 1 and 3.
"""

from collections.abc import Mapping, Sequence
from itertools import chain
from math import hypot
from pathlib import Path
from statistics import pstdev
from typing import Any

import numpy as np

from costgym.agents.deer import DECISION, RATES, Decider, RuleDecider, SimulatedDecider, examples
from costgym.agents.deer.deciders import TrainedDecider
from costgym.agents.deer.learnt import load_decider
from costgym.agents.deer.settings import DeerSettings
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
from costgym.experiments.train.deer.train import training_examples
from costgym.simulators.decision.samples import CALL, NO_CALL, NO_SEARCH
from costgym.simulators.decision.toolsets import NEAREST, what_it_does
from costgym.simulators.retrieval.sentences import MINILM, has_minilm, sentence_embedding
from costgym.simulators.threads import torch_threads

# -- protocol ----------------------------------------------------------------------------------------------------------------

AUTHORS, NEAR = "authors", "near"  # the first with a folder alone
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
LEARNT_HERE = "deer:"  # before what a decider that is trained on a folder's samples is made of
TRAINED_IN_PAPER = "ToolDEER-13B"
PROMPTED = {
    "GPT-4": ("GPT-4, 6 shots", "deer (gpt-4)"),
    "GPT-3.5": ("GPT-3.5-Turbo, 6 shots", "deer (gpt-3.5-turbo)"),
    "LLaMA2-13B": ("LLaMA2-13B-Chat, 6 shots", "deer (llama2-13b-chat)"),
}
"""Names of the prompted deciders in the paper's rows and in ours, which have the paper's rates on our samples."""

# -- play --------------------------------------------------------------------------------------------------------------------

FITTED_ON = 3000  # training samples from which the rule's thresholds are fitted
SETS = ("valid", "test", "toolbench", "toolcorpus")
"""The authors' sets: seen tools, unseen ones, and those of two other data sets."""
SMALL = "small"
"""A small language model, trained from random weights."""


def reproduce(job: Job) -> Tables:
    """Score the deciders on the authors' samples, where there is a folder of them, and on generated ones."""
    tables: Tables = {"ours": [], "effects": []}
    if job.data is not None:
        rows = authors_rows(job)
        tables["ours"] += [{**row, "protocol": AUTHORS} for row in rows]
        tables["effects"] += [{**row, "protocol": AUTHORS} for row in check_authors_claims(rows)]
    for protocol in PROTOCOLS:
        rows = decision_rows(job.episodes or None, job.seed, dict(protocol.source) or None)
        tables["ours"] += [{**row, "protocol": protocol.name} for row in rows]
        tables["effects"] += [{**row, "protocol": protocol.name} for row in check_claims(rows)]
    return tables


def authors_rows(job: Job) -> list[Row]:
    """Score the rule with words and with MiniLM, the shipped decider, and those trained here, on the sets of a folder."""
    data = job.data or ""
    world = DecisionAwareEnv(data=data, split="valid").world
    sets = {name: examples(world, name, job.episodes or None) for name in SETS if name in world.tasks.splits}
    known, _ = training_examples("decision", data, DeerSettings(seed=job.seed))
    deciders: list[Decider] = [RuleDecider.fit(known[:FITTED_ON])]
    if has_minilm():
        played = [*known[:FITTED_ON], *chain.from_iterable(sets.values())]
        # read together, which is faster, and remembered
        sentence_embedding()([text for e in played for text in (e.query, *map(what_it_does, e.candidates))])
        deciders.append(RuleDecider.fit(known[:FITTED_ON], sentence_embedding()))
        deciders[-1].name = "deer-minilm"
    if find_agent(TRAINED).playable:
        deciders.append(load_decider(run_folder(TRAINED), TRAINED))
        usual = (SMALL, *((MINILM,) if has_minilm() else ()))
        for model in usual if job.models is None else job.models:
            deciders.append(_trained(model, data, job))
    rows = []
    for name, samples in sets.items():
        for decider in deciders:
            if isinstance(decider, TrainedDecider):
                records = evaluate_together(decider, samples)
            else:
                records = evaluate(decider, samples, job.seed)
            rows.append(decision_row(decider.name, decider.model or None, name, records, job.seed))
    return rows


def _trained(model: str, data: str, job: Job) -> Decider:
    """Load a run of `costgym train deer`, train a decider, or find it in the folder of the runs."""
    if model.startswith(LEARNT_HERE):
        return load_decider(model.removeprefix(LEARNT_HERE), model)
    from costgym.experiments.train.deer.train import train_deer

    name = Path(model).name
    folder = job.out / "policies" / name
    steps: dict[str, Any] = {} if job.steps is None else {"steps": job.steps}
    with torch_threads(1):  # its accuracies are computed below, with those of the others
        train_deer(folder, seed=job.seed, data=data, model=None if model == SMALL else model, check=False, **steps)
    return load_decider(folder, f"{LEARNT_HERE}{name}")


def decision_rows(episodes: int | None = None, seed: int = 0, samples: dict[str, Any] | None = None) -> list[Row]:
    """Score the rule, the simulated deciders and the shipped one on the first (None: all) generated samples with seen (`valid`)
    and unseen tools (`test`), by fields of `DecisionSettings`."""
    world = DecisionAwareEnv(split="valid", samples=samples).world
    splits = {"valid": examples(world, "valid", episodes), "test": examples(world, "test", episodes)}
    deciders: list[tuple[str, Decider]] = [("deer-rule", RuleDecider.fit(examples(world, "train", FITTED_ON)))]
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


def check_authors_claims(rows: Sequence[Row]) -> list[Row]:
    """Check the claims on the authors' sets about the best decider trained here, by P_DC on `valid`, beside the paper's figures
    on the same data; none where there is no such decider."""
    table = {(row["split"], row["agent"]): row for row in rows}
    trained = {agent: row for (split, agent), row in table.items() if split == "valid" and agent.startswith(LEARNT_HERE)}
    if not trained:
        return []
    best = max(trained, key=lambda agent: trained[agent].get("p_dc", 0.0))
    effects = []
    for split, metric in (*((name, "p_dc") for name in SETS), ("valid", "p_ds")):
        row = table.get((split, best))
        for name, (in_paper, _) in PROMPTED.items() if row is not None and metric in row else ():
            paper = printed("deer", TRAINED_IN_PAPER, in_paper, metric, split=split)
            if row is not None and paper is not None:
                points = _less(row, metric, paper.base)
                claim = f"{split}: {metric.upper()} of the trained decider is above that of {name}, six shots"
                levels = paper.base, 100 * row[metric]
                source = "Table 1" if split == "valid" else "Table 3"
                text = f"{best}: {in_words(points)[0]}"
                effects.append(effect(claim, text, points[1] > 0, "", source, points=points, paper=paper, levels=levels))
    if ("test", best) in table:
        effects.append(_check_unseen(table["valid", best], table["test", best]))
    return effects


def _less(row: Row, metric: str, figure: float) -> Points:
    """Return an accuracy less a printed figure, in points, with the accuracy's interval."""
    low, high = row["ci95"][metric]
    return 100 * row[metric] - figure, 100 * low - figure, 100 * high - figure


def check_claims(rows: Sequence[Row]) -> list[Row]:
    """Check the claims about the trained decider; none where it was not played."""
    table = {(row["split"], row["agent"]): row for row in rows}
    effects: list[Row] = []
    for split, metric, tools, source in CLAIMED:
        if (split, TRAINED) in table:
            effects += _check_accuracy(table, split, metric, tools, source)
    if ("test", TRAINED) in table:
        effects.append(_check_unseen(table["valid", TRAINED], table["test", TRAINED]))
    return effects


def _check_unseen(seen: Row, unseen: Row) -> Row:
    """Check that a decider loses little on unseen tools."""
    text, points = _difference(unseen, seen, "p_dc")
    printed_rows = [row for row in published("deer") if row["split"] in ("valid", "test")]
    values = {row["split"]: 100 * row["p_dc"] for row in printed_rows if row["agent"] == TRAINED_IN_PAPER}
    paper = Printed(values["valid"], values["test"], pstdev(100 * row["p_dc"] for row in printed_rows))
    claim = f"P_DC on unseen tools is at most {ALIKE:g} points below that on seen ones"
    levels = levels_of(seen, unseen, "p_dc")
    return effect(claim, text, points[1] >= -ALIKE, "", "Table 3", points=points, paper=paper, levels=levels)


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
    "Authors protocol, with a ToolDEER folder alone: the authors' samples, as far as the folder has them; training samples are "
    "drawn from its tools by Algorithm 1. The error rates of the simulated deciders are those of the paper's table, so that "
    "their rows only check the scoring; the others are measured.",
    COLUMNS,
    trained=TRAINED,
)
