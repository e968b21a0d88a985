"""The command line as a user drives it: what runs in a process of its own, and errors in this one."""

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from costgym import ENV_IDS
from costgym.cli.app import Costgym, app
from costgym.envs.registration import class_of
from tests.helpers.command_line import costgym, invoke

SMALL = (
    *("--episodes", "3", "--agents", "random,cheapest,react,oracle", "--budgets", "price=10,20", "--seed", "3"),
    "--quiet",
)


def files(folder: Path) -> dict[str, bytes]:
    paths = (path for path in sorted(folder.rglob("*")) if path.is_file() and not path.name.startswith("."))
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths}


@pytest.fixture(scope="module")
def board(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("board") / "run"
    assert invoke("leaderboard", "--out", folder, "--jobs", 1, *SMALL).exit_code == 0
    return folder


def test_a_leaderboard_has_a_row_per_agent_and_budget(board: Path) -> None:
    document = json.loads((board / "leaderboard.json").read_text())
    assert document["format"] == "costgym.leaderboard/1"
    assert len(document["rows"]) == 8
    assert {row["episodes"] for row in document["rows"]} == {3}
    assert {row["agent"] for row in document["rows"]} == {"random", "cheapest", "react", "oracle"}
    assert "<table" in (board / "index.html").read_text()


@pytest.mark.parametrize(("agent", "jobs"), [("react", 1), pytest.param("react+btp", 2, marks=pytest.mark.slow)])
def test_a_killed_run_ends_with_the_same_bytes_whatever_jobs_and_hash_seed_continue_it(
    agent: str, jobs: int, tmp_path: Path
) -> None:
    line = ("leaderboard", *SMALL, "--agents", f"random,cheapest,{agent},oracle", "--out")
    assert invoke(*line, tmp_path / "whole").exit_code == 0
    command = [sys.executable, "-m", "costgym", *line, str(tmp_path / "run"), "--jobs", "1"]
    store = tmp_path / "run" / "episodes.jsonl"
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while process.poll() is None and not (store.exists() and store.stat().st_size > 3000):
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    with store.open("ab") as handle:
        handle.write(b'{"agent": "rea')  # a line that the crash cut off
    costgym(*line, tmp_path / "run", "--jobs", jobs, hash_seed="77")
    assert files(tmp_path / "run") == files(tmp_path / "whole")


def test_a_folder_of_another_run_is_refused(board: Path) -> None:
    before = files(board)
    done = invoke("leaderboard", "--out", board, *SMALL, "--seed", "4")
    assert done.exit_code == 2
    assert "belongs to another run" in done.stderr and "seed" in done.stderr
    assert files(board) == before


def test_a_folder_with_strange_files_is_refused(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("precious")
    done = invoke("leaderboard", "--out", tmp_path, "--quiet")
    assert done.exit_code == 2 and "thesis.txt" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--agents", "reakt"), "nearest: react"),
        (("--scenario", "marketplac"), "nearest: marketplace"),
        (("--suite", "quik"), "nearest: quick"),
        (("--budgets", "price=0"), "positive finite number"),
        (("--budgets", "price=-3"), "positive finite number"),
        (("--budgets", "price=nan"), "positive finite number"),
        (("--budgets", "price"), "price=10,20,40"),
        (("--budgets", "money=3"), "unknown resource 'money'"),
        (("--episodes", "0"), "--episodes: expected a number greater than or equal to 1, got 0"),
        (("--split", "tset"), "nearest: test"),
        (("--grading", "strikt"), "nearest: strict"),
        (("--scenario", "toolbench"), "--data FOLDER"),
        (("--scenario", "toolbench", "--data", "no/such/folder"), "no/such/folder"),
        (("--data", "somewhere"), "reads no folder"),
        (("--scenario", "missing.yaml"), "missing.yaml"),
    ],
)
def test_bad_settings_are_named_and_nothing_is_written(arguments: tuple[str, ...], message: str, tmp_path: Path) -> None:
    done = invoke("leaderboard", "--out", tmp_path / "run", "--quiet", *arguments)
    assert done.exit_code == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("seed: many", "seed"),
        ("failurs: storm", "unknown key"),
        ("failures: hurricane", "unknown failure preset"),
        ("budget: {price: -1}", "positive finite number"),
        ("source: {kind: marketplace, tools: 0}", "tools"),
        ("- a list", "expected a mapping"),
        ("a: [1,", "line"),
    ],
)
def test_a_scenario_file_that_is_wrong_says_where(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "world.yaml"
    path.write_text(text)
    done = invoke("leaderboard", "--scenario", path, "--out", tmp_path / "run", "--quiet")
    assert done.exit_code == 2
    assert message in done.stderr and "world.yaml" in done.stderr
    assert not (tmp_path / "run").exists()


def test_run_sums_up_one_agent(tmp_path: Path) -> None:
    shown = invoke("run", "cheapest", "--episodes", 5, "--json", tmp_path / "row.json").stdout
    row = json.loads((tmp_path / "row.json").read_text())
    assert row["agent"] == "cheapest" and row["episodes"] == 5
    assert "Success %" in shown and "Cost per success, ¢" in shown


@pytest.mark.parametrize(
    ("words", "version"),
    [((), 1), (("--scenario", "1.yaml"), 1), (("--scenario", "0.yaml"), 0), (("--env", "MarketplaceChat-v0"), 0)],
)
@pytest.mark.parametrize(
    "verb",
    [
        ("collect", "--agent", "react", "--episodes", 1, "--quiet", "--out"),
        ("play", "--out"),
        pytest.param(("serve", "--stdio", "--record"), marks=pytest.mark.skipif(not find_spec("mcp"), reason="needs mcp")),
    ],
)
def test_the_version_is_the_named_one_or_the_scenario_s_or_the_newest(
    verb: tuple[object, ...], words: tuple[str, ...], version: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for world in (0, 1):
        Path(f"{world}.yaml").write_text(f"name: mine\nextends: marketplace\nsource: {{world: {world}}}\n")
    done = invoke(*verb, "out", *words)
    assert done.exit_code == 0, done.output
    header = json.loads(Path("out/trajectories.jsonl").read_text().splitlines()[0])
    assert header["env"] == f"costgym/MarketplaceChat-v{version}"
    wrong = invoke(*verb, "new", "--env", header["env"], "--scenario", f"{1 - version}.yaml")
    assert (wrong.exit_code, wrong.stderr) == (
        2,
        f"error: scenario mine: expected version {version} of the world, got {1 - version}; "
        "choose an environment that plays it, or change `world` in its source\n",
    )
    assert not Path("new").exists()


@pytest.mark.parametrize(
    ("agent", "env_id"),
    [
        ("greedy", "Marketplace-v0"),
        ("paced", "MarketplaceSession-v1"),
        ("deer-rule", "DecisionAware-v0"),
        ("hydra", "OpenCATP-v1"),
    ],
)
def test_an_agent_plays_in_the_newest_version_of_its_environment(agent: str, env_id: str) -> None:
    assert f"{agent}  costgym/{env_id} · " in invoke("run", agent, "--episodes", 1).stdout


def test_a_trained_agent_plays_in_the_version_that_it_learnt_from() -> None:
    pytest.importorskip("torch")
    for agent, version, other in (("zoo:sessions", "v1", "v0"), ("zoo:sessions-v0", "v0", "v1")):
        assert f"costgym/MarketplaceSession-{version}" in invoke("run", agent, "--episodes", 1).stdout
        refused = invoke("run", agent, "--episodes", 1, "--env", f"MarketplaceSession-{other}")
        assert refused.stderr.endswith(f"which it was trained in, got costgym/MarketplaceSession-{other}\n")


def test_figures_go_into_a_folder_that_is_made_before_anything_is_played(tmp_path):
    assert invoke("scenarios", "--json", tmp_path / "new" / "here" / "list.json").exit_code == 0
    assert json.loads((tmp_path / "new" / "here" / "list.json").read_text())
    (tmp_path / "file").write_text("")
    done = invoke("run", "--agent", "cheapest", "--episodes", 10**6, "--json", tmp_path / "file" / "row.json")
    assert done.exit_code == 2 and "--json" in done.output


@pytest.mark.parametrize("what", ["envs", "agents", "scenarios"])
def test_lists_name_what_there_is(what: str, tmp_path: Path) -> None:
    invoke(what, "--json", tmp_path / "list.json")
    rows = json.loads((tmp_path / "list.json").read_text())
    assert len(rows) >= 2
    assert what != "agents" or {"react+btp", "+btp-minilm"} <= {row["name"] for row in rows}


@pytest.mark.parametrize("format", ["text", *(pytest.param(name, marks=pytest.mark.slow) for name in ("png", "html"))])
def test_show_draws_an_episode(format: str, tmp_path: Path) -> None:
    done = invoke("show", "--agent", "react", "--format", format, "--out", tmp_path / f"episode.{format}")
    if format == "text":
        assert "price" in done.stdout
    else:
        head = (tmp_path / f"episode.{format}").read_bytes()[:15]
        assert head.startswith(b"\x89PNG" if format == "png" else b"<!doctype html>") or format == "html"


@pytest.mark.slow
def test_bench_compares_with_cartpole(tmp_path: Path) -> None:
    costgym("bench", "--steps", 2000, "--json", tmp_path / "bench.json", "--quiet")
    rows = json.loads((tmp_path / "bench.json").read_text())["rows"]
    assert [row["env"] for row in rows][:2] == ["CartPole-v1", "costgym/Marketplace-v0"]
    assert all(row["steps_per_second"] > 0 for row in rows)


VERBS = (
    "leaderboard", "rank", "run", "show", "play", "cost", "gate", "judge-agreement", "collect", "verify", "export",
    "experience", "twin", "datasets", "datasets list", "datasets names", "datasets build", "calibrate", "baselines",
    "reproduce", "train", "train ppo", "serve", "proxy", "proxy run", "proxy report", "proxy verdict", "submit",
    "submit pack", "submit validate", "submit rerun", "envs", "agents", "scenarios", "doctor", "forge", "bench",
    "warm", "prices", "prices import", "models", "models fetch", "opencatp", "opencatp profile", "opencatp build-table",
)  # fmt: skip
GROUPS = ("submit", "train", "datasets", "prices", "models", "proxy", "opencatp")


def test_every_verb_is_tried() -> None:
    assert {verb.split()[0] for verb in VERBS} == set(Costgym.entries)


PLAYING = ("costgym.agents.llm", "costgym.agents.models", "costgym.envs.chat", "costgym.experiments.play.execution", "rich")


@pytest.mark.parametrize(
    ("unneeded", "lines"),
    [
        (("costgym.agents", "costgym.experiments", "rich", "matplotlib"), ["--help"]),
        (PLAYING, ["run nosuch", "run greedy --env nosuch", "agents", "envs", "verify nosuch", "show no/such"]),
    ],
)
def test_help_lists_and_mistakes_are_quick_since_they_import_nothing_that_plays(
    unneeded: tuple[str, ...], lines: list[str]
) -> None:
    code = """if True:
        import contextlib, sys
        from costgym.cli.app import app
        for line in sys.argv[1:]:
            with contextlib.suppress(SystemExit):
                app(line.split())
        print(*sys.modules)
    """
    done = subprocess.run([sys.executable, "-c", code, *lines], capture_output=True, text=True, check=True)
    loaded = done.stdout.splitlines()[-1].split()
    assert "costgym.cli.verbs" in loaded and done.stderr.count("error: ") == sum(
        "nosuch" in line or "/" in line for line in lines
    )
    assert not [name for name in loaded if name.startswith(unneeded)]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("leaderbord", "error: no such command 'leaderbord'; did you mean 'leaderboard'? See `costgym --help`"),
        ("run greedy --epsiodes 3", "error: no such option: --epsiodes (Possible options: --episodes"),
        ("run", "error: AGENT: expected one agent, such as `costgym run greedy`; `costgym agents` lists them"),
        ("run reakt", "error: unknown agent 'reakt'; nearest: react"),
        ("run greedy --agent react", "error: AGENT: expected one agent"),
        ("run react --env Marketplace-v0", "error: unknown agent of costgym/Marketplace-v0 'react'; it plays in costgym/M"),
        ("run greedy --episodes none", "error: --episodes: expected a whole number, got 'none'"),
        (
            "run greedy --budget 20",
            "error: --budget: expected RESOURCE=LIMIT[,LIMIT ...], got '20'; for example price=20, or price=10,20,40",
        ),
        ("leaderboard --agents react,reakt", "error: unknown agent 'reakt'; nearest: react"),
        ("verify nothing-here", "error: nothing-here: there is no such file or folder"),
        ("cost react", "error: TRACE: expected a log, but the file 'react' does not exist; agents are named with --agents"),
        ("export", "error: missing argument 'path'; see `costgym export --help`"),
    ],
)
def test_a_mistake_is_one_line_that_names_the_nearest_word_before_any_bar(line: str, message: str) -> None:
    done = invoke(*line.split())
    assert done.exit_code == 2 and done.stdout == ""
    assert done.stderr.startswith(message) and done.stderr.count("\n") == 1


