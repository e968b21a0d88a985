"""Who enters an epoch: names with `ssh` public keys, and what is signed with them.

Signatures are made and checked by OpenSSH's `ssh-keygen -Y`, so that any key that somebody has serves.
"""

import shutil
import subprocess
import tempfile
import unicodedata
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from costgym.simulators.errors import ConfigError, DataError

ENTRY, VERDICT = "costgym-entry", "costgym-verdict"
"""What a signature is for, so that none serves for the other."""
MAX_SIGNATURE_BYTES = 16_384
WAIT_S = 120.0  # for a passphrase


class Identity(BaseModel):
    """Somebody who may enter."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9 ._+-]{0,79}$")
    key: str = Field(pattern=r"^(ssh|ecdsa|sk)-[a-z0-9@.-]+ [A-Za-z0-9+/=]{16,4000}$")  # type and key, as in a `.pub` file


def same_name(name: str) -> str:
    """A name as names are compared: in one case, and with single spaces."""
    return " ".join(unicodedata.normalize("NFKC", name).casefold().split())


def read_identities(path: Path) -> tuple[Identity, ...]:
    """Read a file with a line for everybody, a public key and then the name, as a `.pub` file has them; raises DataError."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(path, f"cannot be read as public keys ({error})") from error
    identities = []
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.startswith("#"):
            continue
        kind, key, *name = line.split(maxsplit=2)
        try:
            identities.append(Identity(name=" ".join(" ".join(name).split()), key=f"{kind} {key}"))
        except ValueError:
            raise DataError(path, "expected a line as in a .pub file: TYPE KEY NAME", f"line {number}") from None
    return tuple(identities)


def public_key(key: Path) -> str:
    """The public part of a key file, its type and key; raises ConfigError where it is none."""
    path = key if key.suffix == ".pub" else key.with_name(f"{key.name}.pub")
    try:
        return " ".join(path.read_text(encoding="ascii").split()[:2])
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError("--key", f"{path} cannot be read as a public key ({error})") from error


def sign(text: str, key: Path, purpose: str) -> str:
    """Sign a text; raises ConfigError where `ssh-keygen` cannot."""
    return _keygen(["sign", "-n", purpose, "-f", str(key)], text, "--key")


def is_signed(text: str, signature: str, key: str, purpose: str) -> bool:
    """Whether a signature of a text was made with a key."""
    return _signer(text, signature, [key], purpose) is not None


def signer_of(text: str, signature: str, identities: Sequence[Identity]) -> Identity | None:
    """Who of them made a signature of a text, if anybody."""
    number = _signer(text, signature, [identity.key for identity in identities], ENTRY)
    return None if number is None else identities[number]


def _signer(text: str, signature: str, keys: Sequence[str], purpose: str) -> int | None:
    """The number of the key that a signature of a text was made with."""
    with tempfile.TemporaryDirectory(prefix="costgym-") as folder:
        allowed, signed = Path(folder) / "allowed", Path(folder) / "signature"
        allowed.write_text("".join(f"{number} {key}\n" for number, key in enumerate(keys)), encoding="ascii")
        signed.write_text(signature, encoding="utf-8")
        files = ["-f", str(allowed), "-s", str(signed)]
        with suppress(ConfigError):
            number = _keygen(["find-principals", *files], "", "--key").strip()
            _keygen(["verify", "-n", purpose, "-I", number, *files], text, "--key")
            return int(number)
    return None


def entry_text(digest: str, secret_sha256: str) -> str:
    """What the signature of an entry is made of: its content, and the epoch that it is for."""
    return f"costgym entry {digest} of the epoch {secret_sha256}\n"


def _keygen(arguments: list[str], text: str, option: str) -> str:
    program = shutil.which("ssh-keygen")
    if program is None:
        raise ConfigError(option, "ssh-keygen is not installed (Debian: apt-get install openssh-client)")
    done = subprocess.run([program, "-Y", *arguments], input=text, capture_output=True, text=True, check=False, timeout=WAIT_S)
    if done.returncode:
        raise ConfigError(option, (done.stderr.strip().splitlines() or ["ssh-keygen failed"])[-1])
    return done.stdout
