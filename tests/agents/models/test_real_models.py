"""Real models from end to end: transformers' own server on loopback behind a recording proxy, and a tiny model in this process.

What the ledger holds must be what the server says it used, token by token and cent by cent.
"""

import json
import os
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import yaml

from costgym.agents.llm.session import LlmAgent
from costgym.agents.llm.strategies import Dfsdt, ReAct, SearchSettings
from costgym.agents.models.named import CACHE_VARIABLE, make_real_model, priced_for, read_model_name
from costgym.agents.models.openai import KEY_VARIABLE, URL_VARIABLE, chat_messages
from costgym.agents.registry import make_agent, make_model
from costgym.experiments.board.verify import verify
from costgym.simulators.errors import ConfigError, UnknownName
from costgym.simulators.scenario import load_scenario, parse_scenario
from tests.helpers.command_line import invoke
from tests.helpers.playing import SMALL, chat, play
from tests.helpers.tiny_model import save_tiny_model
from tests.helpers.worlds import small_world, tool

KEY = "sk-not-for-any-file"
CALL = '<tool_call>\n{"name": "map", "arguments": {"city": "c0"}}\n</tool_call>'
PRICES = {"input": 2.0, "output": 8.0}
"""USD per million tokens; a credit is a cent."""


class Proxy:
    """Passes requests on to a server and keeps what it says of its usage."""

    def __init__(self, target: str) -> None:
        self.usages: list[tuple[int, int]] = []
        self.keys: list[str | None] = []
        self.called = 0
        owner = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                request = urllib.request.Request(target + self.path, body, {"Content-Type": "application/json"})
                try:
                    with urllib.request.urlopen(request, timeout=60) as response:
                        status, text = response.status, response.read()
                except urllib.error.HTTPError as error:
                    status, text = error.code, error.read()
                if status == 200:
                    document = json.loads(text)
                    owner.usages.append((document["usage"]["prompt_tokens"], document["usage"]["completion_tokens"]))
                    owner.called += bool(document["choices"][0]["message"].get("tool_calls"))
                owner.keys.append(self.headers.get("Authorization"))
                self.send_response(status)
                self.end_headers()
                self.wfile.write(text)

            def log_message(self, *args):
                pass

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._http.server_port}/v1"
        threading.Thread(target=self._http.serve_forever, args=(0.01,), daemon=True).start()

    def close(self) -> None:
        self._http.shutdown()
        self._http.server_close()

    @property
    def tokens(self) -> int:
        return sum(prompt + completion for prompt, completion in self.usages)

    @property
    def credits(self) -> float:
        return sum(prompt * PRICES["input"] + completion * PRICES["output"] for prompt, completion in self.usages) * 100 / 1e6


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    save_tiny_model(folder / "babbler")
    save_tiny_model(folder / "caller", CALL)
    return folder


@pytest.fixture(scope="module")
def served(models: Path):
    """`transformers serve` on a free port; skips where it cannot start."""
    for name in ("fastapi", "uvicorn", "openai"):
        pytest.importorskip(name, reason="transformers serve needs fastapi, uvicorn and openai")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    log = (models / "server.log").open("wb")
    serve = [sys.executable, "-m", "transformers.cli.transformers", "serve", "--device", "cpu"]
    process = subprocess.Popen(
        [*serve, "--host", "127.0.0.1", "--port", str(port)],
        stdout=log, stderr=subprocess.STDOUT, env={**os.environ, "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    try:
        for _ in range(240):
            if process.poll() is not None:
                break
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=2):
                    yield f"http://127.0.0.1:{port}"
                    return
            except OSError:
                time.sleep(0.5)
        pytest.skip(f"transformers serve does not start: {(models / 'server.log').read_text(errors='replace')[-300:]}")
    finally:
        process.terminate()
        process.wait(20)
        log.close()


@pytest.fixture
def proxy(served: str, monkeypatch: pytest.MonkeyPatch):
    server = Proxy(served)
    monkeypatch.setenv(URL_VARIABLE, server.url)
    monkeypatch.setenv(KEY_VARIABLE, KEY)
    yield server
    server.close()


@pytest.fixture
def prices(models: Path, tmp_path: Path) -> Path:
    table = {"date": "2026-01-01", "models": {str(models / name): PRICES for name in ("babbler", "caller")}}
    path = tmp_path / "prices.yaml"
    path.write_text(yaml.safe_dump(table))
    return path


def costgym(*arguments: object) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "costgym", *map(str, arguments), "--quiet"], capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr[-3000:]