def test_json_goes_to_standard_output_alone_and_lists_go_into_pipes_line_by_line() -> None:
    row = json.loads(invoke("run", "greedy", "--episodes", 2, "--json", "-").stdout)
    assert (row["agent"], row["episodes"]) == ("greedy", 2)
    assert {entry["id"] for entry in json.loads(invoke("envs", "--json", "-").stdout)} == set(ENV_IDS)
    lines = [line.split("\t") for line in invoke("envs").stdout.splitlines()]
    assert [line[0] for line in lines] == ["id", *ENV_IDS]
    worlds = {name: " ".join(map(str, class_of(name).worlds)) for name in ENV_IDS}
    assert {name: world for name, world, *_ in lines[1:]} == worlds and worlds["costgym/Marketplace-v0"] == "0 1"


@pytest.mark.parametrize(
    ("words", "completed"),
    [
        (("costgym", "lead"), ["leaderboard"]),
        (("costgym", "run", "chea"), ["cheapest"]),
        (("costgym", "leaderboard", "--agents", "greedy,zoo:p"), ["greedy,zoo:ppo"]),
        (("costgym", "show", "--scenario", "marketplace-h"), ["marketplace-hard"]),
    ],
)
def test_a_shell_completes_verbs_and_the_names_of_what_there_is(words: tuple[str, ...], completed: list[str]) -> None:
    completion = {"COMP_WORDS": " ".join(words), "COMP_CWORD": str(len(words) - 1), "_COSTGYM_COMPLETE": "complete_bash"}
    done = CliRunner().invoke(app, env=completion, prog_name="costgym")
    assert done.stdout.split() == completed


