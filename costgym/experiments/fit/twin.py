"""Fit the simulated model's rates to a model's recorded `react` episodes, and predict the model with them.

Every recorded action is read in the context that the simulated model would have read, and each choice that this model makes
there by a rate counts as an opportunity of that rate, taken or not. A choice that two rates explain is shared between them by
their odds, as expectation maximisation does. Rates that `react` never meets, or that its episodes cannot tell apart, keep
their defaults and are named.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from itertools import pairwise
from math import log2
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from costgym.agents.btp.experience import Experience
from costgym.agents.models.base import SYSTEM, TOOL, USER, Function, Message
from costgym.agents.models.reading import Context, Reader
from costgym.agents.models.simulated import Simulated, SimulatedRates
from costgym.agents.prompts import INSTRUCTIONS
from costgym.agents.registry import find_agent, make_agent
from costgym.envs.actions import read_action
from costgym.envs.base import base_env
from costgym.envs.registration import make
from costgym.experiments.play.episodes import instance_of, play
from costgym.experiments.play.experience import past_uses
from costgym.experiments.play.trajectories.format import Header
from costgym.experiments.play.trajectories.replay import ReplayedEpisode, replayed
from costgym.simulators.draws import stable_integer
from costgym.simulators.errors import DataError
from costgym.simulators.grading import states
from costgym.simulators.scenario import parse_scenario
from costgym.simulators.tasks import arguments_match

GRID = (np.arange(2_000) + 0.5) / 2_000  # values of a rate at which its likelihood is computed
LEVEL = 0.9  # of the intervals
ROUNDS = 30  # of expectation maximisation
MAX_OUT_OF_ORDER = 0.02  # share of needs that are passed over and then called for
LEAST = 10  # opportunities without which a rate keeps its default
USUAL = SimulatedRates()
KEPT = {
    "forbidden": "react forbids no tool",
    "notice": "react registers no tools",
    "register_more": "react registers no tools",
    "attend_costs": "react is told no prices",
    "wrong_vote": "react takes no votes",
    "thought": "records do not hold thoughts",
    "skim": "told apart from a wrong tool only by chance",
    "search": "not counted",
    "repeat": "not counted",
    "crowding": "told apart from wrong_tool only by chance; that one is fitted with this at its default",
}
"""Rates that `react` episodes do not identify, and why."""


class Trial(NamedTuple):
    """An opportunity of a rate: it was taken or not, with the chance `base + slope * rate`; `weight` is its share in doubt."""

    taken: bool
    base: float = 0.0
    slope: float = 1.0
    weight: float = 1.0


class Rate(NamedTuple):
    """A fitted rate: the median of its posterior under Jeffreys' prior, its 90 % interval, and the number of opportunities."""

    value: float
    low: float
    high: float
    opportunities: int


class Stop(NamedTuple):
    """An end before every fact was known, after `failures` results in a row without one. `uncalled` is the number of open needs
    if it answered and none of them was ever called for, else 0."""

    failures: int
    gave_up: bool
    known: bool
    uncalled: int
    after_result: bool
    first: bool  # an answer before any call


@dataclass
class Evidence:
    """What recorded episodes say of the rates, before those in doubt are shared."""

    trials: dict[str, list[Trial]] = field(default_factory=lambda: defaultdict(list))
    stops: list[Stop] = field(default_factory=list)
    goes_on: list[int] = field(default_factory=list)  # failures in a row after which it did not stop, though it could have
    passed_over: list[bool] = field(default_factory=list)  # of needs: was a later one called for in their place
    out_of_order: int = 0  # needs that were passed over and called for in the end
    arguments: list[dict[str, list[bool]]] = field(default_factory=list)  # of a need, by tool: were they wrong, in order
    last: list[tuple[bool, bool, int, float]] = field(default_factory=list)  # without a tool left: went on, stubborn, ...
    episodes: int = 0


