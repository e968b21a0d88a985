"""Make worlds, one scenario from a user's own documents or a folder of thousands with splits, and check that they are sound."""

import gzip
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from itertools import accumulate
from pathlib import Path
from typing import Any

from costgym.experiments.fit.calibration.calibrate import calibrate
from costgym.experiments.fit.forge.sources import Document, documents
from costgym.experiments.play.execution.engine import Engine
from costgym.simulators import __version__
from costgym.simulators.draws import stable_integer
from costgym.simulators.errors import ConfigError, CostGymError, DataError
from costgym.simulators.files import make_folder, write_atomically
from costgym.simulators.forge.compose import api_document, world_document
from costgym.simulators.forge.folder import FORMAT, INDEX
from costgym.simulators.forge.graph import graph_of
from costgym.simulators.forge.readers.operations import Skipped
from costgym.simulators.forge.requests import problem_of_task as unsolved
from costgym.simulators.forge.requests import problem_of_words
from costgym.simulators.marketplace.schema import check_arguments
from costgym.simulators.scenario import parse_scenario
from costgym.simulators.tasks import fact_in, normalise

LEAST = 3
"""Fewest usable operations of an API that worlds of a folder are made of."""
CAPABILITIES = 8
"""Most operations in a world of a folder."""
BLOCK = 100
"""Worlds in a file."""
PARTNERED = 0.5
"""Share of the worlds that have a second API of the same category, where there is one."""
ATTEMPTS = 4
"""Times that a world is composed again, with another seed, until it is sound."""
SHARES = {"train": 0.8, "unseen-api": 0.1, "unseen-provider": 0.1}
"""Splits, and their shares of the worlds. No API of `unseen-api` and no provider of `unseen-provider` is in another split."""
TRIED = 6
"""Tasks of each split that are composed and answered to check a world."""
CHECKED = 100
"""The same for a world by itself."""
SETTINGS = ("failures", "pricing", "bill_failures", "currency", "budget", "max_price")
"""Settings of a scenario that a log says something about."""
MANIFEST = "forge.json"


@dataclass(slots=True)
class Tally:
    """What was read of some sources: documents, operations, and why parts of them could not be used."""

    documents: int = 0
    operations: int = 0
    used: int = 0
    written: int = 0  # of those, operations that write
    unused: Counter[str] = field(default_factory=Counter)
    skipped: list[dict[str, str]] = field(default_factory=list)

    def add(self, reading: Mapping[str, Any]) -> None:
        """Add what was read of one document, as `read` gives it."""
        self.skipped += [{"place": location, "reason": reason} for location, reason in reading["skipped"]]
        if reading["api"] is not None:
            self.documents += 1
            self.operations += reading["operations"]
            self.used += len(reading["api"]["capabilities"])
            self.written += sum("verb" in capability for capability in reading["api"]["capabilities"])
            self.unused.update(reading["unused"])

    def report(self) -> dict[str, Any]:
        """The tally as plain data."""
        return asdict(self) | {"unused": dict(sorted(self.unused.items(), key=lambda item: (-item[1], item[0])))}


def read(document: Document) -> dict[str, Any]:
    """The API in a document as plain data, with what could not be used of it and why."""
    api = document.read()
    if isinstance(api, Skipped):
        return {"api": None, "skipped": [[api.location, api.reason]]}
    graph = graph_of(api)
    return {
        "api": api_document(graph),
        "operations": len(api.operations),
        "unused": dict(graph.unused),
        "skipped": [[skipped.location, skipped.reason] for skipped in api.skipped],
    }


def forge(
    sources: Sequence[str],
    name: str,
    seed: int = 0,
    cache: Path = Path("forge-packages"),
    profiles: Sequence[Mapping[str, Any]] = (),
    settings: Mapping[str, Any] | None = None,
    own: bool = False,
) -> tuple[dict[str, Any], Tally]:
    """Make one scenario of all documents of some sources (see `sources.documents`), with measured profiles of tools and
    settings (see `measured`), and as one's own tools if `own` (see `world_document`). Raises ConfigError if a source is not
    there or nothing can be asked of its documents."""
    tally, apis = Tally(), []
    for source in sources:
        for document in documents(source, cache):
            reading = read(document)
            tally.add(reading)
            if reading["api"] is not None and reading["api"]["capabilities"]:
                apis.append(reading["api"])
    made = world_document(apis[:8], name, seed, 64, profiles, settings, own) if apis else None
    if made is None:
        reasons = [f"{count} operations: {reason}" for reason, count in tally.unused.most_common(3)]
        reasons += [f"{entry['place']}: {entry['reason']}" for entry in tally.skipped[:3]]
        raise ConfigError("SOURCE", "no operation can be asked about; " + ("; ".join(reasons) or "there is none"))
    if problem := problem_of_world(made, CHECKED):
        raise ConfigError("SOURCE", f"the world is not sound: {problem}")
    return made, tally


