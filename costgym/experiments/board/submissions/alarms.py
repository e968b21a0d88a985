"""Raise alarms: statistical signs that an entry's agent knew what it could not know.

None of them is proof. Each states what was counted and what is expected of an honest agent. How often each is raised by chance
for an honest row:

* better than the optimum: never, apart from rounding errors;
* better than the informed: fewer than one row in 1,000, even for an agent as good as one that knows every tool;
* unseen facts: an agent must guess a fact to the letter, which ours never did;
* lucky calls: fewer than one row in 1,000, with the variance that its own episodes show;
* flawless tasks: at most one row in 100, for an agent as good as `FLAWLESS` says.
"""

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from costgym.envs.actions import read_action
from costgym.experiments.board.conditions import condition_key, grouped
from costgym.experiments.board.tracks import track_of
from costgym.experiments.play.results import EpisodeResult
from costgym.simulators.grading import states
from costgym.simulators.grading.values import MAX_CHARACTERS
from costgym.simulators.status import Status
from costgym.simulators.world.episode import Episode

_WORKED = frozenset({Status.OK, Status.WRONG_ARGUMENTS, Status.NO_DATA})
_UNDECIDED = frozenset({Status.OUTAGE, Status.RATE_LIMITED, Status.QUOTA_EXCEEDED, Status.CANCELLED})
RARE_Z = 3.5
"""Standard errors at which luck raises an alarm: by chance fewer than one honest row in 1,000 has them.

One in 4,300 of a normal distribution; `benchmarks/hostile/epochs.py` counts alarms among honest entries.
"""
MIN_TASKS = 20  # fewest tasks for which a row is set beside the informed policy
MIN_CALLS = 50  # smallest number of first calls for which a row's luck is judged
FLAWLESS = {"plans": 2 / 3, "decisions": 0.98}
"""Share of a track's tasks, at most, that an honest agent plays as well as the optimum does, which knows the answer.

Of plans the best fixed plan of each task, which knows how they go on average, is the best on all of its samples in 0.22 of the
sequential tasks and in none of the others; of decisions the best of our agents is without a flaw in 0.88 of the public tasks.
"""
FLAWLESS_LEVEL = 0.01  # significance level of the alarm for flawless tasks
ROUNDING = 1e-6  # regret below this counts as 0
LONGEST_FACT = 1_000  # characters that a fact has at most, for texts that are read in parts


class Evidence(NamedTuple):
    """The signs of foreknowledge in one episode, or in many."""

    better: int = 0  # episodes that came out better than the optimum
    unseen: int = 0  # facts in answers that nothing the agent had read held
    worked: float = 0.0  # first calls of tools that worked
    expected: float = 0.0  # how many were to be expected of tools so reliable
    variance: float = 0.0  # of that number, if calls are independent
    squares: float = 0.0  # squared luck of each episode, summed: that variance as it was met; calls of an episode may be alike
    episodes: int = 0
    calls: int = 0  # those first calls
    tasks: frozenset[str] = frozenset()
    flawed: frozenset[str] = frozenset()  # tasks that in some episode were not played as well as the optimum would

    @property
    def z(self) -> float:
        """Standard deviations by which more calls worked than was to be expected."""
        luck = self.worked - self.expected
        variance = max(self.variance, self.squares - luck**2 / max(1, self.episodes))
        return luck / math.sqrt(variance) if variance > 0 else 0.0


class Played(NamedTuple):
    """An episode, and what it shows of its agent."""

    result: EpisodeResult
    evidence: Evidence = Evidence()


def by_row(played: Iterable[Played]) -> dict[tuple[str, str], list[Played]]:
    """Sort episodes by their row: the agent, and its condition with the track."""

    def key(one: Played) -> tuple[str, str]:
        result = one.result
        return result.agent, condition_key(result.budget, result.settings, track_of(result.env, result.settings))

    return grouped(played, key)


class InformedGain(NamedTuple):
    """How much better a row's episodes are than those of `oracle-informed` in the same luck. That policy knows how every tool
    behaves on average, as no agent can, but not the luck of the episode. Whoever beats it again and again knew that luck."""

    mean: float = 0.0  # mean plan score above that policy's, which is its regret less the row's
    z: float = 0.0  # the same in standard errors; episodes of one task count as one
    tasks: int = 0  # how many


