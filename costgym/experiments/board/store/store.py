"""A store of results in SQLite or PostgreSQL: runs, their entries and every episode, in the same tables.

A run is saved in one transaction, and saving it again changes nothing, so any number of processes may write at once.
Trajectories remain files: the store holds the path of their folder. Floats are stored in double precision, so what is read is
what was written.
"""

import json
import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields, replace
from itertools import islice
from pathlib import Path
from typing import Any

from costgym.experiments.board.run_config import copied_run
from costgym.experiments.board.store.runs import Run, RunEntry, entry_of, read_run
from costgym.experiments.play.results import EpisodeResult, outcome
from costgym.experiments.play.trajectories.replay import readable
from costgym.simulators.errors import ConfigError, DataError, InfrastructureError, MissingExtra

try:
    import sqlalchemy as sa
    from sqlalchemy.dialects.postgresql import insert as postgresql_insert
    from sqlalchemy.dialects.sqlite import insert as sqlite_insert
    from sqlalchemy.engine import URL, Connection, Engine, make_url
    from sqlalchemy.exc import ArgumentError, DatabaseError, DBAPIError, InterfaceError, OperationalError, SQLAlchemyError
except ModuleNotFoundError as error:
    raise MissingExtra("sqlalchemy", "store") from error

SCHEMA = 2  # version of the tables
WAIT_S = 60.0  # how long a writer waits for another
_LOCK = 0x636F7374  # key of PostgreSQL's advisory lock for creating the tables

metadata = sa.MetaData()
Number: sa.Double[float] = sa.Double(53)


def _columns(kind: Any, names: str) -> list[sa.Column[Any]]:
    """Columns of one type; those whose names end in a question mark may be null."""
    return [sa.Column(name.rstrip("?"), kind, nullable=name.endswith("?")) for name in names.split()]


schema = sa.Table("costgym_schema", metadata, sa.Column("version", sa.Integer, primary_key=True))

runs = sa.Table(
    "costgym_runs",
    metadata,
    sa.Column("run", sa.String(16), primary_key=True),
    *_columns(sa.Text, "suite scenario split grading version folder"),
    *_columns(sa.BigInteger, "seed"),
    *_columns(sa.JSON, "manifest document"),
)

entries = sa.Table(
    "costgym_entries",
    metadata,
    sa.Column("run", sa.ForeignKey("costgym_runs.run", ondelete="CASCADE"), primary_key=True),
    sa.Column("entry", sa.String(16), primary_key=True),
    *_columns(sa.Integer, "place episodes"),
    *_columns(sa.Text, "agent model? env file"),
    *_columns(sa.JSON, "budget"),
    *_columns(Number, "pass_rate? pass_rate_under_budget? average_cost?"),
    *_columns(sa.Boolean, "verified"),
)

episodes = sa.Table(
    "costgym_episodes",
    metadata,
    sa.Column("run", sa.String(16), primary_key=True),
    sa.Column("entry", sa.String(16), primary_key=True),
    sa.Column("episode", sa.Integer, primary_key=True),
    *_columns(sa.Text, "agent model? env scenario task"),
    *_columns(sa.BigInteger, "seed tokens"),
    *_columns(sa.Integer, "calls attempts"),
    *_columns(sa.JSON, "budget errors errors_by_status settings figures"),
    *_columns(sa.String(16), "status exceeded?"),
    *_columns(sa.Boolean, "strict judged void verified"),
    *_columns(Number, "share price seconds optimum_price? quality regret?"),
    sa.ForeignKeyConstraint(["run", "entry"], ["costgym_entries.run", "costgym_entries.entry"], ondelete="CASCADE"),
)
BATCH = 2000  # number of rows sent at once
_FIELDS = [field.name for field in fields(EpisodeResult) if field.name not in ("void_reason", "crash", "replies")]
"""The others stand in a run's own files."""


