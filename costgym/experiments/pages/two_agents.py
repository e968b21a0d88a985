"""Two agents side by side as a moving picture: the same task, the same luck, and budgets that drain."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from io import BytesIO
from math import inf

from markupsafe import Markup

from costgym.envs.base import base_env
from costgym.envs.rendering.chart import meaning_of, number
from costgym.envs.rendering.draw import fit, text_width, wrap
from costgym.envs.tool_world import ToolEnv
from costgym.envs.why import why
from costgym.experiments.pages.episode_report import EpisodeReport, currency_of
from costgym.experiments.pages.html import asset, render
from costgym.experiments.pages.moving_picture import Scene, Shape, frame, gif, svg
from costgym.experiments.play.metric_registry import plain
from costgym.experiments.play.trajectories.replay import replay_steps
from costgym.simulators.calls import Call
from costgym.simulators.errors import ConfigError
from costgym.simulators.ledger import Charge

WIDTH, MARGIN, GUTTER = 860, 16, 28  # pixels
PANEL = (WIDTH - 2 * MARGIN - GUTTER) / 2
LINE, TITLE = 19, 16  # height of a line, size of a name
NAME, AXIS = 168, 160  # width of a tool's name, and of the time axis at the right
MOST_CALLS = 12
SLACK = 1e-9  # amounts are sums of floats
MEANINGS = {"ok": "brought something", "looks ok, is not": "looks right, is not", "failed": "failed"}
"""What the colours mean, in the legend; others are named where they occur."""


@dataclass(frozen=True, slots=True)
class Course:
    """What an episode's picture needs, from its replay."""

    agent: str
    model: str
    task: str
    query: str
    seed: int
    currency: str
    limits: dict[str, float]
    calls: Sequence[Call]
    charges: Sequence[Charge]
    known: Sequence[tuple[float, int]]  # when how many facts were known
    facts: int  # that the task needs; 0 where an episode is not about facts
    span_s: float
    success: bool
    why: str


def course_of(report: EpisodeReport) -> Course:
    """Replay a recorded episode and note when its facts became known."""
    recorded, env = report.recorded, report.env
    world, known, truncated = base_env(env), list[tuple[float, int]](), False
    for step in replay_steps(env, recorded):
        episode, truncated = world.account(), step.truncated
        known.append((episode.now_s, sum(episode.known)))
    world.give_up()
    episode = world.account()
    ends = [call.finished_s for call in episode.calls]
    return Course(
        plain(recorded.agent),
        plain(recorded.model),
        recorded.task,
        plain(episode.task.query or ""),
        recorded.seed,
        currency_of(world),
        dict(episode.budget.items()),
        list(episode.calls),
        list(episode.ledger),
        known,
        len(episode.known) if isinstance(world, ToolEnv) else 0,
        max([episode.now_s, *ends]) or 1.0,
        world.succeeded,
        plain(why(world, truncated, recorded.crash)),
    )


def two_agents(left: EpisodeReport, right: EpisodeReport) -> Scene:
    """Put two episodes of one task and seed side by side, under one clock; raises ConfigError where task, seed or budget
    differ, since then one could be lucky."""
    courses = course_of(left), course_of(right)
    one, other = courses
    for what in ("task", "query", "seed", "limits"):
        if getattr(one, what) != getattr(other, what):
            name = {"limits": "budget", "query": "world"}.get(what, what)
            raise ConfigError(name, f"expected two episodes of one {name}, got {getattr(one, what)} and {getattr(other, what)}")
    span_s = max(one.span_s, other.span_s)
    shapes, top = list[Shape](), 26.0
    for line in wrap(one.query or one.task, WIDTH - 2 * MARGIN, 14, 3):
        shapes.append(Shape(MARGIN, top, "ink", line, 14))
        top += LINE
    shapes.append(Shape(MARGIN, top, "quiet", fit(_about(one, other), WIDTH - 2 * MARGIN)))
    spent = max([1e-9, *(sum(charge.price for charge in course.charges) for course in courses)])
    bottom = top
    for course, x in zip(courses, (MARGIN, MARGIN + PANEL + GUTTER), strict=True):
        panel, y = _panel(course, x, top + 34, span_s, spent)
        shapes += panel
        bottom = max(bottom, y)
    legend, bottom = _legend(courses, bottom + 14)
    title = f"{one.agent} and {other.agent} on task {one.task}: {_outcome(one)}; {_outcome(other)}"
    return Scene(title, WIDTH, int(bottom + 12), span_s, [*shapes, *legend])


def draw_two(left: EpisodeReport, right: EpisodeReport, format: str, theme: str = "light") -> str | bytes:
    """Two episodes side by side as svg, html or gif, or their end as png; `theme` is light or dark, of gif and png."""
    scene = two_agents(left, right)
    if format == "svg":
        return svg(scene)
    if format == "html":
        newline = Markup("\n")
        episodes = [(report.name, newline.join(map(plain, report.text.splitlines()))) for report in (left, right)]
        picture = Markup(svg(scene))
        return render("two_agents.html", css=Markup(asset("page.css")), title=scene.title, picture=picture, episodes=episodes)
    if format == "gif":
        return gif(scene, theme)
    store = BytesIO()
    frame(scene, scene.span_s, theme).save(store, "PNG")
    return store.getvalue()


def _about(one: Course, other: Course) -> str:
    limits = " and ".join(_amount(name, limit, one.currency) for name, limit in one.limits.items())
    models = {course.model for course in (one, other)} - {"", "none", one.agent, other.agent}
    facts = [f"task {one.task}", f"seed {one.seed}", f"{limits} each" if limits else "", "same tools, prices and luck"]
    return ", ".join([*filter(None, facts), *(f"{model} language model" for model in sorted(models))])


