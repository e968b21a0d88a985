"""The published back-end: the paper's ten models through transformers (no torchvision, no timm), on CPU or GPU.

Models are named by Hugging Face id or local folder. Nothing is downloaded unless asked for; weights that are not at hand
give an error that says where to put them. Restormer and SIGGRAPH17 weights are single local files.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np

from costgym.simulators.errors import ConfigError, DataError, check_known, require
from costgym.simulators.opencatp.backends.base import ALL_TOOLS, RESTORERS, Images, as_tensor, check_inputs

# Source: OpenCATP, the model registry of its configuration.
MODELS: dict[str, str] = {
    "image_denoising": "restormer/real_denoising.pth",
    "image_super_resolution": "caidas/swin2SR-classical-sr-x2-64",
    "image_deblurring": "restormer/single_image_defocus_deblurring.pth",
    "image_colorization": "colorizers/siggraph17-df00044c.pth",
    "image_classification": "google/vit-base-patch16-224",
    "object_detection": "facebook/detr-resnet-101",
    "image_captioning": "nlpconnect/vit-gpt2-image-captioning",
    "machine_translation": "t5-base",
    "text_summarization": "facebook/bart-large-cnn",
    "sentiment_analysis": "distilbert-base-uncased-finetuned-sst-2-english",
}
# The revision of the detector whose backbone needs no timm.
REVISIONS = {"facebook/detr-resnet-101": "no_timm", "facebook/detr-resnet-50": "no_timm"}
DETECTION_THRESHOLD = 0.9
_CLASSES = {
    "image_super_resolution": ("Swin2SRForImageSuperResolution", "Swin2SRImageProcessorPil"),
    "image_classification": ("ViTForImageClassification", "ViTImageProcessorPil"),
    "object_detection": ("DetrForObjectDetection", "DetrImageProcessorPil"),
    "image_captioning": ("VisionEncoderDecoderModel", "ViTImageProcessorPil"),
    "machine_translation": ("T5ForConditionalGeneration", ""),
    "text_summarization": ("BartForConditionalGeneration", ""),
    "sentiment_analysis": ("DistilBertForSequenceClassification", ""),
}


def import_classes(tool: str) -> None:
    """Imports what a tool's model needs, so that loading it is loading alone."""
    transformers = require("transformers", "vision")
    for name in filter(None, _CLASSES.get(tool, ())):
        getattr(transformers, name)


@dataclass(frozen=True)
class Loaded:
    """A model with what prepares its inputs and reads its outputs; both are None where none is needed."""

    model: Any
    processor: Any = None
    tokenizer: Any = None

    @property
    def size_mb(self) -> float:
        """Parameters and buffers, MB."""
        tensors = [*self.model.parameters(), *self.model.buffers()]
        return float(sum(t.numel() * t.element_size() for t in tensors)) / 1e6