@pytest.mark.slow
@pytest.mark.parametrize("strategy", [ReAct(), Dfsdt(SearchSettings(depth=2, queries=5))], ids=["react", "dfsdt"])
def test_every_reply_is_charged_what_the_server_says_it_used(proxy: Proxy, models: Path, strategy) -> None:
    world = small_world(tool("map", fee=2.0), tool("forecast", need=1))
    for name in ("babbler", "caller"):
        env = chat(scenario=priced(SMALL))
        env.world, env.numbers = replaced(env.world, world), world.tasks.numbers("train")
        proxy.usages.clear()
        play(env, LlmAgent(make_model(f"openai:{models / name},max_tokens=24"), strategy))
        paid = [(charge.tokens, charge.price) for charge in env.episode.ledger if charge.tokens]
        wanted = [(p + c, (p * PRICES["input"] + c * PRICES["output"]) * 100 / 1e6) for p, c in proxy.usages]
        assert [tokens for tokens, _ in paid] == [tokens for tokens, _ in wanted]
        assert [price for _, price in paid] == pytest.approx([price for _, price in wanted], rel=1e-12)
        assert (env.episode.ledger.calls > 1) == (name == "caller")
    assert proxy.called > 1 and set(proxy.keys) == {f"Bearer {KEY}"}


@pytest.mark.slow
def test_a_leaderboard_over_a_real_server_is_honest_and_a_cache_repeats_it(
    proxy: Proxy, models: Path, prices: Path, tmp_path: Path
) -> None:
    scenario = tmp_path / "small.yaml"
    scenario.write_text(yaml.safe_dump({"name": "small", **SMALL}))
    command = [
        "leaderboard", "--scenario", scenario, "--agents", "react,react+btp", "--budgets", "price=20", "--episodes", "3",
        "--model", f"openai:{models / 'caller'},max_tokens=24", "--prices", prices, "--cache", tmp_path / "cache",
        "--jobs", "1",
    ]  # fmt: skip
    costgym(*command, "--out", tmp_path / "first")
    count = len(proxy.usages)
    results = [json.loads(line) for line in (tmp_path / "first" / "episodes.jsonl").read_text().splitlines()]
    assert [r["void"] for r in results] == [False] * 6 and count > 6
    assert sum(r["tokens"] for r in results) == proxy.tokens
    fees = sum(r["price"] for r in results) - proxy.credits
    assert fees == pytest.approx(round(fees), abs=1e-9) and round(fees) >= 0  # tools cost whole credits
    rows = json.loads((tmp_path / "first" / "leaderboard.json").read_text())["rows"]
    assert sum(row["average_tokens"] * row["episodes"] for row in rows) == pytest.approx(proxy.tokens)
    assert verify(tmp_path / "first").verified
    costgym(*command, "--out", tmp_path / "again")
    assert len(proxy.usages) == count  # nothing was asked for twice
    for name in ("episodes.jsonl", "leaderboard.json"):
        assert (tmp_path / "again" / name).read_bytes() == (tmp_path / "first" / name).read_bytes()
    for path in tmp_path.rglob("*"):
        assert path.is_dir() or KEY.encode() not in path.read_bytes(), path


