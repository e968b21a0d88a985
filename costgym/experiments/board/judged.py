"""A model's verdicts on the chat agents' answers of a run, in `verdicts.jsonl` beside the episodes.

What a judge says cannot be replayed, so no grade, rank or record follows from it: its figures are columns of their own.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from costgym.agents.base import TEXT, view_of
from costgym.experiments.board.conditions import row_of
from costgym.experiments.board.run_config import RunConfig
from costgym.experiments.board.run_log import trajectory_path
from costgym.experiments.play.execution.concurrent import CONCURRENCY, engine_for
from costgym.experiments.play.judging.verdicts import PROMPT_DIGEST, VOID, ModelJudge, Recording, Verdicts, ask
from costgym.experiments.play.metrics import JUDGE_FIGURES
from costgym.experiments.play.results import EpisodeResult
from costgym.experiments.play.trajectories.format import parse_trajectory
from costgym.simulators.errors import ConfigError
from costgym.simulators.files import LineFile, iter_lines

VERDICTS = "verdicts.jsonl"


class JudgeOptions(NamedTuple):
    """The judge of a run's answers."""

    model: str  # its name
    prices: str | Path | None = None  # table of its tokens' prices; None for the package's
    limit_usd: float | None = None  # the most that it may cost; None for no limit
    concurrency: int = CONCURRENCY  # requests to a model server at once


def judge_run(
    folder: Path, config: RunConfig, judge: JudgeOptions, progress: Callable[[int, int], None] | None = None
) -> Verdicts:
    """Ask for the verdicts that a run lacks; void ones are asked for again. Raises ConfigError if another judge or other
    prompts have judged it, or no chat agent has an answer, SpendLimitReached at the limit; what was judged is kept."""
    path = folder / VERDICTS
    fresh = Verdicts.of(judge.model, judge.prices)
    verdicts = Verdicts.read(path) or fresh
    verdicts.prices = fresh.prices or verdicts.prices
    if (verdicts.judge, verdicts.prompt) != (judge.model, PROMPT_DIGEST):
        other = "with other prompts" if verdicts.judge == judge.model else f"by {verdicts.judge}"
        raise ConfigError("--judge", f"{path} holds verdicts {other}; move that file away to judge this run again")
    left = list(_recordings(folder, config, verdicts))
    model = ModelJudge(judge.model)
    verdicts.write(path)  # whole lines, for a kill may have left half of one
    store = LineFile(path)
    try:
        answers = ask(model, left, engine_for(judge.model, 1, judge.concurrency), verdicts, store, judge.limit_usd)
        for done, _ in enumerate(answers, 1):
            if progress is not None:
                progress(done, len(left))
    finally:
        store.close()
    verdicts.write(path)
    return verdicts


def _recordings(folder: Path, config: RunConfig, verdicts: Verdicts) -> Iterator[Recording]:
    """The recorded episodes of chat agents that have no verdict, or a void one."""
    judged = {key for key, verdict in verdicts.by_episode.items() if verdict.verdict != VOID}
    chats = [row for row in config.rows() if view_of(row.track.env) == TEXT]
    if not chats:
        raise ConfigError("--judge", "expected a run with chat agents, whose answers are texts")
    for row in chats:
        path = folder / trajectory_path(row)
        lines = iter_lines(path) if path.is_file() else iter(())
        header = next(lines, "")
        for number, line in enumerate(lines, 2):
            recorded = parse_trajectory(line, path, number)
            key = _key(row.identity, recorded.episode)
            if key not in judged:
                yield Recording(key, header, line, path, row.track.data)


def _key(row_key: tuple[str, str, str], episode: int) -> str:
    return " ".join((*row_key, str(episode)))


def with_verdicts(results: Iterable[EpisodeResult], verdicts: Verdicts | None) -> list[EpisodeResult]:
    """A run's results with the judge's figures, in memory alone."""
    if verdicts is None:
        return list(results)
    return [verdicts.added_to(result, _key(row_of(result), result.episode)) for result in results]


def without_verdicts(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row without a judge's figures, as it is handed in: they do not follow from what was recorded."""
    ends = {name: value for name, value in row["ci95"].items() if name not in JUDGE_FIGURES}
    return {**{name: value for name, value in row.items() if name not in JUDGE_FIGURES}, "ci95": ends}
