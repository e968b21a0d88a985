"""Images of one's own and scorers of other kinds in outcome tables."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from costgym.simulators.errors import ConfigError, DataError, UnknownName
from costgym.simulators.opencatp import task
from costgym.simulators.opencatp.backends.base import TEXT_TOOLS
from costgym.simulators.opencatp.live import check_seed
from costgym.simulators.opencatp.scenes.own_images import images_digest, read_images
from costgym.simulators.opencatp.scoring.evaluation import Evaluator
from costgym.simulators.opencatp.scoring.scorers import OwnImages, OwnTexts, image_scorer, text_scorer
from costgym.simulators.opencatp.scoring.table import OutcomeTable
from costgym.simulators.opencatp.scoring.table_build import build_table
from costgym.simulators.plan import Plan

WORDS = {"a.png": ("dog", ["dog", "ball"], "a dog runs"), "b.png": ("cat", ["cat"], "a cat sleeps")}


class Words:
    """A back-end whose restorers change nothing and whose readers always say the same; its German is upper case."""

    name = "words"

    def run(self, tool: str, inputs: Any) -> Any:
        if isinstance(inputs, np.ndarray):
            said = {"image_classification": "dog", "object_detection": "dog, ball", "image_captioning": "a dog runs"}
            return [said[tool]] * len(inputs) if tool in said else inputs.copy()
        return [text.upper() if tool == TEXT_TOOLS[0] else text for text in inputs]


class Length:
    """Scores a text 1 where it is as long as the wanted one."""

    name = "length:x"

    def scores(self, texts: Sequence[str], wanted: str) -> list[float]:
        return [float(len(text) == len(wanted)) for text in texts]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    place = tmp_path / "mine"
    place.mkdir()
    lines = []
    for number, (file, (label, objects, caption)) in enumerate(WORDS.items()):
        pixels = np.random.default_rng(number).integers(0, 256, (40, 60, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(place / file)
        lines.append({"file": file, "label": label, "objects": objects, "caption": caption})
    lines[1]["german"] = {"label": "Katze", "objects": ["Katze"], "caption": "eine Katze schläft"}
    (place / "images.jsonl").write_text("\n".join(json.dumps(line) for line in lines) + "\n", encoding="utf-8")
    return place


def test_images_are_cut_to_a_square_and_have_their_texts(folder: Path) -> None:
    dog, cat = read_images(folder, 32)
    assert dog.image.shape == cat.image.shape == (32, 32, 3) and dog.image.dtype == np.uint8
    assert (dog.label(), dog.object_names(), dog.caption()) == ("dog", "dog, ball", "a dog runs")
    assert (cat.label(True), dog.label(True)) == ("Katze", "")
    assert images_digest([dog, cat]) != images_digest([cat, dog])


@pytest.mark.slow
def test_an_outcome_table_of_own_images_scores_plans(folder: Path, tmp_path: Path) -> None:
    path = build_table(tmp_path / "mine.npz", Words(), images=read_images(folder, 32))  # type: ignore[arg-type]
    table = OutcomeTable.load(path)
    assert table.samples == 2 and table.meta["images"]
    assert table.wanted(0, "label_de") == "DOG" and table.wanted(1, "label_de") == "Katze"
    plan = Plan.from_list(["image_captioning", ["input_of_query"]])
    caption = next(number for number in range(15, 105) if _wants(number) == "caption")
    evaluator = Evaluator(table)
    assert evaluator.score(plan, task(caption), 0) == pytest.approx(1.0, abs=1e-4)
    assert evaluator.score(plan, task(caption), 1) < 0.7
    with pytest.raises(ConfigError, match="generated scenes"):
        check_seed(table.meta)


def _wants(number: int) -> str:
    try:
        return task(number).wants[0].name
    except UnknownName:
        return ""


@pytest.mark.slow
def test_another_scorers_table_holds_every_score_that_can_be_asked_for(folder: Path, tmp_path: Path) -> None:
    path = build_table(tmp_path / "t.npz", Words(), images=read_images(folder, 32), text_scorer=Length())  # type: ignore[arg-type]
    table = OutcomeTable.load(path)
    assert table.meta["scorers"] == {"image": "ours", "text": "length:x"}
    assert table.score(0, 0, (), "label") == 1.0 and table.score(0, 1, (), "caption") == 0.0
    # a label where a caption is wanted, after every text tool: no straight route, and still by the other measure
    assert table.text_score(0, 0, (), ("image_classification", *TEXT_TOOLS), "caption") == 0.0
    assert table.text_score(0, 1, (), ("image_classification",), "label") == 1.0  # "dog" is as long as "cat"
    assert (
        table.digest
        != OutcomeTable.load(
            build_table(tmp_path / "u.npz", Words(), images=read_images(folder, 32))  # type: ignore[arg-type]
        ).digest
    )


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "is not valid JSON"),
        ('{"file": "a.png"}', "expected file, label, objects, caption"),
        ('{"file": "a.png", "label": 3, "objects": [], "caption": ""}', "expected texts"),
        ('{"file": "none.png", "label": "", "objects": [], "caption": ""}', "cannot be read as an image"),
        ('{"file": "a.png", "label": "", "objects": [], "caption": "", "german": 1}', "german"),
    ],
)
def test_a_bad_line_is_named(folder: Path, line: str, message: str) -> None:
    (folder / "images.jsonl").write_text(line)
    with pytest.raises(DataError, match=message):
        read_images(folder)


def test_folders_without_enough_images_and_odd_sizes_are_refused(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="multiple of 4"):
        read_images(folder, 30)
    with pytest.raises(DataError, match=r"images\.jsonl"):
        read_images(tmp_path)
    index = folder / "images.jsonl"
    index.write_text(index.read_text().splitlines()[0])
    with pytest.raises(DataError, match="at least two images"):
        read_images(folder)


def test_scorers_have_names(tmp_path: Path) -> None:
    assert isinstance(image_scorer(), OwnImages) and isinstance(text_scorer(), OwnTexts)
    for name, make in (("vit", image_scorer), ("resnet:x", image_scorer), ("bleu:x", text_scorer)):
        with pytest.raises(UnknownName, match="scorer"):
            make(name)
    pytest.importorskip("torch")
    pytest.importorskip("transformers")
    for name, make in ((f"vit:{tmp_path}", image_scorer), (f"bertscore:{tmp_path}", text_scorer)):
        with pytest.raises(DataError, match="no weights of this scorer"):
            make(name)


def test_a_model_scores_an_image_and_a_text_against_themselves_with_one(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    t = pytest.importorskip("transformers")
    from tests.helpers.published_models import tokenizer

    torch.manual_seed(0)
    size = {"height": 16, "width": 16}
    vit = t.ViTConfig(
        hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16, image_size=16, patch_size=8
    )
    t.ViTModel(vit).save_pretrained(tmp_path / "vit")
    t.ViTImageProcessorPil(size=size).save_pretrained(tmp_path / "vit")
    vision = t.CLIPVisionConfig(
        hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16, image_size=16, patch_size=8
    )
    text = t.CLIPTextConfig(vocab_size=14, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16)
    t.CLIPModel(t.CLIPConfig(text_config=text.to_dict(), vision_config=vision.to_dict(), projection_dim=8)).save_pretrained(
        tmp_path / "clip"
    )
    t.CLIPImageProcessorPil(size={"shortest_edge": 16}, crop_size=size).save_pretrained(tmp_path / "clip")
    bert = t.DistilBertConfig(vocab_size=14, dim=16, n_layers=1, n_heads=2, hidden_dim=16, max_position_embeddings=64)
    t.DistilBertModel(bert).save_pretrained(tmp_path / "bert")
    tokenizer().save_pretrained(tmp_path / "bert")  # type: ignore[attr-defined]
    images = np.random.default_rng(0).integers(0, 256, (3, 20, 20, 3), dtype=np.uint8)
    for name in ("vit", "clip"):
        features = image_scorer(f"{name}:{tmp_path / name}").features(images)
        alike = features @ features.T
        assert np.diag(alike) == pytest.approx([1, 1, 1], abs=1e-5) and alike[0, 1] < 0.99999
    scores = text_scorer(f"bertscore:{tmp_path / 'bert'}").scores(["a kite", "the snow", ""], "a kite")
    assert scores[0] == pytest.approx(1.0, abs=1e-5) and scores[1] < scores[0] and scores[2] == 0.0
