"""The command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from .simulators.errors import ConfigError, CostGymError, UnknownName

app = typer.Typer(
    name="costgym",
    help="A simulated tool world, priced and failing like real APIs, for cost-aware agents.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

Seed = Annotated[int, typer.Option("--seed", help="Same seed, same bytes.")]
Quiet = Annotated[bool, typer.Option("--quiet", help="No progress bar, no table.")]
JsonFile = Annotated[Path | None, typer.Option("--json", metavar="FILE", help="Also write the figures as JSON.")]
ScenarioName = Annotated[
    str | None, typer.Option("--scenario", metavar="NAME|FILE", help="A scenario of `costgym scenarios`, or a YAML file.")
]
Data = Annotated[Path | None, typer.Option("--data", metavar="DIR", help="Folder that a ToolBench scenario reads.")]
Split = Annotated[str, typer.Option("--split", help="train or test.")]
BudgetText = Annotated[
    str | None, typer.Option("--budgets", "--budget", metavar="LIMITS", help="price=10,20,40 or price=20;seconds=60")
]
Grading = Annotated[str, typer.Option("--grading", help="What counts as a pass: strict (every fact) or judge (lenient).")]


def main() -> None:
    """Entry point: an error of ours is one line on standard error and exit status 2."""
    try:
        app()
    except CostGymError as error:
        typer.echo(f"error: {error}", err=True)
        raise SystemExit(2) from None


@app.command()
def leaderboard(
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="Folder of the run; the same folder continues it.")] = Path(
        "leaderboard"
    ),
    suite: Annotated[str, typer.Option("--suite", help="What to run.")] = "quick",
    scenario: ScenarioName = None,
    data: Data = None,
    agents: Annotated[str | None, typer.Option("--agents", metavar="A,B,...", help="Instead of the suite's.")] = None,
    budgets: BudgetText = None,
    episodes: Annotated[int | None, typer.Option("--episodes", help="Tasks per agent and budget.")] = None,
    split: Split = "test",
    grading: Grading = "strict",
    seed: Seed = 0,
    model: Annotated[str, typer.Option("--model", help="Language model behind the agents that need one.")] = "simulated",
    jobs: Annotated[
        int | None, typer.Option("--jobs", help="Processes; all processors by default. Results do not depend on it.")
    ] = None,
    json_file: JsonFile = None,
    quiet: Quiet = False,
) -> None:
    """Rank agents under budgets: a table, leaderboard.json and a page."""
    from .experiments.files import write_atomically
    from .experiments.leaderboard import default_jobs, make_plan, run
    from .experiments.table import print_table

    plan = make_plan(suite, scenario, data, _names(agents), budgets, episodes, split, grading, seed, model)
    with _Progress("playing", quiet) as progress:
        board = run(plan, out, default_jobs() if jobs is None else jobs, progress.update)
    if json_file is not None:
        write_atomically(json_file, json.dumps(board.document, indent=1, ensure_ascii=False) + "\n")
    if not quiet:
        print_table(board.document, _console())
        typer.echo(f"page: {board.page.resolve()}")


def _plan_leaderboard(
    out: Path,
    agents: list[str] | None,
    alpha: str,
    split: str,
    profile: str,
    episodes: int | None,
    seed: int,
    model: str,
    json_file: Path | None,
    quiet: bool,
) -> None:
    """The suite `opencatp`: planners, not players."""
    from .experiments.files import write_atomically
    from .experiments.plans import plan_run, print_plans
    from .experiments.plans import run as run_plans

    try:
        weights = tuple(float(value) for value in alpha.split(","))
    except ValueError:
        raise ConfigError("--alpha", f"expected numbers, got {alpha!r}; for example 0.3,0.5,0.7") from None
    with _Progress("planning", quiet) as progress:
        board = run_plans(plan_run(agents, weights, split, profile, episodes, seed, model), out, progress.update)
    if json_file is not None:
        write_atomically(json_file, json.dumps(board.document, indent=1) + "\n")
    if not quiet:
        print_plans(board.document, _console())
        typer.echo(f"page: {board.page.resolve()}")


@app.command()
def run(
    agent: Annotated[str, typer.Option("--agent", help="An agent of `costgym agents`.")],
    env: Annotated[
        str | None, typer.Option("--env", help="An environment of `costgym envs`; the agent's own by default.")
    ] = None,
    scenario: ScenarioName = None,
    data: Data = None,
    budget: BudgetText = None,
    episodes: Annotated[int, typer.Option("--episodes", help="How many.")] = 100,
    split: Split = "test",
    grading: Grading = "strict",
    enforcement: Annotated[
        str, typer.Option("--enforcement", help="refuse, terminate or record what passes the budget.")
    ] = "terminate",
    seed: Seed = 0,
    model: Annotated[str, typer.Option("--model", help="Language model behind the agent, if it needs one.")] = "simulated",
    json_file: JsonFile = None,
    quiet: Quiet = False,
) -> None:
    """Play one agent in one environment and sum up."""
    from .experiments.files import write_atomically
    from .experiments.metrics import summarise
    from .experiments.rollouts import rollout

    player, world = _player(agent, env, scenario, data, budget, split, grading, enforcement, seed, model)
    if episodes < 1:
        raise ConfigError("--episodes", f"expected a positive whole number, got {episodes}")
    with _Progress(f"playing {agent}", quiet) as progress:
        results = rollout(world, player, episodes, seed, lambda done: progress.update(done, episodes))
    row = summarise(results, grading, seed=seed)
    if json_file is not None:
        write_atomically(json_file, json.dumps(row, indent=1) + "\n")
    if not quiet:
        for name in _SUMMARY:
            interval = row["ci95"].get(name)
            value = row[name]
            if value is not None:
                typer.echo(f"{name:32} {value:10.4f}" + (f"  [{interval[0]:.4f}, {interval[1]:.4f}]" if interval else ""))


_SUMMARY = (
    "pass_rate",
    "pass_rate_under_budget",
    "judged_pass_rate",
    "judged_pass_rate_under_budget",
    "average_cost",
    "budget_failure_rate",
    "quality_of_plan",
    "regret",
    "average_seconds",
    "average_tokens",
    "agent_error_rate",
    "tool_error_rate",
    "infrastructure_error_rate",
)


@app.command()
def show(
    agent: Annotated[str, typer.Option("--agent", help="Who plays.")] = "react",
    env: Annotated[str | None, typer.Option("--env", help="Where; the agent's own environment by default.")] = None,
    task: Annotated[int, typer.Option("--task", help="Number of the task within the split.")] = 0,
    scenario: ScenarioName = None,
    data: Data = None,
    budget: BudgetText = None,
    split: Split = "test",
    enforcement: Annotated[
        str, typer.Option("--enforcement", help="refuse, terminate or record what passes the budget.")
    ] = "terminate",
    seed: Seed = 0,
    model: Annotated[str, typer.Option("--model", help="Language model behind the agent, if it needs one.")] = "simulated",
    format: Annotated[str, typer.Option("--format", help="text, png or html.")] = "text",
    out: Annotated[Path | None, typer.Option("--out", metavar="FILE", help="Where png and html go.")] = None,
) -> None:
    """One episode as a Gantt chart of its calls."""
    from .envs.render import episode_html, episode_image, episode_text
    from .experiments.files import write_atomically
    from .experiments.rollouts import play

    if format not in ("text", "png", "html"):
        raise UnknownName("format", format, ("text", "png", "html"))
    player, world = _player(agent, env, scenario, data, budget, split, "strict", enforcement, seed, model)
    numbers = world.unwrapped.numbers
    if not 0 <= task < len(numbers):
        raise ConfigError("--task", f"expected a number from 0 to {len(numbers) - 1}, got {task}")
    episode = play(world, player, numbers[task], seed)
    if format == "text":
        typer.echo(episode_text(episode))
        return
    path = out or Path(f"episode-{task}.{format}")
    if format == "html":
        write_atomically(path, episode_html(episode))
    else:
        from PIL import Image

        Image.fromarray(episode_image(episode)).save(path)
    typer.echo(str(path))


@app.command()
def collect(
    agent: Annotated[str, typer.Option("--agent", help="Who plays.")],
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="Folder of the collection; the same folder continues it.")],
    scenario: ScenarioName = None,
    data: Data = None,
    budget: BudgetText = None,
    episodes: Annotated[int, typer.Option("--episodes", help="How many.")] = 100,
    split: Split = "train",
    grading: Grading = "strict",
    enforcement: Annotated[
        str, typer.Option("--enforcement", help="refuse, terminate or record what passes the budget.")
    ] = "terminate",
    seed: Seed = 0,
    model: Annotated[str, typer.Option("--model", help="Language model behind the agent, if it needs one.")] = "simulated",
    quiet: Quiet = False,
) -> None:
    """Record an agent's episodes; a kill loses at most the one in flight."""
    from .experiments.collect import collect as record_episodes

    player, world = _player(agent, None, scenario, data, budget, split, grading, enforcement, seed, model)
    with _Progress(f"recording {agent}", quiet) as progress:
        path = record_episodes(world, player, episodes, out, seed, progress.update)
    if not quiet:
        typer.echo(str(path))


