"""The tables of the store and how they are reached: schema, engine, transactions. `store` has what is done with them.

SQLite and PostgreSQL hold the same tables. Floats are stored in double precision, so what is read is what was written.
"""

import sqlite3
import time
from typing import Any

from ....simulators.errors import ConfigError, MissingExtra

try:
    import sqlalchemy as sa
    from sqlalchemy.engine import URL, Connection, Engine, make_url
    from sqlalchemy.exc import ArgumentError, DatabaseError, OperationalError
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


def store_url(text: str) -> URL:
    """A URL of the store: as SQLAlchemy has them; a plain path is an SQLite file, `postgresql://` goes through psycopg. Raises
    ConfigError if it is no URL, or of a database that the store does not speak."""
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
    found = connection.execute(sa.select(schema.c.version)).scalar()
    if found is None:
        connection.execute(sa.insert(schema).values(version=SCHEMA))
        return SCHEMA
    return int(found)
