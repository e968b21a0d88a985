"""The script for a machine with a GPU, run small on a CPU: every section reports, and what cannot run here says why."""

import json
import os
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "benchmarks" / "gpu.py"


@pytest.mark.slow
def test_every_section_runs_small_on_a_cpu(tmp_path: Path) -> None:
    for module in ("torch", "transformers", "safetensors", "stable_baselines3", "trl"):
        pytest.importorskip(module, reason="the train extra is not installed")
    out = tmp_path / "gpu.json"
    command = [sys.executable, str(SCRIPT), "--device", "cpu", "--small", "--json", str(out)]
    done = subprocess.run(command, cwd=ROOT, env={**os.environ, "OMP_NUM_THREADS": "1"}, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    report = json.loads(out.read_text())
    assert set(report) == {"machine", "trainers", "backbones", "backends", "profiles", "throughput", "kernels", "authors"}
    assert all("failed" not in check for name in report if name != "machine" for check in report[name].values())
    assert report["backbones"]["none"]["steps"] == 3
    assert {"compared_steps", "skipped"} & set(report["kernels"]["Marketplace-v0"])


def test_without_a_gpu_it_says_how_to_try_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    torch = pytest.importorskip("torch", reason="the train extra is not installed")
    if torch.cuda.is_available():
        pytest.skip("there is a GPU here")
    monkeypatch.setattr(sys, "argv", [str(SCRIPT), "--json", str(tmp_path / "x.json")])
    with pytest.raises(SystemExit):
        runpy.run_path(str(SCRIPT))["main"]()
    assert "--device cpu --small" in capsys.readouterr().err