@pytest.mark.slow
def test_one_agent_runs_on_a_babbling_server(proxy: Proxy, models: Path, prices: Path, tmp_path: Path) -> None:
    figures = tmp_path / "row.json"
    model = f"openai:{models / 'babbler'},max_tokens=16"
    costgym("run", "--agent", "react", "--model", model, "--prices", prices, "--episodes", "4", "--json", figures)
    row = json.loads(figures.read_text())
    assert row["pass_rate"] == 0.0 and row["void_episodes"] == 0
    assert row["average_tokens"] * 4 == proxy.tokens
    assert row["average_cost"] * 4 == pytest.approx(proxy.credits, rel=1e-9)


def priced(document: dict) -> dict:
    return {**document, "tokens": {name: 100 * price for name, price in PRICES.items()}}


def replaced(priced_world, world):
    """A hand-made world with another's token prices."""
    from dataclasses import replace

    return replace(world, tokens=priced_world.tokens)


# -- in this process -------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_local_model_is_charged_what_its_tokenizer_counts(models: Path) -> None:
    model = make_real_model(read_model_name(f"local:{models / 'caller'},max_tokens=16,device=cpu"))
    heard = []
    ask = model.complete

    def listen(messages, functions, purpose="act"):
        heard.append((list(messages), list(functions)))
        return ask(messages, functions, purpose)

    model.complete = listen
    env = chat(small_world(tool("map", fee=2.0), tool("forecast", need=1)))
    play(env, LlmAgent(model, ReAct()))
    prompts = []
    for messages, functions in heard:
        wire = chat_messages(messages)
        for entry in wire:
            for call in entry.get("tool_calls", ()):
                call["function"]["arguments"] = json.loads(call["function"]["arguments"])
        tools = [function.document() for function in functions]
        text = model._tokenizer.apply_chat_template(wire, tools=tools, tokenize=False, add_generation_prompt=True)
        prompts.append(len(model._tokenizer(text, add_special_tokens=False)["input_ids"]))
    spent = [charge.tokens for charge in env.episode.ledger if charge.tokens]
    assert spent == [prompt + 2 for prompt in prompts] and len(spent) == 12  # its piece, and the end of its turn
    assert env.episode.ledger.calls == 12 and env.episode.ledger.price == 24.0


@pytest.mark.slow
def test_a_local_model_plays_from_the_command_line_with_an_adapter(models: Path, tmp_path: Path) -> None:
    peft = pytest.importorskip("peft")
    import transformers

    base = transformers.AutoModelForCausalLM.from_pretrained(models / "caller")
    peft.get_peft_model(base, peft.LoraConfig(r=2, target_modules=["q_proj"])).save_pretrained(tmp_path / "lora")
    name = f"local:{models / 'caller'},adapter={tmp_path / 'lora'},max_tokens=8,device=cpu"
    costgym("run", "--agent", "react", "--model", name, "--episodes", "2", "--json", tmp_path / "row.json")
    row = json.loads((tmp_path / "row.json").read_text())
    assert row["model"] == "caller+lora" and row["average_tokens"] > 0 and row["average_cost"] >= 0
    with pytest.raises(ConfigError, match="adapter_config"):
        make_model(f"local:{models / 'caller'},adapter={tmp_path}")


# -- names, prices, caches: no model is asked --------------------------------------------------------------------------------


def test_a_real_models_name_holds_its_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    assert read_model_name("openai:a/b,temperature=0.5,tries=2") == ("openai", "a/b", {"temperature": 0.5, "tries": 2})
    assert read_model_name("local:dir,adapter=x=y") == ("local", "dir", {"adapter": "x=y"})
    assert read_model_name("simulated") is None and read_model_name("openai:") is None
    with pytest.raises(UnknownName, match="temperature"):
        read_model_name("openai:a,temprature=1")
    with pytest.raises(ConfigError, match="max_tokens: expected a number, got 'many'"):
        read_model_name("local:a,max_tokens=many")
    monkeypatch.setenv(URL_VARIABLE, "http://127.0.0.1:9/v1")
    model = make_model("openai:tiny,temperature=0.5,max_tokens=7")
    assert (model.name, model.settings.temperature, model.settings.max_tokens) == ("tiny", 0.5, 7)


