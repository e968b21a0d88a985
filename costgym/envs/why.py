"""Say in one sentence why an agent failed or what it wasted, from the log of its episode and the optimum of the same luck.

Nothing is guessed: calls, prices and facts are those of the log, and the optimum's are those of its plan, which is played
again. "call 3" in a sentence is the third call of the log; pages link it.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from costgym.envs.base import BaseEnv
from costgym.envs.decision import DecisionAwareEnv
from costgym.envs.opencatp.base import OpenCATPBase
from costgym.envs.rendering.chart import by_tool, number
from costgym.envs.sessions.base import SessionBase
from costgym.envs.tool_world import ToolEnv
from costgym.simulators.calls import Call
from costgym.simulators.grading import read_answer, read_facts, states
from costgym.simulators.opencatp.tools import TOOLS
from costgym.simulators.oracle.optimum import WAIT, Optimum
from costgym.simulators.quality import quality_of_plan
from costgym.simulators.sessions.episode import SessionEpisode
from costgym.simulators.status import Status
from costgym.simulators.tasks import Need, needed
from costgym.simulators.tools import KEY, WRITE
from costgym.simulators.world.episode import Episode

MAX_WISH_CHARS, MAX_TOOLS = 70, 3
_ANSWERS = {
    Status.EMPTY: "an empty answer", Status.IRRELEVANT: "an answer about something else", Status.PARTIAL: "half an answer",
    Status.CORRUPT: "an answer with a wrong value", Status.DRIFTED: "an answer in another form",
    Status.WRONG_ARGUMENTS: "an error about its arguments",
}  # fmt: skip
_SLACK = 1e-9  # prices are sums of floats


def why(world: BaseEnv[Any, Any], truncated: bool = False, crash: str = "") -> str:
    """The sentence about an episode that ended: by itself, by the step limit, or by the agent's exception `crash`."""
    episode = world.account()
    end = ""
    if crash:
        end = f"its own code ended the episode ({crash.rstrip('.')})"
    elif episode.exceeded is not None:
        plain = "USD" if isinstance(world, OpenCATPBase) else "credits"
        end = _past_limit(episode, world.scenario.currency if isinstance(world, ToolEnv) else plain)
    elif truncated:
        end = f"it did not end within {world.step_limit} steps"
    if isinstance(world, SessionBase):
        text = _session(world, world.account(), end)
    elif isinstance(world, OpenCATPBase):
        text = _plan(world, episode, end)
    elif isinstance(world, DecisionAwareEnv):
        text = _decision(world, episode, end)
    else:
        assert isinstance(world, ToolEnv)
        text = _tools(world, episode, end)
    return " ".join(text.split())


def _past_limit(episode: Episode, currency: str) -> str:
    """Name the limit that was passed, and the charge that passed it."""
    name = str(episode.exceeded)
    limit = _money(episode.budget.as_dict()[name], currency if name == "price" else name)
    if name == "seconds":
        return f"its {limit} were over"
    spent = 0.0
    for charge in episode.ledger:
        spent += getattr(charge, name)
        if spent > episode.budget.as_dict()[name]:
            ended = [i for i, call in enumerate(episode.calls, 1) if (call.tool, call.finished_s) == (charge.what, charge.at_s)]
            return f"it passed its limit of {limit} with {f'call {ended[-1]}' if ended else 'the tokens of its model'}"
    return f"it passed its limit of {limit}"


# -- the tool world: text, numbers, writes ------------------------------------------------------------------------------------


class _Loss(NamedTuple):
    """A call that brought nothing, counted from 1, and why."""

    call: int
    price: float
    words: str


def _losses(episode: Episode) -> list[_Loss]:
    """Find the calls that brought nothing, in the order of the log. Writes are judged by the final state instead."""
    losses, brought = [], dict[tuple[int, int], int]()
    for index, call in enumerate(episode.calls, 1):
        fact = call.need, call.version
        if call.k == 0:
            losses.append(_Loss(index, 0.0, f"was refused ({_label(call)})"))
        elif call.status is not Status.OK:
            losses.append(
                _Loss(index, call.price, "was cut off" if call.status is Status.CANCELLED else f"ended in {_label(call)}")
            )
        elif episode.candidates[call.slot].effect is not None:
            continue
        elif call.need < 0:
            losses.append(_Loss(index, call.price, "brought nothing that was asked for"))
        elif fact in brought:
            losses.append(_Loss(index, call.price, f"asked again for what call {brought[fact]} had brought"))
        else:
            brought[fact] = index
    return losses


