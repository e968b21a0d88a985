"""`costgym serve`: the world as a service."""

from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from costgym.agents.base import TEXT
from costgym.cli.options import EnvName, WorldOptions
from costgym.experiments.play.options import Seed
from costgym.experiments.serve.limits import Access, AccessOptions, Limits
from costgym.simulators.bounds import Count, Settings, option
from costgym.simulators.errors import ConfigError, require
from costgym.simulators.ledger import Budget


class RecordOptions(Settings):
    """The options about what a server records."""

    record: Annotated[
        Path | None, option("Record the episodes as trajectories; one that its client leaves is a failure.", "DIR")
    ] = None
    record_as: Annotated[str, option("Name of the agent in the records.", "NAME")] = "client"
    episodes: Annotated[
        Count | None, option("Hand out the episodes of a leaderboard in order; the recording is a row of it.")
    ] = None


def serve(
    world: WorldOptions,
    limits: Limits,
    access: AccessOptions,
    recording: RecordOptions,
    env: EnvName = None,
    seed: Seed = 0,
    host: Annotated[str, option("Address to listen on; local by default.")] = "127.0.0.1",
    port: Annotated[int, option("Port to listen on; 0 takes a free one.", ge=0, le=65535)] = 8000,
    stdio: Annotated[bool, option("Serve one episode as MCP over standard input and output.", "", "--stdio")] = False,
) -> None:
    """Serve sessions over OpenEnv's HTTP and WebSocket messages and over MCP.

    Example: `costgym serve --scenario marketplace --budget price=20`
    """
    for module in ("starlette", "uvicorn", "websockets", "mcp_types", "mcp"):
        require(module, "serve")
    from costgym.envs.registration import describe, make

    allowed = Access() if stdio else access.access(host)
    limits = limits if stdio else limits.of_host(host)
    env_id = world.env_id(env, TEXT)
    make_env: Any = partial(make, env_id, disable_env_checker=True, **world.arguments(env_id))

    with ExitStack() as held:
        recorder: Any = None
        if recording.episodes is not None:
            recorder = held.enter_context(_row(world, recording, env and env_id, seed))
            make_env, env_id = recorder.make_env, recorder.row.track.env
        elif recording.record is not None:
            from costgym.experiments.serve.sessions import Recorder

            recorder = held.enter_context(Recorder(recording.record, make_env(), env_id, recording.record_as))
        if stdio:
            _serve_stdio(make_env, limits, seed, recorder)
            return
        from costgym.experiments.serve.server import Service
        from costgym.experiments.serve.server import serve as run

        service = Service(make_env, env_id, describe(env_id), limits, seed, allowed, recorder=recorder)

        def ready(address: str) -> None:
            typer.echo(f"serving {env_id} at {address}", err=True)
            typer.echo(f"  OpenEnv  {address.replace('http', 'ws', 1)}/ws, or POST {address}/reset", err=True)
            if service.speaks_mcp:
                typer.echo(f"  MCP      {address}/mcp, or {address}/mcp/NAME?seed=7&index=3", err=True)
            if allowed.token is not None:
                typer.echo(f"  clients send `Authorization: Bearer TOKEN`, with the token in {access.token}", err=True)

        run(service, host, port, ready)


def _row(world: WorldOptions, recording: RecordOptions, env_id: str | None, seed: int) -> Any:
    """The recorder of a row of a leaderboard that is played as `costgym rank` plays one."""
    from costgym.agents.registry import CLIENT
    from costgym.experiments.board.run_config import make_run_config
    from costgym.experiments.board.served import RunRecorder
    from costgym.experiments.pages.leaderboard_page import pages_of

    if recording.record is None:
        raise ConfigError("--episodes", "expected --record DIR too, the folder of the run")
    for name in ("tasks", "alpha", "profile", "enforcement", "concurrent", "max_steps"):
        if getattr(world, name) is not None:
            raise ConfigError(f"--{name.replace('_', '-')}", "a row of a leaderboard has no such choice; leave out --episodes")
    config = make_run_config(
        agents=[f"{CLIENT}{recording.record_as}"],
        budgets=[Budget(**(world.budget or {"price": 30.0}))],
        grading=world.grading or "strict",
        seed=seed,
        **world.model_dump(include={"scenario", "data", "split", "documents"}),
        episodes=recording.episodes,
    )
    if env_id not in (None, config.tracks[0].env):
        raise ConfigError("--env", f"a row of a leaderboard is played in {config.tracks[0].env}; leave out --episodes")
    return RunRecorder(recording.record, config, pages_of)


def _serve_stdio(make_env: Any, limits: Any, seed: int, recorder: Any) -> None:
    import asyncio
    import time

    from costgym.envs.base import base_env
    from costgym.experiments.serve.sessions import Sessions
    from costgym.experiments.serve.tools import Tools, serve_stdio

    sessions = Sessions(make_env, limits, seed, time.monotonic, recorder)
    if not base_env(sessions.example).calls_by_name:
        raise ConfigError("--stdio", "MCP is text; use a text environment such as --env costgym/MarketplaceChat-v0")
    try:
        asyncio.run(serve_stdio(Tools(sessions)))
    finally:
        for session in sessions:
            sessions.close(session)