@app.command()
def verify(
    path: Annotated[Path, typer.Argument(help="A trajectory file, or the folder of a collection.")],
    data: Data = None,
    quiet: Quiet = False,
) -> None:
    """Replay recorded episodes and re-derive every figure."""
    from .experiments.verify import verify as replay_all

    verdict = replay_all(path, None if data is None else str(data))
    for problem in verdict.problems[:20]:
        typer.echo(problem, err=True)
    if len(verdict.problems) > 20:
        typer.echo(f"... and {len(verdict.problems) - 20} more", err=True)
    if not quiet:
        typer.echo(f"{verdict.path}: {verdict.episodes} episodes verified, {len(verdict.problems)} problems")
    if not verdict.verified:
        raise typer.Exit(1)


@app.command()
def envs(json_file: JsonFile = None) -> None:
    """The environments there are."""
    from . import ENV_IDS
    from .envs.registration import describe

    _list([{"id": name, "what": describe(name)} for name in ENV_IDS], json_file)


@app.command()
def agents(json_file: JsonFile = None) -> None:
    """The agents there are."""
    from .agents.registry import agents as all_agents

    _list([{"name": entry.name, "env": entry.env_id, "what": entry.summary} for entry in all_agents()], json_file)


@app.command()
def scenarios(json_file: JsonFile = None) -> None:
    """The scenarios that come with the package."""
    from .simulators.scenario import load_scenario, scenario_names

    found = [load_scenario(name) for name in scenario_names()]
    _list([{"name": scenario.name, "description": scenario.description} for scenario in found], json_file)


