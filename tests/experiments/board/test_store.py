"""Results in SQL: the same on SQLite and on a real PostgreSQL server, with many writers, and never half."""

import dataclasses
import os
import signal
import sqlite3
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import costgym
from costgym.experiments.board.conditions import row_key
from costgym.experiments.board.run_config import make_run_config
from costgym.experiments.board.store.runs import Run, RunEntry, entry_id, read_run, run_id
from costgym.experiments.leaderboard import run
from costgym.experiments.play.results import EpisodeResult, outcome
from tests.helpers.command_line import processes
from tests.helpers.databases import postgres

sa = pytest.importorskip("sqlalchemy", reason="no SQLAlchemy here: install costgym[store]")
from costgym.experiments.board.store import store as store_module  # noqa: E402
from costgym.experiments.board.store.store import Store  # noqa: E402

BUDGET = {"price": 10.0}


def result(agent: str = "react", episode: int = 0, **changed: Any) -> EpisodeResult:
    values: dict[str, Any] = {
        "agent": agent, "model": "simulated", "env": "costgym/MarketplaceChat-v0", "task": str(episode), "episode": episode,
        "seed": 3, "budget": BUDGET, "strict": True, "judged": True, "share": 1.0, "price": 0.1 + 0.2, "seconds": 1 / 3,
        "tokens": 900, "calls": 2, "attempts": 3, "errors": {"tool": 1}, "errors_by_status": {"timeout": 1}, "quality": 0.4,
        "regret": 1e-17,
    }  # fmt: skip
    return EpisodeResult(**(values | changed))


