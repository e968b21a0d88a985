"""The corpus of adversaries: agents and entries that cheat, each with a sentence on what stops or exposes it.

An adversary is a function that plays it and returns its gain: percentage points of the pass rate that ranks, beyond the honest
twin's, after everything that stops it. The table of docs/adversaries.md is made from the same data.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

Play = Callable[[Path], float]
OUTCOMES = ("stopped", "exposed", "gains")


@dataclass(frozen=True, slots=True)
class Adversary:
    """One that cheats.

    Attributes:
        name: what it does.
        outcome: "stopped": it cannot, or it gains nothing; "exposed": its row says so; "gains": a known gap.
        sentence: what stops or exposes it, or why nothing does.
        play: plays it in an empty folder; returns its gain.
        needs: "", "sandbox" or "slow".
        gain: what it gets, for the table.
    """

    name: str
    outcome: str
    sentence: str
    play: Play
    needs: str = ""
    gain: str = "nothing"


CORPUS: list[Adversary] = []


def adversary(name: str, outcome: str, sentence: str, needs: str = "", gain: str = "nothing") -> Callable[[Play], Play]:
    """Enter a function into the corpus."""
    assert outcome in OUTCOMES and sentence.endswith(".") and name not in {entry.name for entry in CORPUS}

    def enter(play: Play) -> Play:
        CORPUS.append(Adversary(name, outcome, sentence, play, needs, gain))
        return play

    return enter


def load() -> list[Adversary]:
    """The whole corpus."""
    from tests.adversaries import agents, entries, processes  # noqa: F401

    return CORPUS


def table() -> str:
    """The corpus in Markdown, one row each."""
    lines = ["| who cheats | outcome | what stops or exposes it | gains |", "| --- | --- | --- | --- |"]
    lines += [f"| {entry.name} | {entry.outcome} | {entry.sentence} | {entry.gain} |" for entry in load()]
    return "\n".join(lines)
