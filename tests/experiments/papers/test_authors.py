"""The commands of `benchmarks/papers/authors.py` name scripts, commands and options that there are; halves of the data."""

import json
import re
import sys
from pathlib import Path

import pytest

from benchmarks.papers import authors, unseen
from tests.helpers.command_line import invoke

FOLDERS = ("tooldeer_full", "mgtoolbench_full_LICENCE", "opencatp", "family/stabletoolbench")


@pytest.fixture
def inputs(tmp_path: Path) -> authors.Inputs:
    for name in FOLDERS:
        (tmp_path / name).mkdir(parents=True)
    return authors.Inputs(tmp_path, tmp_path / "small", tmp_path / "larger", bf16=False, seeds=range(2))


@pytest.mark.parametrize("paper", authors.PARTS)
def test_every_command_and_option_is_known(paper: str, inputs: authors.Inputs) -> None:
    commands = list(authors.PARTS[paper](inputs))
    assert commands
    for program, *rest in commands:
        assert program == sys.executable
        options = [word for word in rest if word.startswith("--")]
        if rest[:2] == list(authors.COSTGYM[1:]):
            names = [word for word in rest[2:5] if not word.startswith("--")]
            known = invoke(*names[: 1 if names[0] in ("reproduce", "leaderboard") else 2], "--help").output
        else:
            known = Path(rest[0]).read_text()
        assert all(re.search(rf"{option}\b", known) or (option == "--no-bf16" and "--bf16" in known) for option in options)


def test_without_a_model_none_is_named_and_a_larger_one_takes_half_as_many_steps(inputs: authors.Inputs) -> None:
    for commands in authors.PARTS.values():
        alone = [word for command in commands(inputs._replace(small=None, larger=None)) for word in command]
        assert not [word for word in alone if word.endswith(("small", "larger"))]
    small, larger = (
        command[command.index("--steps") + 1] for command in list(authors.deer(inputs._replace(seeds=range(1))))[1:3]
    )
    assert int(small) == 2 * int(larger)


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="expected a folder opencatp"):
        list(authors.catp(authors.Inputs(tmp_path, None, None, True, range(1))))


def test_further_seeds_are_trained_by_numbers_of_their_own_and_played_with_the_mean_of_their_encoders(
    inputs: authors.Inputs,
) -> None:
    *trained, played = list(authors.deer(inputs._replace(small=None, larger=None, seeds=range(3))))
    out = [command[command.index("--out") + 1] for command in trained]
    made = ["minilm-tuned", "minilm-tuned-1", "minilm-1", "minilm-tuned-2", "minilm-2", "minilm-mean"]
    assert out == [*made, "unseen", "sizes"]
    numbers = [command[command.index("--seed") + 1] for command in trained if "--seed" in command]
    assert numbers == ["1", "1", "2", "2"]
    assert set(played[played.index("--model") + 1].split(",")) == {"small", "minilm", *(f"deer:{run}" for run in made)}


def test_commands_run_one_after_the_other_until_one_fails_and_their_seconds_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    scripts = ("open('made', 'w').write('1')", "raise SystemExit(3)", "open('never', 'w')")
    monkeypatch.setitem(authors.PARTS, "catp", lambda _: ([sys.executable, "-c", script] for script in scripts))
    report = tmp_path / "report.json"
    monkeypatch.setattr(sys, "argv", ["", "catp", "--data", "x", "--out", str(tmp_path / "runs"), "--json", str(report)])
    assert authors.main() == 3
    assert (tmp_path / "runs" / "made").exists() and not (tmp_path / "runs" / "never").exists()
    told = json.loads(report.read_text())
    assert [one["status"] for one in told["commands"]] == [0, 3] and told["seconds"] >= 0
    assert "# status 3 after" in capsys.readouterr().out


def test_a_quarter_of_each_tools_queries_is_learnt_from(tmp_path: Path) -> None:
    source = tmp_path / "tool.json"
    source.write_text(
        json.dumps([{"api_name": "a", "example": list(range(9))}, {"api_name": "b", "example": [3]}]), encoding="utf-8"
    )
    for name in ("valid", "test"):
        source.with_name(f"{name}.json").write_text("[]", encoding="utf-8")
    assert unseen.write_part("queries", source, tmp_path / "quarter", 4) == ["a", "b"]
    assert [one["example"] for one in json.loads((tmp_path / "quarter" / "tool.json").read_text())] == [[0, 4, 8], [3]]


@pytest.mark.parametrize(("of", "tools", "queries"), [("tools", ["a", "c"], 4), ("queries", ["b", "c", "a"], 2)])
def test_half_of_the_authors_tools_or_of_their_queries_is_left_out(
    of: str, tools: list[str], queries: int, tmp_path: Path
) -> None:
    source, half = tmp_path / "tool.json", tmp_path / "half"
    source.write_text(json.dumps([{"api_name": name, "example": [1, 2, 3, 4]} for name in "bca"]), encoding="utf-8")
    for name in ("valid", "test"):
        source.with_name(f"{name}.json").write_text("[]", encoding="utf-8")
    assert unseen.write_part(of, source, half) == tools
    written = json.loads((half / "tool.json").read_text(encoding="utf-8"))
    assert [len(record["example"]) for record in written] == [queries] * len(tools)
    assert sorted(path.name for path in half.iterdir()) == ["test.json", "tool.json", "valid.json"]