def made(seed: int = 0, agents: tuple[str, ...] = ("react", "greedy"), count: int = 3, **changed: Any) -> Run:
    """A run that nobody played."""
    rows = [
        {
            "agent": name, "model": "simulated", "env": "e", "budget": BUDGET, "episodes": count, "pass_rate": 1.0,
            "pass_rate_under_budget": 1.0, "average_cost": 0.3, "ci95": {},
        }
        for name in agents
    ]  # fmt: skip
    document = {"suite": "quick", "seed": seed, "version": "0.1.0", "grading": "strict", "rows": rows}
    document["scenario"] = {"name": "marketplace", "split": "test"}
    entries = tuple(RunEntry(entry_id(row["agent"], row_key(row, {})), row, "", False) for row in rows)
    results = [(entry.id, result(str(entry.row["agent"]), i, **changed)) for entry in entries for i in range(count)]
    manifest = {"suite": "quick", "seed": seed, "agents": list(agents)}
    return Run(run_id(manifest), manifest, document, None, entries, lambda: iter(results))


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with postgres() as url:
        yield url


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """An empty store of each kind."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path / 'results.db'}"
        return
    base = request.getfixturevalue("server")
    name = f"t{uuid.uuid4().hex}"
    engine = sa.create_engine(base.replace("postgresql:", "postgresql+psycopg:"), isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.exec_driver_sql(f"CREATE DATABASE {name}")
    engine.dispose()
    yield base.replace("/postgres?", f"/{name}?")


def content(run: Run) -> list[tuple[str, str]]:
    return [(entry, result.to_json()) for entry, result in run.results()]


def test_what_was_saved_is_what_is_read_to_the_last_bit(url: str) -> None:
    first = made(7, model="gpt\u2028x", task="tâche 1", optimum_price=None, exceeded=None)
    with Store(url) as store:
        assert store.save(first) == first.id
    with Store(url, create=False) as store:
        (back,) = store.runs()
        assert (back.id, back.document, back.manifest, back.folder) == (first.id, first.document, first.manifest, None)
        assert [entry.id for entry in back.entries] == [entry.id for entry in first.entries]
        assert content(back) == content(first)


def test_saving_a_run_again_changes_nothing_and_a_changed_one_takes_its_place(url: str) -> None:
    with Store(url) as store:
        store.save(made())
        store.save(made())
        assert content(store.runs()[0]) == content(made())
        again = made(price=5.0)
        store.save(again)
        assert content(store.runs()[0]) == content(again)
        fewer = made()
        store.save(dataclasses.replace(fewer, entries=fewer.entries[:1], results=lambda: iter(list(fewer.results())[:3])))
        assert {entry for entry, _, _ in store.episodes(fewer.id)} == {fewer.entries[0].id}


def test_a_run_that_fails_on_the_way_leaves_nothing(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_module, "BATCH", 20)

    def broken() -> Iterator[tuple[str, EpisodeResult]]:
        for index, result in enumerate(made(count=25).results()):
            if index == 41:
                raise costgym.DataError("episodes.jsonl", "is cut short")
            yield result

    whole = made(count=25)
    with Store(url) as store:
        with pytest.raises(costgym.DataError, match="cut short"):
            store.save(dataclasses.replace(whole, results=broken))
        assert store.runs() == []
        store.save(made(1))
        assert [run.id for run in store.runs()] == [made(1).id]


def write(url: str, seed: int, shared: int, barrier: Any) -> None:
    barrier.wait()
    with Store(url) as store:
        store.save(made(shared, count=40))
        store.save(made(seed, count=40))
        store.save(made(shared, count=40))


def test_several_processes_write_at_once(url: str) -> None:
    context = processes()
    barrier = context.Barrier(4)
    writers = [context.Process(target=write, args=(url, seed, 99, barrier)) for seed in range(4)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(60)
    assert [writer.exitcode for writer in writers] == [0] * 4
    with Store(url, create=False) as store:
        assert [run.document["seed"] for run in store.runs()] == [0, 1, 2, 3, 99]
        for stored_run in store.runs():
            assert content(stored_run) == content(made(int(stored_run.document["seed"]), count=40))


def save_and_hang(url: str, ready: Any) -> None:
    def slow() -> Iterator[tuple[str, EpisodeResult]]:
        for index, result in enumerate(made(5, count=30).results()):
            if index == 40:
                ready.set()
                time.sleep(60)
            yield result

    store_module.BATCH = 20  # in this process alone
    with Store(url) as store:
        store.save(dataclasses.replace(made(5, count=30), results=slow))


def test_a_writer_that_is_killed_leaves_nothing_and_bars_nobody(url: str) -> None:
    context = processes()
    ready = context.Event()
    writer = context.Process(target=save_and_hang, args=(url, ready))
    writer.start()
    assert ready.wait(60)
    os.kill(writer.pid or 0, signal.SIGKILL)
    writer.join()
    with Store(url) as store:
        assert store.runs() == []
        store.save(made(5))
        assert content(store.runs()[0]) == content(made(5))


def test_a_store_of_another_version_is_refused(url: str) -> None:
    with Store(url) as store, store._writing() as connection:
        connection.exec_driver_sql("UPDATE costgym_schema SET version = 99")
    with pytest.raises(costgym.DataError, match="version 99, this costgym has 2"):
        Store(url)


def test_a_database_without_a_store_is_not_made_into_one_by_reading(url: str, tmp_path: Path) -> None:
    sqlite3.connect(tmp_path / "results.db").close()
    with pytest.raises(costgym.DataError, match="no tables of costgym"):
        Store(url, create=False)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("mysql://root:secret@host/db", "expected sqlite or postgresql, got 'mysql'"),
        ("sqlite:////nowhere/at/all.db", "there is no folder /nowhere/at"),
        ("postgresql://host:port/db", "expected a URL such as"),
    ],
)
def test_a_url_that_is_none_says_so_and_keeps_its_password(text: str, problem: str) -> None:
    with pytest.raises(costgym.ConfigError) as caught:
        Store(text)
    assert problem in str(caught.value) and "secret" not in str(caught.value)


def test_a_server_that_is_not_there_is_named_without_its_password(tmp_path: Path) -> None:
    pytest.importorskip("psycopg")
    with pytest.raises(costgym.InfrastructureError) as caught:
        Store(f"postgresql://me:secret@/db?host={tmp_path}")
    assert "postgresql" in str(caught.value) and "secret" not in str(caught.value)


def test_a_file_that_is_no_database_is_named(tmp_path: Path) -> None:
    path = tmp_path / "notes.db"
    path.write_text("these are notes, not a database\n" * 40)
    with pytest.raises(costgym.DataError, match="not a database"):
        Store(str(path))


def test_a_leaderboard_run_is_read_from_its_folder(url: str, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    run(make_run_config(agents=["greedy", "react"], budgets="price=10,20", episodes=3), folder)
    played = read_run(folder)
    assert len(played.entries) == 4 and len(content(played)) == 12
    assert all((folder / entry.file).is_file() for entry in played.entries)
    with Store(url) as store:
        store.save_folder(folder)
        (back,) = store.runs()
        assert back.folder == folder.resolve()
        assert sorted(content(back)) == sorted(content(played))
        assert back.entries == played.entries


def test_a_folder_without_a_finished_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(costgym.ConfigError, match="holds no run"):
        read_run(tmp_path)
    (tmp_path / "run.json").write_text("{}")
    with pytest.raises(costgym.ConfigError, match="has not ended"):
        read_run(tmp_path)


def test_an_outcome_is_a_word() -> None:
    assert outcome(result()) == "passed"
    assert outcome(result(price=11.0, exceeded="price")) == "over budget"
    assert outcome(result(strict=False)) == "failed"
    assert outcome(result(strict=False), "judge") == "passed"
    assert outcome(result(void=True)) == "void"
