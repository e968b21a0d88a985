"""The tiny back-end: the ten tools as small networks of our own, with shipped weights, on CPU or GPU."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from itertools import compress
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from costgym.simulators.errors import DataError, UnknownName, require
from costgym.simulators.files import write_atomically
from costgym.simulators.opencatp.backends.base import ALL_TOOLS, RESTORERS, TEXT_TOOLS, Images, as_tensor, check_inputs
from costgym.simulators.opencatp.backends.vocabulary import END, START, vocabulary
from costgym.simulators.opencatp.scenes import language
from costgym.simulators.opencatp.scenes.degrade import inverse_of_blur

if TYPE_CHECKING:
    import torch

WEIGHTS = Path(__file__).parent / "weights"
CENTRE_THRESHOLD = 0.4
_MAX_NEW_WORDS = 40


def make_network(tool: str) -> torch.nn.Module:
    """The untrained network of a tool."""
    torch = require("torch", "vision")
    from costgym.simulators.opencatp.backends import networks as n

    english, german = len(vocabulary()), len(vocabulary(True))
    match tool:
        case "image_denoising" | "image_super_resolution":
            return n.RestorationNet((40, 64))
        case "image_deblurring":
            return n.RestorationNet((40, 64), inverse=torch.from_numpy(inverse_of_blur()).float())
        case "image_colorization":
            return n.RestorationNet((32, 56, 80), chroma_only=True)
        case "image_classification":
            return n.Classifier(len(language.KINDS), len(language.TEXTURES))
        case "object_detection":
            return n.Detector(len(language.OBJECTS))
        case "image_captioning":
            return n.Captioner(english)
        case "machine_translation":
            return n.Seq2Seq(english, german, hidden=112)
        case "text_summarization":
            return n.Seq2Seq(english, english, hidden=80)
        case "sentiment_analysis":
            return n.SentimentNet(english)
    raise UnknownName("tool", tool, ALL_TOOLS)


def save_weights(network: torch.nn.Module, path: Path, metadata: dict[str, str]) -> None:
    """Write half-precision weights, whole or not at all."""
    safetensors = require("safetensors.torch", "vision")
    tensors = {k: v.detach().cpu().contiguous() for k, v in network.state_dict().items()}
    state = {k: v.half() if v.is_floating_point() else v for k, v in tensors.items()}
    write_atomically(path, safetensors.save(state, metadata=metadata), parents=True)


def load_network(tool: str, folder: Path) -> torch.nn.Module:
    """A tool's network with the weights from `folder`, in evaluation mode on the CPU."""
    safetensors = require("safetensors.torch", "vision")
    network, path = make_network(tool), folder / f"{tool}.safetensors"
    if not path.is_file():
        raise DataError(path, "no weights of this tool; name a folder that holds them")
    try:
        state = safetensors.load_file(str(path))
    except Exception as error:  # safetensors raises its own, unexported error type
        raise DataError(path, f"not a safetensors file ({error}); build or fetch it again") from error
    expected = network.state_dict()
    wrong = sorted(
        k for k in expected.keys() | state.keys() if k not in expected or k not in state or expected[k].shape != state[k].shape
    )
    if wrong:
        raise DataError(path, f"weights of another network (first difference: {wrong[0]}); build them again")
    network.load_state_dict({k: v.to(expected[k].dtype) for k, v in state.items()})
    return network.eval()


def _folded(network: torch.nn.Module) -> torch.nn.Module:
    """The same network with every normalisation folded into the convolution before it, for speed."""
    import torch

    for module in list(network.modules()):
        if isinstance(module, torch.nn.Sequential) and len(module) == 3 and isinstance(module[1], torch.nn.BatchNorm2d):
            # in evaluation a normalisation is a fixed scale and shift, which the convolution can do itself
            module[0] = torch.nn.utils.fusion.fuse_conv_bn_eval(module[0], module[1])
            module[1] = torch.nn.Identity()
    return network


