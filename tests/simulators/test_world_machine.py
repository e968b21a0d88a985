"""Random actions in random worlds of every setting; `make soak` goes on for an hour."""

import pickle
from random import Random
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from costgym.simulators.calls import Usage
from costgym.simulators.rules.limits import exceeded
from costgym.simulators.scenario import parse_scenario
from costgym.simulators.status import Status
from tests.helpers.random_worlds import Writer
from tests.helpers.worlds import state

SLOTS = st.integers(-1, 8)
GOES_ON = precondition(lambda self: not self.episode.over)


class WorldMachine(RuleBasedStateMachine):
    """An episode, and a second one that is given the same actions after a fork, a pickle or from the start."""

    @initialize(number=st.integers(0, 2**32), seed=st.integers(0, 2**64 - 1), task=st.integers(0, 2))
    def begin(self, number: int, seed: int, task: int) -> None:
        scenario = parse_scenario(Writer(Random(number)).scenario())
        self.world = world = scenario.build()
        arguments = (task % len(world.tasks), seed, scenario.limits(), scenario.enforcement)
        self.episode, self.other = world.episode(*arguments), world.episode(*arguments)
        self.now_s, self.price = 0.0, 0.0

    def both(self, action: str, *arguments: Any) -> None:
        """Play one action in both."""
        for episode in (self.episode, self.other):
            getattr(episode, action)(*arguments)

    @GOES_ON
    @rule(slot=SLOTS)
    def submit(self, slot: int) -> None:
        self.both("submit", slot)

    @GOES_ON
    @rule(slot=SLOTS)
    def call(self, slot: int) -> None:
        self.both("call", slot)

    @GOES_ON
    @rule(slot=st.integers(0, 8), right=st.booleans(), need=st.integers(0, 3))
    def submit_with_arguments(self, slot: int, right: bool, need: int) -> None:
        needs = self.episode.needs
        arguments = needs[need % len(needs)].arguments if right else {"key": "nothing"}
        self.both("submit", slot % len(self.episode.candidates), arguments)

    @GOES_ON
    @rule(slot=SLOTS, status=st.sampled_from([Status.FORBIDDEN, Status.INVALID_ARGUMENTS]))
    def refuse(self, slot: int, status: Status) -> None:
        self.both("submit", min(slot, len(self.episode.candidates) - 1), None, status, "no")

    @precondition(lambda self: self.episode.in_flight and not self.episode.over)
    @rule(index=st.integers(0, 9))
    def cancel(self, index: int) -> None:
        for episode in (self.episode, self.other):
            episode.cancel(episode.flying[index % len(episode.flying)])

    @GOES_ON
    @rule(seconds=st.sampled_from([0.0, 0.1, 1.0, 7.5]))
    def advance(self, seconds: float) -> None:
        self.both("advance", seconds)

    @GOES_ON
    @rule(tokens=st.integers(0, 200))
    def think(self, tokens: int) -> None:
        before = self.episode.now_s
        self.both("think", Usage(10, tokens))
        if not self.episode.over:
            expected = self.world.ttft_s + tokens / self.world.tokens_per_s
            assert abs(self.episode.now_s - before - expected) <= 1e-9 * max(1.0, self.episode.now_s)

    @GOES_ON
    @rule()
    def wait(self) -> None:
        nothing = not self.episode.can_wait
        before = self.episode.now_s
        self.both("wait")
        assert not nothing or self.episode.now_s == before

    @GOES_ON
    @rule()
    def notices(self) -> None:
        self.both("notices")

    @rule()
    def fork(self) -> None:
        self.other = self.episode.fork()

    @rule()
    def copy(self) -> None:
        self.other = pickle.loads(pickle.dumps(self.episode))

    @GOES_ON
    @rule(seed=st.integers(0, 3))
    def redraw(self, seed: int) -> None:
        self.both("redraw", seed)

    @precondition(lambda self: not self.episode.over and len(self.episode.log) > 6)
    @rule(answer=st.sampled_from([None, "fact 0 0, fact 0 1"]), gave_up=st.booleans())
    def finish(self, answer: str | None, gave_up: bool) -> None:
        self.both("finish", answer, gave_up)

    @invariant()
    def the_two_are_equal(self) -> None:
        if hasattr(self, "episode"):
            assert state(self.episode) == state(self.other)

    @invariant()
    def time_and_prices_never_run_back_and_the_ledger_adds_up(self) -> None:
        if not hasattr(self, "episode"):
            return
        episode, ledger = self.episode, self.episode.ledger
        assert episode.now_s >= self.now_s and ledger.price >= self.price
        self.now_s, self.price = episode.now_s, ledger.price
        total = 0.0
        for charge in ledger:
            total += charge.price
        assert total == ledger.price and sum(charge.calls for charge in ledger) == ledger.calls
        assert len(episode.calls) == ledger.attempts

    @invariant()
    def limits_hold(self) -> None:
        if not hasattr(self, "episode"):
            return
        episode, ledger, limits = self.episode, self.episode.ledger, dict(self.episode.budget.items())
        if episode.enforcement != "record":
            assert episode.now_s <= limits.get("seconds", float("inf")) * (1 + 1e-12)
            passed = exceeded(episode.budget, ledger.price, 0.0, ledger.tokens, ledger.calls)
            assert episode.over or passed is None
        for candidate, tool in zip(episode.candidates, episode.tools, strict=True):
            if tool is not None:
                assert not candidate.quota or tool.count <= candidate.quota
                assert not candidate.concurrency or tool.busy <= candidate.concurrency
                assert not candidate.rate_limit or tool.window <= candidate.rate_limit
        running = [call for call in episode.flying if call.started_s >= 0.0]
        assert self.world.slots is None or len(running) <= self.world.slots
        assert len(episode.flying) - len(running) == episode.waiting
        assert episode.flying or episode.reserved == 0.0


TestWorldMachine = WorldMachine.TestCase