def read_evidence(path: Path, data: str | None = None, keep: Callable[[int], bool] = lambda index: True) -> Evidence:
    """Read what a file or folder of recorded `react` episodes of the text view says; raises DataError for other episodes."""
    evidence = Evidence()
    for played in replayed(path, data):
        recorded = played.recorded
        if recorded.agent.partition(".")[0] != "react" or not base_env(played.env).calls_by_name:
            raise DataError(path, f"expected episodes of react in the text environment, got some of {recorded.agent}")
        if not recorded.crash and keep(recorded.episode):
            evidence.episodes += 1
            _read_episode(evidence, played)
    if not evidence.episodes:
        raise DataError(path, "holds no episode of react that could be read")
    return evidence


def _read_episode(evidence: Evidence, played: ReplayedEpisode) -> None:
    world: Any = base_env(played.env)
    task = played.episode.task
    reader = Reader(world.world.catalog, task)
    functions = [Function(name, "", {}) for name in task.candidates]
    messages = [Message(SYSTEM, INSTRUCTIONS), Message(USER, str(played.steps[0].observation))]
    called: set[int] = set()
    passed_over: dict[int, bool] = {}
    wrong: dict[int, dict[str, list[bool]]] = {}
    for step in played.steps[1:]:
        action, context = read_action(step.action), reader.read(messages, functions)
        if action.kind == "finish":
            _read_end(evidence, action.answer, action.gave_up, context, reader, called)
        elif action.kind == "call":
            for call, result in zip(action.calls, step.info["results"], strict=False):
                _read_call(evidence, call, result["status"], context, reader, wrong)
                need = reader.need_of(call.name)
                if need in context.open and need not in called:
                    called.add(need)
                    _pass_over(evidence, passed_over, need, context, reader)
                messages.append(Message(TOOL, result["text"], name=call.name))
    evidence.arguments += wrong.values()
    evidence.passed_over += passed_over.values()


def _pass_over(evidence: Evidence, passed_over: dict[int, bool], called: int, context: Context, reader: Reader) -> None:
    """Take note of a need's first call: needs before it that could be called for were passed over, until they are called, too.
    The last need cannot be passed over, so it says nothing."""
    others = [need for need in context.open if need != called and context.ready(need) and _fresh(need, context, reader)]
    for need in others:
        if need < called:
            passed_over.setdefault(need, True)
    if called in passed_over or any(need > called for need in others):
        evidence.out_of_order += passed_over.get(called, False)
        passed_over[called] = False


def _fresh(need: int, context: Context, reader: Reader) -> list[str]:
    return [name for name in reader.serving(need) if name in context.shown and name not in context.failed]


def _wrong_base(context: Context) -> float:
    count = len(context.shown)
    return USUAL.crowding * log2(count / 5.0) if count > 5 else 0.0


def _read_end(
    evidence: Evidence, answer: str, gave_up: bool, context: Context, reader: Reader, called: Collection[int]
) -> None:
    for need in () if gave_up else context.known:
        evidence.trials["forget"].append(Trial(not states(context.needs[need], answer)))
    if not context.open:
        return
    ready = [need for need in context.open if context.ready(need)]
    if context.after_result and not any(_fresh(need, context, reader) for need in ready):
        evidence.last.append(_last(False, context, reader, ready))
    else:
        # what was never called for may have been overlooked: then the answer is all that it thinks is wanted
        uncalled = 0 if gave_up or any(need in called for need in context.open) else len(context.open)
        first = not context.used and not gave_up
        evidence.stops.append(Stop(context.failures, gave_up, bool(context.known), uncalled, context.after_result, first))


def _last(went_on: bool, context: Context, reader: Reader, ready: Sequence[int]) -> tuple[bool, bool, int, float]:
    stubborn = any(context.last_failed in reader.serving(need) for need in ready)
    return went_on, stubborn, context.failures, _wrong_base(context)


