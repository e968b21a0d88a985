"""Count how often honest entries are refused, raise an alarm or have their claim refuted, by resampling recorded episodes.

    python benchmarks/hostile/honest_entries.py [entries] [--worlds N] [--keep FOLDER] [--json FILE]

Every honest agent of the default suite that needs no past uses (BTP collects them for minutes) plays the suite's episodes in
each of N generated worlds; plans have one. All of it is packed and verified: an entry that is refused shows here. Then

* entries are resampled: an agent of each track, as many tasks as the suite plays, drawn with replacement over all worlds, each
  with all of its episodes; the alarms are counted for each row;
* claims are resampled: each agent's row of one world as the claim, three other worlds as its rerun;
* the spread between worlds that the references leave is estimated, for `equivalence.WORLD_SD`: of each agent the variance of
  its adjusted means over the worlds less that of its episodes, pooled by precision, with an agent left out of its references.
"""

from __future__ import annotations

import argparse
import json
import random
import time
from collections import Counter, defaultdict
from pathlib import Path
from tempfile import mkdtemp

import numpy as np

from costgym.experiments.board.reruns.equivalence import LEVEL, WORLD_SD, WorldSide, adjusted, gap_of
from costgym.experiments.board.reruns.references import REFERENCES, columns, play_informed, play_references, value_of
from costgym.experiments.board.run_config import RunConfig, make_run_config
from costgym.experiments.board.submissions.alarms import Played, alarms, foresight_of, total
from costgym.experiments.board.submissions.submission import pack, validate
from costgym.experiments.board.tracks import track_of
from costgym.experiments.leaderboard import run
from costgym.experiments.play.results import EpisodeResult
from costgym.experiments.play.statistics import wilson

BOUNDS = ("oracle", "+btp", "zoo:deer", "zoo:catp")  # and agents that need transformers
TRACKS = ("text", "numbers", "decisions", "plans")


def in_world(number: int) -> RunConfig:
    """The default suite's honest agents in a world of their own; 0 is the public one."""
    config = make_run_config("quick", play_zoo=True)
    tracks = []
    for track in config.tracks:
        agents = tuple(name for name in track.agents if not any(each in name for each in BOUNDS))
        track = track.model_copy(update={"agents": agents})
        if track.name in ("text", "numbers"):
            track = track.model_copy(
                update={"conditions": tuple(each for each in track.conditions if each.budget["price"] == 30)}
            )
        world = track.world.another({}, 1000 + number) if number else track.world
        if track.name in TRACKS and world is not None:
            tracks.append(track.model_copy(update={"scenario": dict(world.document), "digest": world.digest}))
    played = {name for track in tracks for name in track.agents}
    weights = {name: digest for name, digest in config.weights.items() if name in played}
    return config.model_copy(update={"tracks": tuple(tracks), "seed": 77 * number, "weights": weights, "experience": None})


def shares(counts: Counter[str], of: int) -> dict[str, object]:
    return {name: {"count": n, "of": of, "share": n / of, "ci95": wilson(n / of, of)} for name, n in sorted(counts.items())}