def _amount(resource: str, value: float, currency: str) -> str:
    """An amount in words: the font of a GIF lacks signs such as ¢."""
    return f"{number(value)} {currency if resource == 'price' else resource}"


def _outcome(course: Course) -> str:
    cost = _amount("price", sum(charge.price for charge in course.charges), course.currency)
    return f"{course.agent} {'succeeds' if course.success else 'fails'} for {cost}"


def _panel(course: Course, x: float, y: float, span_s: float, spent: float) -> tuple[list[Shape], float]:
    """One agent: its name, what is left of its budgets, the facts that it knows, its calls in time, and how it ended."""
    shapes = [Shape(x, y, "ink", fit(course.agent, PANEL - 90, TITLE), TITLE)]
    outcome = ("success", "good") if course.success else ("no success", "bad")
    shapes.append(Shape(x + PANEL, y, outcome[1], outcome[0], TITLE, right=True, begin_s=course.span_s))
    for resource, limit in (course.limits or {"price": spent}).items():
        y += LINE + 5
        shapes += _budget(course, resource, limit, x, y, span_s)
    if course.facts:
        y += LINE + 3
        shapes += _facts(course, x, y)
    y += 8
    for call in course.calls[:MOST_CALLS]:
        y += LINE
        shapes += _call(call, x, y, span_s)
    if len(course.calls) > MOST_CALLS:
        y += LINE
        more = f"and {len(course.calls) - MOST_CALLS} more calls"
        shapes.append(Shape(x, y, "quiet", more, begin_s=course.calls[MOST_CALLS].submitted_s))
    y += 6
    for line in wrap(course.why, PANEL, 12, 6):
        y += LINE - 2
        shapes.append(Shape(x, y, "quiet", line, begin_s=course.span_s))
    return shapes, y


def _budget(course: Course, resource: str, limit: float, x: float, y: float, span_s: float) -> Iterator[Shape]:
    """A bar of what is left, which becomes shorter with each charge, and the amount in figures; without budgets `limit` is what
    the dearer agent spends, and the bar grows with what is spent."""
    width = PANEL - 150
    points = [(0.0, limit)]
    if resource == "seconds":
        points.append((course.span_s, limit - course.span_s))
    else:
        for charge in course.charges:
            amount = float(getattr(charge, resource))
            points += [(charge.at_s, points[-1][1]), (charge.at_s, points[-1][1] - amount)] if amount else []
    yield Shape(x, y - 11, "rule", size=13, width=width)
    shares = tuple((at_s, max(0.0, left if course.limits else limit - left) / limit) for at_s, left in points)
    yield Shape(x, y - 11, "budget", size=13, width=width, shares=shares)
    if resource == "seconds":  # time runs evenly: a figure for every tenth of it
        points = [(span_s * index / 10, limit - min(course.span_s, span_s * index / 10)) for index in range(11)]
    stops = [*dict(points).items()]  # of several charges at one time the last
    for index, (at_s, left) in enumerate(stops):
        end_s = stops[index + 1][0] if index + 1 < len(stops) else inf
        over = left < -SLACK
        figures = _amount(resource, max(0.0, left if course.limits else limit - left), course.currency)
        text = f"over budget by {number(-left)}" if over else f"{figures} {'left' if course.limits else 'spent'}"
        yield Shape(x + PANEL, y, "bad" if over else "ink", text, right=True, begin_s=at_s, end_s=end_s)


def _facts(course: Course, x: float, y: float) -> Iterator[Shape]:
    yield Shape(x, y, "quiet", "facts found")
    left = x + text_width("facts found") + 10
    for index in range(course.facts):
        found_s = next((at_s for at_s, known in course.known if known > index), None)
        yield Shape(left + 18 * index, y - 11, "rule", size=13, width=13)
        if found_s is not None:
            yield Shape(left + 18 * index, y - 11, "good", size=13, width=13, begin_s=found_s)


def _call(call: Call, x: float, y: float, span_s: float) -> Iterator[Shape]:
    """A line for a call: its tool, its price once it has ended, and a bar that grows while it is in flight."""
    axis = x + PANEL - AXIS
    name = fit(plain(call.tool or "(unknown tool)"), NAME, tail=False)
    yield Shape(x, y, "ink", name, begin_s=call.submitted_s)
    yield Shape(axis, y - 5, "rule", size=1, width=AXIS, begin_s=call.submitted_s)
    end_s = call.finished_s if call.finished_s >= 0 else span_s
    left = axis + AXIS * min(1.0, call.submitted_s / span_s)
    width = max(3.0, AXIS * (end_s - call.submitted_s) / span_s)
    left = min(left, axis + AXIS - width)
    if end_s > call.submitted_s:
        yield Shape(left, y - 10, "running", size=11, width=width, shares=((call.submitted_s, 0.0), (end_s, 1.0)))
    yield Shape(left, y - 10, meaning_of(call), size=11, width=width, begin_s=end_s)
    if call.price:
        yield Shape(axis - 10, y, "quiet", number(call.price), right=True, begin_s=end_s)


def _legend(courses: Sequence[Course], y: float) -> tuple[list[Shape], float]:
    """What the colours of bars mean, in as many lines as it takes."""
    met = dict.fromkeys(meaning_of(call) for course in courses for call in course.calls)
    shapes, x, y = list[Shape](), float(MARGIN), y + 12
    for meaning in ("running", *(name for name in met if name != "running")):
        text = {"running": "in flight", **MEANINGS}.get(meaning, meaning)
        need = 18 + text_width(text) + 22
        if x + need > WIDTH - MARGIN:
            x, y = float(MARGIN), y + LINE
        shapes += [Shape(x, y - 10, meaning, size=11, width=12), Shape(x + 18, y, "quiet", text)]
        x += need
    return shapes, y
