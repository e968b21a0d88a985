"""Lay five papers' ideas side by side and on top of each other in the one world: main effects and interactions.

    python benchmarks/one_world.py --episodes 300 --uses 40 --json benchmarks/results/one_world.json
    python benchmarks/one_world.py --draw benchmarks/results/one_world.json docs/oneworld.svg
    python docs/extensions/appendix.py                              # its tables into docs/results/one-world.md
    python benchmarks/one_world.py --show 2
    python benchmarks/one_world.py --tiny 20

Every combination of parts that has a meaning plays the same test queries under the same luck, with the simulated model, under
three budgets, with the vendor's cache of prompts and without any. An effect of a part is the mean difference between a
combination with it and the same combination without it, over all contexts in which both make sense; an interaction of two parts
is how much the effect of one changes where the other is there. Intervals are 95 % bootstraps over queries.
"""

import argparse
import json
import sys
from concurrent.futures import ProcessPoolExecutor
from functools import lru_cache, partial
from itertools import combinations, product
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).parents[1]))
import costgym
from benchmarks.picture import INK, STYLE, save
from benchmarks.report import write_report
from costgym.agents.btp.experience import Experience
from costgym.agents.registry import find_agent, make_agent
from costgym.experiments.play.episodes import play
from costgym.experiments.play.experience import ExperienceSettings, past_uses
from costgym.simulators.one_world.kinds import KINDS
from costgym.simulators.scenario import Scenario, TokenPrices, load_scenario
from tests.helpers.tiny_worlds import tiny_one_world, wrong_with

CHAT = "costgym/MarketplaceChat-v1"
BUDGETS = (15.0, 30.0, 60.0)
PARTS = ("deer", "ecoact", "btp", "toolplanner", "catp-plan")
FIGURES = ("success", "quality", "cost", "tool_cost", "token_cost", "seconds", "calls", "input", "cached", "output", "score")
DRAWS = 2_000
BEST = 6  # combinations that the page shows; the report has all
CLAIMS = {
    "deer": ("fewer calls where none is needed", "calls", "none", -1),
    "ecoact": ("fewer input tokens", "input", "", -1),
    "btp": ("dearer tools avoided: tools cost less", "tool_cost", "", -1),
    "toolplanner": ("more queries about several facts solved", "success", "facts", 1),
    "catp-plan": ("better plans of vision tools", "quality", "vision", 1),
}
"""What each paper says of its idea, the figure that shows it here, in which kind of query, and in which direction."""


class Combination(NamedTuple):
    """Parts that are on."""

    strategy: str
    accesses: tuple[str, ...]

    @property
    def name(self) -> str:
        return "+".join([self.strategy, *self.accesses])

    def has(self, part: str) -> bool:
        return part in (self.strategy, *self.accesses)

    def toggled(self, part: str) -> "Combination":
        """The same with a part on instead of off; a strategy takes the place of ReAct."""
        if part in ("toolplanner", "catp-plan"):
            return self._replace(strategy=part)
        return self._replace(accesses=tuple(access for access in PARTS if access in (*self.accesses, part)))


def every() -> list[Combination]:
    """All combinations that have a meaning."""
    strategies = ("react", "toolplanner", "catp-plan")
    subsets = [s for n in range(4) for s in combinations(("deer", "ecoact", "btp"), n)]
    candidates = [Combination(strategy, subset) for strategy, subset in product(strategies, subsets)]
    return [one for one in candidates if not (one.has("catp-plan") and one.has("ecoact"))]


def without_cache(scenario: Scenario) -> Scenario:
    """The same world where no prompt is cached."""
    prices = scenario.token_prices()
    assert prices is not None
    return scenario.model_copy(update={"tokens": TokenPrices(input=prices.input, output=prices.output, window=prices.window)})


