"""The published protocols with one change at a time, to find what decides whether an effect follows.

A change is the `paper`'s where its text and its code differ or leave something open, and `ours` where the paper says something
else or nothing.
"""

from __future__ import annotations

from dataclasses import asdict, replace

from ....agents.strategies import SearchSettings
from .protocols import Protocol, protocols

_TALKATIVE = "simulated:thought=1"


def variations(paper: str) -> tuple[Protocol, ...]:
    """The published protocol of a paper, then the same with one change each.

    Raises:
        UnknownName: the paper has no protocols.
    """
    published = protocols(paper)[0]
    return (replace(published, whose="paper"), *_CHANGES[paper](published))


def _ecoact(published: Protocol) -> tuple[Protocol, ...]:
    steps = asdict(SearchSettings(depth=24, text_is_answer=False))
    return (
        replace(published, name="talkative", whose="ours", model=_TALKATIVE,
                summary="a thought beside every call, so that 24 nodes are 8 replies instead of 11"),
        replace(published, name="steps", whose="paper", search=steps,
                summary="24 reasoning steps, as the paper's text has it, instead of the code's 24 nodes"),
        replace(published, name="retrieved", whose="paper",
                source={"candidates": {"retriever": "bm25"}},
                summary="10, 20 and 64 candidates that BM25 finds in the whole catalogue"),
        replace(published, name="few needs", whose="ours", source={"needs": [1, 2]},
                summary="tasks with one or two needs"),
        replace(published, name="many needs", whose="ours", source={"needs": [3, 5]},
                summary="tasks with three to five needs"),
        replace(published, name="reliable", whose="ours", failures="reliable",
                summary="tools that nearly always work, so that few are tried for a need"),
        replace(published, name="misnamed", whose="ours", source={"misnamed": 0.3},
                summary="30 % of the tools promise by name what their documentation denies"),
    )  # fmt: skip


def _toolplanner(published: Protocol) -> tuple[Protocol, ...]:
    return (
        replace(published, name="listed", whose="ours", source={},
                summary="16 listed candidates, three quarters of which serve the needs"),
        replace(published, name="reliable", whose="ours", failures="reliable",
                summary="tools that nearly always work, so that the tagged one suffices"),
    )  # fmt: skip


_CHANGES = {"ecoact": _ecoact, "toolplanner": _toolplanner}
