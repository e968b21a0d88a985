"""An episode on a terminal of 80 columns: its calls, what is left of the budget, and the choice before the agent."""

import textwrap

from costgym.envs.rendering.chart import number
from costgym.envs.rendering.choice import Choice
from costgym.envs.rendering.story import short
from costgym.simulators.world.episode import Episode

WIDTH = 80  # characters
MAX_NAME, MAX_OFFER_NAME, BAR = 33, 36, 30  # characters of names in both tables, and of a budget's bar


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


def choice_text(choice: Choice | None) -> str:
    """Write what an agent can do next; empty for no choice."""
    if choice is None:
        return ""
    lines = _wrapped(choice.title)
    for wish in choice.wishes:
        lines += _wrapped(f"  {'+' if wish.done else '-'} {wish.text}")
        if wish.done:
            continue
        if wish.offers:
            lines.append(f"  {'action':>8}  {'tool':<{MAX_OFFER_NAME}} {'price':>7} {'success':>7}  calls")
        for offer in wish.offers:
            name = f"{short(offer.tool, MAX_OFFER_NAME):<{MAX_OFFER_NAME}}"
            lines.append(f"  {offer.action:>8}  {name} {offer.price:>7} {offer.success:>7}  {offer.calls}".rstrip())
        if wish.more:
            lines.append(f"  {'':>8}  and {wish.more} dearer ones")
    return "\n".join(lines)


def _bar(share: float) -> str:
    full = round(BAR * min(1.0, max(0.0, share)))
    return "█" * full + "░" * (BAR - full)


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(text, WIDTH, subsequent_indent="    ", break_on_hyphens=False)
