"""Read ToolBench and StableToolBench folders, and those of AnyTool and MGToolBench: real queries and real APIs.

A task's needs are its relevant APIs and its candidates its `api_list`. What the folder does not say (which arguments are
right, what a call returns, how dependable an API is today) is drawn deterministically: see `responses` and `draw_profile`.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from costgym.simulators.draws import stable_generator, stable_integer
from costgym.simulators.errors import DataError, check_known
from costgym.simulators.failures import PRESETS, FailureModel
from costgym.simulators.marketplace.loaders.documents import (
    ApiDocument,
    Key,
    Library,
    make_tool,
    read_api,
    read_tool_folder,
    standardize,
    standardize_category,
    unique_names,
)
from costgym.simulators.marketplace.loaders.reading import (
    JsonRecord,
    describe,
    first_existing,
    need_folder,
    read_json,
    read_records,
)
from costgym.simulators.marketplace.loaders.responses import LoadedAnswers, Mould
from costgym.simulators.marketplace.market import Marketplace
from costgym.simulators.tasks import Need, Task, TaskSet, normalise
from costgym.simulators.tools import Catalog

SIZE_LEVELS = (0.4, 0.7, 0.9, 1.0)
_LAYOUT = (
    "expected StableToolBench's solvable_queries/test_instruction/*.json, or ToolBench's test_instruction/*.json or "
    "instruction/G*_query.json (also inside data/ or data_example/)"
)


@dataclass(frozen=True, slots=True)
class Layout:
    """The places of a data folder's parts."""

    queries: Mapping[str, Path]  # query file of each subset, by the subset's name
    ids: Mapping[str, Path]  # file of the test ids of each subset, where there is one
    # tools, responses: folders of tool documents and of example responses, where there are any
    tools: Path | None
    responses: Path | None


@dataclass(frozen=True, slots=True)
class Query:
    """A record of a query file: its text, the APIs on offer, and those that answer it."""

    id: str
    subset: str
    text: str
    offered: tuple[Key, ...]
    relevant: tuple[Key, ...]
    split: str = ""  # the split of a query that the folder's lists put into one


def find_layout(folder: Path, subsets: Sequence[str] | None = None) -> Layout:
    """Find out which of the family's layouts a folder (a root, or `solvable_queries` itself) has; raises DataError.

    `subsets` None takes `test_instruction/*` where it is there, else `instruction/G*_query.json`.
    """
    need_folder(folder, "data folder")
    roots = [folder / "solvable_queries", folder, folder / "data", folder / "data_example"]
    roots += [folder / "toolbench", folder / "stabletoolbench" / "solvable_queries"]
    for root in roots:
        tests = {path.stem: path for path in sorted((root / "test_instruction").glob("*.json"))}
        trains = {path.stem: path for path in sorted((root / "instruction").glob("*.json"))}
        usual = list(tests) or [name for name in trains if name.startswith("G") and name.endswith("_query")]
        if usual:
            break
    else:
        raise DataError(folder, f"holds no queries; {_LAYOUT}")
    queries = {**trains, **tests}
    for name in subsets or ():
        check_known("subset", name, queries)
    near = [root, folder, folder / "data"]
    return Layout(
        queries={name: queries[name] for name in subsets or usual},
        ids={path.stem: path for path in sorted((root / "test_query_ids").glob("*.json"))},
        tools=first_existing([n / "toolenv" / "tools" for n in near] + [n / "tools" for n in near]),
        responses=first_existing([n / "toolenv" / "response_examples" for n in near]),
    )


def load_toolbench(
    folder: Path | str,
    *,
    seed: int = 0,
    subsets: Sequence[str] | None = None,
    tools: Path | str | None = None,
    anytool_unsolvable: Path | str | None = None,
    failures: FailureModel | None = None,
) -> Marketplace:
    """Read a marketplace from a ToolBench or StableToolBench folder; see `find_layout`.

    Every query falls into `train` or `test` by a stable hash of its subset and id, so its split does not depend on what else is
    loaded; where the folder lists test ids next to training queries, those are the test split. `tools` is by default
    `toolenv/tools` in the folder. `anytool_unsolvable` is AnyTool's list of ids to leave out.

    Raises:
        DataError: A file or folder is missing, or a record is malformed; names the file and the record. Nothing is half-built.
    """
    folder = Path(folder)
    layout = find_layout(folder, subsets)
    library = Library(layout.tools if tools is None else need_folder(Path(tools), "tool documents"), layout.responses)
    dropped = read_ids(anytool_unsolvable)
    documents: dict[Key, ApiDocument] = {}
    queries: list[Query] = []
    for subset, path in layout.queries.items():
        read = read_queries(path, subset, documents)
        queries += [query for query in _listed(read, layout, subset) if query.id not in dropped]
    if not queries:
        raise DataError(folder, f"no queries are left in {', '.join(layout.queries)}")
    return build(queries, documents, library, seed, failures)