def measured(log: Path) -> tuple[Sequence[Mapping[str, Any]], Mapping[str, Any]]:
    """The tools of a log (see `costgym calibrate`) with their fitted profiles, and the settings of a scenario that were fitted
    with them; raises ConfigError if the log names no tools of its own."""
    scenario = calibrate(log, "profile").scenario.model_dump(mode="json")
    tools = scenario["source"].get("tools")
    if not isinstance(tools, list):
        raise ConfigError("--profile", f"{log}: expected a log of calls of tools, got a folder of queries")
    return [{"name": tool["name"], "profile": tool["profile"]} for tool in tools], {key: scenario[key] for key in SETTINGS}


# -- soundness ---------------------------------------------------------------------------------------------------------------


def problem_of_world(document: Mapping[str, Any], tried: int = TRIED) -> str | None:
    """Say in words what is wrong with a world, of which `tried` tasks of each split are checked; None if nothing is found."""
    try:
        world = parse_scenario(dict(document)).build()
        for split in ("train", "test"):
            for number in world.tasks.numbers(split)[:tried]:
                problem = _problem_of_task(world, world.tasks[number])
                if problem:
                    return f"task {number}: {problem}"
    except CostGymError as error:
        return str(error)
    return None


def _problem_of_task(world: Any, task: Any) -> str | None:
    if problem := unsolved(task):
        return problem
    if problem := problem_of_words(task.query, task.needs):
        return f"its query {problem}"
    for need in task.needs:
        for name in need.tools:
            tool = world.catalog.get(name)
            if problem := check_arguments(tool, need.arguments):
                return f"{name} does not take its arguments: {problem}"
            answer = world.answers.answer(tool, need.arguments, task)
            if answer is None or not fact_in(need.fact, normalise(answer)):
                return f"{name} does not answer with the fact"
        if not set(need.tools) & set(task.candidates):
            return f"no tool on offer gives {need.wish}"
    return None


# -- folders of worlds -------------------------------------------------------------------------------------------------------


def forge_folder(
    sources: Sequence[str],
    out: Path,
    worlds: int,
    seed: int,
    engine: Engine,
    cache: Path = Path("forge-packages"),
    profiles: Sequence[Mapping[str, Any]] = (),
    settings: Mapping[str, Any] | None = None,
) -> Iterator[dict[str, Any]]:
    """Make a folder of worlds by split; the same command continues an interrupted one, and the engine changes no byte.

    Yields progress, `{"read": n, "of": N}` and `{"made": n, "of": N}`, and at last `{"report": ...}`. Raises ConfigError if the
    folder holds worlds of other arguments, or there are too few usable documents.
    """
    listed = [(source, index) for source in sources for index in range(len(_documents(source, cache)))]
    arguments = {
        "format": "costgym.forge/1", "version": __version__, "sources": list(sources), "worlds": worlds, "seed": seed,
        "profiles": [dict(profile) for profile in profiles], "settings": None if settings is None else dict(settings),
    }  # fmt: skip
    make_folder(out / "apis")
    _claim(out / MANIFEST, arguments)
    tally, digests = Tally(), []
    usable: dict[str, list[tuple[int, str]]] = {split: [] for split in SHARES}
    tasks = [(number, source, index) for number, (source, index) in enumerate(listed)]
    chunks = [tasks[start : start + 20] for start in range(0, len(tasks), 20)]
    for number, reading in enumerate(engine.stream(_read_apis, (str(out), str(cache)), chunks)):
        tally.add(reading)
        api = reading["api"]
        if api is not None:
            digests.append(api["document"]["digest"])
            if len(api["capabilities"]) >= LEAST:
                usable[split_of(api["provider"], api["document"]["title"])].append((number, api["category"]))
        yield {"read": number + 1, "of": len(tasks)}
    counts = _counts(worlds, usable)
    made, rejected = 0, Counter[str]()
    for split, count in counts.items():
        make_folder(out / split)
        shared = (str(out), split, usable[split], seed, arguments["profiles"], arguments["settings"])
        blocks = [(first, min(BLOCK, count - first)) for first in range(0, count, BLOCK)]
        index = []
        for block in engine.stream(_make_block, shared, blocks):
            index.append({"file": block["file"], "offsets": block["offsets"], "most_candidates": block["most_candidates"]})
            rejected.update(block["rejected"])
            made += len(block["offsets"])
            yield {"made": made, "of": worlds}
        most = max(block["most_candidates"] for block in index)
        whole = {"format": FORMAT, "most_candidates": most, "blocks": index}
        write_atomically(out / split / INDEX, json.dumps(whole, separators=(",", ":")) + "\n")
    report = {
        **arguments, **tally.report(), "digest": f"{stable_integer(0, *digests):016x}",
        "usable_documents": sum(map(len, usable.values())), "splits": counts, "rejected": dict(sorted(rejected.items())),
    }  # fmt: skip
    write_atomically(out / MANIFEST, json.dumps(report, indent=1, ensure_ascii=True) + "\n")
    yield {"report": report}


