"""`costgym serve`: options that cannot be."""

from __future__ import annotations

import pytest

from tests.helpers.command_line import invoke

pytest.importorskip("mcp", reason="the extra `serve` is not installed")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("--env costgym/No-v0", "unknown environment"),
        ("--port 99999", "--port"),
        ("--seed -1", "--seed"),
        ("--idle 0", "positive finite number"),
        ("--budget price=1,2", "one limit per resource"),
        ("--env costgym/OpenCATP-v0 --scenario storm", "no such choice"),
        ("--env costgym/OpenCATPCalls-v0 --stdio", "MCP is text"),
    ],
)
def test_a_wrong_option_is_an_error_that_helps(options: str, words: str) -> None:
    done = invoke("serve", *options.split())
    assert done.exit_code == 2
    assert words in done.stderr