def _read_call(
    evidence: Evidence, call: Any, status: str, context: Context, reader: Reader, wrong: dict[int, dict[str, list[bool]]]
) -> None:
    if not context.open:
        return
    if not context.used:
        evidence.trials["guess"].append(Trial(False))
    ready = [need for need in context.open if context.ready(need)]
    with_tools = [need for need in ready if _fresh(need, context, reader)]
    if context.after_result and with_tools:
        evidence.goes_on.append(context.failures)
    elif context.after_result:
        evidence.last.append(_last(True, context, reader, ready))
    if status == "malformed":  # it went on, with nothing that the simulated model could have written
        return
    evidence.trials["invented"].append(Trial(call.name not in context.shown))
    if call.name not in context.shown:
        return
    evidence.trials["invalid"].append(Trial(status == "invalid_arguments"))
    served, promised = reader.need_of(call.name), any(reader.promising(need) for need in ready)
    first = ready[0] if ready else -1
    if first in with_tools and not promised:
        evidence.trials["wrong_tool"].append(Trial(served not in context.open, _wrong_base(context)))
        if context.last_failed in reader.serving(first) and served == first:
            evidence.trials["stubborn"].append(Trial(call.name == context.last_failed))
    wanted = context.needs[served].arguments if served in ready else None
    if wanted is not None and status != "invalid_arguments":
        wrong.setdefault(served, {}).setdefault(call.name, []).append(not arguments_match(call.arguments, wanted))


# -- the fit ------------------------------------------------------------------------------------------------------------------


def posterior(trials: Sequence[Trial]) -> np.ndarray[Any, np.dtype[np.float64]]:
    """The posterior of a rate over `GRID`, under Jeffreys' prior for a share."""
    logs = -0.5 * np.log(GRID) - 0.5 * np.log1p(-GRID)
    kinds: dict[tuple[bool, float, float], float] = {}
    for trial in trials:
        key = trial.taken, trial.base, trial.slope
        kinds[key] = kinds.get(key, 0.0) + trial.weight
    for (taken, base, slope), weight in kinds.items():
        chance = np.clip(base + slope * GRID, 1e-12, 1.0 - 1e-12)
        logs = logs + weight * np.log(chance if taken else 1.0 - chance)
    density = np.exp(logs - logs.max())
    return np.asarray(density / density.sum())


def _rate(trials: Sequence[Trial]) -> Rate:
    below = np.cumsum(posterior(trials))
    low, value, high = (float(GRID[np.searchsorted(below, at)]) for at in ((1 - LEVEL) / 2, 0.5, (1 + LEVEL) / 2))
    return Rate(value, low, high, len(trials))


@dataclass(frozen=True)
class Twin:
    """A simulated model fitted to a real one."""

    rates: Mapping[str, Rate]  # the fitted rates by name
    defaulted: Mapping[str, str]  # rates that keep their default, and why
    trials: Mapping[str, Sequence[Trial]]  # the opportunities of each fitted rate, with those in doubt shared
    episodes: int  # number of episodes that were read

    def draws(self, count: int, seed: int) -> Iterator[SimulatedRates]:
        """Rates drawn from the posterior of each, to predict with."""
        generator = np.random.Generator(np.random.Philox(seed))
        posteriors = {name: posterior(self.trials[name]) for name in self.rates}
        for _ in range(count):
            yield SimulatedRates(**{name: float(generator.choice(GRID, p=share)) for name, share in posteriors.items()})

    def document(self) -> dict[str, Any]:
        """The model file: an entry `twin` for `--model FILE:twin`, and what the fit found."""
        rates = {
            name: {
                "value": round(rate.value, 5), "interval": [round(rate.low, 5), round(rate.high, 5)],
                "opportunities": rate.opportunities, "default": getattr(USUAL, name),
            }
            for name, rate in self.rates.items()
        }  # fmt: skip
        settings = {name: rate["value"] for name, rate in rates.items()}
        fit = {"episodes": self.episodes, "interval": LEVEL, "rates": rates, "kept_at_default": dict(self.defaulted)}
        return {"models": {"twin": {"model": "simulated", **settings}}, "fit": fit}


