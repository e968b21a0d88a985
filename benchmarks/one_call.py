"""Draw the timeline of docs/explanation/world.md: one tool is called until it answers, in an episode that is played here.

python benchmarks/one_call.py docs/one_call.svg

Bars, steps and labels follow from the calls of the episode's log and the profile of examples/one_call.yaml.
"""

from __future__ import annotations

import sys
from pathlib import Path

from costgym.simulators.calls import Call
from costgym.simulators.scenario import load_scenario
from costgym.simulators.tools import ToolProfile

SEED = 22
WIDTH, LEFT, RIGHT = 600, 52, 592  # of the picture, and of its time axis
CALLS_Y, MEMORY_Y, MONEY_Y = 58, 190, 314  # lower edges of the bars and of the two step lines
HEIGHT_OF_STEPS = 66
STYLE = """
text { font: 14px system-ui, sans-serif; fill: #1f2937 }
.small { font-size: 12.5px } .muted { fill: #5b6472 } .paper { fill: #ffffff } .axis { stroke: #9aa3af }
.limit { stroke: #b91c1c; stroke-dasharray: 5 4 } .line { fill: none; stroke: #4338ca; stroke-width: 2 }
.wait { stroke: #5b6472; stroke-dasharray: 2 4 }
.load { fill: #c7d2fe } .run { fill: #6366f1 } .good { fill: #15803d } .bad { fill: #b91c1c }
@media (prefers-color-scheme: dark) {
  text { fill: #e5e7eb } .muted { fill: #aab2bf } .paper { fill: #131416 } .axis { stroke: #6b7280 }
  .limit { stroke: #f87171 } .line { stroke: #a5b4fc } .wait { stroke: #aab2bf }
  .load { fill: #3730a3 } .run { fill: #818cf8 } .good { fill: #4ade80 } .bad { fill: #f87171 }
}
"""
PAPER = '<rect width="100%" height="100%" class="paper"/>'


def play() -> tuple[list[Call], ToolProfile, float]:
    """The calls of the episode, each made as soon as the tool takes it, the tool's profile and the budget in dollars."""
    scenario = load_scenario("examples/one_call.yaml")
    world = scenario.build()
    episode = world.episode(0, SEED)
    calls: list[Call] = []
    while not calls or calls[-1].status.label != "ok":
        calls.append(episode.call(0))
        episode.advance(calls[-1].retry_after_s)
    return calls, episode.candidates[0].profile, float(scenario.budget["price"])


class Picture:
    """An SVG whose x axis is simulated time."""

    def __init__(self, end_s: float) -> None:
        self.scale = (RIGHT - LEFT) / end_s
        self.parts: list[str] = []

    def x(self, at_s: float) -> float:
        return round(LEFT + self.scale * at_s, 1)

    def text(self, x: float, y: float, text: str, css: str = "", anchor: str = "start") -> None:
        self.parts.append(f'<text x="{x}" y="{y}" class="{css}" text-anchor="{anchor}">{text}</text>')

    def bar(self, start_s: float, end_s: float, css: str) -> None:
        width = round(self.scale * (end_s - start_s), 1)
        self.parts.append(f'<rect x="{self.x(start_s)}" y="{CALLS_Y - 24}" width="{width}" height="24" rx="3" class="{css}"/>')

    def line(self, start_s: float, end_s: float, y: float, css: str) -> None:
        self.parts.append(f'<line x1="{self.x(start_s)}" x2="{self.x(end_s)}" y1="{y}" y2="{y}" class="{css}"/>')

    def steps(self, levels: list[tuple[float, float]], base: float, top: float, end_s: float) -> None:
        """A step line through (time, level), levels up to `top`."""
        path = ""
        for at_s, level in levels:
            y = round(base - HEIGHT_OF_STEPS * level / top, 1)
            path += f"M{self.x(at_s)},{y}" if not path else f"H{self.x(at_s)}V{y}"
        self.parts.append(f'<path d="{path}H{self.x(end_s)}" class="line"/>')

    def svg(self, title: str) -> str:
        head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} 354" role="img" aria-label="{title}">'
        return "\n".join([head, f"<title>{title}</title><style>{STYLE}</style>", PAPER, *self.parts, "</svg>", ""])


