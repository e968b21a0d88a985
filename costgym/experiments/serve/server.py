"""The server: many sessions in one process, with a clean shutdown on SIGTERM and SIGINT."""

import asyncio
import contextlib
import errno
import gc
import signal
import socket
import time
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import gymnasium as gym
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp

from costgym.envs.base import base_env
from costgym.experiments.serve.connections import Gate, configuration
from costgym.experiments.serve.limits import Access, Limits
from costgym.experiments.serve.openenv import OpenEnv
from costgym.experiments.serve.sessions import Recording, Sessions
from costgym.simulators.errors import ConfigError


class Service:
    """The application of a server and its sessions, for which `make` makes an environment each. Episodes are recorded where
    there is a recorder."""

    def __init__(
        self,
        make: Callable[[], gym.Env[Any, Any]],
        env_id: str,
        description: str = "",
        limits: Limits | None = None,
        seed: int = 0,
        access: Access | None = None,
        recorder: Recording | None = None,
    ) -> None:
        self.limits = limits or Limits()
        self.sessions = Sessions(make, self.limits, seed, time.monotonic, recorder)
        self.speaks_mcp = base_env(self.sessions.example).calls_by_name
        routes: list[BaseRoute] = []
        self._mcp: Any = None
        if self.speaks_mcp:
            from costgym.experiments.serve.tools import McpEndpoint, Tools

            self._mcp = McpEndpoint(Tools(self.sessions), self.limits)
            routes += [Route("/mcp", self._mcp), Route("/mcp/{name:path}", self._mcp)]
        routes += OpenEnv(self.sessions, env_id, description).routes()
        application = Starlette(routes=routes, lifespan=self._life, exception_handlers={Exception: _broken, 404: _missing})
        self.app: ASGIApp = Gate(application, self.limits, access or Access())

    @contextlib.asynccontextmanager
    async def _life(self, app: Starlette) -> AsyncIterator[None]:
        async with contextlib.AsyncExitStack() as stack:
            if self._mcp is not None:
                await stack.enter_async_context(self._mcp.manager.run())
            reaper = asyncio.create_task(self._reap())
            try:
                yield
            finally:
                reaper.cancel()
                for session in self.sessions:
                    self.sessions.close(session)

    async def _reap(self) -> None:
        while True:
            await asyncio.sleep(min(5.0, self.limits.idle_s / 4))
            await self.sessions.reap()


async def _broken(request: Request, error: Exception) -> Response:
    return JSONResponse({"detail": "the server failed; the error is in its log", "code": "EXECUTION_ERROR"}, 500)


async def _missing(request: Request, error: Exception) -> Response:
    return JSONResponse({"detail": f"there is nothing at {request.url.path[:200]}", "code": "UNKNOWN_TYPE"}, 404)


class Server(uvicorn.Server):
    """Uvicorn's server; a signal ends it without a traceback or a signal's exit status."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        loop, signals = asyncio.get_running_loop(), (signal.SIGINT, signal.SIGTERM)
        try:
            for number in signals:
                loop.add_signal_handler(number, self.handle_exit, number, None)
        except (NotImplementedError, RuntimeError, ValueError):  # Windows, or not the main thread
            yield
            return
        try:
            yield
        finally:
            for number in signals:
                loop.remove_signal_handler(number)


def serve(service: Service, host: str, port: int, ready: Callable[[str], None]) -> None:
    """Serve a service until a signal; arguments and errors as for `run_server`."""
    gc.collect()
    gc.freeze()  # the world stays; scanning it for garbage would hold up every session
    run_server(Server(configuration(service.app, service.limits)), host, port, ready)


def run_server(server: uvicorn.Server, host: str, port: int, ready: Callable[[str], None]) -> None:
    """Run a server until a signal; `ready` gets its address once it listens, and port 0 takes a free one. Raises ConfigError if
    nothing can listen there, for example because another program does."""

    async def run() -> None:
        with listen(host, port) as listener:
            serving = asyncio.create_task(server.serve([listener]))
            while not server.started and not serving.done():
                await asyncio.sleep(0.01)
            if server.started:
                ready(f"http://{f'[{host}]' if ':' in host else host}:{listener.getsockname()[1]}")
            await serving

    asyncio.run(run())


def listen(host: str, port: int) -> socket.socket:
    """A socket that listens; raises ConfigError where it cannot."""
    try:
        # a name may have several addresses; take the one of IPv4, since clients on this machine try both
        known = sorted(
            socket.getaddrinfo(host, port, type=socket.SOCK_STREAM), key=lambda address: address[0] != socket.AF_INET
        )
        listening = socket.create_server(known[0][4][:2], family=known[0][0])
        # connections inherit it; asyncio sets it only on sockets that it has made itself, and without it each answer in two
        # packets waits 40 ms for the client's acknowledgement
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return listening
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            problem = f"port {port} of {host} is in use; choose another, or 0 for a free one"
            raise ConfigError("--port", problem) from error
        raise ConfigError("--host", f"cannot listen on {host}, port {port}: {error.strerror}") from error