def weights_hash(folder: Path = WEIGHTS) -> str:
    """SHA-256 over all weight files of a folder, by name."""
    digest = hashlib.sha256()
    for path in sorted(folder.glob("*.safetensors")):
        digest.update(path.name.encode() + hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()


class TinyBackend:
    """The ten tools on small networks, from a folder of `<tool>.safetensors`; see `Backend`."""

    name = "tiny"

    def __init__(self, weights: Path | str = WEIGHTS, device: str = "cpu", batch_size: int = 128) -> None:
        self.weights, self.device, self.batch_size = Path(weights), device, batch_size
        self._networks: dict[str, torch.nn.Module] = {}

    def network(self, tool: str) -> torch.nn.Module:
        """The loaded network of a tool."""
        if tool not in self._networks:
            import torch

            network = _folded(load_network(tool, self.weights)).to(self.device)
            self._networks[tool] = network.to(memory_format=torch.channels_last) if tool not in TEXT_TOOLS else network
        return self._networks[tool]

    def run(self, tool: str, inputs: Images | Sequence[str]) -> Images | list[str]:
        check_inputs(tool, inputs)
        import torch

        if tool in TEXT_TOOLS:
            with torch.inference_mode():
                return self._run_texts(tool, list(cast(Sequence[str], inputs)))
        images, size = cast(Images, inputs), self.batch_size
        with torch.inference_mode():
            parts = [self._run_images(tool, images[i : i + size]) for i in range(0, len(images), size)]
        if tool in RESTORERS:
            return np.concatenate(parts) if parts else images.copy()
        return [text for part in parts for text in part]

    def _run_images(self, tool: str, images: Images) -> Any:
        network, x = self.network(tool), as_tensor(images, self.device)
        if tool in RESTORERS:
            y = (network(x).clamp(0, 1) * 255).round().byte()
            return y.permute(0, 2, 3, 1).contiguous().cpu().numpy()
        if tool == "image_classification":
            kind, texture = (logits.argmax(1).tolist() for logits in network(x))
            return [language.label(language.KINDS[k], language.TEXTURES[t]) for k, t in zip(kind, texture, strict=True)]
        if tool == "object_detection":
            sure = network(x)[0].sigmoid().flatten(2).amax(2) > CENTRE_THRESHOLD
            return [language.object_list(list(compress(language.OBJECTS, row))) for row in sure.tolist()]
        return [vocabulary().decode(words) for words in greedy(network, x)]

    def _run_texts(self, tool: str, texts: list[str]) -> list[str]:
        if tool == "machine_translation":
            # sentence by sentence, as it was trained
            sentences = [[s.strip() for s in t.split(".") if s.strip()] for t in texts]
            translated = iter(self._words_to_words(tool, [s for t in sentences for s in t]))
            return [
                " . ".join(next(translated) for _ in parts) + (" ." if text.rstrip().endswith(".") else "")
                for parts, text in zip(sentences, texts, strict=True)
            ]
        if tool == "text_summarization":
            return self._words_to_words(tool, texts)
        return [language.SENTIMENTS[int(c)] for words in self._sources(texts) for c in self.network(tool)(words).argmax(1)]

    def _sources(self, texts: list[str]) -> Iterator[torch.Tensor]:
        """Batches of texts, by the numbers of their words."""
        for start in range(0, len(texts), 2 * self.batch_size):
            yield pad([vocabulary().encode(text) for text in texts[start : start + 2 * self.batch_size]], self.device)

    def _words_to_words(self, tool: str, texts: list[str]) -> list[str]:
        into = vocabulary(german=tool == "machine_translation")
        return [into.decode(words) for source in self._sources(texts) for words in greedy(self.network(tool), source)]


def pad(rows: list[list[int]], device: torch.device | str) -> torch.Tensor:
    """Rows of numbers as one tensor, filled up with 0."""
    import torch

    longest = max(map(len, rows))
    return torch.tensor([r + [0] * (longest - len(r)) for r in rows], device=device)


def greedy(network: Any, inputs: torch.Tensor) -> list[list[int]]:
    """The likeliest word at every step, until all rows have ended."""
    import torch

    cells, mask, state = network.see(inputs)
    words = torch.full((len(inputs), 1), START, device=inputs.device)
    out, ended = [], torch.zeros(len(inputs), dtype=torch.bool, device=inputs.device)
    for _ in range(_MAX_NEW_WORDS):
        logits, state = network.decoder(cells, mask, state, words)
        words = logits[:, -1:].argmax(2)
        out.append(words)
        # rows that have ended go on with the others, and what they say is cut off when it is decoded
        ended |= words[:, 0] == END
        if bool(ended.all()):
            break
    return cast("list[list[int]]", torch.cat(out, 1).tolist())