def test_tokens_cost_what_the_table_says_in_the_scenarios_currency(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = tmp_path / "prices.yaml"
    table.write_text("date: 2026-02-03\nmodels: {tiny: {input: 2, output: 8, cached: 1}}\nper_dollar: {USD: 1, credits: 100}")
    priced = priced_for(load_scenario("marketplace"), "openai:tiny", table)
    assert (priced.tokens.input, priced.tokens.output, priced.tokens.cached) == (200.0, 800.0, 100.0)
    assert priced.description.endswith("Tokens at the prices of tiny, 2026-02-03.")
    assert priced_for(load_scenario("faas"), "local:tiny", table).tokens.output == 8.0
    with pytest.raises(ConfigError, match="florins"):
        priced_for(parse_scenario({"name": "x", "currency": "florins"}), "openai:tiny", table)
    with pytest.raises(UnknownName, match="tiny"):
        priced_for(load_scenario("marketplace"), "openai:huge", table)
    with pytest.raises(ConfigError, match="not a real model"):
        priced_for(load_scenario("marketplace"), "simulated", table)


def test_what_is_bought_elsewhere_must_be_listed_and_what_runs_here_is_free(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(URL_VARIABLE, raising=False)
    plain = load_scenario("marketplace")
    with pytest.raises(ConfigError, match="--prices FILE"):
        priced_for(plain, "openai:unheard-of")
    assert priced_for(plain, "openai:gpt-4o-2024-05-13").tokens.input == 500.0
    assert priced_for(plain, "local:some/folder") == plain
    monkeypatch.setenv(URL_VARIABLE, "http://localhost:8000/v1")
    assert priced_for(plain, "openai:unheard-of") == plain
    assert priced_for(load_scenario("decision"), "openai:gpt-4o-2024-05-13") == load_scenario("decision")


def test_the_cache_knows_servers_and_settings_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "cache"))
    keys = set()
    for url, name in (
        ("http://127.0.0.1:9/v1", "openai:t"),
        ("http://127.0.0.1:8/v1", "openai:t"),
        ("http://127.0.0.1:8/v1", "openai:t,temperature=1"),
    ):
        monkeypatch.setenv(URL_VARIABLE, url)
        keys.add(make_model(name)._key([], [], "act"))
    assert len(keys) == 3 and (tmp_path / "cache" / "replies.sqlite").is_file()


def test_ablations_of_ecoact_are_agents_and_exclude_each_other() -> None:
    access = make_agent("react+ecoact-several")._access[0]
    assert access.several and not access.descriptions
    with pytest.raises(UnknownName):
        make_agent("react+ecoact+ecoact-several")


def test_a_wrong_table_ends_the_command_before_anything_is_asked_or_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(URL_VARIABLE, "http://127.0.0.1:9/v1")
    table = tmp_path / "prices.yaml"
    table.write_text("date: 2026-02-03\nmodels: {tiny: {input: -2, output: 8}}")
    for prices, model, problem in (
        (table, "openai:tiny", "models.tiny.input"),
        (None, "openai:tiny,max_tokens=x", "max_tokens"),
        (tmp_path / "none.yaml", "openai:tiny", "none.yaml"),
    ):
        options = [] if prices is None else ["--prices", str(prices)]
        ran = invoke("leaderboard", "--model", model, "--out", tmp_path / "run", *options)
        assert ran.exit_code == 2 and problem in ran.stderr
        assert not (tmp_path / "run").exists()
    ran = invoke("run", "--agent", "react", "--cache", tmp_path / "cache")
    assert "not a real model" in ran.stderr and not (tmp_path / "cache").exists()
