"""An episode on a terminal of 80 columns: its calls, what is left of the budget, and the choice before the agent."""

import textwrap
from collections.abc import Callable, Iterator

from costgym.envs.rendering.chart import number
from costgym.envs.rendering.story import short
from costgym.simulators.calls import Call
from costgym.simulators.status import Status
from costgym.simulators.world.episode import Episode

WIDTH = 80  # characters
MAX_NAME, MAX_OFFER_NAME, BAR = 33, 36, 30  # characters of names in both tables, and of a budget's bar
MAX_OFFERS = 5  # tools that are listed for a missing fact, the cheapest first


def episode_table(episode: Episode, verdict: str) -> str:
    """Write the episode as a table of its calls, the rest of its budget and its result."""
    lines = _wrapped(f"task {episode.task.id}: {episode.task.query}")
    lines += [f"budget: {episode.budget}; seed {episode.seed}", ""]
    names = [short(call.tool or "(unknown tool)", MAX_NAME) for call in episode.calls]
    width = max([4, *map(len, names)])
    lines.append(f"{'#':>3} {'start':>7} {'end':>7}  {'tool':<{width}}  {'status':<16} {'price':>7}")
    for i, (name, call) in enumerate(zip(names, episode.calls, strict=True)):
        ended = call.finished_s >= 0
        end = f"{call.finished_s:.2f}" if ended else ""
        price = number(call.price) if call.k and ended else "-"
        status = call.status.label if ended else "running"
        lines.append(f"{i + 1:>3} {call.submitted_s:>7.2f} {end:>7}  {name:<{width}}  {status:<16} {price:>7}")
    if not episode.calls:
        lines.append("    no calls")
    lines += ["", *_wrapped(f"at {episode.now_s:.2f} s; {verdict}")]
    left = episode.remaining()
    for name, limit in episode.budget.items():
        lines.append(f"{name:<8} {_bar(left[name] / limit)} {number(left[name])} of {number(limit)} left")
    return "\n".join(lines)


def choice_text(episode: Episode, action_of: Callable[[int], int | None] | None = None) -> str:
    """Write what an agent can do next in a tool world: what is known, and for each missing fact the tools that could bring it,
    with their prices, what they advertise and how their calls went. `action_of` gives the action that calls a candidate."""
    if episode.over or not episode.needs:
        return ""
    lines = [f"facts: {sum(episode.known)} of {len(episode.known)} known; for the missing ones"]
    for index, need in enumerate(episode.needs):
        wish = need.wish or need.capability or "an answer"
        if episode.known[index]:
            lines += _wrapped(f"  + {index + 1} {wish}: {need.fact}")
            continue
        missing = [str(before + 1) for before in need.after if not episode.known[before]]
        after = f" (after fact {' and '.join(missing)})" if missing else ""
        lines += _wrapped(f"  - {index + 1} {wish}{after}")
        if not missing:
            lines += _offers(episode, index, action_of)
    return "\n".join(lines)


def _offers(episode: Episode, need: int, action_of: Callable[[int], int | None] | None) -> Iterator[str]:
    offers = [slot for slot in episode.candidates if need in slot.needs and slot.index not in episode.banned]
    offers.sort(key=lambda slot: slot.quote * episode.factors[slot.index])
    yield f"  {'action':>8}  {'tool':<{MAX_OFFER_NAME}} {'price':>7} {'success':>7}  calls"
    for slot in offers[:MAX_OFFERS]:
        number_of_action = None if action_of is None else action_of(slot.index)
        action = "" if number_of_action is None else str(number_of_action)
        price, success = number(slot.quote * episode.factors[slot.index]), f"{slot.profile.advertised_success:.0%}"
        calls = _record([call for call in episode.calls if call.slot == slot.index])
        yield f"  {action:>8}  {short(slot.name, MAX_OFFER_NAME):<{MAX_OFFER_NAME}} {price:>7} {success:>7}  {calls}".rstrip()
    if len(offers) > MAX_OFFERS:
        yield f"  {'':>8}  and {len(offers) - MAX_OFFERS} dearer ones"
    if not offers:
        yield f"  {'':>8}  no tool on offer"


def _record(calls: list[Call]) -> str:
    """How the calls of a tool went, such as ``1 ok, 2 failed``."""
    ended = [call.status is Status.OK for call in calls if call.finished_s >= 0]
    counts = {"ok": sum(ended), "failed": len(ended) - sum(ended), "running": len(calls) - len(ended)}
    return ", ".join(f"{count} {what}" for what, count in counts.items() if count)


def _bar(share: float) -> str:
    full = round(BAR * min(1.0, max(0.0, share)))
    return "█" * full + "░" * (BAR - full)


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(text, WIDTH, subsequent_indent="    ", break_on_hyphens=False)