def _label(call: Call) -> str:
    return _ANSWERS.get(call.status) or call.status.label.replace("_", " ")


def _count(things: Sequence[Any], name: str) -> str:
    return f"{len(things)} {name}{'' if len(things) == 1 else 's'}"


def _money(value: float, unit: str) -> str:
    return f"{number(value)} {unit.removesuffix('s') if number(value) == '1' else unit}"


def _wish(need: Need) -> str:
    text = " ".join((need.wish or need.capability or need.fact).split())
    return f"“{text if len(text) <= MAX_WISH_CHARS else text[: MAX_WISH_CHARS - 3] + '...'}”"


def _and(parts: Sequence[str]) -> str:
    return " and ".join(filter(None, (", ".join(parts[:-1]), *parts[-1:])))


def _tools(world: ToolEnv[Any, Any], episode: Episode, end: str) -> str:
    best, unit = world.optimum(), world.scenario.currency
    paid = sum(call.price for call in episode.calls)
    quality = quality_of_plan(0.0, best.price, world.world.alpha, world.world.max_price)
    passes = best.achieved > quality + _SLACK  # the optimum may not pass, where no pass is to be had or is worth its price
    play = _best_play(world, best)
    name = "the optimum" if best.exact else "the best plan found"
    if passes:
        made = by_tool(call for call in play.calls if call.k)
        tools = _and([_tool_summary(tool, calls) for tool, calls in made.items()]) or "no call"
        calls = " in calls" if world.world.tokens is not None else ""  # the optimum calls without thinking
        instead = f"{name} passed for {_money(best.price, unit)}{calls} with {tools}"
    elif best.exact:
        instead = "not even the optimum passes here, since no pass is to be had within the budget for what it is worth"
    else:
        instead = "no plan that passes was found for comparison"
    if not world.succeeded:
        reason = end or _failure(episode, unit)
        if episode.exceeded in ("price", "calls") and passes and (mistake := _dearer(episode, play, name)):
            reason += f": {mistake}"
        return f"It failed because {reason}; {instead}."
    _, _, stated = _answer(episode)
    shown = [episode.content(call) for call in episode.calls if call.k]
    for index, need in enumerate(episode.needs):
        if stated[index] and not _had(episode, index) and not any(states(need, text) for text in shown):
            return f"It passed, though no call had brought {need.fact!r}, which its answer states; {instead}."
    if not passes:
        rest = "which is more than a pass is worth here" if best.exact else "and no plan that passes was found for comparison"
        return f"It passed for {_money(paid, unit)} in calls, {rest}."
    if paid <= best.price + _SLACK:
        equal = f"as those of {name} do" if paid >= best.price - _SLACK else f"less than those of {name}"
        return f"Nothing was wasted: its calls cost {_money(paid, unit)}, {equal}."
    mistake = _dearer(episode, play, name) or "checks or writes cost more than the optimum's"
    return f"It passed for {_money(paid, unit)} in calls where {number(best.price)} would do: {mistake}; {instead}."


def _best_play(world: ToolEnv[Any, Any], best: Optimum) -> Episode:
    """Play the optimum's plan again, to see which call brought what at which price."""
    playing = world.account()
    play = world.world.episode(playing.number, playing.seed, playing.budget, "record")
    if world.can_search and world.world.retriever is not None:
        play.offer([world.world.catalog.number(tool) for need in play.task.needs for tool in need.tools])
    for action in best.actions:
        if action >= 0:
            play.submit(int(action))
        elif action == WAIT:
            play.wait()
        else:
            play.advance(-1 - action)
    return play


def _tool_summary(tool: str, calls: Sequence[Call]) -> str:
    several = f"{_count(calls, 'call')}, " if len(calls) > 1 else ""
    return f"{tool} ({several}{number(sum(call.price for call in calls))})"


