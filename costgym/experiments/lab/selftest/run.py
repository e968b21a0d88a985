"""Play random worlds until the time is over; keep what was found as small scenarios that the next run plays first."""

import copy
import hashlib
import importlib.util
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from functools import reduce
from multiprocessing import get_context
from operator import getitem
from pathlib import Path
from random import Random
from typing import Any

import yaml

from costgym.experiments.lab.selftest.oracles import COMPILED, ORACLES, Tally, check
from costgym.experiments.lab.selftest.worlds import Document, Writer
from costgym.simulators.errors import ConfigError, CostGymError, DataError, InfrastructureError
from costgym.simulators.files import make_folder, write_atomically
from costgym.simulators.scenario import Scenario, parse_scenario, worlds_of

SHRINKS = 150  # greatest number of smaller worlds that are tried for one finding
MEMORY_BYTES, GROWTH_BYTES = 640 * 2**20, 256 * 2**20
"""Bound on a process that plays worlds, and on its growth where its first world takes more.

Numba keeps some 60 MB for each kernel that it compiles for each combination of a world's rules, and frees none of it; another
process loads the same kernels from the disk in a tenth of that.
"""
EACH_WORLD = ("rules", "forks", "batch")  # oracles that every world meets; the slower others take turns


@dataclass(frozen=True, slots=True)
class Finding:
    """A world in which something is wrong."""

    oracle: str
    seed: int
    problem: str
    scenario: Document

    @property
    def name(self) -> str:
        return hashlib.sha256(repr((self.oracle, self.scenario)).encode()).hexdigest()[:10]


@dataclass(slots=True)
class Report:
    """The worlds that a run played, and its findings."""

    tally: Tally = field(default_factory=Tally)
    refused: int = 0
    findings: list[Finding] = field(default_factory=list)
    mended: list[str] = field(default_factory=list)
    left_s: float = 0.0  # that a process left to the next

    def add(self, later: "Report") -> None:
        """Take in what the next process found."""
        for name in ("worlds", "episodes", "steps", "refused"):
            setattr(self.tally, name, getattr(self.tally, name) + getattr(later.tally, name))
        self.refused += later.refused
        self.findings += later.findings
        self.mended += later.mended
        self.left_s = later.left_s


def run_in_processes(seconds: float, seed: int, scenario: Scenario | None = None, found: Path | None = None) -> Report:
    """The same as `run`, in one process after the other, each of which ends once it holds `MEMORY_BYTES`; raises DataError if a
    found case cannot be read, or InfrastructureError if a process ended without a word, as it does where memory runs out."""
    report, most = Report(left_s=seconds), 10
    while report.left_s > 0.0 and len(report.findings) < most:
        first = report.tally.worlds
        ours, theirs = get_context("spawn").Pipe(duplex=False)
        about = report.left_s, seed, scenario, found, most - len(report.findings), first
        process = get_context("spawn").Process(target=_part, args=(theirs, *about), daemon=True)
        process.start()
        theirs.close()
        try:
            said = ours.recv()
        except EOFError:
            raise InfrastructureError(f"the process of world {first} and later ones ended without a message") from None
        finally:
            process.kill()
            process.join()
        if isinstance(said, Exception):
            raise said
        report.add(said)
    return report