class Store:
    """A database of results, `sqlite:///results.db`, a plain path, or `postgresql://USER@HOST/DATABASE`; a context manager.
    Missing files and tables are created, unless `create` is False. Raises InfrastructureError if it cannot be reached."""

    def __init__(self, url: str, create: bool = True) -> None:
        self._url = store_url(url)
        # a password may stand among the parameters too
        self.name = self._url.set(query={}).render_as_string(hide_password=True)
        self._sqlite = self._url.get_backend_name() == "sqlite"
        path = self._url.database
        on_disk = self._sqlite and path not in (None, "", ":memory:")
        if on_disk and not create and not Path(str(path)).is_file():
            raise ConfigError("--store", f"there is no {path}; `costgym leaderboard --store {path}` makes one")
        if on_disk and not Path(str(path)).parent.is_dir():
            raise ConfigError("--store", f"there is no folder {Path(str(path)).parent}")
        self._engine = open_engine(self._url)
        try:
            with self._errors():
                if on_disk and create:
                    use_wal(self._engine)
                version = self._open(create)
            if version != SCHEMA:
                kind = "no tables of costgym" if version is None else f"tables of version {version}, this costgym has {SCHEMA}"
                raise DataError(self.name, f"holds {kind}; choose another database")
        except BaseException:
            self._engine.dispose()
            raise

    def _open(self, create: bool) -> int | None:
        if create:
            with self._writing() as connection:
                return create_tables(connection)
        with self._reading() as connection:
            if not sa.inspect(connection).has_table(schema.name):
                return None
            return connection.execute(sa.select(schema.c.version)).scalar()

    def __enter__(self) -> "Store":
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        self._engine.dispose()

    def save(self, run: Run, verified: bool = False) -> str:
        """Save a run in one transaction, in place of the same one, all or nothing. `verified`: replay confirmed every entry.
        Raises InfrastructureError if the database failed, DataError if an episode of the run cannot be read."""
        document = run.document
        scenario = document.get("scenario") or {}
        about: dict[str, Any] = {
            "run": run.id,
            "suite": readable(str(document.get("suite", ""))),
            "scenario": readable(str(scenario.get("name", ""))),
            "split": str(scenario.get("split", "")),
            "grading": str(document.get("grading") or "strict"),
            "seed": int(document.get("seed") or 0),
            "version": str(document.get("version", "")),
            "manifest": dict(run.manifest),
            "document": dict(document),
            "folder": "" if run.folder is None else readable(str(run.folder.resolve())),
        }
        verified_entries = {entry.id: entry.verified or verified for entry in run.entries}
        with self._errors(), self._writing() as connection:
            # the run's row comes first: who writes the same run waits here and nowhere else
            self._upsert(connection, runs, ("run",), [about])
            connection.execute(
                sa.delete(entries).where(entries.c.run == run.id, entries.c.entry.not_in(list(verified_entries)))
            )
            rows = [_entry_row(run.id, index, entry, verified_entries[entry.id]) for index, entry in enumerate(run.entries)]
            self._upsert(connection, entries, ("run", "entry"), rows)
            run_key = run.id, about["scenario"], about["grading"]
            rows_of_episodes = (
                _episode_row(run_key, entry_number, result, verified_entries[entry_number])
                for entry_number, result in run.results()
            )
            while batch := list(islice(rows_of_episodes, BATCH)):
                self._upsert(connection, episodes, ("run", "entry", "episode"), batch)
        return run.id

    def save_folder(self, folder: str | Path) -> str:
        """`save` of the run in a folder."""
        with copied_run(Path(folder)) as copy:
            return self.save(replace(read_run(copy), folder=Path(folder)))

    def runs(self) -> list[Run]:
        """All runs, in order of suite, scenario, seed and id."""
        order = (runs.c.suite, runs.c.scenario, runs.c.seed, runs.c.run)
        with self._errors(), self._reading() as connection:
            stored = connection.execute(sa.select(runs)).mappings().all()
            flags = connection.execute(sa.select(entries.c.run, entries.c.entry, entries.c.verified)).all()
        verified = {(run, entry) for run, entry, flag in flags if flag}
        # sorted here: databases differ in how they order texts
        return [self._run(row, verified) for row in sorted(stored, key=lambda row: tuple(row[column.name] for column in order))]

    def episodes(self, run: str) -> Iterator[tuple[str, EpisodeResult, bool]]:
        """A run's episodes by entry and index: the entry's id, the result, and whether it is verified."""
        wanted = sa.select(episodes, entries.c.place).join(entries).where(episodes.c.run == run)
        wanted = wanted.order_by(entries.c.place, episodes.c.episode)
        with self._errors(), self._reading() as connection:
            for row in connection.execution_options(yield_per=BATCH).execute(wanted).mappings():
                yield row["entry"], EpisodeResult(**{name: row[name] for name in _FIELDS}), row["verified"]

    def _run(self, row: Any, verified: set[tuple[str, str]]) -> Run:
        folder = Path(row["folder"]) if row["folder"] and Path(row["folder"]).is_dir() else None
        document, number = row["document"], row["run"]
        plain = [entry_of(part, document, folder) for part in document["rows"]]
        marked = tuple(replace(part, verified=part.verified or (number, part.id) in verified) for part in plain)
        return Run(
            number, row["manifest"], document, folder, marked, lambda: (episode[:2] for episode in self.episodes(number))
        )

    def _upsert(self, connection: Connection, table: sa.Table, key: Sequence[str], rows: list[dict[str, Any]]) -> None:
        """Insert rows, or replace those of the same key."""
        if not rows:
            return
        statement: Any = sqlite_insert(table) if self._sqlite else postgresql_insert(table)
        others = {column.name: statement.excluded[column.name] for column in table.c if column.name not in key}
        connection.execute(statement.on_conflict_do_update(index_elements=list(key), set_=others), rows)

    @contextmanager
    def _writing(self) -> Iterator[Connection]:
        with self._engine.connect().execution_options(writes=True) as connection, connection.begin():
            yield connection

    @contextmanager
    def _reading(self) -> Iterator[Connection]:
        with self._engine.connect() as connection, connection.begin():
            yield connection

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """Convert errors of the database to errors of costgym with one line of text."""
        try:
            yield
        except (OperationalError, InterfaceError) as error:
            raise InfrastructureError(f"{self.name}: {_reason(error)}; nothing was written") from error
        except DatabaseError as error:
            raise DataError(self.name, f"{_reason(error)}; nothing was written") from error
        except SQLAlchemyError as error:
            raise DataError(self.name, f"cannot be used: {str(error).splitlines()[0]}") from error