class PublishedBackend:
    """The paper's models behind `Backend`.

    Weights are looked for in `<root>/<id>`, `<root>/<tool>` and the cache of Hugging Face; `models` names others for some
    tools, `loaders` makes a tool's model in place of the published one. Models stay in memory once they are loaded.
    """

    name = "published"

    def __init__(
        self, root: Path | str | None = None, models: Mapping[str, str | Path] | None = None, device: str = "auto",
        batch_size: int = 8, download: bool = False, loaders: Mapping[str, Callable[[], Loaded]] | None = None,
    ) -> None:  # fmt: skip
        torch = require("torch", "vision")
        for tool in (*(models or {}), *(loaders or {})):
            if tool not in ALL_TOOLS:
                raise ConfigError("models", f"{tool!r} is not a tool; expected one of {', '.join(ALL_TOOLS)}")
        self.root = Path(root) if root is not None else None
        self.models: dict[str, str | Path] = {**MODELS, **(models or {})}
        self.device = ("cuda" if torch.cuda.is_available() else "cpu") if device == "auto" else device
        self.batch_size, self.download = batch_size, download
        self._loaders = dict(loaders or {})
        self._loaded: dict[str, Loaded] = {}

    def run(self, tool: str, inputs: Images | Sequence[str]) -> Images | list[str]:
        check_inputs(tool, inputs)
        import torch

        loaded, step = self.load(tool), _STEPS[tool]
        with torch.inference_mode(), torch.autocast("cuda", torch.float16, enabled=self.device.startswith("cuda")):
            parts = [step(loaded, inputs[i : i + self.batch_size], self.device) for i in range(0, len(inputs), self.batch_size)]
        if tool in RESTORERS:
            return np.concatenate(parts) if parts else cast(Images, inputs).copy()
        return [" ".join(text.split()) for part in parts for text in part]  # a table holds one line a text

    def load(self, tool: str) -> Loaded:
        """Bring a tool's model into memory, on the device."""
        check_known("tool", tool, ALL_TOOLS)
        if tool not in self._loaded:
            loaded = self._loaders[tool]() if tool in self._loaders else self._load(tool)
            loaded.model.eval().to(self.device)
            self._loaded[tool] = loaded
        return self._loaded[tool]

    def _weights(self, tool: str) -> Path | None:
        """A local file or folder of a tool's weights, if there is one."""
        name = self.models[tool]
        candidates = [Path(name)]
        if self.root is not None:
            candidates += [self.root / str(name), self.root / str(name).split("/")[-1], self.root / tool]
        return next((p for p in candidates if p.exists()), None)

    def _load(self, tool: str) -> Loaded:
        weights, name = self._weights(tool), str(self.models[tool])
        wanted = f"put them at {(self.root or Path('<root>')) / name} or pass models={{'{tool}': PATH}}"
        if tool not in _CLASSES:
            from costgym.simulators.opencatp.backends import published_networks as networks

            if weights is None:
                raise DataError(name, f"no weights of {tool}; get the authors' file, then {wanted}")
            if tool == "image_colorization":
                return Loaded(networks.load_file(networks.Siggraph17(), weights))
            return Loaded(networks.load_file(networks.Restormer(norm_bias=tool == "image_deblurring"), weights))
        transformers = require("transformers", "vision")
        source, model_class = str(weights or name), _CLASSES[tool][0]
        options: dict[str, Any] = {"local_files_only": not self.download or weights is not None}
        if weights is None and name in REVISIONS:
            options["revision"] = REVISIONS[name]
        try:
            model, notes = getattr(transformers, model_class).from_pretrained(source, output_loading_info=True, **options)
            processor = tokenizer = None
            if _CLASSES[tool][1]:
                processor = getattr(transformers, _CLASSES[tool][1]).from_pretrained(source, **options)
            if tool in ("image_captioning", "machine_translation", "text_summarization", "sentiment_analysis"):
                tokenizer = transformers.AutoTokenizer.from_pretrained(source, **options)
        except (OSError, ValueError, ImportError, KeyError) as error:
            reason = str(error).splitlines()[0]
            raise DataError(source, f"no weights of {tool} found ({reason}); {wanted}, or allow download=True") from error
        if missing := sorted(notes.get("missing_keys", ())):
            raise DataError(source, f"expected weights of {model_class}; {wanted}", str(missing[0]))
        return Loaded(model, processor, tokenizer)


# -- one step per tool: (model, batch, device) -> batch ----------------------------------------------------------------


def _pixels(tensor: Any) -> Images:
    out: Images = (tensor.float().clamp(0, 1) * 255).round().byte().permute(0, 2, 3, 1).cpu().numpy()
    return out


def _restore(loaded: Loaded, images: Images, device: str) -> Images:
    return _pixels(loaded.model(as_tensor(images, device)))


def _upscale(loaded: Loaded, images: Images, device: str) -> Images:
    inputs = _prepared(loaded, images, device)
    out = loaded.model(**inputs).reconstruction
    factor = int(loaded.model.config.upscale)
    return _pixels(out[:, :, : images.shape[1] * factor, : images.shape[2] * factor])  # the processor pads


