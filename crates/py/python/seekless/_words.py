"""Commands of the program in a process of its own, for what it reads from files and writes to files."""

from __future__ import annotations

import glob
import subprocess
import sys
from collections.abc import Mapping, Sequence
from os import PathLike, fspath
from pathlib import Path
from typing import TypeAlias

from ._seekless import SeeklessError, UsageError

StrPath: TypeAlias = str | PathLike[str]

READING = ("format", "columns", "record", "time_unit", "sector_size", "volume", "skip_bad")
"""Options that are about reading a trace."""


def program(*words: str) -> str:
    """Return what the program prints; its errors are those of this package."""
    done = subprocess.run([sys.executable, "-m", "seekless", *words], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        kind = UsageError if done.returncode == 2 else SeeklessError
        raise kind(done.stderr.strip().removeprefix("error: "))
    return done.stdout


def files_of(paths: StrPath | Sequence[StrPath]) -> list[str]:
    """Return the absolute paths of files, or of those of a pattern."""
    given = [paths] if isinstance(paths, str | PathLike) else list(paths)
    files: list[str] = []
    for path in [fspath(each) for each in given]:
        found = sorted(glob.glob(path)) if glob.has_magic(path) else [path]
        if not found:
            raise UsageError(f"{path}: found no file of that pattern, expected some")
        files += [str(Path(one).resolve()) for one in found]
    if not files:
        raise UsageError("found no files, expected some")
    return files


def words_of(options: Mapping[str, object]) -> list[str]:
    """Return keyword arguments as words of a command line."""
    words: list[str] = []
    for name, value in options.items():
        word = "--" + name.replace("_", "-")
        if value is True:
            words.append(word)
        elif value is not False and value is not None:
            words += [word, str(value)]
    return words


def written(folder: str, contents: Sequence[bytes]) -> list[str]:
    """Write each content to a file of its own; returns their paths."""
    files = []
    for number, content in enumerate(contents):
        file = Path(folder, str(number))
        file.write_bytes(content)
        files.append(str(file))
    return files
