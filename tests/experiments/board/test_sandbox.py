"""The sandbox refuses every probe from inside it: files, network, processes, kernel, limits; an honest agent is let be."""

import os
from pathlib import Path

import pytest

import costgym
from costgym.experiments.board.reruns.sandbox import BUBBLEWRAP, NONE, REFUSED, choose, why_not
from tests.adversaries import probes

needs_sandbox = pytest.mark.skipif(bool(why_not()), reason=f"no sandbox here: {why_not()}")


@needs_sandbox
def test_every_probe_from_inside_the_sandbox_is_refused(tmp_path: Path) -> None:
    played = probes.play(tmp_path, BUBBLEWRAP)
    assert set(played) == set(probes.inside.PROBES) - set(probes.LEFT_OUT if os.geteuid() == 0 else ())
    assert {name: outcome for name, outcome in played.items() if outcome == "done" or outcome.startswith("error")} == {}
    assert len(played) >= 70 and {probe.kind for probe in probes.inside.PROBES.values()} == {
        "files", "network", "processes", "kernel", "limits"
    }  # fmt: skip


@needs_sandbox
def test_most_probes_succeed_without_a_sandbox_so_that_a_refusal_says_something(tmp_path: Path) -> None:
    played = probes.play(tmp_path, NONE)
    root = os.geteuid() == 0
    assert sum(outcome == "done" for outcome in played.values()) >= (50 if root else 30), played
    assert not any(outcome.startswith("error") for outcome in played.values())


@needs_sandbox
@pytest.mark.parametrize("name", probes.ENDINGS)
def test_an_attack_that_ends_or_blocks_its_process_is_stopped(name: str, tmp_path: Path) -> None:
    assert probes.ENDINGS[name].attack(tmp_path) != "done"


@needs_sandbox
def test_an_honest_agent_reads_its_files_and_writes_to_its_home(tmp_path: Path) -> None:
    with probes.scene(tmp_path, True) as code, probes.confined("Honest", code) as agent:
        agent.reset(None, {}, {}, 0)
        assert agent.act({}, {}) == 0
        assert sorted(path.name for path in code.iterdir()) == ["attempts.py", "inside.py", "told.json"]


@needs_sandbox
def test_every_system_call_that_is_refused_has_a_name_that_the_filter_knows() -> None:
    pyseccomp = pytest.importorskip("pyseccomp")
    unknown = []
    for name in REFUSED:
        try:
            pyseccomp.resolve_syscall(pyseccomp.Arch.X86_64, name)
        except ValueError:
            unknown.append(name)
    assert unknown == []


def test_a_sandbox_that_is_unknown_or_missing_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(costgym.UnknownName, match="sandbox"):
        choose("docker")
    assert choose(NONE) == NONE
    monkeypatch.setattr("costgym.experiments.board.reruns.sandbox.why_not", lambda: "bwrap not installed")
    assert choose("auto") == NONE
    with pytest.raises(costgym.ConfigError, match="bwrap not installed"):
        choose(BUBBLEWRAP)