def measured(
    scenario: Scenario, one: Combination, budget: float, episodes: int, past: Experience, seed: int
) -> NDArray[np.float64]:
    """The figures of a combination, by query.  # (episodes, FIGURES)"""
    env = costgym.make(CHAT, scenario=scenario, split="test", budget={"price": budget})
    agent = make_agent(one.name, CHAT, experience=past if find_agent(one.name).needs_experience else None)
    view, rows = env.unwrapped, []
    for index in range(episodes):
        play(env, agent, view.numbers[index % len(view.numbers)], seed + index // len(view.numbers))
        ledger, tokens = view.episode.ledger, view.episode.ledger.tokens_by_class()
        thought = sum(charge.price for charge in ledger if charge.what == "think")
        score = view.figures().get("score", np.nan)
        rows.append(
            (
                view.succeeded, view.quality(), ledger.price, ledger.price - thought, thought, view.episode.now_s, ledger.calls,
                tokens["input_tokens"], tokens["cached_tokens"], tokens["output_tokens"], score,
            )
        )  # fmt: skip
    return np.array(rows, np.float64)


class Table:
    """All figures: by combination, condition (a budget, with the cache or without), query and figure."""

    def __init__(self, names: list[Combination], figures: NDArray[np.float64], kinds: list[str], seed: int) -> None:
        self.names, self.figures, self.kinds = names, figures, np.array(kinds)
        self._draws = np.random.default_rng(seed).integers(len(kinds), size=(DRAWS, len(kinds)))

    def of(self, one: Combination, figure: str, conditions: slice | list[int]) -> NDArray[np.float64]:
        """A figure by query, mean over conditions."""
        table = self.figures[self.names.index(one), conditions, :, FIGURES.index(figure)]
        return np.asarray(table.mean(axis=0))

    def contexts(self, *parts: str) -> list[Combination]:
        """Combinations without some parts, all of whose ways to have them make sense."""
        off = [one for one in self.names if not any(one.has(part) for part in parts)]
        if {"toolplanner", "catp-plan"} & set(parts):
            off = [one for one in off if one.strategy == "react"]
        turned = [(one, [one.toggled(part) for part in parts]) for one in off]
        both = [one.toggled(parts[0]).toggled(parts[-1]) for one in off]
        return [one for (one, all_on), last in zip(turned, both, strict=True) if {*all_on, last} <= set(self.names)]

    def effect(self, part: str, figure: str, conditions: Any = slice(None), alone: bool = False) -> NDArray[np.float64]:
        """The effect of a part by query; `alone`: beside ReAct alone, else over all contexts with another part."""
        contexts = self.contexts(part)
        plain = Combination("react", ())
        chosen = [plain] if alone else [one for one in contexts if one != plain]
        return np.mean(
            [self.of(one.toggled(part), figure, conditions) - self.of(one, figure, conditions) for one in chosen], axis=0
        )

    def main_effect(self, part: str, figure: str, conditions: Any = slice(None)) -> NDArray[np.float64]:
        """The effect of a part by query over all contexts."""
        differences = [
            self.of(one.toggled(part), figure, conditions) - self.of(one, figure, conditions) for one in self.contexts(part)
        ]
        return np.mean(differences, axis=0)

    def interaction(self, first: str, second: str, figure: str) -> NDArray[np.float64] | None:
        """How much the effect of one part changes where another is there, by query; None where they are never together."""
        contexts = self.contexts(first, second)
        if not contexts or {first, second} == {"toolplanner", "catp-plan"}:
            return None
        every_condition = slice(None)
        changes = []
        for one in contexts:
            a, b = one.toggled(first), one.toggled(second)
            both = a.toggled(second)
            values = [self.of(share, figure, every_condition) for share in (both, a, b, one)]
            changes.append(values[0] - values[1] - values[2] + values[3])
        return np.mean(changes, axis=0)

    def interval(self, values: NDArray[np.float64], kind: str = "") -> list[float]:
        """Mean over queries, of one kind or all, with the ends of its interval."""
        chosen = (self.kinds == kind) if kind else np.ones(len(self.kinds), np.bool_)
        picked = np.where(chosen & ~np.isnan(values), values, np.nan)
        means = np.nanmean(picked[self._draws], axis=1)
        low, high = np.nanpercentile(means, [2.5, 97.5])
        return [round(float(value), 5) for value in (np.nanmean(picked), low, high)]


def report(table: Table, conditions: list[tuple[float, bool]], episodes: int) -> dict[str, Any]:
    chosen = {
        f"cache {'on' if on else 'off'}": [i for i, (_, cache) in enumerate(conditions) if cache is on] for on in (True, False)
    }
    chosen |= {f"budget {limit:g}": [i for i, (budget, _) in enumerate(conditions) if budget == limit] for limit in BUDGETS}
    rows = []
    for one in table.names:
        for index, (budget, cache) in enumerate(conditions):
            means = {figure: table.interval(table.of(one, figure, [index])) for figure in FIGURES}
            passes = means["success"][0]
            per = round(means["cost"][0] / passes, 4) if passes else None
            rows.append({"agent": one.name, "budget": budget, "cache": cache, "cost_per_success": per, **means})
    effects = [
        {
            "part": part,
            "figure": figure,
            "all": table.interval(table.main_effect(part, figure)),
            **{name: table.interval(table.main_effect(part, figure, which)) for name, which in chosen.items()},
            **{f"kind {kind}": table.interval(table.main_effect(part, figure), kind) for kind in KINDS},
        }
        for part in PARTS
        for figure in FIGURES[:-1]
    ]  # fmt: skip
    interactions = []
    for (first, second), figure in product(combinations(PARTS, 2), ("quality", "success", "cost", "token_cost")):
        values = table.interaction(first, second, figure)
        if values is not None:
            interactions.append({"parts": [first, second], "figure": figure, "change": table.interval(values)})
    claims = []
    for part, (claim, figure, kind, sign) in CLAIMS.items():
        alone = table.interval(table.effect(part, figure, alone=True), kind)
        beside = table.interval(table.effect(part, figure), kind)
        holds = {
            name: bool(sign * value[0] > 0 and value[1] * value[2] > 0)
            for name, value in (("alone", alone), ("beside", beside))
        }
        claims.append(
            {
                "part": part,
                "claim": claim,
                "figure": figure,
                "kind": kind or "all",
                "alone": alone,
                "beside": beside,
                "holds": holds,
            }
        )
    return {
        "model": "simulated", "episodes": episodes, "conditions": conditions, "rows": rows, "effects": effects,
        "interactions": interactions, "claims": claims,
    }  # fmt: skip


def played(
    one: Combination, conditions: list[tuple[float, bool]], episodes: int, uses: float, seed: int
) -> NDArray[np.float64]:
    """The figures of a combination under each condition.  # (conditions, episodes, FIGURES)"""
    scenario = load_scenario("one-world")
    past = _past(uses)
    worlds = {True: scenario, False: without_cache(scenario)}
    return np.stack([measured(worlds[cache], one, budget, episodes, past, seed) for budget, cache in conditions])


@lru_cache(maxsize=1)
def _past(uses: float) -> Experience:
    return Experience.from_jsonl(past_uses(load_scenario("one-world"), ExperienceSettings(uses=uses)))


def run(options: argparse.Namespace) -> None:
    _past(options.uses)  # collected once, before the processes look for it
    names, conditions = every(), list(product(BUDGETS, (True, False)))
    work = partial(played, conditions=conditions, episodes=options.episodes, uses=options.uses, seed=options.seed)
    with ProcessPoolExecutor(options.jobs, get_context("spawn")) as pool:
        figures = []
        for one, block in zip(names, pool.map(work, names), strict=True):
            figures.append(block)
            print(one.name, np.nanmean(block, axis=(0, 1)).round(3).tolist(), file=sys.stderr, flush=True)
    tasks = load_scenario("one-world").build().tasks
    numbers = tasks.numbers("test")
    kinds = [tasks[numbers[index % len(numbers)]].group for index in range(options.episodes)]
    write_report(report(Table(names, np.stack(figures), kinds, options.seed), conditions, options.episodes), options.json)


def show(seed: int) -> None:
    """Print an episode of each kind as an agent sees it, with its bill and its optimum."""
    env = costgym.make(CHAT, scenario="one-world", split="test")
    view, met = env.unwrapped, set()
    for number in view.numbers:
        kind = view.world.tasks[number].group
        if kind in met:
            continue
        met.add(kind)
        play(env, make_agent("catp-plan", CHAT), number, seed)
        episode, best = view.episode, view.optimum()
        print(f"== {kind}: {episode.task.query}\n   {len(episode.candidates)} functions on offer")
        for action, *entry in episode.log:
            if action == "finish":
                print(f"   finish: {entry[0] or '(gave up)'}")
        for call in episode.calls:
            text, arguments = episode.content(call)[:100], json.dumps(call.arguments)[:100]
            print(f"   {call.submitted_s:6.2f} s  {call.tool or '?'} {arguments} -> {call.status.label}: {text}")
        bill = {}
        for charge in episode.ledger:
            bill[charge.what] = bill.get(charge.what, 0.0) + charge.price
        print(
            "   bill:",
            ", ".join(f"{what} {price:.2f}" for what, price in bill.items()),
            f"= {episode.ledger.price:.2f} credits",
        )
        names = [episode.candidates[slot].name for slot in best.plan]
        print(f"   success: {view.succeeded}; optimum: {', '.join(names) or 'no call'} for {best.price:.2f} credits\n")


def try_out(count: int) -> None:
    """Print how many plays of tiny worlds were tried out beside the optimum, by kind, and in how many of them one beats it."""
    for kind in KINDS:
        document, tried, wrong = tiny_one_world(kind), 0, []
        for number in range(count):
            problem, plays = wrong_with(document, seed=number, task=2 + number % 40)
            tried += plays
            wrong += [problem] * bool(problem)
        print(f"{kind}: {count} queries, {tried:,} plays, optimum beaten in {len(wrong)}", *wrong[:3], flush=True)


def draw(source: Path, target: Path) -> None:
    """The main effect of each part on Quality of Plan by kind of query, and what the parts do together."""
    import matplotlib

    matplotlib.use("svg")
    import matplotlib.pyplot as plt
    from matplotlib.ticker import MultipleLocator

    whole = json.loads(source.read_text(encoding="utf-8"))
    effects = {row["part"]: row for row in whole["effects"] if row["figure"] == "quality"}
    together = [row for row in whole["interactions"] if row["figure"] == "quality"]
    together.sort(key=lambda row: abs(row["change"][0]))  # the largest on top
    plt.rcParams.update(STYLE)
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4.2), layout="constrained", width_ratios=(3, 2))
    colours = {
        "all": INK,
        "none": "#3f7fbf",
        "search": "#6bb1a3",
        "facts": "#c2592e",
        "vision": "#9467bd",
        "both": "#c9a227",
    }
    for number, (kind, colour) in enumerate(colours.items()):
        key = "all" if kind == "all" else f"kind {kind}"
        points = [effects[part][key] for part in PARTS]
        positions = [part + 0.13 * (number - 2.5) for part in range(len(PARTS))]
        reach = [[p[0] - p[1] for p in points], [p[2] - p[0] for p in points]]
        left.errorbar(
            positions,
            [p[0] for p in points],
            reach,
            fmt="o",
            color=colour,
            label=kind,
            markersize=5 if number else 7,
            capsize=2,
        )
    left.axhline(0, color=INK, linewidth=0.8)
    left.set_xticks(range(len(PARTS)), PARTS)
    left.set_ylabel("change of Quality of Plan")
    left.legend(frameon=False, fontsize=8, ncols=2, title="kind of query", loc="lower left")
    left.set_title("What each idea adds, beside all others", fontsize=10, loc="left")
    columns = range(len(together))
    changes = [row["change"] for row in together]
    right.errorbar(
        [c[0] for c in changes], list(columns), xerr=[[c[0] - c[1] for c in changes], [c[2] - c[0] for c in changes]],
        fmt="o", color=INK, capsize=2,
    )  # fmt: skip
    right.axvline(0, color=INK, linewidth=0.8)
    right.xaxis.set_major_locator(MultipleLocator(0.05))
    right.set_yticks(list(columns), [" × ".join(row["parts"]) for row in together], fontsize=8)
    right.set_xlabel("change of Quality of Plan")
    right.set_title("What two of them do beyond their sum", fontsize=10, loc="left")
    save(figure, target)


