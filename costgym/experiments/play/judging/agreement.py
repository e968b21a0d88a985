"""How well a model that judges answers agrees with the grading by facts."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from costgym.experiments.play.judging.verdicts import PASS, UNPARSABLE, VOID, Case, Verdict
from costgym.experiments.play.statistics import FloatArray, wilson

RESAMPLES = 2000


def agreement(cases: Sequence[Case], passes: Sequence[bool], seed: int = 0) -> dict[str, Any]:
    """Compare a judge's passes with the strict grades of the same answers: the number of answers in each cell, the share on
    which both agree with Wilson's interval, and Cohen's kappa with that of a bootstrap over tasks; None where one of the two
    says the same of every answer. Source: Cohen (1960), A coefficient of agreement for nominal scales."""
    tasks = {task: row for row, task in enumerate(dict.fromkeys(case.task for case in cases))}
    counts = np.zeros((len(tasks), 4))  # (n_tasks, cells): both pass, judge alone, strict alone, both fail
    for case, passed in zip(cases, passes, strict=True):
        counts[tasks[case.task], (0 if passed else 2) if case.strict else (1 if passed else 3)] += 1
    total = counts.sum(axis=0)
    both, judge, strict, neither = (int(cell) for cell in total)
    share = (both + neither) / len(cases) if cases else None
    kappa = float(_kappas(total[None])[0]) if cases else math.nan
    ends = None
    if not math.isnan(kappa):
        weights = np.random.default_rng(seed).multinomial(len(tasks), np.full(len(tasks), 1 / len(tasks)), RESAMPLES)
        low, high = np.nanpercentile(_kappas(weights @ counts), (2.5, 97.5))
        ends = float(low), float(high)
    return {
        "answers": len(cases),
        "both_pass": both,
        "judge_alone": judge,
        "strict_alone": strict,
        "both_fail": neither,
        "agreement": share,
        "agreement_ci95": None if share is None else wilson(share, len(cases)),
        "kappa": None if ends is None else kappa,
        "kappa_ci95": ends,
    }


def _kappas(cells: FloatArray) -> FloatArray:
    """Cohen's kappa of each row of cells, (n, 4); NaN where one side says the same of every answer."""
    both, judge, strict, neither = cells.T
    total = cells.sum(axis=1)
    judged, graded = (both + judge) / total, (both + strict) / total
    by_chance = judged * graded + (1 - judged) * (1 - graded)
    varied = (judged * (1 - judged) > 0) & (graded * (1 - graded) > 0)
    kappa = np.full(len(cells), np.nan)
    np.divide((both + neither) / total - by_chance, 1 - by_chance, out=kappa, where=varied)
    return kappa


def agreement_document(judged: Sequence[tuple[Case, Verdict]], seed: int = 0) -> dict[str, Any]:
    """Describe a judge: its agreement, that of the seeded stand-in on the same answers, and the answers on which it disagrees.
    Void verdicts are left out, episodes without an answer only counted, and an unparsable verdict is no pass."""
    answered = [(case, verdict) for case, verdict in judged if verdict.asked and verdict.verdict != VOID]
    cases = [case for case, _ in answered]

    def compared(passes: Callable[[Case, Verdict], bool]) -> dict[str, Any]:
        return agreement(cases, [passes(*pair) for pair in answered], seed)

    return {
        "episodes": len(judged),
        "without_answer": sum(not verdict.asked for _, verdict in judged),
        "void": sum(verdict.verdict == VOID for _, verdict in judged),
        "unparsable": sum(verdict.verdict == UNPARSABLE for _, verdict in answered),
        "judge": compared(lambda case, verdict: verdict.verdict == PASS),
        "stand_in": compared(lambda case, verdict: case.judged),
        "disagreements": [
            {
                "key": case.key,
                "agent": case.agent,
                "task": case.task,
                "request": case.request,
                "facts": [need.fact for need in case.needs if need.asked],
                "answer": case.answer,
                "strict": case.strict,
                "verdict": verdict.verdict,
                "reply": verdict.reply,
            }
            for case, verdict in answered
            if (verdict.verdict == PASS) != case.strict
        ],
    }