def draw(calls: list[Call], profile: ToolProfile, budget: float) -> str:
    end_s = calls[-1].finished_s
    picture = Picture(end_s + 0.4)
    memory, money, spent = [(0.0, 0.0)], [(0.0, 0.0)], 0.0
    loaded = profile.cpu_cons_mb
    picture.text(4, 18, "Calls of one tool")
    for call in calls:
        label = call.status.label.replace("_", " ")
        if call.started_s < 0:
            picture.text(picture.x(call.submitted_s) + 6, CALLS_Y + 17, "refused, free", "small bad")
            picture.text(picture.x(call.submitted_s) + 6, CALLS_Y + 33, f"retry in {call.retry_after_s:.1f} s", "small muted")
            picture.line(call.finished_s, call.finished_s + call.retry_after_s, CALLS_Y - 12, "wait")
            continue
        if call.cold:
            picture.bar(call.started_s, call.ready_s, "load")
            picture.text(picture.x(call.started_s) + 6, CALLS_Y - 8, f"loads {call.ready_s - call.started_s:.0f} s", "small")
            memory.append((call.started_s, loaded))
        good = call.status.label == "ok"
        picture.bar(call.ready_s, call.finished_s, "good" if good else "run")
        css = f"small {'good' if good else 'bad'}"
        picture.text(picture.x(call.finished_s), CALLS_Y + 17, "answer" if good else label, css, "end")
        memory += [(call.ready_s, loaded + profile.cpu_inst_mb), (call.finished_s, loaded)]
        spent += call.price
        money.append((call.finished_s, spent))
        y = MONEY_Y - HEIGHT_OF_STEPS * spent / budget / 1.15
        picture.text(picture.x(call.finished_s) - 4, round(y) - 6, f"+{1e6 * call.price:.0f}", "small", "end")
    top = loaded + profile.cpu_inst_mb
    picture.text(4, MEMORY_Y - 76, "Memory held, MB")
    picture.steps(memory, MEMORY_Y, 1.15 * top, end_s + 0.4)
    for level in (loaded, top):
        picture.text(
            LEFT - 6, round(MEMORY_Y - HEIGHT_OF_STEPS * level / top / 1.15) + 4, f"{level:,.0f}", "small muted", "end"
        )
    picture.text(4, MONEY_Y - 82, "Cost, millionths of a dollar")
    picture.steps(money, MONEY_Y, 1.15 * budget, end_s + 0.4)
    limit = round(MONEY_Y - HEIGHT_OF_STEPS / 1.15, 1)
    picture.line(0, end_s + 0.4, limit, "limit")
    picture.text(LEFT + 4, limit - 6, f"budget {1e6 * budget:.0f}", "small bad")
    for base in (CALLS_Y, MEMORY_Y, MONEY_Y):
        picture.line(0, end_s + 0.4, base, "axis")
    for second in range(0, int(end_s) + 1, 2):
        picture.text(picture.x(second), MONEY_Y + 20, str(second), "small muted", "middle")
    picture.text(RIGHT, MONEY_Y + 37, "simulated seconds", "small muted", "end")
    failed = sum(call.status.label not in ("ok", "rate_limited") for call in calls)
    title = f"A tool is called until it answers, after {failed} failed calls and a refusal: {end_s:.1f} s, {1e6 * spent:.0f} µ$"
    return picture.svg(title)


def lines(calls: list[Call]) -> list[str]:
    """The calls in words: beginning, end, status and millionths of a dollar."""
    times = (f"{call.submitted_s:6.2f} {call.finished_s:6.2f}" for call in calls)
    return [f"{time}  {call.status.label:12}  {1e6 * call.price:4.0f}" for time, call in zip(times, calls, strict=True)]


def main() -> None:
    calls, profile, budget = play()
    print("\n".join(lines(calls)))
    Path(sys.argv[1]).write_text(draw(calls, profile, budget), encoding="utf-8")


if __name__ == "__main__":
    main()