def _reason(error: DBAPIError) -> str:
    return (str(error.orig).strip() or type(error.orig).__name__).splitlines()[0]


def _entry_row(run: str, index: int, entry: RunEntry, verified: bool) -> dict[str, Any]:
    row = entry.row
    return {
        "run": run,
        "entry": entry.id,
        "place": index,
        "agent": readable(str(row["agent"])),
        "model": None if row.get("model") is None else readable(str(row["model"])),
        "env": str(row.get("env", "")),
        "budget": dict(row.get("budget") or {}),
        "episodes": int(row.get("episodes") or 0),
        **{name: row.get(name) for name in ("pass_rate", "pass_rate_under_budget", "average_cost")},
        "file": entry.file,
        "verified": verified,
    }


def _episode_row(run_key: tuple[str, str, str], entry: str, result: EpisodeResult, verified: bool) -> dict[str, Any]:
    run, scenario, grading = run_key
    row = {"settings": {}, "figures": {}, **json.loads(result.to_json())}
    for name in ("agent", "model", "task"):
        row[name] = None if row[name] is None else readable(row[name])
    status = outcome(result, grading)
    return {**row, "run": run, "entry": entry, "scenario": scenario, "status": status, "verified": verified}


def store_url(text: str) -> URL:
    """A URL of the store: as SQLAlchemy has them; a plain path is an SQLite file, `postgresql://` goes through psycopg. Raises
    ConfigError if it is not a URL, or names a database that the store does not support."""
    try:
        url = make_url(text if "://" in text else f"sqlite:///{text}")
    except (ArgumentError, ValueError):  # the text is not shown: it may hold a password
        raise ConfigError("--store", "expected a URL such as sqlite:///results.db or postgresql://HOST/DATABASE") from None
    backend = url.get_backend_name()
    if backend in ("postgresql", "postgres"):
        return url.set(drivername="postgresql+psycopg")
    if backend != "sqlite":
        raise ConfigError("--store", f"expected sqlite or postgresql, got {backend!r}")
    return url


def open_engine(url: URL) -> Engine:
    """An engine whose transactions are `reading` or `writing`."""
    if url.get_backend_name() == "postgresql":
        try:
            import psycopg  # noqa: F401
        except ModuleNotFoundError as error:
            raise MissingExtra("psycopg", "store") from error
        return sa.create_engine(url, connect_args={"connect_timeout": 10})
    engine = sa.create_engine(url, connect_args={"timeout": WAIT_S})

    @sa.event.listens_for(engine, "connect")
    def prepare(connection: Any, _: Any) -> None:
        connection.isolation_level = None  # the driver must not begin transactions on its own
        cursor = connection.cursor()
        cursor.execute(f"PRAGMA busy_timeout = {int(WAIT_S * 1000)}")
        cursor.execute("PRAGMA foreign_keys = ON")
        cursor.close()

    @sa.event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        # a writer takes its place at once: a reader that turns writer later cannot wait and would fail
        kind = "IMMEDIATE" if connection.get_execution_options().get("writes") else "DEFERRED"
        connection.exec_driver_sql(f"BEGIN {kind}")

    return engine


def use_wal(engine: Engine) -> None:
    """Let SQLite's readers and its writer work side by side. The change itself does not wait for others, so it is retried."""
    deadline = time.monotonic() + WAIT_S
    while True:
        try:
            raw = engine.raw_connection()
        except sqlite3.Error as error:  # SQLAlchemy passes it on as it is
            raise OperationalError("connect", None, error) from error
        try:
            raw.cursor().execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.Error as error:
            if "locked" not in str(error) or time.monotonic() > deadline:
                kind = OperationalError if isinstance(error, sqlite3.OperationalError) else DatabaseError
                raise kind("PRAGMA journal_mode = WAL", None, error) from error
            time.sleep(0.05)
        finally:
            raw.close()


def create_tables(connection: Connection) -> int:
    """Make what is missing, in a transaction that writes; returns the version of what is there."""
    if connection.dialect.name == "postgresql":
        connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({_LOCK})")
    metadata.create_all(connection)
    version = connection.execute(sa.select(schema.c.version)).scalar()
    if version is None:
        connection.execute(sa.insert(schema).values(version=SCHEMA))
        return SCHEMA
    return int(version)
