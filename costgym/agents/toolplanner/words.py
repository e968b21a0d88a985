"""The words of a learnt planner: a whole episode as one text, of which it writes some pieces and reads the others.

    Request: <instruction>
    Tags: <tool>           one line each
    Path: <tool>           one line each, then an empty one
    Round: <action>
    Result: <what it brought>
    Round: ...

A tool is written as its API and its provider, an action as a tool or as one of two endings. What it writes is chosen among the
few texts that mean something where it stands, so that a small model can do it.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from costgym.simulators.tools import Tool

REQUEST, TAGS, PATH, ROUND, RESULT, END = "\nRequest:", "\nTags:", "\nPath:", "\nRound:", "\nResult:", "\n"
MARKERS = (REQUEST, TAGS, PATH, ROUND, RESULT, END)
FINISH, GIVE_UP = " finish with the answer", " give up the task"
STOP = ""  # ends a path


class Piece(NamedTuple):
    """A piece of the text."""

    text: str  # the piece's text
    written: bool = False  # the model writes the piece, and so learns it; otherwise the model only reads it


class Step(NamedTuple):
    """A round."""

    action: str  # the action, as the model writes it
    result: str = ""  # the result of the action; "" for an ending


def written_tool(tool: Tool) -> str:
    """Return a tool as the model writes it."""
    return f" {tool.title or tool.name} of {tool.provider}"


def result_line(fresh: bool, error: bool, left: int) -> str:
    """Say what a call brought, as far as the model reads it: a wanted fact, an error or nothing wanted; and how much is
    missing."""
    return f" {'found' if fresh else 'error' if error else 'nothing'}, {left} left"


def request_pieces(request: str) -> list[Piece]:
    """Return the first pieces of a context: the request."""
    return [Piece(REQUEST), Piece(" " + " ".join(request.split()))]


def found_in(result: str) -> bool:
    """Return whether a result showed a wanted fact, as `result_line` says."""
    return result.startswith(" found")


def list_pieces(marker: str, items: Iterable[str], closed: bool, learnt: int | None = None) -> list[Piece]:
    """Tags or a path: the marker, then the items; a closed list ends. Of the items the first ones are learnt; None: all."""
    pieces = [Piece(marker)]
    for index, item in enumerate(items):
        written = learnt is None or index < learnt
        pieces += [Piece(item, written), Piece(END, written)]
    return [*pieces, Piece(END, True)] if closed else pieces


def round_pieces(steps: Sequence[Step]) -> list[Piece]:
    pieces = []
    for step in steps:
        pieces += [Piece(ROUND), Piece(step.action, True), Piece(END, True)]
        if step.result:
            pieces += [Piece(RESULT), Piece(step.result)]
    return pieces


def episode_pieces(
    request: str, tags: Sequence[str] | None, path: Sequence[str] | None, steps: Sequence[Step], named: int | None = None
) -> list[Piece]:
    """A whole episode; tags and path are None where not asked for, and of tags the first `named` are learnt."""
    pieces = request_pieces(request)
    if tags is not None:
        pieces += list_pieces(TAGS, tags, closed=False, learnt=named)
    if path is not None:
        pieces += list_pieces(PATH, path, closed=True)
    return pieces + round_pieces(steps)