def build(
    queries: Sequence[Query],
    documents: Mapping[Key, ApiDocument],
    library: Library,
    seed: int,
    failures: FailureModel | None,
    sold: Iterable[Key] | None = None,
) -> Marketplace:
    """Build a marketplace from queries and documents of APIs, each completed from the library. It sells the APIs that the
    queries offer, or those that are `sold`."""
    keys = sorted({key for query in queries for key in query.offered}) if sold is None else sold
    documents = {key: library.complete(documents[key]) for key in keys}
    failures = failures or PRESETS["rapidapi-2024"]
    names = unique_names(documents)
    catalog = Catalog((make_tool(documents[key], names[key], seed, failures) for key in documents), "queries")
    answers = LoadedAnswers(seed, {names[key]: Mould.of(document) for key, document in documents.items()})
    tasks = [_task(query, number, names, answers, seed, catalog) for number, query in enumerate(queries)]
    return Marketplace(catalog, TaskSet(tasks, _split(queries)), answers)


def read_ids(file: Path | str | None) -> frozenset[str]:
    """Read query ids from a file that holds a list of them, or an object whose keys they are; without a file there are none."""
    if file is None:
        return frozenset()
    path = Path(file)
    document = read_json(path)
    if not isinstance(document, list | dict):
        raise DataError(path, f"expected a list of query ids, got {describe(document)}")
    for number, value in enumerate(document, 1):
        if not isinstance(value, int | str) or isinstance(value, bool):
            raise DataError(path, f"expected a query id, got {describe(value)}", f"record {number}")
    return frozenset(str(value) for value in document)


def _listed(queries: list[Query], layout: Layout, subset: str) -> list[Query]:
    """Apply the folder's lists of test ids: keep a test file's listed queries, and mark those of a training file."""
    names = [subset, f"{subset}_test_query_ids", f"{subset}_test_ids"]
    identifier = next((layout.ids[name] for name in names if name in layout.ids), None)
    if identifier is not None:
        wanted = read_ids(identifier)
        return [query for query in queries if query.id in wanted]
    if subset.endswith("_query"):
        group = subset.removesuffix("_query")
        tests = frozenset[str]().union(*(read_ids(path) for name, path in layout.ids.items() if name.startswith(f"{group}_")))
        if tests:
            return [replace(query, split="test" if query.id in tests else "train") for query in queries]
    return queries


def read_queries(path: Path, subset: str, documents: dict[Key, ApiDocument]) -> list[Query]:
    queries: dict[str, Query] = {}
    for record in read_records(path):
        query = _read_query(record, subset, documents)
        if query.id in queries:
            raise record.error(f"query id {query.id} appears twice in this file")
        queries[query.id] = query
    return list(queries.values())


def _read_query(record: JsonRecord, subset: str, documents: dict[Key, ApiDocument], listed: str = "api_list") -> Query:
    """Read a record of any of the family's query files; `listed` is the key of the APIs on offer."""
    identifier, text = record.identifier("query_id"), record.text("query")
    offered: dict[tuple[str, str], Key] = {}
    for api in record.objects(listed):
        category = standardize_category(api.text("category_name"))
        key = (category, api.text("tool_name"), api.text("api_name"))
        # the lists spell names in different ways; the first spelling is kept
        offered.setdefault((standardize(key[1]), standardize(key[2])), key)
        if key not in documents or not documents[key].parameters["properties"]:
            documents[key] = read_api(api, key, api.text("api_description", required=False))
    if not offered:
        raise record.error("the list of APIs is empty", listed)
    pairs = record.pairs("relevant APIs")
    relevant: dict[Key, None] = {}
    for pair in offered if pairs is None else ((standardize(tool), standardize(api)) for tool, api in pairs):
        if pair not in offered:
            raise record.error(f"the relevant API {' / '.join(pair)} is not in the record's {listed}", "relevant APIs")
        relevant[offered[pair]] = None
    if not relevant:
        raise record.error("no relevant API", "relevant APIs")
    return Query(identifier, subset, text, tuple(offered.values()), tuple(relevant))


def _task(query: Query, number: int, names: Mapping[Key, str], answers: LoadedAnswers, seed: int, catalog: Catalog) -> Task:
    identifier = f"{query.subset}/{query.id}"
    text = normalise(query.text)
    needs: list[Need] = []
    for key in query.relevant:
        name = names[key]
        # a fact that stands in the query, or in another fact, would be found in answers that know nothing
        stated = (fact for fact in answers.facts(name, identifier) if normalise(fact) not in text)
        fact = next(fact for fact in stated if not any(fact in need.fact or need.fact in fact for need in needs))
        wish = f"{key[2]} of {key[1]}"
        needs.append(Need(fact, (name,), None, (), wish, catalog.get(name).capability, fact_type="words"))
    luck = stable_integer(seed, "size", identifier) / 2**64
    return Task(
        id=identifier,
        number=number,
        query=query.text,
        needs=tuple(needs),
        candidates=tuple(dict.fromkeys(names[key] for key in query.offered)),
        group=query.subset,
        size_level=next(level for level, edge in enumerate(SIZE_LEVELS) if luck < edge or level == 3),
    )


