"""Scores between references, and the loop that a reader copies from the page."""

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import costgym
from costgym.envs.scores import reference_returns
from costgym.simulators.errors import UnknownName

PAGE = Path(__file__).parents[2] / "docs" / "environments" / "marketplacesession-v1.md"


def test_random_scores_0_and_the_informed_reference_1_and_the_ladder_lies_between() -> None:
    assert reference_returns().keys() == {"costgym/MarketplaceSession-v1", *costgym.LEVEL_IDS}
    for env_id, known in reference_returns().items():
        names = ["do-nothing", "greedy", "paced", "tuned", "informed", "bound"]
        scores = costgym.normalized_score(env_id, np.array([known[name] for name in names]))
        assert (np.diff(scores) > 0).all() and scores[4] == 1.0 and costgym.normalized_score(env_id, known["random"]) == 0.0
    with pytest.raises(UnknownName, match="reference returns"):
        costgym.normalized_score("costgym/Marketplace-v0", 1.0)


def test_the_loop_of_the_page_runs_in_a_plain_shell() -> None:
    pytest.importorskip("sb3_contrib", reason="needs the extra `train`")
    (loop,) = (code for code in re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.S) if "learn(" in code)
    plain = {name: value for name, value in os.environ.items() if not name.endswith("_NUM_THREADS")}
    done = subprocess.run([sys.executable, "-c", loop], env=plain, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    share, score = map(float, done.stdout.split())
    assert 0.0 <= share <= 1.0 and np.isfinite(score)
