"""Read packed files, whose content has a bound before it is unpacked."""

import lzma
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from costgym.simulators.errors import DataError
from costgym.simulators.files.plain import MAX_DOCUMENT_BYTES, open_plain, read_bytes

_UNPACKING_BYTES = 256 * 2**20  # memory that a packed text may ask for


def read_packed(path: Path, most: int = 4 * MAX_DOCUMENT_BYTES) -> bytes:
    """Read a file, unpacked where its name ends in `.xz` or `.gz`; raises DataError where it is damaged, or larger than `most`
    bytes once unpacked."""
    content = read_bytes(path, most)
    if path.suffix not in (".xz", ".gz"):
        return content
    packed: Any = lzma.LZMADecompressor(memlimit=_UNPACKING_BYTES) if path.suffix == ".xz" else zlib.decompressobj(wbits=31)
    try:
        plain: bytes = packed.decompress(content, most + 1)
    except (lzma.LZMAError, zlib.error) as error:
        raise DataError(path, f"cannot be unpacked: {error}") from error
    if len(plain) > most:
        raise DataError(path, f"is larger than {most >> 20:,} MiB once unpacked")
    if not packed.eof:
        raise DataError(path, "cannot be unpacked: it is cut off")
    return plain


def load_arrays(path: Path, most: int) -> dict[str, NDArray[Any]]:
    """Read the arrays of an `.npz` file, of plain types alone; raises DataError where they take more than `most` bytes, or the
    file is no such archive."""
    with open_plain(path) as store:
        try:
            archive = zipfile.ZipFile(store)
            if sum(member.file_size for member in archive.infolist()) > most:
                raise DataError(path, f"holds more than {most >> 20:,} MiB once unpacked")
            return {member.filename.removesuffix(".npy"): _array(archive, member) for member in archive.infolist()}
        except (ValueError, TypeError, LookupError, OSError, EOFError, RuntimeError, zipfile.BadZipFile, zlib.error) as error:
            raise DataError(path, f"is not an .npz of plain arrays ({error})") from error


def _array(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> NDArray[Any]:
    """An array by its header and the bytes that are there, whatever size the header claims."""
    with archive.open(member) as content:
        read_header = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}[npy.read_magic(content)]
        shape, by_column, kind = read_header(content)
        array: NDArray[Any] = np.frombuffer(content.read(), kind)
    return array.reshape(shape, order="F" if by_column else "C").copy()