def fit(evidence: Evidence) -> Twin:
    """Fit the rates to the evidence."""
    trials = {name: evidence.trials[name] for name in ("invented", "invalid", "wrong_tool", "stubborn", "forget")}
    trials |= _stops(evidence) | _arguments(evidence)
    point = {name: _rate(trials[name]).value for name in ("tire", "wrong_tool", "stubborn")}
    trials["grope"] = [_grope(*last, point) for last in evidence.last]
    enough = {name: trials_of_rate for name, trials_of_rate in trials.items() if len(trials_of_rate) >= LEAST}
    kept_as_default = KEPT | {name: f"fewer than {LEAST} opportunities" for name in trials if name not in enough}
    if not _in_order(evidence):
        kept_as_default["overlook"] = (
            "its calls follow no fixed order, so that a fact overlooked looks like an early end, which is fitted"
        )
    order = [spec.name for spec in fields(SimulatedRates)]
    rates = {name: _rate(enough[name]) for name in order if name in enough}
    return Twin(rates, {name: kept_as_default[name] for name in order if name in kept_as_default}, enough, evidence.episodes)


def _in_order(evidence: Evidence) -> bool:
    """Return whether needs are called for in the order of the request, as the simulated model does."""
    return evidence.out_of_order <= MAX_OUT_OF_ORDER * len(evidence.passed_over)


def _stops(evidence: Evidence) -> dict[str, list[Trial]]:
    """Share answers without needs that were never called for between having overlooked them and having stopped or guessed."""
    guess, early, tire, gives_up = 0.5, USUAL.early, USUAL.tire, USUAL.give_up
    over = [Trial(passed) for passed in evidence.passed_over] if _in_order(evidence) else []
    overlook = _rate(over).value if len(over) >= LEAST else USUAL.overlook
    trials: dict[str, list[Trial]] = {}
    for _ in range(ROUNDS):
        trials = {"overlook": over, "early": [], "tire": [], "give_up": [], "give_up_empty": []}
        trials["guess"] = [*evidence.trials["guess"]]
        for failures in evidence.goes_on:
            trials["tire" if failures else "early"].append(Trial(False, 0.0, failures or 1.0))
        for stop in evidence.stops:
            chance = min(1.0, tire * stop.failures) if stop.failures else early
            overlooked = overlook**stop.uncalled if stop.uncalled else 0.0
            rest = chance * (1.0 - gives_up) if stop.after_result else guess if stop.first else 0.0
            share = overlooked / (overlooked + rest) if overlooked + rest > 0 else 0.0
            if stop.first:
                trials["guess"].append(Trial(True, weight=1.0 - share))
            elif stop.after_result:
                kind = "tire" if stop.failures else "early"
                trials[kind].append(Trial(True, 0.0, stop.failures or 1.0, 1.0 - share))
                trials["give_up" if stop.known else "give_up_empty"].append(Trial(stop.gave_up, weight=1.0 - share))
        guess, early, tire, gives_up = (
            _rate(trials[name]).value if trials[name] else getattr(USUAL, name)
            for name in ("guess", "early", "tire", "give_up")
        )
    return trials


def _grope(went_on: bool, stubborn: bool, failures: int, base: float, point: Mapping[str, float]) -> Trial:
    """An end or a call without a tool left: it ends if it tires, or picks no wrong tool, is not stubborn and does not grope."""
    stays = 1.0 - min(1.0, point["tire"] * failures)
    falls = stays * (1.0 - min(1.0, point["wrong_tool"] + base)) * (1.0 - point["stubborn"] if stubborn else 1.0)
    return Trial(went_on, stays - falls, falls)


def _arguments(evidence: Evidence) -> dict[str, list[Trial]]:
    """Share wrong arguments between a need that is misunderstood, for every tool, and a tool that is misread."""
    misunderstand, misread, correct = USUAL.misunderstand, USUAL.misread, USUAL.correct
    trials: dict[str, list[Trial]] = {}
    for _ in range(ROUNDS):
        trials = {"misunderstand": [], "misread": [], "correct": []}
        for tools in evidence.arguments:
            always, here = misunderstand, 1.0 - misunderstand
            outcomes: list[tuple[str, bool]] = []
            for wrongs in tools.values():
                always *= all(wrongs)
                outcomes.append(("misread", wrongs[0]))
                # once set right, a tool's arguments stay right
                repeats = [not now for before, now in pairwise(wrongs) if before]
                outcomes += [("correct", right) for right in repeats]
            for name, taken in outcomes:
                chance = misread if name == "misread" else correct
                here *= chance if taken else 1.0 - chance
            share = always / (always + here) if always + here > 0 else 0.0
            trials["misunderstand"] += [Trial(True, weight=share), Trial(False, weight=1.0 - share)]
            for name, taken in outcomes:
                trials[name].append(Trial(taken, weight=1.0 - share))
        values = (_rate(trials[name]).value if trials[name] else getattr(USUAL, name) for name in trials)
        misunderstand, misread, correct = values
    return trials