def _split(queries: Sequence[Query]) -> dict[str, list[int]]:
    lucks = [stable_integer(0, "split", query.subset, query.id) / 2**64 for query in queries]
    train = {n for n, q in enumerate(queries) if (q.split == "train" if q.split else lucks[n] < 0.5)}
    test = set(range(len(queries))) - train
    order = sorted(range(len(queries)), key=lambda number: (lucks[number], number))
    # a handful of queries may all fall on one side; neither split is left empty
    if len(queries) > 1:
        if not train:
            train, test = {order[0]}, test - {order[0]}
        elif not test:
            train, test = train - {order[-1]}, {order[-1]}
    return {"train": sorted(train), "test": sorted(test)}


SUBSET = "anytoolbench"
FILE = "anytoolbench.json"


def load_anytool(
    folder: Path | str,
    *,
    seed: int = 0,
    tools: Path | str | None = None,
    unsolvable: Path | str | None = None,
    candidates: int = 16,
    failures: FailureModel | None = None,
) -> Marketplace:
    """Read a marketplace from AnyTool's repository, its `atb_data`, or ``anytoolbench.json`` itself.

    The candidates of a task are its own APIs and others of the file or of `tools`, a folder of tool documents
    ``<category>/<tool>.json`` (by default `data/toolenv/tools` where it is there), of the same categories first. `unsolvable`
    is AnyTool's list of ids to leave out.

    Raises:
        DataError: A file or folder is missing, or a record is malformed; names the file and the record.
    """
    path = _find(Path(folder))
    dropped = read_ids(unsolvable)
    documents: dict[Key, ApiDocument] = {}
    queries = [_read_query(record, SUBSET, documents, "gt_api_list") for record in read_records(path)]
    queries = [query for query in queries if query.id not in dropped]
    beside = [Path(folder) / subfolder for subfolder in ("data/toolenv/tools", "toolenv/tools", "tools")]
    known = first_existing(beside) if tools is None else need_folder(Path(tools), "tool documents")
    for tool in [] if known is None else read_tool_folder(known):
        for document in tool.apis:
            documents.setdefault(document.key, document)
    everything = sorted(documents)

    def offer(query: Query) -> Query:
        near = {key[0] for key in query.relevant}
        order = stable_generator(seed, "candidates", SUBSET, query.id).permutation(len(everything)).tolist()
        others = [everything[index] for index in order if everything[index] not in query.relevant]
        others.sort(key=lambda key: key[0] not in near)
        return replace(query, offered=tuple(sorted([*query.relevant, *others[: max(0, candidates - len(query.relevant))]])))

    return build([offer(query) for query in queries], documents, Library(known, None), seed, failures, list(documents))


def _find(path: Path) -> Path:
    """Find the file of queries."""
    if path.is_file():
        return path
    need_folder(path, "data folder")
    existing = first_existing([path / FILE, path / "atb_data" / FILE])
    if existing is None:
        raise DataError(path, f"holds no AnyToolBench queries; expected {FILE} or atb_data/{FILE}")
    return existing


LEVEL_FILES = {"statement": "_cut", "category": "_level_cate", "tool": "_level_tool", "api": "_level_api", "hybrid": "_ground"}
"""Endings of the five files' names."""


def load_mgtoolbench(
    folder: Path | str, *, seed: int = 0, tools: Path | str | None = None, failures: FailureModel | None = None
) -> Marketplace:
    """Read a marketplace from MGToolBench's root, or the folder with ``*_ground.json`` itself; tasks have all five levels.

    Raises DataError where a file is missing or malformed, or a task lacks one of the levels; names it.
    """
    root = need_folder(Path(folder), "data folder")
    grounds = [
        path for folder in (root, root / "test_sample", root / "data" / "test_sample") for path in folder.glob("*_ground.json")
    ]
    if not grounds:
        raise DataError(root, "holds no MGToolBench tasks; expected *_ground.json, here or in test_sample/")
    ground = sorted(grounds)[0]
    prefix = ground.name.removesuffix("_ground.json")
    documents: dict[Key, ApiDocument] = {}
    queries = read_queries(ground, "G3", documents)
    levels = {level: _read_level(ground.parent / f"{prefix}{ending}.json") for level, ending in LEVEL_FILES.items()}
    for level, texts in levels.items():
        missing = next((query.id for query in queries if query.id not in texts), None)
        if missing is not None:
            path = ground.parent / f"{prefix}{LEVEL_FILES[level]}.json"
            raise DataError(path, f"task {missing} of {ground.name} is not in this file")
    library = Library(None if tools is None else need_folder(Path(tools), "tool documents"), None)
    market = build(queries, documents, library, seed, failures)
    tasks = [
        replace(task, instructions={level: texts[query.id] for level, texts in levels.items()})
        for task, query in zip(market.tasks, queries, strict=True)
    ]
    splits = {name: market.tasks.numbers(name) for name in market.tasks.splits}
    return Marketplace(market.catalog, TaskSet(tasks, splits), market.answers)


def _read_level(path: Path) -> dict[str, str]:
    return {record.identifier("query_id"): record.text("query") for record in read_records(path)}
