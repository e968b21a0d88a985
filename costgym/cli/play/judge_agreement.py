"""`costgym judge-agreement`: compare a model's verdicts with strict grading."""

from pathlib import Path
from typing import Annotated, Any

import typer

from costgym.cli.options import EXISTS, JsonFile, ModelOptions, Quiet
from costgym.cli.output import Progress, harmless, prints, save_json
from costgym.experiments.play.options import Data, JudgeModel, JudgePrices, Seed
from costgym.simulators.bounds import Count, argument, option
from costgym.simulators.errors import ConfigError

CELLS = ("both_pass", "judge_alone", "strict_alone", "both_fail")
MAX_SHOWN = 5  # disagreements in the terminal; --json has all


def judge_agreement(
    recordings: Annotated[Path, EXISTS, argument("Trajectory file, or a folder of a run, a collection or a submission.")],
    judge: JudgeModel = None,
    judge_prices: JudgePrices = None,
    episodes: Annotated[Count | None, option("Episodes of each file, from its start; all by default.")] = None,
    data: Data = None,
    cache: Annotated[Path | None, option("Cache of the judge's replies.", "DIR")] = None,
    concurrency: Annotated[Count, option("Requests to a model server at once.")] = 8,
    seed: Seed = 0,
    json_file: JsonFile = None,
    quiet: Quiet = False,
) -> None:
    """Measure a model that judges answers against strict grading, on recorded episodes of chat agents.

    Example: `costgym judge-agreement my-board --judge openai:gpt-4o-2024-08-06 --json agreement.json`
    """
    from costgym.experiments.play.execution.concurrent import engine_for
    from costgym.experiments.play.judging.agreement import agreement_document
    from costgym.experiments.play.judging.verdicts import ModelJudge, Verdicts, ask, recordings_in

    if judge is None:
        raise ConfigError("--judge", "expected the model that judges, such as openai:NAME or local:FOLDER")
    ModelOptions(model=judge, cache=cache).keep_replies()
    model, verdicts = ModelJudge(judge), Verdicts.of(judge, judge_prices)
    played = list(recordings_in(recordings, episodes, data))
    judged = []
    with Progress("judging", quiet) as progress:
        for judgement in ask(model, played, engine_for(judge, 1, concurrency), verdicts):
            judged.append(judgement)
            progress.update(len(judged), len(played))
    document: dict[str, Any] = {**verdicts.document(), **agreement_document(judged, seed)}
    save_json(json_file, document)
    if prints(quiet, json_file):
        _print(document)


def _print(document: dict[str, Any]) -> None:
    def span(name: str, side: dict[str, Any]) -> str:
        value, ends = side[name], side[f"{name}_ci95"]
        return "–" if value is None else f"{value:.3f} ({ends[0]:.3f}–{ends[1]:.3f})"

    for name, side in {document["model"]: document["judge"], "seeded stand-in": document["stand_in"]}.items():
        cells = ", ".join(f"{cell.replace('_', ' ')} {side[cell]}" for cell in CELLS)
        typer.echo(f"{name}: agreement {span('agreement', side)}, Cohen's kappa {span('kappa', side)}; {cells}")
    cost = "tokens of unknown price" if document["usd"] is None else f"${document['usd']:.4f}"
    typer.echo(
        f"{document['judge']['answers']} answers compared with strict grading; beside them {document['without_answer']} "
        f"episodes without an answer, {document['void']} void verdicts. {document['unparsable']} verdicts "
        f"are unparsable and count as no pass. {document['input_tokens'] + document['output_tokens']:,} tokens, {cost}"
    )
    different = document["disagreements"]
    for case in different[:MAX_SHOWN]:
        typer.echo(
            harmless(
                f"\n{case['key']}: strict {'passes' if case['strict'] else 'fails'}, judge: {case['verdict']}\n"
                f"  facts   {'; '.join(case['facts'])}\n  answer  {case['answer']!r:.200}\n  judge   {case['reply']!r:.200}"
            )
        )
    if len(different) > MAX_SHOWN:
        typer.echo(f"\n{len(different) - MAX_SHOWN} more disagreements; --json FILE lists all")
