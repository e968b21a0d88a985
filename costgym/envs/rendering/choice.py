"""The choice before an agent: what is known, and the tools that could bring what is missing."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from costgym.envs.rendering.chart import number
from costgym.simulators.calls import Call, Candidate
from costgym.simulators.status import Status
from costgym.simulators.world.episode import Episode

MAX_OFFERS = 5  # tools that are listed for a wish, the cheapest first
ActionOf = Callable[[int], int | None]  # the action that calls a candidate, by its index


@dataclass(frozen=True, slots=True)
class Offer:
    """A tool that could be called, in words."""

    tool: str
    price: str
    success: str = ""  # that it advertises
    calls: str = ""  # how its calls went, such as "1 ok, 2 failed"
    action: str = ""  # number of the action that calls it; empty where actions are texts


@dataclass(frozen=True, slots=True)
class Wish:
    """Something that the task needs."""

    text: str
    done: bool
    offers: tuple[Offer, ...] = ()  # where it can be called for now
    more: int = 0  # tools beyond those


@dataclass(frozen=True, slots=True)
class Choice:
    """What an agent can do next."""

    title: str
    wishes: tuple[Wish, ...]


@dataclass(frozen=True, slots=True)
class Picture:
    """What a tool read or made: an image, or a text."""

    title: str
    about: str = ""  # such as what it was made of
    image: NDArray[np.uint8] | None = None  # (height, width, 3)
    text: str = ""


def facts_choice(episode: Episode, action_of: ActionOf | None = None) -> Choice | None:
    """The choice in a tool world; None where the episode is over."""
    if episode.over or not episode.needs:
        return None
    wishes = []
    for index, need in enumerate(episode.needs):
        text = f"{index + 1} {need.wish or need.capability or 'an answer'}"
        if episode.known[index]:
            wishes.append(Wish(f"{text}: {need.fact}" if need.fact else text, True))
            continue
        if missing := [str(before + 1) for before in need.after if not episode.known[before]]:
            wishes.append(Wish(f"{text} (after fact {' and '.join(missing)})", False))
            continue
        slots = [slot for slot in episode.candidates if index in slot.needs and slot.index not in episode.banned]
        wishes.append(_wish(episode, text, slots, action_of))
    title = f"facts: {sum(episode.known)} of {len(episode.known)} known; for the missing ones"
    return Choice(title, tuple(wishes))


def query_choice(episode: Episode, title: str, text: str, slots: Iterable[Candidate], advertised: bool = True) -> Choice | None:
    """The choice where there is one wish, as for a query of a session; None where the episode is over. `advertised` says
    whether the tools advertise their success."""
    return None if episode.over else Choice(title, (_wish(episode, text, slots, None, advertised),))


def _wish(episode: Episode, text: str, slots: Iterable[Candidate], action_of: ActionOf | None, advertised: bool = True) -> Wish:
    slots = sorted(slots, key=lambda slot: episode.quote(slot.index))
    offers = [_offer(episode, slot, action_of, advertised) for slot in slots[:MAX_OFFERS]]
    return Wish(text, False, tuple(offers), len(slots) - len(offers))


def _offer(episode: Episode, slot: Candidate, action_of: ActionOf | None, advertised: bool) -> Offer:
    action = None if action_of is None else action_of(slot.index)
    return Offer(
        slot.name,
        number(episode.quote(slot.index)),
        f"{slot.profile.advertised_success:.0%}" if advertised else "",
        went([call for call in episode.calls if call.slot == slot.index]),
        "" if action is None else str(action),
    )


def went(calls: Sequence[Call]) -> str:
    """How calls went, such as ``1 ok, 2 failed``."""
    ended = [call.status is Status.OK for call in calls if call.finished_s >= 0]
    counts = {"ok": sum(ended), "failed": len(ended) - sum(ended), "running": len(calls) - len(ended)}
    return ", ".join(f"{count} {what}" for what, count in counts.items() if count)
