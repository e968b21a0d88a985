"""Every adversary of the corpus is played: it gains no more than its line says."""

import sys
from pathlib import Path

import pytest

from costgym.experiments.board.reruns.sandbox import why_not
from tests.adversaries.corpus import Adversary, load, table
from tests.helpers.agent_processes import fork_agents

NOISE = 2.0
"""Points of the pass rate that an adversary may seem to gain: it and its twin play other actions under the same luck."""


def marked(adversary: Adversary) -> object:
    marks: list[pytest.MarkDecorator] = []
    if adversary.needs == "slow":
        marks.append(pytest.mark.slow)
    if adversary.needs == "sandbox":
        marks.append(pytest.mark.skipif(bool(why_not()), reason=f"no sandbox here: {why_not()}"))
    if adversary.outcome == "gains":
        marks.append(pytest.mark.xfail(strict=True, raises=AssertionError, reason=f"a known gap: {adversary.sentence}"))
    return pytest.param(adversary, id=adversary.name, marks=marks)


@pytest.mark.skipif(sys.platform != "linux", reason="pipes, links and processes as Linux has them")
@pytest.mark.parametrize("adversary", [marked(adversary) for adversary in load()])
def test_no_adversary_gains_more_than_its_line_says(
    adversary: Adversary, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COSTGYM_ADVERSARY_KEY", "sk-secret")
    if "in its memory" not in adversary.name:  # where a fork has what its first process imported
        fork_agents(monkeypatch)
    assert adversary.play(tmp_path) <= NOISE


def test_the_corpus_is_large_and_its_table_names_each_once() -> None:
    corpus = load()
    assert len(corpus) >= 30 and all(f"| {entry.name} | {entry.outcome} |" in table() for entry in corpus)
    assert [entry.gain for entry in corpus if entry.outcome != "gains"] == ["nothing"] * sum(
        e.outcome != "gains" for e in corpus
    )