def _colourise(loaded: Loaded, images: Images, device: str) -> Images:
    import torch
    from torch.nn import functional as F

    from costgym.simulators.opencatp.backends.measures import lab, srgb

    # the network sees a small picture and gives its colours; the full lightness keeps the detail
    light = lab(images)[..., :1]  # (n, h, w, 1)
    x = torch.from_numpy(light).float().permute(0, 3, 1, 2).to(device)
    colour = loaded.model(F.interpolate(x, size=(256, 256), mode="bilinear", align_corners=False))
    colour = F.interpolate(colour.float(), size=images.shape[1:3], mode="bilinear", align_corners=False)
    return srgb(np.concatenate([light, colour.permute(0, 2, 3, 1).cpu().numpy().astype(np.float64)], -1))


def _prepared(loaded: Loaded, images: Images, device: str) -> Any:
    return loaded.processor(images=list(images), return_tensors="pt").to(device)


def _classify(loaded: Loaded, images: Images, device: str) -> list[str]:
    choice = loaded.model(**_prepared(loaded, images, device)).logits.argmax(-1).tolist()
    names = loaded.model.config.id2label
    return [names[c] for c in choice]


def _detect(loaded: Loaded, images: Images, device: str) -> list[str]:
    outputs = loaded.model(**_prepared(loaded, images, device))
    detections = loaded.processor.post_process_object_detection(
        outputs, threshold=DETECTION_THRESHOLD, target_sizes=[images.shape[1:3]] * len(images)
    )
    names = loaded.model.config.id2label
    return [", ".join(names[int(k)] for k in f["labels"]) for f in detections]


def _caption(loaded: Loaded, images: Images, device: str) -> list[str]:
    return _written(loaded, _prepared(loaded, images, device)["pixel_values"], max_length=40, num_beams=4)


def _written(loaded: Loaded, inputs: Any, **settings: Any) -> list[str]:
    texts: list[str] = loaded.tokenizer.batch_decode(loaded.model.generate(inputs, **settings), skip_special_tokens=True)
    return texts


def _tokens(loaded: Loaded, texts: Sequence[str], device: str) -> Any:
    longest = min(int(loaded.tokenizer.model_max_length), 1024)
    return loaded.tokenizer(list(texts), return_tensors="pt", padding=True, truncation=True, max_length=longest).to(device)


def _translate(loaded: Loaded, texts: Sequence[str], device: str) -> list[str]:
    inputs = _tokens(loaded, [f"translate English to German: {t}" for t in texts], device)
    return _written(loaded, inputs["input_ids"], attention_mask=inputs["attention_mask"], max_new_tokens=256)


def _summarise(loaded: Loaded, texts: Sequence[str], device: str) -> list[str]:
    inputs = _tokens(loaded, texts, device)
    # the settings that the model was published with
    limits = {"min_length": 56, "max_length": 142}
    return _written(loaded, inputs["input_ids"], attention_mask=inputs["attention_mask"], **limits)


def _feel(loaded: Loaded, texts: Sequence[str], device: str) -> list[str]:
    inputs = _tokens(loaded, texts, device)
    choice = loaded.model(input_ids=inputs["input_ids"], attention_mask=inputs["attention_mask"]).logits.argmax(-1)
    return [str(loaded.model.config.id2label[int(c)]).lower() for c in choice]


_STEPS: dict[str, Callable[[Loaded, Any, str], Any]] = {
    "image_denoising": _restore,
    "image_super_resolution": _upscale,
    "image_deblurring": _restore,
    "image_colorization": _colourise,
    "image_classification": _classify,
    "object_detection": _detect,
    "image_captioning": _caption,
    "machine_translation": _translate,
    "text_summarization": _summarise,
    "sentiment_analysis": _feel,
}
