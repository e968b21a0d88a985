"""Rerun a submission: its agents play again, with seeds and in worlds that nobody could know when it was submitted.

The maintainer of a leaderboard draws a secret and publishes its hash, then the secret itself after the rerun, so that everybody
can check that seeds and worlds were not chosen afterwards. An agent that memorised the public ones does worse than claimed.

Nothing that reveals the seed or the world is written before the process of the last agent has ended. In the sandbox those
processes see no file but the interpreter, costgym and their own. Without it, rows of an agent's own code are not marked so.
"""

import json
import secrets
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from costgym.agents.custom import is_custom
from costgym.experiments.board.board import PageMaker, check_owner, experience_text, publish, summarise_run
from costgym.experiments.board.conditions import grouped, place_of
from costgym.experiments.board.reruns.comparison import RerunRow
from costgym.experiments.board.reruns.configuration import PLANS, WORLDS, rerun_config
from costgym.experiments.board.reruns.process_agent import ProcessAgent, unreadable_memory
from costgym.experiments.board.reruns.record import OUTCOMES, RECORD, Record, commitment_of_text, read_secret
from costgym.experiments.board.reruns.sandbox import BUBBLEWRAP, choose
from costgym.experiments.board.run_config import RowConfig, RunConfig, entry_of
from costgym.experiments.board.run_log import EpisodeOutput, RunLog, trajectory_path
from costgym.experiments.board.submissions.manifest import VoidReasons, manifest_digest
from costgym.experiments.board.submissions.validation import check_rerun, validate
from costgym.experiments.play.episodes import play_many
from costgym.experiments.play.results import EpisodeResult
from costgym.experiments.play.trajectories.format import Header
from costgym.simulators.errors import ConfigError, DataError
from costgym.simulators.files import make_folder, sole_writer, write_atomically

MAX_RECORDS_BYTES = 4 * 2**30
PASSES = 4  # processes, at least, that share a row of own code, so that none meets a task twice or many others


def new_secret(path: Path) -> str:
    """Draw a secret into a file that must not exist; returns its commitment, to be published at once."""
    if path.exists():
        raise ConfigError("--new-secret", f"{path} exists already; a secret is used once")
    secret = secrets.token_hex(32)
    write_atomically(path, secret + "\n")
    return commitment_of_text(secret)


def rerun(
    submission: str | Path,
    secret: Path,
    out: str | Path,
    commitment: str | None = None,
    code: Path | None = None,
    episodes: int | None = None,
    progress: Callable[[int, int], None] | None = None,
    outcomes: Path | None = None,
    pages: PageMaker | None = None,
    sandbox: str = "auto",
    worlds: int = WORLDS,
) -> list[RerunRow]:
    """Run the agents of a submission again, each in a process of its own, and compare their figures with what was claimed.

    The submission is replayed first: what it claims is what follows from its actions. Past uses of tools, which agents with BTP
    plan from, are collected again in the rerun's world.

    Seeds and worlds follow from the secret in a file (`-`: standard input), which must fit a published commitment. `code` is
    the folder of the submission's agent files; `outcomes` is a secret outcome table for vision planners, whose samples are
    public. `out` becomes a leaderboard run like any other. Raises ConfigError if the secret does not fit, nothing can be rerun
    or `out` belongs to another run, DataError if the submission differs from replay or an agent cannot be made.
    """
    kind = choose(sandbox)
    text = read_secret(secret)
    if commitment is not None and commitment_of_text(text) != commitment.strip().lower():
        raise ConfigError("--commitment", "the secret does not match the published hash")
    verdict = validate(submission)
    manifest = verdict.manifest
    if manifest is None or not verdict.verified:
        raise DataError(submission, "; ".join(verdict.problems[:3]))
    config = rerun_config(manifest, text, episodes, outcomes, worlds)
    folder = Path(out)
    make_folder(folder)
    check_owner(config.to_json(), folder)
    ended = (folder / "leaderboard.json").is_file()
    if (folder / "run.json").exists() and not ended:
        raise ConfigError("--out", f"{folder} holds an interrupted rerun, which reveals the seed; choose another folder")
    experience = experience_text(config, keep=False)  # a file of them would tell of the world
    with sole_writer(folder):
        with unreadable_memory(), _Spool() as outputs:
            for row in config.rows() if not ended else ():
                for output in _play(config, row, experience, code, kind):
                    outputs.add(output)
                    if progress is not None:
                        progress(outputs.count, config.episodes)
            # every agent's process has ended: from here on the seed may be told
            write_atomically(folder / "run.json", config.to_json())
            with RunLog(folder, config) as log:
                for output in outputs:
                    log.add(output)
                again = log.finish()
        record = Record(
            manifest=manifest_digest(manifest),
            secret=text,
            commitment=commitment_of_text(text),
            episodes=episodes,
            worlds=worlds,
            outcomes=None if outcomes is None else str(config.track(PLANS).scenario["outcomes"]),
            sandbox="bubblewrap" if kind == BUBBLEWRAP else "none",
            void=_voids(config, again),
        )
        if outcomes is not None:
            shutil.copyfile(outcomes, folder / OUTCOMES)
        write_atomically(folder / RECORD, record.to_json())
        publish(folder, summarise_run(config, again, experience), pages=pages)
    rows, problems = check_rerun(folder, verdict, manifest.run)
    if problems:
        raise DataError(folder, "; ".join(problems[:3]))
    return rows


