"""`costgym serve`: options that cannot be."""

import socket
import sys
from importlib.abc import MetaPathFinder

import pytest

from costgym.cli import main
from costgym.experiments.serve.limits import sessions_of_a_client
from tests.helpers.command_line import invoke

pytest.importorskip("mcp", reason="the extra `serve` is not installed")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("--env costgym/No-v0", "unknown environment"),
        ("--port 99999", "--port"),
        ("--seed -1", "--seed"),
        ("--idle 0", "--idle: expected a number greater than 0"),
        ("--budget price=1,2", "one limit per resource"),
        ("--env costgym/OpenCATP-v0 --scenario storm", "no such option"),
        ("--env costgym/OpenCATPCalls-v0 --stdio", "MCP is text"),
    ],
)
def test_a_wrong_option_is_an_error_that_helps(options: str, words: str) -> None:
    done = invoke("serve", *options.split())
    assert done.exit_code == 2
    assert words in done.stderr


@pytest.mark.parametrize("command", ["serve", "proxy"])
def test_a_port_in_use_is_one_sentence(command: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = invoke(command, "--port", str(port), *(["--", "true"] if command == "proxy" else []))
    assert (done.exit_code, done.stderr.count("\n")) == (2, 1)
    assert f"port {port} of 127.0.0.1 is in use; choose another, or 0 for a free one" in done.stderr


def test_one_address_may_take_a_quarter_of_the_sessions_beyond_this_machine() -> None:
    assert [sessions_of_a_client(host, 256) for host in ("127.0.0.1", "localhost", "0.0.0.0")] == [0, 0, 64]
    assert sessions_of_a_client("0.0.0.0", 2) == 1


def test_an_interruption_while_modules_are_imported_is_no_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    class Interrupting(MetaPathFinder):
        def find_spec(self, name: str, *_: object) -> None:
            if name == "costgym.cli.app":
                raise KeyboardInterrupt

    monkeypatch.delitem(sys.modules, "costgym.cli.app", raising=False)
    monkeypatch.setattr(sys, "meta_path", [Interrupting(), *sys.meta_path])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 130
