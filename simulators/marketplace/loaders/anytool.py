"""AnyToolBench: queries with the APIs that answer them, and no list of candidates.

The candidates of a task are its own APIs and others of the file or of a tool folder, of the same categories first.
"""

from pathlib import Path

from ...draws import stable_generator
from ...errors import DataError
from ...failures import PRESETS, FailureModel
from ..market import Marketplace
from .documents import ApiDocument, Key, Library, read_api, read_tool_folder, standardize_category
from .reading import JsonRecord, first_existing, need_folder, read_records
from .toolbench import Query, build, read_ids

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

    `tools` is a folder of tool documents ``<category>/<tool>.json``, whose APIs are candidates too, by default
    `data/toolenv/tools` where it is there; `unsolvable` is AnyTool's list of ids to leave out.

    Raises:
        DataError: A file or folder is missing, or a record is malformed; names the file and the record.
    """
    path = _find(Path(folder))
    dropped = read_ids(Path(unsolvable)) if unsolvable is not None else frozenset()
    documents: dict[Key, ApiDocument] = {}
    wanted: list[tuple[JsonRecord, str, list[Key]]] = []
    for number, value in enumerate(read_records(path), 1):
        record = JsonRecord(value, path, f"record {number}")
        keys: dict[Key, None] = {}
        for api in record.objects("gt_api_list"):
            key = (standardize_category(api.text("category_name")), api.text("tool_name"), api.text("api_name"))
            keys[key] = None
            if key not in documents:
                documents[key] = read_api(api, key, api.text("api_description", required=False))
        if not keys:
            raise record.error("the list of APIs is empty", "gt_api_list")
        identifier = record.identifier("query_id")
        record.text("query")
        if identifier not in dropped:
            wanted.append((record, identifier, list(keys)))
    known = _tools_near(Path(folder)) if tools is None else need_folder(Path(tools), "tool documents")
    if known is not None:
        library = Library(known, None)
        documents = {key: library.complete(document) for key, document in documents.items()}
        for tool in read_tool_folder(known):
            for document in tool.apis:
                documents.setdefault(document.key, document)
    everything = sorted(documents)
    queries = []
    for record, identifier, own in wanted:
        near = {key[0] for key in own}
        order = stable_generator(seed, "candidates", SUBSET, identifier).permutation(len(everything)).tolist()
        others = [everything[index] for index in order if everything[index] not in own]
        others.sort(key=lambda key: key[0] not in near)
        offered = sorted(own + others[: max(0, candidates - len(own))])
        queries.append(Query(identifier, SUBSET, record.text("query"), tuple(offered), tuple(own), False, ""))
    return build(queries, documents, seed, failures or PRESETS["rapidapi-2024"])


def _find(place: Path) -> Path:
    """Find the file of queries."""
    if place.is_file():
        return place
    need_folder(place, "data folder")
    found = first_existing([place / FILE, place / "atb_data" / FILE])
    if found is None:
        raise DataError(place, f"holds no AnyToolBench queries; expected {FILE} or atb_data/{FILE}")
    return found


def _tools_near(place: Path) -> Path | None:
    """The folder of tool documents in a data folder, or None."""
    return first_existing([place / "data" / "toolenv" / "tools", place / "toolenv" / "tools", place / "tools"])