def _voids(config: RunConfig, results: Sequence[EpisodeResult]) -> dict[str, VoidReasons]:
    """Why episodes are void, by the path of their row's file and their index."""
    paths = {row.place: trajectory_path(row) for row in config.rows()}
    found = grouped((each for each in results if each.void), lambda each: paths[place_of(each)])
    return {path: {each.episode: each.void_reason for each in voids} for path, voids in found.items()}


class _Spool:
    """Episodes of a rerun in a file without a name, which no other process can open while memory cannot be read."""

    def __init__(self) -> None:
        self._store = tempfile.TemporaryFile("w+", encoding="ascii")  # noqa: SIM115
        self.count = self._bytes = 0

    def __enter__(self) -> "_Spool":
        return self

    def __exit__(self, *exc: object) -> None:
        self._store.close()

    def add(self, output: EpisodeOutput) -> None:
        """Append an episode; raises DataError where all records together are longer than a rerun's may be."""
        self.count += 1
        self._bytes += self._store.write(json.dumps([output.result.to_json(), output.header, output.line]) + "\n")
        if self._bytes > MAX_RECORDS_BYTES:
            raise DataError("rerun", f"its records take more than {MAX_RECORDS_BYTES >> 20:,} MiB: its agents write too much")

    def __iter__(self) -> Iterator[EpisodeOutput]:
        self._store.seek(0)
        for text in self._store:
            result, header, line = json.loads(text)
            yield EpisodeOutput(EpisodeResult.from_json(result), header, line)


def _play(
    config: RunConfig, row: RowConfig, experience: str | None, code: Path | None, sandbox: str
) -> Iterator[EpisodeOutput]:
    """Play the episodes of a row with its agent in a process of its own, or in several that remember nothing of each other."""
    track = row.track
    env_id = track.env if is_custom(row.agent) else entry_of(row.agent, track.name).env_id
    env = track.make_env(env_id, row.condition)
    header = Header.of(env, env_id)
    first = header.to_json()
    count, passes = row.condition.episodes, max(PASSES, track.seeds) if is_custom(row.agent) else 1
    with ProcessAgent(row.agent, env_id, code, experience, config.search, config.btp, sandbox, config.model) as agent:
        agent.name = row.agent
        for first_index in range(passes):
            agent.renew()
            indices = range(first_index, count, passes)
            about = env, agent, env_id, indices, config.seed, row.condition.settings, track.seeds
            for result, trajectory in play_many(*about, crashes="count"):
                yield EpisodeOutput(result, first, None if trajectory is None else trajectory.sealed_json(header))