# -- predictions --------------------------------------------------------------------------------------------------------------

FIGURES = ("passed", "judged", "price", "calls")
"""Predicted figures of a run: shares that pass within the budget, strictly and by the simulated judge; means an episode."""


def figures_of(episodes: Sequence[tuple[bool, bool, float, int]]) -> dict[str, float]:
    """The figures of episodes, each told by whether it passed strictly, by the judge, its price and its calls."""
    return {name: float(mean) for name, mean in zip(FIGURES, np.mean(np.array(episodes, float), axis=0), strict=True)}


def predict(
    twin: Twin,
    header: Header,
    agent: str = "react",
    budget: Mapping[str, float] | None = None,
    failures: str | None = None,
    indices: Sequence[int] = range(100),
    seed: int = 0,
    draws: int = 20,
) -> dict[str, tuple[float, float, float]]:
    """Predict the figures of a run of the fitted model: of each the median and the 5 and 95 % quantiles.

    They hold what the rates leave open and what chance does in so many episodes: each draw plays with rates of its own.
    `failures` is a preset in place of the scenario's; `seed` is the run's, from which the rates' draws follow, too.
    """
    arguments = header.arguments()
    scenario = parse_scenario({**dict(arguments["scenario"]), **({} if failures is None else {"failures": failures})})
    arguments = {**arguments, "scenario": scenario, **({} if budget is None else {"budget": budget})}
    experience = Experience.from_jsonl(past_uses(scenario)) if find_agent(agent, header.env).needs_experience else None
    env = make(header.env, disable_env_checker=True, **arguments)
    runs, view = [], base_env(env)
    for draw, rates in enumerate(twin.draws(draws, seed)):
        player = make_agent(agent, header.env, model=Simulated(rates).name, experience=experience)
        outcomes = []
        for index in indices:
            number, world_seed, _ = instance_of(view, index, seed)
            # the worlds of the run that is predicted, and chance of its own for the model in each draw
            episode = play(env, player, number, world_seed, stable_integer(seed, "twin", draw, index) >> 1)
            grade, within_budget = episode.grade, episode.exceeded is None
            assert grade is not None
            outcomes.append(
                (grade.strict and within_budget, grade.judged and within_budget, episode.ledger.price, episode.ledger.calls)
            )
        runs.append(figures_of(outcomes))
    figures_with_ends = {}
    for name in FIGURES:
        low, value, high = np.quantile([run[name] for run in runs], [(1 - LEVEL) / 2, 0.5, (1 + LEVEL) / 2]).tolist()
        figures_with_ends[name] = (value, low, high)
    return figures_with_ends


def held_out(path: Path, data: str | None = None, draws: int = 20) -> list[dict[str, Any]]:
    """Fit every second episode, predict the others and compare: a row for each figure, with whether the interval holds it."""
    twin = fit(read_evidence(path, data, lambda index: index % 2 == 0))
    rest = [(replay.header, replay.recorded) for replay in replayed(path, data) if replay.recorded.episode % 2]
    outcomes = []
    for final in (recorded.final for _, recorded in rest):
        within_budget = not final["exceeded"]
        outcomes.append((final["strict"] and within_budget, final["judged"] and within_budget, final["price"], final["calls"]))
    real, (header, first), indices = figures_of(outcomes), rest[0], [recorded.episode for _, recorded in rest]
    predicted = predict(twin, header, indices=indices, seed=first.seed, draws=draws)  # the first task's is the run's seed
    return [
        {"figure": name, "recorded": real[name], "predicted": value, "low": low, "high": high, "hit": low <= real[name] <= high}
        for name, (value, low, high) in predicted.items()
    ]
