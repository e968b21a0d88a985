"""Read a network that ncnn stores, a `.param` and a `.bin` file, into a torch module.

The reader knows the layers of restoration networks: convolutions with their activation, and what joins and resizes their
outputs. Files are bounded before they are opened, and nothing in them is executed.

Source: ncnn's description of its formats, docs/developer-guide/param-and-model-file-structure.md and operators.md.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from costgym.simulators.errors import DataError
from costgym.simulators.files import read_bytes, read_text

MAGIC = "7767517"
MAX_PARAM_BYTES, MAX_BIN_BYTES = 2**20, 128 * 2**20
MAX_LAYERS, MAX_CHANNELS, MAX_FACTOR = 4096, 4096, 8
_HALF = 0x01306B47  # marks weights in half precision; 0 stands before full ones


@dataclass(frozen=True, slots=True)
class Layer:
    """A line of a `.param` file: the kind of a layer, the names of what it reads and writes, and its settings by number."""

    kind: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    numbers: dict[int, float]
    lists: dict[int, tuple[float, ...]]

    def whole(self, key: int, default: int = 0, most: int = MAX_CHANNELS) -> int:
        """A whole number from 0 to `most`; raises ValueError for anything else."""
        value = self.numbers.get(key, default)
        if value != int(value) or not 0 <= value <= most:
            raise ValueError(f"setting {key}: expected a whole number from 0 to {most}, got {value:g}")
        return int(value)


class Weights:
    """Numbers of a `.bin` file, in the order of the layers."""

    def __init__(self, content: bytes) -> None:
        self._content, self._at = content, 0

    def take(self, count: int, marked: bool = False) -> Tensor:
        """The next numbers in full precision; `marked`: a mark before them tells their precision. Raises ValueError."""
        mark = int(self._next(4, "<u4")[0]) if marked else 0
        if mark not in (0, _HALF):
            raise ValueError(f"weights in a precision that is not read here (mark {mark:#x}); expected float16 or float32")
        # half precision is filled up to whole words
        raw = self._next(4 * count, "<f4") if mark == 0 else self._next((2 * count + 3) // 4 * 4, "<f2")[:count]
        if not np.isfinite(raw).all():
            raise ValueError("a weight is not a finite number")
        return torch.from_numpy(raw.astype(np.float32))

    def _next(self, size: int, kind: str) -> NDArray[np.generic]:
        end = self._at + size
        if end > len(self._content):
            raise ValueError(f"the weights end early, at {len(self._content):,} bytes")
        part = np.frombuffer(self._content, kind, size // np.dtype(kind).itemsize, self._at)
        self._at = end
        return part

    @property
    def left(self) -> int:
        """Bytes that no layer has taken."""
        return len(self._content) - self._at


class Combine(nn.Module):  # type: ignore[misc]
    """Joins tensors: side by side along the channels, or by sum, difference or product, each times its coefficient."""

    def __init__(self, how: str, coefficients: tuple[float, ...] = (), scalar: float | None = None) -> None:
        super().__init__()
        self.how, self.coefficients, self.scalar = how, coefficients, scalar

    def forward(self, *parts: Tensor) -> Tensor:
        if self.how == "concat":
            return torch.cat(parts, 1)
        scaled = [part * c for part, c in zip(parts, self.coefficients, strict=True)] if self.coefficients else list(parts)
        total = scaled[0]
        for part in [*scaled[1:], *([] if self.scalar is None else [self.scalar])]:
            total = total + part if self.how == "sum" else total - part if self.how == "difference" else total * part
        return total


def _convolution(layer: Layer, weights: Weights) -> nn.Module:
    out, width = layer.whole(0), layer.whole(1)
    height, stride, dilation = layer.whole(11, width), layer.whole(3, 1), layer.whole(2, 1)
    pad_x, count = layer.whole(4), layer.whole(6, most=MAX_BIN_BYTES)
    pad_y = layer.whole(14, pad_x)
    area = out * width * height
    if not area or not stride or not dilation or not count or count % area or count // area > MAX_CHANNELS:
        raise ValueError(f"{count:,} weights do not make {out} kernels of {height} x {width}")
    kernel = weights.take(count, marked=True).reshape(out, -1, height, width)
    bias = bool(layer.whole(5))
    module = nn.Conv2d(kernel.shape[1], out, (height, width), stride, (pad_y, pad_x), dilation, bias=bias)
    module.weight = nn.Parameter(kernel)
    if bias:
        module.bias = nn.Parameter(weights.take(out))
    activation = layer.whole(9)
    if activation == 0:
        return module
    if activation not in (1, 2):
        raise ValueError(f"activation {activation} is not read here; expected none, ReLU or leaky ReLU")
    return nn.Sequential(module, nn.LeakyReLU(layer.lists.get(10, (0.0,))[0] if activation == 2 else 0.0))


def _prelu(layer: Layer, weights: Weights) -> nn.Module:
    module = nn.PReLU(max(1, layer.whole(0)))
    module.weight = nn.Parameter(weights.take(module.num_parameters))
    return module


def _shuffle(layer: Layer, weights: Weights) -> nn.Module:
    if layer.whole(1):
        raise ValueError("this order of pixels is not read here")
    return nn.PixelShuffle(max(1, layer.whole(0, 1, MAX_FACTOR)))


def _resize(layer: Layer, weights: Weights) -> nn.Module:
    modes = {1: "nearest", 2: "bilinear", 3: "bicubic"}
    height, width = layer.numbers.get(1, 1.0), layer.numbers.get(2, 1.0)
    if layer.whole(0) not in modes or layer.whole(6) or not all(0.1 <= factor <= MAX_FACTOR for factor in (height, width)):
        raise ValueError(f"resizing by {height:g} x {width:g} in mode {layer.whole(0)} is not read here")
    return nn.Upsample(scale_factor=(height, width), mode=modes[layer.whole(0)])


def _binary(layer: Layer, weights: Weights) -> nn.Module:
    how = {0: "sum", 1: "difference", 2: "product"}.get(layer.whole(0))
    if how is None:
        raise ValueError(f"operation {layer.whole(0)} is not read here; expected 0, 1 or 2")
    return Combine(how, scalar=layer.numbers.get(2, 0.0) if layer.whole(1) else None)


def _eltwise(layer: Layer, weights: Weights) -> nn.Module:
    how = {0: "product", 1: "sum"}.get(layer.whole(0))
    coefficients = layer.lists.get(1, ())
    if how is None or len(coefficients) not in (0, len(layer.inputs)):
        raise ValueError("expected a product or a sum with a coefficient for each input or none")
    return Combine(how, coefficients if how == "sum" else ())


def _concat(layer: Layer, weights: Weights) -> nn.Module:
    if layer.whole(0):
        raise ValueError("only channels are put side by side here")
    return Combine("concat")


_MAKERS: dict[str, Callable[[Layer, Weights], nn.Module]] = {
    "Convolution": _convolution,
    "PReLU": _prelu,
    "PixelShuffle": _shuffle,
    "Interp": _resize,
    "BinaryOp": _binary,
    "Eltwise": _eltwise,
    "Concat": _concat,
    "Split": lambda layer, weights: nn.Identity(),
}
_MANY_INPUTS = ("BinaryOp", "Eltwise", "Concat")


class NcnnNetwork(nn.Module):  # type: ignore[misc]
    """A network with one input and one output, (n, channels, height, width)."""

    def __init__(self, layers: list[Layer], modules: list[nn.Module]) -> None:
        super().__init__()
        self.layers, self.modules_in_order = layers, nn.ModuleList(modules)
        self._last_use = {name: at for at, layer in enumerate(layers) for name in layer.inputs}

    def forward(self, x: Tensor) -> Tensor:
        values = dict.fromkeys(self.layers[0].outputs, x)
        for at, (layer, module) in enumerate(zip(self.layers, self.modules_in_order, strict=True)):
            if at:
                values.update(dict.fromkeys(layer.outputs, module(*[values[name] for name in layer.inputs])))
            for name in layer.inputs:  # an image as large as the input, for each channel, is not kept longer than needed
                if self._last_use[name] == at:
                    del values[name]
        return values[self.layers[-1].outputs[0]]


def read_network(param: Path, binary: Path) -> NcnnNetwork:
    """Read a network; raises DataError where a file is too large, broken, or holds a layer that is not read here."""
    layers = _layers(read_text(param, MAX_PARAM_BYTES), param)
    weights, modules = Weights(read_bytes(binary, MAX_BIN_BYTES)), [nn.Module()]
    for layer in layers[1:]:
        maker = _MAKERS.get(layer.kind)
        if maker is None:
            raise DataError(param, f"layer {layer.kind} is not read here; expected one of {', '.join(_MAKERS)}")
        try:
            modules.append(maker(layer, weights))
        except ValueError as error:
            raise DataError(binary, str(error), f"{layer.kind} {layer.outputs[0]}") from error
    if weights.left:
        raise DataError(binary, f"{weights.left:,} bytes belong to no layer; is it the file of {param.name}?")
    network = NcnnNetwork(layers, modules)
    network.eval()
    return network


def _layers(text: str, path: Path) -> list[Layer]:
    lines = [line.split() for line in text.splitlines() if line.strip()]
    if len(lines) < 4 or lines[0] != [MAGIC] or len(lines) > MAX_LAYERS:
        raise DataError(path, f"expected a text that begins with {MAGIC} and has 2 to {MAX_LAYERS} layers")
    known: set[str] = set()
    layers: list[Layer] = []
    for number, words in enumerate(lines[2:], 3):
        try:
            layer = _layer(words)
        except (ValueError, IndexError, OverflowError) as error:
            raise DataError(path, f"is no layer ({error})", f"line {number}") from error
        inputs = 0 if not layers else 1 if layer.kind not in _MANY_INPUTS else len(layer.inputs)
        if (not layers) != (layer.kind == "Input") or len(layer.inputs) != inputs or not layer.outputs:
            raise DataError(path, "expected one input, then layers that read and write something", f"line {number}")
        if unknown := [name for name in layer.inputs if name not in known]:
            raise DataError(path, f"reads {unknown[0]!r}, which no layer above writes", f"line {number}")
        known.update(layer.outputs)
        layers.append(layer)
    return layers


def _layer(words: list[str]) -> Layer:
    inputs, outputs = int(words[2]), int(words[3])
    if min(inputs, outputs) < 0 or len(words) < 4 + inputs + outputs:
        raise ValueError(f"{len(words)} words do not hold {inputs} inputs and {outputs} outputs")
    numbers, lists = {}, {}
    for word in words[4 + inputs + outputs :]:
        key, value = word.split("=")
        if int(key) <= -23300:  # a list, behind its length
            lists[-23300 - int(key)] = tuple(float(part) for part in value.split(",")[1:])
        else:
            numbers[int(key)] = float(value)
    return Layer(words[0], tuple(words[4 : 4 + inputs]), tuple(words[4 + inputs : 4 + inputs + outputs]), numbers, lists)
