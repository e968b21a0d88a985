"""By default an environment plays in compiled code where that lies on disk, in Python elsewhere, and always the same."""

from __future__ import annotations

import pickle
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import costgym
from costgym.cli.tools.speed import FORMS
from costgym.envs import compiled as choice
from costgym.envs.marketplace import MarketplaceEnv
from costgym.envs.sessions.session import MarketplaceSessionEnv
from costgym.simulators.batch.stamps import batch_digest, perhaps_stored
from costgym.simulators.errors import ConfigError
from tests.helpers.command_line import invoke

KINDS = (MarketplaceEnv, MarketplaceSessionEnv)
PLAY = """
import sys
import costgym
from costgym.cli.tools.speed import FORMS
from costgym.envs import compiled
compiled.AUTO_AFTER = 5
env = costgym.make("costgym/Marketplace-v0")
env.reset(seed=0)
for _ in range(30):
    if any(env.step(0)[2:4]):
        env.reset()
env.reset()
print(env.unwrapped._compiled is not None, "numba" in sys.modules)
"""


@pytest.fixture(autouse=True)
def fresh() -> Any:
    perhaps_stored.cache_clear()
    yield
    perhaps_stored.cache_clear()


def play(env: Any, steps: int) -> list[Any]:
    """Everything that a random player sees, as bytes."""
    generator, found = np.random.default_rng(3), []
    observation, info = env.reset(seed=3)
    for _ in range(steps):
        found.append((sorted((name, part.tobytes()) for name, part in observation.items()), repr(info)))
        observation, reward, terminated, truncated, info = env.step(int(generator.choice(np.flatnonzero(info["action_mask"]))))
        found.append((repr(reward), terminated, truncated))
        if terminated or truncated:
            observation, info = env.reset()
    return found


def play_apart(cache: Path, before: str = "") -> list[str]:
    """Play in another process, whose compiled code lies in a folder."""
    apart = {"NUMBA_CACHE_DIR": str(cache), "PYTHONPATH": ":".join(sys.path)}
    done = subprocess.run([sys.executable, "-c", before + PLAY], capture_output=True, text=True, check=True, env=apart)
    return done.stdout.split()


def test_a_cold_cache_is_found_out_without_numba_and_played_in_python(tmp_path: Path) -> None:
    assert play_apart(tmp_path) == ["False", "False"]


@pytest.mark.skipif(find_spec("numba") is None, reason="needs the extra `train`")
@pytest.mark.parametrize("content", [b"", b"damaged", b"with the stamp of this version: "])
def test_a_cache_that_is_stale_or_damaged_is_played_in_python(content: bytes, tmp_path: Path) -> None:
    version = f"{sys.version_info.major}{sys.version_info.minor}"
    index = tmp_path / "kernels_0" / f"marketplace.play_one-1.py{version}.nbi"
    index.parent.mkdir()
    right = content.endswith(b": ")
    index.write_bytes(content + batch_digest() * right)
    assert play_apart(tmp_path) == ["False", str(right)]  # only what looks right is worth an import of Numba


def test_a_cache_that_an_earlier_installation_left_is_played_in_python(tmp_path: Path) -> None:
    version = f"{sys.version_info.major}{sys.version_info.minor}"
    (tmp_path / "kernels_0").mkdir()
    (tmp_path / "kernels_0" / f"marketplace.play_one-1.py{version}.nbi").write_bytes(batch_digest())
    assert play_apart(tmp_path, "import sys; sys.modules['numba'] = None\n") == ["False", "True"]


def test_the_check_knows_this_version_and_this_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    version = f"{sys.version_info.major}{sys.version_info.minor}"
    (tmp_path / "kernels_0").mkdir()
    found = []
    for name, content in ((f"py{version}", b"x" * 64), ("py20", batch_digest()), (f"py{version}", batch_digest())):
        (tmp_path / "kernels_0" / f"sessions.play_one-1.{name}.nbi").write_bytes(b"before" + content + b"after")
        perhaps_stored.cache_clear()
        found.append(perhaps_stored(Path("sessions.py"), "play_one"))
    assert found == [False, False, True]
    monkeypatch.setenv("NUMBA_DISABLE_JIT", "1")
    perhaps_stored.cache_clear()
    assert not perhaps_stored(Path("sessions.py"), "play_one")


def test_short_runs_and_whoever_reads_accounts_stay_in_python(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choice, "perhaps_stored", lambda *_: pytest.fail("looked for compiled code"))
    for kind in KINDS:
        play(kind(), 40)
    monkeypatch.setattr(choice, "AUTO_AFTER", 5)
    costgym.rollout(costgym.make("costgym/Marketplace-v0", split="test"), "greedy", episodes=12)
    several = MarketplaceEnv(scenario=["marketplace", "storm"])
    play(several, 40)


@pytest.mark.parametrize("given", ["yes", 1, None])
def test_what_is_no_choice_is_refused(given: Any) -> None:
    for kind in KINDS:
        with pytest.raises(ConfigError, match='expected true, false or "auto"'):
            kind(compiled=given)


@pytest.mark.native
@pytest.mark.parametrize("kind", KINDS)
def test_a_warm_cache_is_used_and_gives_the_same_bytes(kind: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("numba")
    settings = {} if kind is MarketplaceEnv else {"queries": 10}
    kind(compiled=True, **settings).reset(seed=0)
    monkeypatch.setattr(choice, "AUTO_AFTER", 50)
    env = kind(**settings)
    steps = 400
    assert play(env, steps) == play(kind(compiled=False, **settings), steps)
    assert env._compiled is not None
    env.reset(seed=1)
    twin = pickle.loads(pickle.dumps(env))
    assert play(twin, 100) == play(kind(compiled=False, **settings), 100) and twin._compiled is not None
    assert env.account().ledger.price == 0.0  # handed over, and from now on in Python
    env.reset(seed=2)
    assert env._compiled is None
    assert play(env, 100) == play(kind(compiled=False, **settings), 100) and env._compiled is None


@pytest.mark.native
@pytest.mark.slow
def test_after_warm_every_form_plays_in_compiled_code(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("numba")
    done = invoke("warm")
    assert done.exit_code == 0 and done.output.count(" s\n") == len(FORMS)
    monkeypatch.setattr(choice, "AUTO_AFTER", 1)
    for env_id, settings in FORMS:
        env: Any = costgym.make(env_id, **settings).unwrapped
        env.reset(seed=0)
        env.step(0)
        env.reset()
        assert env._compiled is not None, (env_id, settings)
