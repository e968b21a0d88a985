"""What is made of recorded OpenCATP episodes: datasets, stories, the site's viewer."""

import json
from pathlib import Path

import numpy as np
import pytest

import costgym
from costgym.experiments.board.run_config import make_run_config
from costgym.experiments.board.store.runs import Run, read_run
from costgym.experiments.board.verify import verify
from costgym.experiments.leaderboard import run as run_leaderboard
from costgym.experiments.leaderboard import show_episodes
from costgym.experiments.pages.episode_detail import details
from costgym.experiments.pages.episode_report import report_recorded
from costgym.experiments.play.export.datasets import check_dataset, list_datasets
from costgym.experiments.play.export.formats import export
from costgym.experiments.play.trajectories.replay import replayed
from tests.helpers.command_line import invoke
from tests.helpers.opencatp_runs import CALLS, CHAT, PLAN, VIEWS, collection, recorded_run, view_of
from tests.helpers.site_data import data


@pytest.fixture(scope="module", params=VIEWS)
def recorded(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return collection(request.param, tmp_path_factory.mktemp("run"))


# -- datasets ------------------------------------------------------------------------------------------------------------


def test_minari_loads_and_recovers_the_environment(recorded: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    minari = pytest.importorskip("minari")
    from costgym.experiments.play.export.minari import check_minari

    folder = export(recorded, "minari", "costgym/plans-v0", root=tmp_path)
    assert check_minari(folder) == []
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    dataset = minari.load_dataset("costgym/plans-v0")
    originals = list(replayed(recorded))
    for played, episode in zip(originals, dataset.iterate_episodes(), strict=True):
        assert list(map(float, episode.rewards)) == played.recorded.rewards
        for part in played.steps[0].observation:
            column = np.stack([step.observation[part] for step in played.steps])
            np.testing.assert_array_equal(episode.observations[part], column)
            assert episode.observations[part].dtype == column.dtype
        np.testing.assert_array_equal(episode.infos["action_mask"], [step.info["action_mask"] for step in played.steps])
        assert list(episode.infos["score"]) == [step.info["score"] for step in played.steps]
    env = dataset.recover_environment()
    assert env.spec.id == view_of(recorded)
    assert env.unwrapped.budget == originals[0].env.unwrapped.budget  # type: ignore[attr-defined]
    (row,) = dataset.storage.get_episode_metadata([7])
    env.reset(seed=int(row["seed"]), options={"task": int(row["options"]["task"])})
    rewards = [env.step(int(action))[1] for action in dataset[7].actions]
    assert rewards == originals[7].recorded.rewards


@pytest.mark.parametrize("format", ["parquet", "hf"])
def test_tables_hold_every_step_and_are_checked_by_replay(recorded: Path, format: str, tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    out = export(recorded, format, tmp_path / f"steps.{format}", next_observation=True)
    if format == "parquet":
        import pyarrow.parquet as parquet

        rows = parquet.read_table(out).to_pylist()
    else:
        rows = list(pytest.importorskip("datasets").load_from_disk(str(out)))
    expected = [(played, i, step) for played in replayed(recorded) for i, step in enumerate(played.steps[1:])]
    assert len(rows) == len(expected)
    for row, (played, index, step) in zip(rows, expected, strict=True):
        assert (row["episode"], row["step"], row["action"]) == (played.recorded.episode, index, step.action)
        final = played.recorded.final
        assert (row["reward"], row["score"], row["sample"]) == (step.reward, step.info["score"], final["sample"])
        assert row["next_observation_tools"] == step.observation["tools"].ravel().tolist()
        assert row["passed"] is played.passed is (final["strict"] and not final["exceeded"])
    assert check_dataset(out) == []


def test_a_folder_lists_and_checks_them(recorded: Path, tmp_path: Path) -> None:
    pytest.importorskip("minari")
    name = recorded.read_bytes()
    (tmp_path / "trajectories.jsonl").write_bytes(name)
    export(recorded, "minari", "plans-v0", root=tmp_path / "minari")
    datasets = list_datasets(tmp_path)
    steps = sum(len(played.recorded.actions) for played in replayed(recorded))
    env_id = view_of(recorded)
    assert [
        (dataset.kind, dataset.env, dataset.scenario, dataset.agents, dataset.episodes, dataset.steps) for dataset in datasets
    ] == [
        ("minari", env_id, "opencatp", "random", 12, steps),
        ("trajectories", env_id, "opencatp", "random", 12, steps),
    ]
    assert [check_dataset(dataset.path) for dataset in datasets] == [[], []]
    header, first, *rest = name.decode().splitlines()
    document = json.loads(first)
    document["final"]["score"] += 0.125
    (tmp_path / "trajectories.jsonl").write_text("\n".join([header, json.dumps(document), *rest]) + "\n")
    assert "line 2, random episode 0: final: score: replay says" in check_dataset(tmp_path / "trajectories.jsonl")[0]


@pytest.mark.parametrize("format", ["messages", "experience"])
def test_formats_of_text_are_refused_with_what_to_do(recorded: Path, format: str, tmp_path: Path) -> None:
    with pytest.raises(costgym.ConfigError, match=f"{format} needs episodes of .*; minari, parquet and hf take any"):
        export(recorded, format, tmp_path / "x.jsonl")
    if format == "messages":
        with pytest.raises(costgym.ConfigError, match="minari, parquet and hf"):
            export(recorded, format, tmp_path / "x.jsonl", kind="dpo")
    assert list(tmp_path.iterdir()) == []


# -- stories -------------------------------------------------------------------------------------------------------------


def test_an_episode_is_told_with_its_calls_times_prices_and_score(recorded: Path) -> None:
    for line in recorded.read_text().splitlines()[1:]:
        document = json.loads(line)
        shown = report_recorded(recorded, str(document["episode"]))
        text, final = shown.text, document["final"]
        assert f"Task {document['task']}: " in text and "does not replay" not in text
        assert f"sample {final['sample']}, size level {final['size_level']}, seed {document['seed']}" in " ".join(text.split())
        words = " ".join(text.split())
        assert f"Quality of Plan {final['quality_of_plan']:.3f}" in words and f"score {final['score']:.3f}" in words
        rows = [row for row in text.splitlines() if row[:5].strip().isdigit()]
        assert len(rows) == len(document["calls"])
        for row, (tool, status, call, _, ended, cold, _) in zip(rows, document["calls"], strict=True):
            assert (tool or "(unknown tool)") in row and status in row and ("(cold)" in row) == cold
            assert {f"{call:.2f}", f"{ended:.2f}"} <= set(row.split())
        assert ("over its budget of price" in words) == (final["exceeded"] is not None)
        bars = [bar for row in shown.chart.rows for bar in row.bars]
        assert len(bars) == len(document["calls"])
    assert shown.png().shape[1:] == (1200, 3) and shown.svg().startswith("<svg ") and shown.html().startswith("<!doctype html>")
    assert ("Written: " in text) == (view_of(recorded) == PLAN) != ("Actions" in text)


def test_a_record_that_was_edited_is_shown_with_a_warning(recorded: Path, tmp_path: Path) -> None:
    header, first, *_ = recorded.read_text().splitlines()
    edited = json.loads(first)
    edited["rewards"][-1] += 1.0
    path = tmp_path / "edited.jsonl"
    path.write_text(f"{header}\n{json.dumps(edited)}\n")
    assert "does not replay as it stands" in report_recorded(path).text


def test_an_episode_played_on_the_spot_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    from costgym.cli.play.show import show as show_command
    from costgym.cli.setting_options import with_options

    show = with_options(show_command)

    show(agent="greedy", env="OpenCATPCalls-v0", task=2)
    out = capsys.readouterr().out
    assert "greedy plays task sequential-" in out and "finish" in out
    show(agent="zero-shot", task=2)
    assert "EOP" in capsys.readouterr().out


# -- the pages of episodes --------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return read_run(recorded_run(tmp_path_factory.mktemp("run") / "run"))


def test_the_viewer_has_every_episode(run: Run) -> None:
    assert run.folder is not None
    site = show_episodes(run.folder, None).parent
    about = data(site / "data" / "run.js")
    assert about["share"] == "Task score, %" and [entry["detailed"] for entry in about["entries"]] == [6, 6, 6]
    for entry in run.entries:
        assert run.folder is not None
        lines = (run.folder / entry.file).read_text().splitlines()[1:]
        for line, shown in zip(lines, data(site / "data" / f"{entry.id}-0.js"), strict=True):
            record = json.loads(line)
            assert shown["replayed"] and shown["note"] == "" and shown["task"] == record["task"]
            assert [(call[0], call[1]) for call in shown["calls"]] == [
                (call[0] or "(unknown tool)", call[1]) for call in record["calls"]
            ]
            assert [charge[1] for charge in shown["charges"]] == [charge[1] for charge in record["charges"]]
            assert f"Quality of Plan {record['final']['quality_of_plan']:.3f}" in shown["verdict"]
            messages = [step[1] for step in shown["steps"][1:]]
            if entry.row["env"] == CALLS:
                assert len(messages) == len(record["actions"]) and messages[-1] == "finish"
            else:
                assert len(messages) == 1 and (entry.row["env"] == CHAT or messages[0].endswith("EOP"))


def test_an_edited_record_is_not_passed_off_as_replayed(run: Run, tmp_path: Path) -> None:
    for entry in run.entries:
        assert run.folder is not None
        header, *lines = (run.folder / entry.file).read_text().splitlines()
        document = json.loads(lines[0])
        document["final"]["score"] += 0.1
        (tmp_path / "edited.jsonl").write_text(f"{header}\n{json.dumps(document)}\n")
        (detail,) = details(tmp_path / "edited.jsonl")
        assert not detail["replayed"] and "does not agree" in detail["note"]


@pytest.mark.slow
def test_the_plans_of_a_leaderboard_are_shown_as_they_run(tmp_path: Path) -> None:
    config = make_run_config("opencatp", agents=["fixed-all", "zero-shot"], episodes=12)
    board = run_leaderboard(config, tmp_path / "run").folder
    results = {(entry, result.episode): result for entry, result in read_run(board).results()}
    site = show_episodes(board, 10).parent
    assert [entry["detailed"] for entry in data(site / "data" / "run.js")["entries"]] == [10] * 4
    for entry in read_run(board).entries:
        lines = [json.loads(line) for line in (board / entry.file).read_text().splitlines()[1:]]
        shown = data(site / "data" / f"{entry.id}-0.js")
        for line, detail in zip(lines, shown, strict=False):
            result = results[entry.id, line["episode"]]
            assert detail["replayed"], detail["note"]
            assert detail["task"] == result.task and len(detail["steps"]) == 2
            document = json.loads(line["actions"][0])
            tools = [call[0] for call in detail["calls"] if call[1] == "ok"]
            assert tools == (document["plan"] or [])[::2]
            assert sum(charge[2] for charge in detail["charges"]) == pytest.approx(result.price)
            if document["plan"] is None:
                assert [(call[1], call[8]) for call in detail["calls"]] == [("malformed", document["problem"])]
            else:
                assert max(call[6] for call in detail["calls"]) == pytest.approx(result.seconds, abs=1e-6)


@pytest.mark.slow
def test_a_forged_plan_of_a_leaderboard_is_named(tmp_path: Path) -> None:
    board = run_leaderboard(make_run_config("opencatp", agents=["fixed-all"], episodes=2), tmp_path / "run").folder
    verdict = verify(board)
    assert (verdict.episodes, verdict.problems) == (4, ())
    path = next((board / "trajectories").glob("*/*nonsequential*"))
    written, rows = path.read_text(), (board / "leaderboard.json").read_text()
    header, first, second = written.splitlines()
    for field, value in (("score", 1.0), ("quality_of_plan", 0.9), ("sample", 61), ("plan_valid", False)):
        document = json.loads(first)
        document["final"][field] = value
        path.write_text("\n".join([header, json.dumps(document), second]) + "\n")
        assert "final: " + field in verify(board).problems[0]
    cheaper = json.loads(first)
    cheaper["actions"] = [json.dumps(["image_captioning", ["input_of_query"]])]
    path.write_text("\n".join([header, json.dumps(cheaper), second]) + "\n")
    assert "line 2, episode 0: " in verify(board).problems[0]
    other = json.loads(first)
    other["options"]["sample"] += 1
    path.write_text("\n".join([header, json.dumps(other), second]) + "\n")
    assert "number and seed" in verify(board).problems[0]
    path.write_text(written)
    document = json.loads(rows)
    document["rows"][0]["score"] = 0.99
    (board / "leaderboard.json").write_text(json.dumps(document))
    assert "score: replay says" in verify(board).problems[0]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--agent", "react", "--env", "OpenCATP-v0"), "unknown agent of costgym/OpenCATP-v0 'react'"),
        (
            ("--agent", "oracle", "--env", "OpenCATP-v0", "--scenario", "storm"),
            "--scenario: costgym/OpenCATP-v0 has no such option",
        ),
        (
            ("--agent", "oracle", "--env", "OpenCATP-v0", "--grading", "judge"),
            "--grading: costgym/OpenCATP-v0 has no such option",
        ),
        (
            ("--agent", "oracle", "--env", "OpenCATP-v0", "--enforcement", "refuse"),
            "--enforcement: costgym/OpenCATP-v0 has no such option",
        ),
        (("--agent", "cheapest", "--tasks", "all"), "--tasks: costgym/Marketplace-v0 has no such option"),
        (("--agent", "cheapest", "--alpha", "0.5"), "--alpha: costgym/Marketplace-v0 has no such option"),
        (("--agent", "hydra", "--env", "costgym/DecisionAware-v0"), "unknown agent of costgym/DecisionAware-v0 'hydra'"),
        (("--agent", "hydra", "--tasks", "some"), "tasks: expected sequential, nonsequential or all, got 'some'"),
        (("--agent", "hydra", "--alpha", "1.5"), "alpha"),
        (("--agent", "hydra", "--profile", "v1000"), "unknown profile 'v1000'; nearest: v100"),
        (("--agent", "catp:nowhere"), "nowhere"),
    ],
)
def test_settings_that_make_no_sense_are_named(arguments: tuple[str, ...], message: str, tmp_path: Path) -> None:
    done = invoke("collect", *arguments, "--out", tmp_path / "run", "--quiet")
    assert done.exit_code == 2
    assert message in done.stderr
    assert not (tmp_path / "run").exists()


def test_the_command_collects_verifies_and_exports(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    options = ("--tasks", "nonsequential", "--alpha", "0.3", "--budget", "price=2", "--split", "test", "--episodes", "4")
    collected = ("collect", "--agent", "fixed-all", "--env", PLAN, *options, "--out", tmp_path / "run")
    assert invoke(*collected, "--format", "parquet").exit_code == 0
    assert invoke(*collected).exit_code == 0  # nothing is left to play
    header = json.loads((tmp_path / "run" / "trajectories.jsonl").read_text().splitlines()[0])
    settings = header["settings"]
    assert (header["env"], settings["alpha"], settings["tasks"], settings["split"]) == (PLAN, 0.3, "nonsequential", "test")
    assert settings["budget"] == {"price": 2.0}
    assert "4 episodes verified, 0 problems" in invoke("verify", tmp_path / "run").output
    figures = tmp_path / "figures.json"
    assert invoke("run", "--agent", "fixed-all", "--env", "OpenCATPCalls-v0", *options, "--json", figures).exit_code == 0
    assert json.loads(figures.read_text())["env"] == CALLS