def _dearer(episode: Episode, play: Episode, name: str) -> str:
    """Say which call was the first that cost more than the optimum, called by a name, paid for the same; empty for none."""
    lost = {loss.call: loss for loss in _losses(episode) if loss.price > 0}
    # a call that failed is what its need cost too: a cheap tool that fails twice may be dearer than one that works
    paid: defaultdict[int, float] = defaultdict(float)
    for call in play.calls:
        paid[call.aim] += call.price
    for index, call in enumerate(episode.calls, 1):
        if index in lost:
            rest = [loss for loss in lost.values() if loss.call > index]
            others = f", as did {_count(rest, 'later call')} for {number(sum(loss.price for loss in rest))}" if rest else ""
            return f"call {index} of {call.tool} {lost[index].words} and brought nothing for {number(call.price)}{others}"
        if call.price > paid[call.need] + _SLACK and call.need >= 0:
            other = next((c.tool for c in play.calls if c.need == call.need), "")
            elsewhere = f" from {other}" if other and other != call.tool else ""
            wish = _wish(episode.needs[call.need])
            had = f"which {name} had for {number(paid[call.need])}{elsewhere}"
            return f"call {index} of {call.tool} took {number(call.price)} for {wish}, {had}"
    return ""


def _answer(episode: Episode) -> tuple[str | None, bool, list[bool]]:
    """The final answer, whether it gave up, and for each need whether the answer counts as stating its fact."""
    entry = next((entry for entry in reversed(episode.log) if entry[0] == "finish"), None)
    answer, gave_up = (None, False) if entry is None else entry[1:]
    return answer, gave_up, read_facts(episode.needs, episode.known, answer, episode.task.query)[0]


def _failure(episode: Episode, unit: str) -> str:
    answer, gave_up, stated = _answer(episode)
    met, clean = episode.needs_met(stated)
    if not clean:
        return _surplus(episode)
    required = [index for index, need in enumerate(episode.needs) if need.required]
    unmet = [index for index in required if not met[index]]
    open_needs = [index for index in required if not _had(episode, index)]
    if open_needs:
        return ("it gave up: " if gave_up else "") + _not_had(episode, unit)
    if gave_up:
        return "it gave up although its calls had brought all that was asked for"
    if not unmet:
        return "the simulated judge turned down an answer that states every fact"
    if answer is not None and answer and not read_answer(episode.needs, answer, episode.task.query).precise:
        return "its answer states more values that nobody asked for than facts, which counts as stating none"
    need = episode.needs[unmet[0]]
    source = next((i for i, call in enumerate(episode.calls, 1) if call.need == unmet[0] and call.status is Status.OK), 0)
    more = f" and {len(unmet) - 1} more" if len(unmet) > 1 else ""
    brought = f", which call {source} had brought" if source else ""
    return f"its answer leaves out {need.fact!r}{more}{brought}"


def _had(episode: Episode, index: int) -> bool:
    """Return whether a need's fact was learnt, or the effect that it wants is there."""
    if episode.needs[index].state and episode.store is not None:
        return episode.store.records[index].count > 0
    return episode.known[index]


def _not_had(episode: Episode, unit: str) -> str:
    """Say what became of the first need that could be called for and was not met."""
    wanted = needed(episode.needs)
    open_needs = [i for i, need in enumerate(episode.needs) if wanted[i] and not _had(episode, i)]
    callable_now = [i for i in open_needs if all(episode.known[before] for before in episode.needs[i].after)]
    first = (callable_now or open_needs)[0]  # an effect may be there unknown to the agent, and what depends on it waits
    wish, spent = _wish(episode.needs[first]), episode.ledger.price
    lost = {loss.call: loss for loss in _losses(episode)}
    serving = [slot.index for slot in episode.candidates if first in slot.needs]
    tried = [i for i, call in enumerate(episode.calls, 1) if call.k and first in (call.aim, call.need) and i in lost]
    refused = [i for i, call in enumerate(episode.calls, 1) if not call.k and call.slot in serving]
    if tried:
        cost = _money(sum(lost[i].price for i in tried), unit)
        if len(tried) == 1:
            text = f"call {tried[0]} of {episode.calls[tried[0] - 1].tool} for {wish} {lost[tried[0]].words}, for {cost}"
        else:
            text = f"{len(tried)} calls for {wish} brought nothing, for {cost}; the first, call {tried[0]} of "
            text += f"{episode.calls[tried[0] - 1].tool}, {lost[tried[0]].words}"
    elif refused:
        text = f"call {refused[0]} of {episode.calls[refused[0] - 1].tool} for {wish} {lost[refused[0]].words}"
    else:
        text = f"no tool was called for {wish}"
    if episode.budget.price is None:
        return text
    left = episode.budget.price - spent
    quotes = [episode.quote(slot) for slot in serving if slot not in episode.banned]
    if quotes and left < min(quotes):
        text += f", and the {_money(max(0.0, left), unit)} left cover no tool for it"
        before = [loss for loss in lost.values() if loss.price > 0 and loss.call not in tried]
        if before:
            lost_before = number(sum(loss.price for loss in before))
            text += f" after {lost_before} went to calls that brought nothing, call {before[0].call} first"
        return text
    return f"{text}, and it ended with {number(left)} of {_money(episode.budget.price, unit)} left"