def test_the_words_that_may_be_left_out_may_be_left_out() -> None:
    assert invoke("proxy", "--scenario", "no-such").stderr == invoke("proxy", "run", "--scenario", "no-such").stderr


@pytest.mark.parametrize("call", [invoke, pytest.param(costgym, marks=pytest.mark.slow)], ids=["here", "in a process"])
@pytest.mark.parametrize("verb", VERBS)
def test_a_verb_says_how_it_is_used(verb: str, call: Callable[..., Any]) -> None:
    shown = " ".join(call(*verb.split(), "--help").stdout.split())
    assert f"costgym {verb} [OPTIONS]" in shown
    assert verb in GROUPS or f"Example: `costgym {verb}" in shown


@pytest.mark.parametrize("verb", VERBS)
def test_help_is_whole_on_a_narrow_terminal(verb: str) -> None:
    shown = invoke(*verb.split(), "--help", columns=80).output
    assert "…" not in shown and max(map(len, shown.splitlines())) <= 80


@pytest.mark.slow
def test_named_datasets_are_listed_and_built(tmp_path: Path) -> None:
    pytest.importorskip("minari")
    costgym("datasets", "names", "--json", tmp_path / "names.json")
    assert {"costgym/marketplace/expert-v0"} <= {row["dataset"] for row in json.loads((tmp_path / "names.json").read_text())}
    arguments = ("build", "costgym/marketplace/random-v0", "--root", tmp_path / "here", "--episodes", 5, "--quiet")
    costgym("datasets", *arguments, "--json", tmp_path / "built.json")
    (row,) = json.loads((tmp_path / "built.json").read_text())
    assert (row["dataset"], row["episodes"]) == ("costgym/marketplace/random-v0", "5")
    costgym("datasets", tmp_path / "here", "--check", "--json", tmp_path / "listed.json")
    (row,) = json.loads((tmp_path / "listed.json").read_text())
    assert (row["kind"], row["holds"]) == ("minari", "yes")
    again = invoke("datasets", *map(str, arguments))
    assert again.exit_code == 2 and "`minari delete" in again.stderr
