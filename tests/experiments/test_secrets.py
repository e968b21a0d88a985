"""No key reaches a file, a page, a table, a reply that is kept, or an error's text, even where the server repeats it."""

import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from costgym.agents.models.openai import KEY_VARIABLE, URL_VARIABLE, OpenAIModel
from costgym.experiments.board.store.store import Store
from costgym.simulators.errors import ConfigError, CostGymError
from tests.helpers.command_line import invoke
from tests.helpers.model_server import Server, wire_reply

KEY = 'sk-proj/"Zq81+never-in-any-file'
"""With letters that JSON writes in another way."""
FORMS = {KEY, json.dumps(KEY)[1:-1], KEY.replace("/", "\\/"), "never-in-any-file"}
RUN = ("--model", "openai:tiny,tries=1", "--prices", "prices.yaml", "--cache", "cache", "--episodes", "1", "--quiet")
PRICES = 'date: 2026-11-01\nmodels: {"tiny": {input: 1, output: 2}}\n'


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Any]:
    server = Server()
    monkeypatch.setenv(KEY_VARIABLE, KEY)
    monkeypatch.setenv(URL_VARIABLE, server.url)
    monkeypatch.setenv("COSTGYM_CACHE", "")
    monkeypatch.chdir(tmp_path)
    yield server
    server.close()


def holds_key(content: str | bytes) -> bool:
    text = content.decode("utf-8", "replace") if isinstance(content, bytes) else content
    return any(form in text for form in FORMS)


def files_with_key(folder: Path) -> list[str]:
    leaks = []
    for path in folder.rglob("*"):
        if path.is_file():
            content = path.read_bytes()
            if path.suffix in (".sqlite", ".db"):
                content += "\n".join(sqlite3.connect(path).iterdump()).encode()
            leaks += [str(path)] if holds_key(content) else []
    return leaks


def test_a_key_that_the_server_repeats_is_in_nothing_that_a_run_leaves(server: Any, tmp_path: Path, caplog: Any) -> None:
    (tmp_path / "prices.yaml").write_text(PRICES)
    server.answers = [wire_reply(f"The key is {KEY}.", ("finish", {"answer": f"{KEY} {KEY}"})) for _ in range(20)]
    output = ""
    for line in (
        ("leaderboard", "--agents", "react", "--budgets", "price=20", "--jobs", "1", "--out", "board", "--store", "r.db", *RUN),
        ("collect", "--agent", "react", "--out", "data", *RUN),
        ("submit", "pack", "board", "--out", "packed", "--name", "ours", "--contact", "us@example.org"),
        ("show", "data/trajectories.jsonl", "--format", "html", "--out", "episode.html"),
        ("show", "data/trajectories.jsonl"),
    ):
        done = invoke(*line)
        assert done.exit_code == 0, (line, done.stderr)
        output += done.stdout + done.stderr
    assert {headers["authorization"] for headers in server.headers} == {f"Bearer {KEY}"}
    assert "*** ***" in (tmp_path / "data" / "trajectories.jsonl").read_text()
    assert (tmp_path / "cache" / "replies.sqlite").is_file()
    assert files_with_key(tmp_path) == []
    assert not holds_key(output + caplog.text)


@pytest.mark.parametrize(
    "answer",
    [
        (401, json.dumps({"error": {"message": f"Incorrect API key provided: {KEY}", "code": KEY}}), {}),
        (400, f"Authorization: Bearer {KEY}", {}),
        (500, KEY, {"x-echo": "yes"}),
        (302, "", {"Location": "http://localhost:1/?key=sk-proj"}),
        (200, f"<html>{KEY}", {}),
        (200, json.dumps({"choices": None, "key": KEY}), {}),
    ],
)
def test_a_refusal_that_repeats_the_key_is_told_without_it(server: Any, answer: Any, caplog: Any, tmp_path: Path) -> None:
    server.answers = [answer] * 4
    (tmp_path / "prices.yaml").write_text(PRICES)
    done = invoke("collect", "--agent", "react", "--out", "data", *RUN)
    assert not holds_key(done.stdout + done.stderr + caplog.text + repr(done.exception))
    assert files_with_key(tmp_path) == []


@pytest.mark.parametrize(
    "settings",
    [
        {"headers": {"X-Auth-Token": "abc"}},
        {"headers": {"x-goog-api-key": "abc"}},
        {"headers": {"Cookie": "abc"}},
        {"headers": {"x-note": KEY}},
        {"extra_body": {"api_key": "abc"}},
        {"extra_body": {"litellm": {"aws_secret_access_key": "abc"}}},
        {"extra_body": {"note": f"Bearer {KEY}"}},
        {"url": "https://user:pass@localhost/v1"},
        {"url": "https://localhost/v1?api-key=abc"},
        {"url": f"{KEY}@localhost/v1"},
    ],
)
def test_a_setting_that_would_put_a_key_into_a_runs_name_is_refused(server: Any, settings: dict[str, Any]) -> None:
    with pytest.raises(ConfigError) as caught:
        OpenAIModel("tiny", **settings)
    assert not holds_key(str(caught.value)) and "abc" not in str(caught.value)


def test_settings_that_hold_no_key_are_taken(server: Any) -> None:
    OpenAIModel("tiny", headers={"x-title": "costgym", "x-author": "us"}, extra_body={"max_tokens_per_turn": 3, "top_k": 4})


@pytest.mark.parametrize("url", ["postgresql://me:hush-hush@localhost:1/x", "postgresql://me@localhost:1/x?password=hush-hush"])
def test_a_stores_password_is_in_no_error(url: str) -> None:
    pytest.importorskip("psycopg")
    with pytest.raises(CostGymError) as caught:
        Store(url)
    assert "hush" not in str(caught.value) and "hush" not in repr(caught.value.__cause__)
