"""The tracks of a leaderboard: rows are ranked only beside rows that saw the same.

Agents of the numeric view observe which tool serves which need; agents of the text view read prose. Each view is a track of
its own, with its own world, conditions and ranking.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from costgym.agents.base import DECISION, NUMERIC, PLAN_CALLS, PLAN_CHAT, PLANS, SESSION, TEXT, view_of
from costgym.envs.registration import class_of


@dataclass(frozen=True, slots=True)
class Track:
    """The properties that all rows of a track share."""

    name: str  # in `leaderboard.json`
    title: str  # as the pages and the terminal show it
    question: str  # that its page answers
    sees: str  # one sentence on what its agents are given and what they decide
    views: tuple[str, ...]  # the environments that are played in, the usual one first
    world: str = ""  # scenario of a track whose views another track plays in, too; its episodes' settings name it

    @property
    def charges_tokens(self) -> bool:
        """Whether its agents report the tokens of their models, and pay for them."""
        return class_of(self.views[0]).calls_by_name

    @property
    def computes_limits(self) -> bool:
        """Whether each episode has limits of its own where none are given."""
        return class_of(self.views[0]).computes_limits


_ALL = (
    Track(
        "numbers",
        "RL agents",
        "Which RL agent for your budget?",
        "Agents see numbers: which tool serves which need, its price, its advertised success. They only choose what to call.",
        (NUMERIC,),
    ),
    Track(
        "writes",
        "Who pays twice?",
        "Who pays twice?",
        "Agents see numbers. They book, pay and refund; a call that timed out has happened or not: its status does not tell.",
        (NUMERIC,),
        world="marketplace-writes",
    ),
    Track(
        "plans",
        "Vision planners",
        "Which planner of vision tools?",
        "Agents write a whole plan of OpenCATP’s vision tools before any of them runs.",
        (PLAN_CHAT, PLANS, PLAN_CALLS),
    ),
    Track(
        "decisions",
        "Search or answer",
        "Who knows when to search, and when to answer?",
        "Agents decide whether a query needs a tool at all, and whether one that was found fits.",
        (DECISION,),
    ),
    Track(
        "sessions",
        "Sessions",
        "Who makes the most of one budget for many queries?",
        "Agents see numbers and answer a session of queries with one budget: which tools work must be found out, and drifts.",
        (SESSION,),
    ),
    Track(
        "one-world",
        "One world",
        "Which of five papers’ ideas for your budget?",
        "Agents read prose and pay for their tokens. Queries need no tool, APIs, vision tools, or both: five papers’ ideas "
        "beside and on top of each other.",
        (TEXT,),
        world="one-world",
    ),
    Track(
        "text",
        "Chat agents",
        "Which chat agent for your budget?",
        "Agents read the query and the tools’ documentation as prose, write the arguments of calls, and pay for their tokens.",
        (TEXT,),
    ),
)
"""In the order of leaderboards: first those whose agents decide as in the field, last the one of simulated models."""
TRACKS = {track.name: track for track in _ALL}
_OF_VIEW = {view: track.name for track in _ALL if not track.world for view in track.views}
_OF_WORLD = {(view, track.world): track.name for track in _ALL if track.world for view in track.views}


def track_of(env_id: str, settings: Mapping[str, Any] | None = None) -> str:
    """The track of an environment, or of episodes with these settings; "" where it belongs to none."""
    view = view_of(env_id)
    return _OF_WORLD.get((view, str((settings or {}).get("scenario")))) or _OF_VIEW.get(view, "")


def track_documents(document: Mapping[str, Any]) -> list[dict[str, Any]]:
    """A leaderboard's tracks, each as a leaderboard of its own; a document that names no tracks is one as it stands."""
    named = document.get("tracks")
    if not named:
        return [dict(document)]
    rows = document.get("rows") or []
    return [
        {
            **{name: value for name, value in document.items() if name != "tracks"},
            **track,
            "track": track["name"],
            "rows": [row for row in rows if row.get("track") == track["name"]],
        }
        for track in named
    ]