@app.command()
def bench(
    steps: Annotated[int, typer.Option("--steps", help="Steps of each measurement.")] = 50_000,
    seed: Seed = 0,
    json_file: JsonFile = None,
    quiet: Quiet = False,
) -> None:
    """Steps per second, beside Gymnasium's CartPole in the same run."""
    from .experiments.bench import measure, print_bench
    from .experiments.files import write_atomically

    if steps < 1000:
        raise ConfigError("--steps", f"expected at least 1000, got {steps}")
    report = measure(steps, seed)
    if json_file is not None:
        write_atomically(json_file, json.dumps(report, indent=1) + "\n")
    if not quiet:
        print_bench(report, _console())


def _player(
    agent: str,
    env: str | None,
    scenario: str | None,
    data: Path | None,
    budget: str | None,
    split: str,
    grading: str,
    enforcement: str,
    seed: int,
    model: str,
) -> tuple[Any, Any]:
    """An agent and its environment."""
    from .agents.experience import collect_experience
    from .agents.registry import make_agent, needs_experience
    from .envs.registration import make
    from .simulators.ledger import Budget
    from .simulators.scenario import load_scenario

    if seed < 0:
        raise ConfigError("--seed", f"expected a whole number of at least 0, got {seed}")
    limits = None
    if budget is not None:
        parsed = Budget.parse(budget)
        if len(parsed) > 1:
            raise ConfigError("--budget", f"expected one limit per resource, got {budget!r}")
        limits = parsed[0].as_dict()
    settings = load_scenario(scenario or "marketplace", data)
    experience = collect_experience(settings, episodes=400, seed=seed) if needs_experience(agent) else None
    player = make_agent(agent, model=model, experience=experience)
    env_id = env or player.env_id
    if env_id != player.env_id:
        raise ConfigError("--env", f"{agent} plays in {player.env_id}, not in {env_id}")
    world = make(
        env_id,
        scenario=settings,
        split=split,
        budget=limits,
        grading=grading,
        enforcement=enforcement,
        max_steps=400,
        disable_env_checker=True,
    )
    return player, world


def _names(text: str | None) -> list[str] | None:
    return None if text is None else [name.strip() for name in text.split(",") if name.strip()]


def _list(rows: list[dict[str, str]], json_file: Path | None) -> None:
    from rich.table import Table

    from .experiments.files import write_atomically

    if json_file is not None:
        write_atomically(json_file, json.dumps(rows, indent=1, ensure_ascii=False) + "\n")
    table = Table(box=None, pad_edge=False)
    for column in rows[0]:
        table.add_column(column, no_wrap=column == next(iter(rows[0])))
    for row in rows:
        table.add_row(*row.values())
    _console().print(table)


def _console() -> Any:
    from rich.console import Console

    return Console()


class _Progress:
    """A progress bar on standard error, or nothing."""

    def __init__(self, what: str, quiet: bool) -> None:
        self._what, self._quiet = what, quiet

    def __enter__(self) -> _Progress:
        if not self._quiet:
            from rich.console import Console
            from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

            columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
            self._bar = Progress(*columns, console=Console(stderr=True))
            self._task = self._bar.add_task(self._what, total=None)
            self._bar.start()
        return self

    def update(self, done: int, total: int) -> None:
        if not self._quiet:
            self._bar.update(self._task, completed=done, total=total)

    def __exit__(self, *exc: object) -> None:
        if not self._quiet:
            self._bar.stop()