def main() -> None:
    parser = argparse.ArgumentParser(description="Honest entries, resampled.")
    parser.add_argument("entries", nargs="?", type=int, default=3000)
    parser.add_argument("--worlds", type=int, default=8)
    parser.add_argument("--keep", type=Path, help="folder of the worlds that were played; continued")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    started, folder = time.process_time(), arguments.keep or Path(mkdtemp())
    played: dict[tuple[str, str], dict[int, list[Played]]] = defaultdict(lambda: defaultdict(list))
    informed: dict[tuple[str, str, int], dict[int, EpisodeResult]] = {}
    references: dict[tuple[str, str, int], list[list[EpisodeResult]]] = {}
    configs, refused, rang = {}, 0, Counter[str]()
    for number in range(arguments.worlds):
        config = configs[number] = in_world(number)
        board = run(config, folder / f"board-{number}").folder
        if not (folder / f"packed-{number}").exists():
            pack(board, folder / f"packed-{number}", f"World {number}", "a@example.org")
        verdict = validate(folder / f"packed-{number}")
        refused += not verdict.verified
        for row, said in zip(verdict.rows, verdict.alarms, strict=True):
            rang.update(f"{row['track']} {row['agent']}: {each}" for each in said)
        for track in config.tracks:
            for each in track.conditions:
                key = track.name, json.dumps(each.settings), number
                informed[key] = play_informed(track, each, config.seed)
                references[key] = play_references(track, each, config.seed)
        for episode in verdict.played:
            result = episode.result
            name = f"{result.agent} {json.dumps(dict(result.settings))}"
            played[track_of(result.env, result.settings), name][number].append(episode)
        print(f"world {number}: {time.process_time() - started:.0f} s, {refused} refused, {dict(rang)}", flush=True)
    draw = random.Random(0)
    found: dict[str, object] = {
        "entries": arguments.entries,
        "worlds": arguments.worlds,
        "played rows": sum(map(len, played.values())),
        "refused": refused,
        "alarms of played rows": dict(rang),
    }
    by_track = {track: sorted(name for of, name in played if of == track) for track in TRACKS}
    found["resampled"] = {}
    for track, names in by_track.items():
        seeds, counts, largest = configs[0].track(track).seeds, Counter[str](), 0.0
        for _ in range(arguments.entries):
            worlds = played[track, draw.choice(names)]
            tasks: dict[tuple[int, int], list[Played]] = defaultdict(list)
            for number, episodes in worlds.items():
                for episode in episodes:
                    tasks[number, episode.result.episode // seeds].append(episode)
            drawn = draw.choices(sorted(tasks), k=len(tasks) // len(worlds))
            signs, results, beside = [], [], {}
            for place, key in enumerate(drawn):
                for index, episode in enumerate(tasks[key]):
                    settings = json.dumps(dict(episode.result.settings))
                    other = informed[track, settings, key[0]].get(episode.result.episode)
                    at = place * seeds + index
                    results.append(_moved(episode.result, at))
                    if other is not None:
                        beside[at] = other
                    own = frozenset({str(place)})
                    signs.append(episode.signs._replace(tasks=own, flawed=own if episode.signs.flawed else frozenset()))
            gain = foresight_of(results, beside, seeds)
            largest = max(largest, gain.z)
            counts.update({_kind(sentence) for sentence in alarms(total(signs), track, gain)})
        found["resampled"][track] = {"alarms": shares(counts, arguments.entries), "largest z above the informed": largest}  # type: ignore[index]
    found["claims"] = {
        track: claims(played, references, configs, track, names, draw) for track, names in by_track.items() if track != "plans"
    }
    found["processor_seconds"] = round(time.process_time() - started, 1)
    print(json.dumps(found, indent=1))
    if arguments.json is not None:
        arguments.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


def _moved(result: EpisodeResult, index: int) -> EpisodeResult:
    from dataclasses import replace

    return replace(result, episode=index)


def _kind(sentence: str) -> str:
    """The alarm that a sentence is of."""
    kinds = ("better than the optimum", "knows every tool", "correct facts", "first calls worked", "tasks have no flaw")
    return next(kind for kind in kinds if kind in sentence)


def claims(
    played: dict[tuple[str, str], dict[int, list[Played]]],
    references: dict[tuple[str, str, int], list[list[EpisodeResult]]],
    configs: dict[int, RunConfig],
    track: str,
    names: list[str],
    draw: random.Random,
) -> dict[str, object]:
    """Verdicts on honest claims: every agent, each world as the claim, ten draws of three others as its rerun."""
    config = configs[0].track(track)
    words, by_agent, apart = Counter[str](), {}, []
    for name in names:
        sides = {}
        for number, episodes in played[track, name].items():
            results = [episode.result for episode in episodes]
            settings = json.dumps(dict(results[0].settings))
            sides[number] = WorldSide(
                np.array([value_of(result, config.ranked_by) for result in results]),
                columns(results, references[track, settings, number], config.ranked_by),
                np.array([result.episode // config.seeds for result in results]),
            )
        apart.append(_spread(list(sides.values()), name.partition(" ")[0], track))
        own = Counter[str]()
        for number in sides:
            for _ in range(10):
                others = draw.sample([each for each in sides if each != number], 3)
                gap = gap_of(sides[number], [sides[each] for each in others], WORLD_SD[track], True)
                own["confirmed" if gap.confirmed else "refuted" if gap.p_value < LEVEL else "undecided"] += 1
        words.update(own)
        by_agent[name] = dict(own)
    weights = np.array([1.0 / within**2 for _, within in apart])
    pooled = float(weights @ [between for between, _ in apart] / weights.sum())
    error = float((2.0 / (len(configs) - 1) / weights.sum()) ** 0.5)
    spread = {"estimate": max(0.0, pooled) ** 0.5, "one standard error more": max(0.0, pooled + error) ** 0.5}
    each = {name: [between, within] for name, (between, within) in zip(names, apart, strict=True)}
    said = {"all": shares(words, sum(words.values())), "by agent": by_agent}
    return {**said, "spread between worlds": spread, "variances between worlds and of episodes": each}


def _spread(sides: list[WorldSide], name: str, track: str) -> tuple[float, float]:
    """An agent's variance between worlds, beyond that of its episodes, and the latter."""
    kept = [place for place, reference in enumerate((*REFERENCES[track], "optimum")) if reference != name]
    sides = [side._replace(references=side.references[:, kept]).known for side in sides]
    means, variances = adjusted(sides, sides, False)
    return float(np.var(means, ddof=1) - np.mean(variances)), float(np.mean(variances))


if __name__ == "__main__":
    main()