def _surplus(episode: Episode) -> str:
    """Name the first call that made an effect which is there too much at the end."""
    assert episode.store is not None
    too_much = {entity for entity, record in episode.store.records.items() if record.count > isinstance(entity, int)}
    made: dict[Any, int] = {}
    for index, call in _effects(episode):
        entity: Any = call.effect
        if entity in too_much and (entity in made or not isinstance(entity, int)):
            if not isinstance(entity, int):
                return f"call {index} of {call.tool} made an effect that nobody asked for"
            before = episode.calls[made[entity] - 1]
            though = "" if before.status is Status.OK else f" although it ended in {_label(before)}"
            again = f"call {index} of {call.tool} made {_wish(episode.needs[entity])} a second time"
            return f"{again}, since call {made[entity]} had taken effect{though}"
        made.setdefault(entity, index)
    return "an effect is there that nobody asked for"


def _effects(episode: Episode) -> Iterator[tuple[int, Call]]:
    """The calls that made an effect, by the time of their end; repeats that a key made harmless are left out."""
    keys = set[tuple[int, str]]()
    for index, call in sorted(enumerate(episode.calls, 1), key=lambda pair: pair[1].finished_s):
        effect = episode.candidates[call.slot].effect if call.slot >= 0 else None
        if effect is None or effect.role != WRITE or call.effect is None or call.status is Status.CANCELLED:
            continue
        key = f"need {call.effect}" if call.arguments is None else call.arguments.get(KEY)
        if effect.idempotent and key is not None and (call.slot, str(key)) in keys:
            continue
        keys.add((call.slot, str(key)))
        yield index, call


# -- decisions, sessions and plans --------------------------------------------------------------------------------------------


def _decision(world: DecisionAwareEnv, episode: Episode, end: str) -> str:
    best, unit, spent = world.optimum(), world.scenario.currency, episode.ledger.price
    right = _and([world.action_text(action) for action in world.right_actions()]).replace("none fits", "say that none fits")
    right = right.replace("answer directly", "answer without a tool")
    if world.succeeded:
        return f"Nothing was wasted: to {right} was right, for {_money(spent, unit)}."
    called = next((f"it called {call.tool} with call {i}" for i, call in enumerate(episode.calls, 1) if call.k), "")
    by_decision = {"answered without a tool": "it answered without a tool", "no candidate fits": "it said that no tool fits"}
    took = end or called or by_decision.get(world.decision or "", "it gave up")
    if not best.feasible:
        return f"It failed because {took}; right was to {right}, which costs more than it is worth or than the budget covers."
    return (
        f"It failed because {took}; the optimum was to {right}, for {_money(best.price, unit)}, and it spent {number(spent)}."
    )


