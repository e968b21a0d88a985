"""The self-test finds defects of writes that are put into the world."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from costgym.experiments.lab.selftest.rules import broken_rules
from costgym.simulators.status import AMBIGUOUS, Status
from costgym.simulators.tools import CHECK, UNDO, WRITE
from costgym.simulators.writes import Record, Store
from tests.helpers.desks import FLIGHT, scenario, tool

KINDS = {"slip": 0.2, "persistence": 0.2, "sticky": 0.2, "kinds": {"timeout": 0.5, "unauthorized": 0.3, "server_error": 0.2}}
WORLD = scenario(
    tool("keyed", 0.7, idempotent=True), tool("late", 0.7, settles_s=4.0), tool("plain", 0.7, happens=0.3), failures=KINDS
).build()

settle, decide, make, undo, repeats, met = Store.settle, Store.decide, Record.make, Record.undo, Store._repeats, Store.met


def findings(episodes: int = 60) -> list[str]:
    """What the rules say of random episodes."""
    found: list[str] = []
    for seed in range(episodes):
        random, episode = Random(seed), WORLD.episode(0, seed)
        for _ in range(10):
            slot = random.randrange(len(episode.candidates))
            key = {"idempotency_key": random.choice("ab")} if slot == 0 else {}
            episode.call(slot, {**FLIGHT, **key} if random.random() < 0.4 else None)
        episode.finish()
        found += [finding for finding in broken_rules(episode) if finding.startswith(("12", "13"))]
    return found


def lost(self: Record, at_s: float) -> None:
    if self.count:
        make(self, at_s)


def doubled(self: Record, at_s: float) -> None:
    make(self, at_s)
    make(self, at_s)


def paid_back_twice(self: Record, now_s: float) -> bool:
    done = undo(self, now_s)
    if done and self.count:
        self.count -= 1
    return done


def settled_at_once(self: Record, at_s: float) -> None:
    make(self, 0.0)


def uncounted(self: Record, at_s: float) -> None:
    make(self, at_s)
    self.duplicates = 0


def certain(self: Store, episode: Any, call: Any, spec: Any, luck: float) -> None:
    decide(self, episode, call, spec, 0.0)


def refused_too(self: Store, episode: Any, call: Any, spec: Any, luck: float) -> None:
    decide(self, episode, call, spec, luck)
    if call.status is Status.UNAUTHORIZED and spec.role == WRITE:
        call.effect = 0


def undone_surely(self: Store, episode: Any, call: Any, spec: Any, luck: float) -> None:
    decide(self, episode, call, spec, 1.0 if spec.role == UNDO and call.status in AMBIGUOUS else luck)


def known_without_a_word(self: Store, episode: Any, call: Any, spec: Any) -> None:
    settle(self, episode, call, spec)
    if spec.role != CHECK and call.effect == 0:
        episode.known[0] = True


def any_state_passes(self: Store, needs: Any, stated: Any) -> tuple[list[bool], bool]:
    return [True] * len(needs), True


DEFECTS: dict[str, tuple[type, str, Callable[..., Any]]] = {
    "an effect is lost": (Record, "make", lost),
    "an effect is doubled": (Record, "make", doubled),
    "a refund pays twice": (Record, "undo", paid_back_twice),
    "late effects settle at once": (Record, "make", settled_at_once),
    "duplicates are not counted": (Record, "make", uncounted),
    "every time-out has happened": (Store, "decide", certain),
    "a refused call takes effect": (Store, "decide", refused_too),
    "ambiguous refunds never happen": (Store, "decide", undone_surely),
    "keys are not remembered": (Store, "_repeats", lambda *_: False),
    "a time-out tells that it has happened": (Store, "settle", known_without_a_word),
    "any final state passes": (Store, "met", any_state_passes),
}


def test_a_sound_world_has_no_finding() -> None:
    assert findings() == []


@pytest.mark.parametrize("defect", DEFECTS)
def test_a_defect_of_writes_is_found(defect: str, monkeypatch: pytest.MonkeyPatch) -> None:
    owner, name, wrong = DEFECTS[defect]
    monkeypatch.setattr(owner, name, wrong)
    assert findings(), defect