def _part(pipe: Any, seconds: float, seed: int, scenario: Scenario | None, found: Path | None, most: int, first: int) -> None:
    """Play worlds in this process until the time is over or it holds too much."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # whoever waits for it ends it
    try:
        pipe.send(run(seconds, seed, scenario, found, most=most, first=first, full=_bound()))
    except Exception as error:
        pipe.send(error)


def _bound() -> Callable[[], bool]:
    try:
        import resource
    except ImportError:  # Windows counts no peaks
        return lambda: False
    unit, most = 1 if sys.platform == "darwin" else 1024, 0

    def full() -> bool:
        nonlocal most
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
        most = most or max(MEMORY_BYTES, peak + GROWTH_BYTES)
        return peak > most

    return full


def run(
    seconds: float,
    seed: int,
    scenario: Scenario | None = None,
    found: Path | None = None,
    most: int = 10,
    worlds: int | None = None,
    first: int = 0,
    full: Callable[[], bool] = lambda: False,
) -> Report:
    """Check a scenario, a folder of worlds in turn, or random worlds with all oracles, for so many seconds of the wall clock.
    Cases in the folder `found` are played before world 0 and before the clock starts, and new ones are written there. The run
    ends after `most` findings, after so many `worlds`, or as soon as `full` says that no more are to be played here; `first` is
    the number of the first world. Raises DataError if a found case cannot be read."""
    report = Report()
    if found is not None:
        make_folder(found, "--found")  # a finding that cannot be kept is lost
    for path in sorted(found.glob("*.yaml")) if found is not None and not first else []:
        oracle, number, document = _read(path)
        problem = check(oracle, parse_scenario(document, path), number, report.tally)
        if problem is None:
            report.mended.append(path.name)
        else:
            report.findings.append(Finding(oracle, number, problem, document))
    given: Sequence[Scenario | None] = [scenario] if scenario is None else worlds_of(scenario) or [scenario]
    warm = Writer(Random(0)).scenario() if given[0] is None else given[0].model_dump(mode="json")
    for name in oracles():
        if name in COMPILED:
            check(name, parse_scenario(warm), 0, Tally(), own=True)  # Numba compiles before the time runs
    until = time.monotonic() + seconds
    number = first
    while time.monotonic() < until and len(report.findings) < most and (worlds is None or number < worlds):
        if (finding := _world(number, seed, given[number % len(given)], report, until)) is not None:
            report.findings.append(finding)
            if found is not None:
                write_atomically(found / f"{finding.name}.yaml", yaml.safe_dump(asdict(finding), sort_keys=False))
        report.tally.worlds += 1
        number += 1
        if full():
            report.left_s = max(0.0, until - time.monotonic())
            break
    return report


def _world(number: int, seed: int, given: Scenario | None, report: Report, until: float) -> Finding | None:
    """Check one world; return what is wrong with it."""
    random = Random(f"{seed} {number}")
    document = Writer(random).scenario() if given is None else given.model_dump(mode="json")
    play = random.randrange(2**40)
    try:
        scenario = parse_scenario(copy.deepcopy(document)) if given is None else given
        scenario.build()
    except CostGymError:
        report.refused += 1
        return None
    except Exception as error:
        return Finding("rules", play, f"{type(error).__name__}: {error}", document)
    others = [name for name in oracles() if name not in EACH_WORLD]
    for name in (*(name for name in oracles() if name in EACH_WORLD), others[number % len(others)]):
        if time.monotonic() >= until:
            break
        if (problem := check(name, scenario, play, report.tally, given is not None)) is not None:
            return smaller(Finding(name, play, problem, document))
    return None


def oracles() -> list[str]:
    """Return the oracles that can be asked here: without Numba there is no batch."""
    compiled = importlib.util.find_spec("numba") is not None
    return [name for name in ORACLES if compiled or name not in COMPILED]


def _read(path: Path) -> tuple[str, int, Document]:
    try:
        case = yaml.safe_load(path.read_text(encoding="utf-8"))
        oracle, number, document = case["oracle"], int(case["seed"]), dict(case["scenario"])
    except (OSError, yaml.YAMLError, LookupError, TypeError, ValueError, OverflowError, RecursionError) as error:
        raise DataError(path, f"is not a found case of `costgym selftest` ({error})") from None
    if oracle not in ORACLES:
        raise ConfigError(str(path), f"oracle: expected one of {', '.join(ORACLES)}, got {oracle!r:.60}")
    return oracle, number, document


# -- shrinking --------------------------------------------------------------------------------------------------------------


def smaller(finding: Finding) -> Finding:
    """Return a finding of the same oracle in the smallest world that simple cuts lead to."""
    # greedy: the first cut that keeps the problem is taken, and the search starts over from the smaller world
    tries, shrunk = 0, True
    while shrunk and tries < SHRINKS:
        shrunk = False
        for document in cuts(finding.scenario):
            tries += 1
            try:
                scenario = parse_scenario(copy.deepcopy(document))
                scenario.build()
            except Exception:  # the cut document is not a valid world
                continue
            problem = check(finding.oracle, scenario, finding.seed, Tally())
            if problem is not None:
                finding, shrunk = Finding(finding.oracle, finding.seed, problem, document), True
                break
            if tries >= SHRINKS:
                break
    return finding


def cuts(document: Document) -> Iterator[Document]:
    """Documents with one setting or item left out, or one number made plain."""
    places: list[tuple[tuple[Any, ...], Any]] = []

    def look(node: Any, place: tuple[Any, ...]) -> None:
        for key in node if isinstance(node, dict) else range(len(node)):
            places.append(((*place, key), node[key]))
            if isinstance(node[key], dict | list):
                look(node[key], (*place, key))

    look(document, ())
    for place, value in places:
        if place in (("name",), ("source",), ("source", "kind")):
            continue
        shorter, parent = _copied(document, place)
        del parent[place[-1]]
        yield shorter
        if isinstance(value, float | int) and not isinstance(value, bool) and value not in (0, 1):
            plainer, parent = _copied(document, place)
            parent[place[-1]] = 1
            yield plainer


def _copied(document: Document, place: tuple[Any, ...]) -> tuple[Document, Any]:
    """Return a copy of a document, and in it the node that holds a place."""
    found = copy.deepcopy(document)
    return found, reduce(getitem, place[:-1], found)