def split_of(provider: str, title: str) -> str:
    """The split of an API: by its provider's domain, and by its title, which versions and copies of it share."""
    labels = provider.lower().split(".")
    short = len(labels) > 2 and labels[-2] in ("co", "com", "org", "gov", "ac", "net", "edu")
    company = ".".join(labels[-3 if short else -2 :])
    company = "googleapis.com" if company == "google.com" else company
    if stable_integer(0, "provider", company) % 10 == 0:
        return "unseen-provider"
    words = " ".join(word for word in title.lower().split() if word not in ("api", "amazon", "aws", "google", "cloud"))
    return "unseen-api" if stable_integer(0, "api", company, words) % 9 == 0 else "train"


def _counts(worlds: int, usable: Mapping[str, Sequence[Any]]) -> dict[str, int]:
    counts = {split: round(worlds * share) for split, share in SHARES.items() if split != "train" and usable[split]}
    if not usable["train"]:
        raise ConfigError(
            "SOURCE", f"expected documents with {LEAST} usable operations or more, got none for the split 'train'"
        )
    return {"train": worlds - sum(counts.values()), **{split: count for split, count in counts.items() if count}}


def _claim(path: Path, arguments: Mapping[str, Any]) -> None:
    """Write down what the folder is made of, or check that it is the same."""
    if path.is_file():
        try:
            there = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise DataError(path, f"cannot be read: {error}") from error
        plain = json.loads(json.dumps(arguments))
        for key, value in plain.items():
            if there.get(key) != value:
                raise ConfigError(
                    "--out", f"{path.parent} holds worlds with {key} {there.get(key)!r:.80}; choose another folder"
                )
        return
    write_atomically(path, json.dumps(arguments, indent=1, ensure_ascii=True) + "\n")


_documents = lru_cache(maxsize=4)(documents)


def _api_file(out: str, number: int) -> Path:
    return Path(out) / "apis" / f"{number:05d}.json.gz"


def _read_apis(shared: tuple[str, str], tasks: Sequence[tuple[int, str, int]]) -> Iterator[dict[str, Any]]:
    """Read some documents, and keep what was read; what is kept already is not read again."""
    out, cache = shared
    for number, source, index in tasks:
        file = _api_file(out, number)
        if not file.is_file():
            reading = read(_documents(source, Path(cache))[index])
            content = json.dumps(reading, separators=(",", ":"), ensure_ascii=True).encode()
            write_atomically(file, gzip.compress(content, 6, mtime=0))
        yield _api(out, number)


def _api(out: str, number: int) -> dict[str, Any]:
    file = _api_file(out, number)
    try:
        document: dict[str, Any] = json.loads(gzip.decompress(file.read_bytes()))
    except (OSError, EOFError, ValueError) as error:
        raise DataError(file, f"cannot be read: {error}; delete it and run the same command again") from error
    return document


_kept_api = lru_cache(maxsize=64)(_api)


def _make_block(shared: tuple[Any, ...], task: tuple[int, int]) -> Iterator[dict[str, Any]]:
    """Compose some worlds of a split into one file; a file that is there is kept."""
    out, split, *_ = shared
    first, count = task
    path = Path(out) / split / f"worlds-{first:06d}.jsonl"
    about = path.with_suffix(".json")
    if path.is_file() and about.is_file():
        yield json.loads(about.read_text(encoding="utf-8"))
        return
    lines: list[bytes] = []
    rejected: Counter[str] = Counter()
    most = 1
    for number in range(first, first + count):
        document = _make_world(shared, number, rejected)
        most = max(most, min(len(document["source"]["tools"]), 16))
        lines.append(json.dumps(document, separators=(",", ":"), ensure_ascii=True).encode() + b"\n")
    offsets = [0, *accumulate(map(len, lines))][:-1]
    write_atomically(path, b"".join(lines))
    block = {"file": path.name, "offsets": offsets, "most_candidates": most, "rejected": dict(rejected)}
    write_atomically(about, json.dumps(block, separators=(",", ":")))
    yield block


def _make_world(shared: tuple[Any, ...], number: int, rejected: Counter[str]) -> dict[str, Any]:
    """Compose a world: every API in turn, in the order of the seed; half of them with another of the same category."""
    out, split, usable, seed, profiles, settings = shared
    order = _order(len(usable), seed, split)
    for attempt in range(ATTEMPTS * len(usable)):
        luck = stable_integer(seed, "world", split, number, attempt)
        main, category = usable[order[(number + attempt // ATTEMPTS) % len(usable)]]
        chosen = [main]
        if luck % 1000 < 1000 * PARTNERED:
            others = [api for api, field in usable if field == category and api != main]
            chosen += [others[luck // 1000 % len(others)]] if others else []
        apis = [_kept_api(out, api)["api"] for api in chosen]
        name = f"{split}-{number:05d}"
        made = world_document(apis, name, luck >> 2, CAPABILITIES, profiles, settings)
        if made is None:
            continue
        problem = problem_of_world(made)
        if problem is None:
            return made
        rejected[problem.split(": ", 1)[-1][:80]] += 1
    raise ConfigError("SOURCE", f"no sound world can be made for {split} {number}")


@lru_cache(maxsize=8)
def _order(count: int, seed: int, split: str) -> tuple[int, ...]:
    return tuple(sorted(range(count), key=lambda index: stable_integer(seed, "order", split, index)))