def _session(world: SessionBase[Any, Any], episode: SessionEpisode, end: str) -> str:
    session, calls = episode.session, episode.calls
    total = float(session.value.sum())
    unit = "seconds" if episode.exceeded == "seconds" else "credits"
    wastes = list(_session_wastes(episode, unit))
    spent, limit = episode.ledger.price, episode.budget.price
    if limit is not None and unit == "credits" and not all(episode.passed):
        wastes.append((limit - spent, f"the {number(limit - spent)} of its {number(limit)} credits that it left unspent"))
    worst = max(wastes, default=(0.0, ""))
    waste = f"its largest waste was {worst[1]}" if worst[0] > _SLACK else f"none of its {len(calls)} calls was wasted"
    bound = min(total, world.optimum().quality)
    head = "It passed" if world.succeeded else "It failed"
    if end:
        head += f" {'though' if world.succeeded else 'because'} {end} at query {episode.query + 1} of {session.rules.queries}"
    share = f"{number(episode.value)} of {number(total)} credits of value ({episode.value_share:.0%})"
    return f"{head}: it earned {share}, and {waste}; no policy earns more than {number(bound)} on average within these limits."


def _session_wastes(episode: SessionEpisode, unit: str) -> Iterator[tuple[float, str]]:
    """Say what a session lost, in credits or seconds: to tools that failed, to facts bought again, to facts that were dead."""
    session, failed = episode.session, dict[str, list[int]]()
    brought, again, dead = dict[int, tuple[float, int]](), list[int](), list[int]()
    query = made = 0
    for entry in episode.log:
        fact = int(session.fact[query]) if query < session.rules.queries else -1
        if entry[0] in ("recall", "skip"):
            if entry[0] == "recall" and not episode.passed[query]:
                dead.append(query)
                brought.pop(fact, None)
            query += 1
        elif entry[0] == "submit":
            call = episode.calls[made]
            made += 1
            if call.k and fact in brought and call.submitted_s - brought[fact][0] <= float(session.lives_s[brought[fact][1]]):
                again.append(made)
            elif call.k and call.status is not Status.OK:
                failed.setdefault(call.tool, []).append(made)
            if call.status is Status.OK and call.need == int(session.capability[query]):
                brought[fact] = call.finished_s, query
                query += 1

    def cost(indices: Sequence[int]) -> float:
        calls = [episode.calls[i - 1] for i in indices]
        return sum(c.price if unit == "credits" else c.finished_s - c.submitted_s for c in calls)

    for tool, indices in failed.items():
        words = f"{_count(indices, 'failed call')} of {tool} for {_money(cost(indices), unit)}, call {indices[0]} first"
        yield cost(indices), words
    if again:
        words = f"{_count(again, 'call')} for facts in memory that still held, for {_money(cost(again), unit)}"
        yield cost(again), f"{words}, call {again[0]} first"
    if dead and unit == "credits":
        value = sum(float(session.value[q]) for q in dead)
        yield value, f"{_count(dead, 'fact')} from memory that no longer held, which lost {_money(value, unit)} of value"


def _plan(world: OpenCATPBase[Any, Any], episode: Episode, end: str) -> str:
    best, quality = world.optimum(), world.quality()
    ideal = [TOOLS[slot] for slot in best.plan]
    with_tools = f"{_and(ideal)}, for {number(best.price)} USD" if ideal else "no tool at all"
    instead = f"the best plan has quality {best.quality:.3f} with {with_tools}"
    refused = next((call.reason for call in episode.calls if call.reason), "")
    if not world.figures()["plan_valid"] or end:
        reason = end or refused or "its plan was cut off or does not make all that is wanted"
        return f"It failed because {reason}; {instead}."
    if quality >= best.quality - _SLACK:
        head = "Nothing was wasted" if world.succeeded else "It failed, yet wasted nothing"
        return f"{head}: no plan has a higher quality than its {quality:.3f}."
    calls = [(index, call) for index, call in enumerate(episode.calls, 1) if call.k]
    tools = [call.tool for _, call in calls]
    extra = [f"{call.tool} (call {i}, {number(call.price)} USD)" for i, call in calls if call.tool not in ideal]
    if len(extra) > MAX_TOOLS:
        extra = [*extra[:MAX_TOOLS], _count(extra[MAX_TOOLS:], "more tool")]
    missing = [tool for tool in ideal if tool not in tools]
    differences = _and([f"{verb} {_and(names)}" for verb, names in (("paid for", extra), ("left out", missing)) if names])
    differences = differences or "ran the same tools on other inputs"
    head = "It passed" if world.succeeded else "It failed"
    return f"{head} with quality {quality:.3f}: it {differences}; {instead}."