def tables(whole: dict[str, Any]) -> str:
    """The tables of a report in Markdown."""
    lines: list[str] = []
    say = lines.append
    digits_of = {"quality": 3, "success": 3, "cost": 2, "tool_cost": 2, "token_cost": 2, "seconds": 1, "calls": 2}

    def interval(values: list[float], digits: int) -> str:
        value, low, high = (f"{end:+.{digits}f}".replace("-", "−") for end in values)
        signless = values[1] >= 0
        return f"{value} ({low[1:]}–{high[1:]})" if signless else f"{value} ({low} to {high})"

    effects = {(row["part"], row["figure"]): row for row in whole["effects"]}
    shown = ("quality", "success", "tool_cost", "token_cost")
    say("| part | " + " | ".join(shown) + " |\n| --- |" + " --- |" * len(shown))
    for part in PARTS:
        say(f"| `{part}` | " + " | ".join(interval(effects[part, figure]["all"], digits_of[figure]) for figure in shown) + " |")
    figures = ("quality", "cost")
    say("\n| together | " + " | ".join(figures) + " |\n| --- |" + " --- |" * len(figures))
    changes = {(tuple(row["parts"]), row["figure"]): row["change"] for row in whole["interactions"]}
    for pair in (pair for pair, figure in changes if figure == "quality" and _is_clear(changes[pair, figure])):
        say(
            f"| {' × '.join(pair)} | "
            + " | ".join(interval(changes[pair, figure], digits_of[figure]) for figure in figures)
            + " |"
        )
    say("\n| part | claim | kind | alone | beside others |\n| --- | --- | --- | --- | --- |")
    for row in whole["claims"]:
        digits = digits_of.get(row["figure"], 0)
        say(f"| `{row['part']}` | {row['claim']} ({row['figure']}) | {row['kind']} | {interval(row['alone'], digits)} "
              f"| {interval(row['beside'], digits)} |")  # fmt: skip
    say("\n| agent | success | cost | cost per success | quality |\n" + "| --- " * 5 + "|")
    rows = [row for row in whole["rows"] if row["budget"] == 30.0 and row["cache"]]
    for row in sorted(rows, key=lambda row: -row["quality"][0])[:BEST]:
        per = "–" if row["cost_per_success"] is None else f"{row['cost_per_success']:.1f}"
        low, high = row["success"][1:]
        passes = f"{row['success'][0]:.2f} ({low:.2f}–{high:.2f})"
        say(f"| `{row['agent']}` | {passes} | {row['cost'][0]:.1f} | {per} | {row['quality'][0]:.3f} |")
    return "\n".join(lines)


def _is_clear(change: list[float]) -> bool:
    """Whether the interval of a change, which follows its mean, excludes zero."""
    return change[1] > 0 or change[2] < 0


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--episodes", type=int, default=400)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--uses", type=float, default=40.0, help="past uses of a tool, on average, that BTP plans from")
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--show", type=int, help="print an episode of each kind under this seed")
    parser.add_argument("--tiny", type=int, help="try out all short plays of so many queries of each kind beside the optimum")
    parser.add_argument("--draw", type=Path, nargs=2, help="the report, and the picture to be drawn of it")
    options = parser.parse_args()
    if options.show is not None:
        show(options.show)
    elif options.tiny:
        try_out(options.tiny)
    elif options.draw:
        draw(*options.draw)
    else:
        run(options)


if __name__ == "__main__":
    main()
