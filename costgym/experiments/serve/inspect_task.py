"""The marketplace as a task of Inspect AI: `inspect eval costgym/marketplace --model openai/gpt-4o-mini`.

A sample is a task and a seed. Its tools are the task's candidates, it ends when a limit is passed, and the world scores it.
`cost_limit` and Inspect's other limits are about the model's own tokens and apply as usual.

Source: Inspect AI 0.3.285, tasks, agents and scorers.
"""

from typing import Any

from inspect_ai import Task, task
from inspect_ai.agent import AgentPrompt, AgentState, AgentSubmit, react
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.scorer import Metric, SampleScore, Score, Scorer, Target, mean, metric, scorer, stderr
from inspect_ai.solver import Generate, Solver, TaskState, solver
from inspect_ai.tool import Tool, ToolDef, ToolError, ToolParams
from inspect_ai.util import store

from costgym.agents.models.base import FINISH, Function
from costgym.agents.prompts import INSTRUCTIONS
from costgym.agents.registry import make_agent
from costgym.experiments.play.text_episode import ENV_ID, ToolEpisode, ToolFailure, task_rows
from costgym.simulators.errors import CostGymError

KEY = "costgym_episode"  # where a sample's store holds the id of its episode
_EPISODES: dict[str, ToolEpisode] = {}  # of the samples that are being played, by the sample's id


@task  # type: ignore[untyped-decorator]
def marketplace(
    scenario: str = "marketplace",
    split: str = "test",
    tasks: int = 100,
    budget: str = "price=20",
    seed: int = 0,
    cost_limit: float | None = None,
    documents: str = "full",
) -> Task:
    """Answer queries with priced tools that may fail.

    Args:
        scenario: a name of `costgym scenarios`, or a YAML file.
        split: of the tasks.
        tasks: number of tasks from the start of the split.
        budget: limits of the world's resources, such as `price=20;seconds=60`.
        seed: keys the world's chance.
        cost_limit: US dollars that the model's own tokens may cost in a sample; needs Inspect's model costs.
        documents: `full` or `short` documentation of the tools.
    """
    rows = task_rows(scenario, split, tasks)
    samples = [Sample(input=row["query"], id=row["id"], metadata={"task": row["task"], "seed": seed}) for row in rows]

    @solver  # type: ignore[untyped-decorator]
    def open_episode() -> Solver:
        async def solve(state: TaskState, generate: Generate) -> TaskState:
            settings: dict[str, Any] = {"split": split, "documents": documents}
            episode = ToolEpisode(state.metadata["task"], state.metadata["seed"], scenario, budget, **settings)
            _EPISODES[state.uuid] = episode
            store().set(KEY, state.uuid)
            state.tools = _tools(episode)
            return state

        return solve

    return Task(
        dataset=MemoryDataset(samples, name=f"costgym-{scenario}-{split}"),
        setup=open_episode(),
        solver=react(
            prompt=AgentPrompt(instructions=INSTRUCTIONS, assistant_prompt=None, submit_prompt=None),
            tools=[_Candidates()],
            submit=AgentSubmit(name=FINISH.name, description=FINISH.description, answer_only=True),
            on_continue=_goes_on,
        ),
        cleanup=_close,
        scorer=world(),
        cost_limit=cost_limit,
        turn_limit=64,
        metadata={"budget": budget, "scenario": scenario, "split": split},
    )


@solver  # type: ignore[untyped-decorator]
def agent(name: str = "react") -> Solver:
    """Play the samples with an agent of the text view, so that a log has a baseline: `--solver costgym/agent -S name=react`;
    agents that need past uses are not among them."""

    async def solve(state: TaskState, generate: Generate) -> TaskState:
        _playing().play(make_agent(name, ENV_ID))
        return state

    return solve


@metric  # type: ignore[untyped-decorator]
def cost_per_success() -> Metric:
    """Price of all samples over the number of successes; NaN without one."""

    def measure(scores: list[SampleScore]) -> float:
        values: list[Any] = [score.score.value for score in scores]
        passed = sum(value["success"] for value in values)
        return float(sum(value["price"] for value in values) / passed) if passed else float("nan")

    return measure


@scorer(metrics=[{"success": [mean(), stderr()], "*": [mean()]}, cost_per_success()])  # type: ignore[untyped-decorator]
def world() -> Scorer:
    """Score a sample as the world grades its episode."""

    async def score(state: TaskState, target: Target) -> Score:
        episode = _EPISODES[state.uuid]
        episode.finish(state.output.completion, give_up=not state.output.completion)
        figures = episode.score()
        # Inspect wants the same figures of every sample, and a task that cannot be solved has no optimum
        optimum = figures.pop("optimum_price", None)
        about = {"exceeded": episode.exceeded, "task": state.sample_id, "optimum_price": optimum}
        return Score(value=dict(figures), answer=state.output.completion, metadata=about)

    return score


class _Candidates:
    """The tools of the sample that is being played."""

    async def tools(self) -> list[Tool]:
        return _tools(_playing())[:-1]  # `react` brings its own `finish`


async def _close(state: TaskState) -> None:
    _EPISODES.pop(state.uuid, None)


def _playing() -> ToolEpisode:
    """The episode of the sample that is being played."""
    return _EPISODES[store().get(KEY)]


async def _goes_on(state: AgentState) -> bool:
    return not _playing().over


def _tools(episode: ToolEpisode) -> list[Tool]:
    """The functions of an episode as tools of Inspect; a failed call, or one after the end, is an error of the tool."""

    def tool(function: Function) -> Tool:
        async def execute(**arguments: Any) -> str:
            try:
                return episode.ask(function.name, arguments)
            except (ToolFailure, CostGymError) as error:
                raise ToolError(str(error)) from error

        parameters = ToolParams.model_validate({"properties": {}, "required": [], **function.parameters})
        return ToolDef(execute, function.name, function.description, parameters, parallel=False).as_tool()

    return [tool(function) for function in episode.functions]
