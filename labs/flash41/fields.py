"""Reading a Hugging Face `config.json`: each field checked as it is read, with the file's name in every message."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

DTYPE_BYTES = {"float32": 4, "fp32": 4, "float16": 2, "fp16": 2, "bfloat16": 2, "bf16": 2}
DTYPE_BYTES |= {"float8_e4m3fn": 1, "float8_e5m2": 1, "fp8": 1}
LARGEST = 10**9  # no field read here comes near it; a larger number is a damaged file


def read_json(path: str | Path) -> dict:
    """The file's JSON object. Raises OSError if it cannot be read, ValueError if it is something else."""
    try:
        data = json.loads(Path(path).read_text(encoding="utf-8"))
    except UnicodeDecodeError:
        raise ValueError(f"{path} is not UTF-8 text") from None
    except (ValueError, RecursionError) as error:  # a number of thousands of digits is a plain ValueError
        raise ValueError(f"{path} is not JSON: {error}") from None
    if not isinstance(data, dict):
        raise ValueError(f"{path} must hold a JSON object, got {type(data).__name__}")
    return data


@dataclass(frozen=True)
class Fields:
    """The text model's part of a configuration file. A field that is null counts as missing."""

    path: str
    family: str
    text: dict
    outer: dict  # the whole file; the same as `text` unless it is composite

    def has(self, name: str) -> bool:
        """Whether the field is there and not null."""
        return self.text.get(name) is not None

    def fail(self, name: str, allowed: str) -> ValueError:
        """The error for a field whose value is not allowed."""
        return ValueError(f"{self.path}: {name} = {_short(self.text.get(name))} ({self.family}): must be {allowed}")

    def integer(self, name: str, default: int | None = None) -> int:
        """A whole number from 1 up, or the family's documented default where there is one."""
        value = self.text.get(name)
        if value is None and default is not None:
            return default
        if value is None:
            raise ValueError(f"{self.path} lacks the field {name}, which {self.family} needs")
        if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= LARGEST:
            raise self.fail(name, "a positive integer")
        return value

    def flag(self, name: str, default: bool) -> bool:
        """true or false, or the documented default."""
        value = self.text.get(name)
        if value is not None and not isinstance(value, bool):
            raise self.fail(name, "true or false")
        return default if value is None else value

    def names(self, name: str, length: int, allowed: tuple, *, longer: bool = False) -> tuple | None:
        """A list with one of `allowed` per layer; None if missing. `longer`: entries beyond the layers are dropped."""
        value = self.text.get(name)
        if value is None:
            return None
        fitting = isinstance(value, list) and (len(value) == length or (longer and len(value) > length))
        if not fitting:
            got = f", got {len(value)}" if isinstance(value, list) else ""
            raise self.fail(name, f"a list with {'at least ' * longer}one entry for each of {length} layers{got}")
        for entry in value[:length]:
            if isinstance(entry, bool) or entry not in allowed:
                raise ValueError(f"{self.path}: {name} holds {entry!r} ({self.family}): allowed are {_listed(allowed)}")
        return tuple(value[:length])

    def dtype_bytes(self, override: str | None) -> int:
        """Bytes per number: `override`, else the file's `dtype`, else its older `torch_dtype`."""
        places = ((self.text, "dtype"), (self.text, "torch_dtype"), (self.outer, "dtype"), (self.outer, "torch_dtype"))
        found = [(name, part[name]) for part, name in places if part.get(name) is not None]
        name, value = ("--dtype", override) if override else (found or [(None, None)])[0]
        if name is None:
            raise ValueError(f"{self.path} lacks the field dtype (older: torch_dtype): give it with --dtype")
        if not isinstance(value, str) or value not in DTYPE_BYTES:
            raise ValueError(f"{name} {value!r}: allowed are {_listed(DTYPE_BYTES)}")
        return DTYPE_BYTES[value]


def _listed(values) -> str:
    return ", ".join(str(value) for value in values)


def _short(value) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