def informed_gain(results: Iterable[EpisodeResult], informed: Mapping[int, EpisodeResult], seeds: int) -> InformedGain:
    """Compare the episodes of a row with the informed policy's."""
    known = [result for result in results if not result.void and result.episode in informed]
    tasks = grouped(known, lambda result: result.episode // seeds).values()
    gains = [math.fsum(result.quality - informed[result.episode].quality for result in task) for task in tasks]
    count = len(gains)
    if count < 2:
        return InformedGain(tasks=count)
    mean = math.fsum(gains) / count
    error = math.sqrt(math.fsum((gain - mean) ** 2 for gain in gains) / (count - 1) / count)
    return InformedGain(math.fsum(gains) / len(known), mean / error if error else 0.0, count)


_SUMMED = tuple(name for name in Evidence._fields if name not in ("tasks", "flawed"))


def evidence_of(world: Any, episode: Episode, actions: list[Any], result: EpisodeResult) -> Evidence:
    """The signs of an episode that has ended, from the environment that stands at its end."""
    better = int(result.regret is not None and result.regret < -ROUNDING)
    # one task of all its samples
    task = frozenset({result.task if world.world is not None else str(getattr(world.task, "task_id", result.task))})
    flawed = frozenset() if result.regret is not None and abs(result.regret) <= ROUNDING else task
    if world.world is None:
        return Evidence(better, tasks=task, flawed=flawed)
    worked = expected = variance = 0.0
    met: set[str] = set()
    for call in episode.calls:
        if not call.status.executed or call.status in _UNDECIDED or call.tool in met:
            continue
        met.add(call.tool)
        reliability = world.world.catalog.get(call.tool).profile.reliability
        worked += call.status in _WORKED
        expected += reliability
        variance += reliability * (1.0 - reliability)
    unseen = _unseen_facts(world, actions) if world.calls_by_name else 0
    luck = (worked - expected) ** 2
    return Evidence(better, unseen, worked, expected, variance, luck, 1, len(met), task, flawed)


def _unseen_facts(world: Any, actions: list[Any]) -> int:
    """Facts of the final answer that stand neither in the query nor in anything that a call returned. What needs no tool, such
    as a sum, an agent may know."""
    answer = read_action(actions[-1]).answer or "" if actions else ""
    if not answer:
        return 0
    episode = world.account()
    read = [part for text in (world.query, *map(episode.content, episode.calls)) for part in _parts(text)]
    wanted = [need for need in episode.needs if not need.given]
    return sum(states(need, answer) and not any(states(need, part) for part in read) for need in wanted)


def _parts(text: str) -> Iterator[str]:
    """A text in parts that are read whole; they overlap, so that no fact is cut in two."""
    step = MAX_CHARACTERS - LONGEST_FACT
    return (text[begin : begin + MAX_CHARACTERS] for begin in range(0, max(1, len(text) - LONGEST_FACT), step))


def total(evidence: Iterable[Evidence]) -> Evidence:
    """The signs of many episodes together."""
    episodes = list(evidence)
    if not episodes:
        return Evidence()
    sums = {name: sum(getattr(one, name) for one in episodes) for name in _SUMMED}
    tasks, flawed = (frozenset[str]().union(*sets) for sets in zip(*((one.tasks, one.flawed) for one in episodes), strict=True))
    return Evidence(**sums, tasks=tasks, flawed=flawed)


def alarms(evidence: Evidence, track: str = "", gain: InformedGain | None = None) -> list[str]:
    """List the alarms that are raised, as sentences; `gain` is None where the track has no informed policy."""
    alarms_rung = []
    if evidence.better:
        alarms_rung.append(
            f"{evidence.better} episodes came out better than the optimum of their world allows "
            "(never by chance in an honest row)"
        )
    if gain is not None and gain.tasks >= MIN_TASKS and gain.z > RARE_Z:
        alarms_rung.append(
            f"its plan score is {gain.mean:.3f} above that of a policy that knows every tool but not the luck: "
            f"{gain.z:.1f} standard deviations (rings by chance for fewer than one honest row in 1,000)"
        )
    if evidence.unseen:
        alarms_rung.append(
            f"{evidence.unseen} correct facts are in answers although nothing that the agent had read contained them "
            "(never for our own agents)"
        )
    if evidence.calls >= MIN_CALLS and evidence.z > RARE_Z:
        alarms_rung.append(
            f"{evidence.worked:.0f} of {evidence.calls} first calls worked where {evidence.expected:.0f} were to be expected "
            f"of these tools: {evidence.z:.1f} standard deviations (rings by chance for fewer than one honest row in 1,000)"
        )
    flawless, tasks = len(evidence.tasks - evidence.flawed), len(evidence.tasks)
    chance = _at_least(flawless, tasks, FLAWLESS[track]) if track in FLAWLESS else 1.0
    if chance < FLAWLESS_LEVEL:
        alarms_rung.append(
            f"{flawless} of {tasks} tasks have no flaw, as if the answers were known: of an honest agent p < {chance:.1g} "
            "(rings by chance for one honest row in 100 at most)"
        )
    return alarms_rung


def _at_least(passed: int, trials: int, share: float) -> float:
    """The chance of so many passes or more in independent trials."""
    odds = math.log(share), math.log1p(-share)
    # in logarithms, since the binomial coefficients of some hundred tasks overflow
    ways = (math.lgamma(trials + 1) - math.lgamma(k + 1) - math.lgamma(trials - k + 1) for k in range(passed, trials + 1))
    return math.fsum(math.exp(way + k * odds[0] + (trials - k) * odds[1]) for k, way in enumerate(ways, passed))
