"""The events of a Chrome trace one by one, from plain or gzipped JSON, in bounded memory.

A trace is one object with `traceEvents` (a list) and a few small keys around it, or the bare list.
Only one chunk of text and one event are held at a time.
"""

from __future__ import annotations

import codecs
import gzip
import json
import re
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, cast

from rooflens.errors import InputError

CHUNK_BYTES = 4 * 1024 * 1024
MAX_VALUE_BYTES = 64 * 1024 * 1024
"""No single event or top-level value of a real trace comes near this."""
MAX_RATIO = 200
"""Traces unpack to 10 to 50 times their size; a file beyond this is a decompression bomb."""
FREE_BYTES = 256 * 1024 * 1024
"""Unpacked bytes that need no ratio."""
MAX_BYTES = 64 * 1024**3
_SPACE = re.compile(r"[ \t\r\n]*")
_SCAN = cast("Any", json.JSONDecoder()).scan_once


class TraceStream:
    """Walks through the JSON text of a trace."""

    def __init__(self, path: Path, file: IO[bytes]) -> None:
        self.path = path
        self._file = file
        self._packed = path.stat().st_size
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._text = ""
        self._at = 0
        self._read = 0
        self._ended = False
        self.extra: dict[str, Any] = {}
        """Top-level values besides the events: deviceProperties, schemaVersion ..."""

    def events(self) -> Iterator[dict[str, Any]]:
        """Yield every event; fills `extra`. Raises InputError where the text is no trace."""
        first = self._peek()
        if first == "\ufeff":
            self._at += 1
            first = self._peek()
        if first == "[":
            yield from self._list()
            return
        if first != "{":
            raise self._wrong("it does not begin as JSON")
        self._at += 1
        found = False
        while (char := self._peek()) != "}":
            if char == ",":
                self._at += 1
                continue
            key = self._value()
            if self._peek() != ":":
                raise self._wrong("a key has no value")
            self._at += 1
            if key == "traceEvents" and self._peek() == "[":
                found = True
                yield from self._list()
            else:
                self.extra[str(key)] = self._value()
        if not found:
            raise InputError(
                f"{self.path} is JSON without traceEvents: not a profiler trace.",
                "Give the file that torch.profiler's export_chrome_trace wrote.",
            )

    def _list(self) -> Iterator[dict[str, Any]]:
        self._at += 1
        while (char := self._peek()) != "]":
            if char == ",":
                self._at += 1
                continue
            value = self._value()
            if not isinstance(value, dict):
                raise self._wrong("an event is not an object")
            yield value
        self._at += 1

    def _value(self) -> Any:
        """Parse the next value, reading on while it is not complete."""
        while True:
            self._peek()
            try:
                value, end = _SCAN(self._text, self._at)
            except (StopIteration, json.JSONDecodeError):
                self._need_more()
                continue
            except (ValueError, RecursionError):
                raise self._wrong("a value is not what a profiler writes") from None
            # A number may go on in the next chunk.
            if end == len(self._text) and not self._ended and not isinstance(value, dict | list):
                self._more()
                continue
            self._at = end
            return value

    def _peek(self) -> str:
        """The next character that is not space."""
        while True:
            match = _SPACE.match(self._text, self._at)
            self._at = match.end() if match else self._at
            if self._at < len(self._text):
                return self._text[self._at]
            if self._ended:
                raise InputError(
                    f"{self.path} is cut short: the JSON ends in the middle.",
                    "Copy it again, or let the profiler finish writing.",
                )
            self._more()

    def _need_more(self) -> None:
        """Read on for a value that does not parse yet; say so when it never will."""
        if self._ended:
            self._peek()  # only spaces left: cut short
            raise self._wrong("it is damaged or cut short")
        if len(self._text) - self._at > MAX_VALUE_BYTES:
            raise self._wrong("it is damaged")
        # Text that cannot begin a value never will parse, however much is read.
        if self._at < len(self._text) and self._peek() not in '{["-0123456789tfnNI':
            raise self._wrong("it is damaged")
        self._more()

    def _more(self) -> None:
        try:
            data = self._file.read(CHUNK_BYTES)
        except (OSError, EOFError, zlib.error) as error:
            reason = " ".join(str(error).split())
            raise InputError(
                f"{self.path} is a broken gzip file ({reason}).", "Copy it again."
            ) from None
        self._read += len(data)
        if self._read > MAX_BYTES or self._read > max(FREE_BYTES, MAX_RATIO * self._packed):
            raise InputError(
                f"{self.path} unpacks to more than {self._read // 1024**2} MiB, far more than a "
                "trace of its size holds; it was not read further.",
                "Unpack it and look at it first.",
            )
        self._ended = not data
        self._text = self._text[self._at :] + self._decoder.decode(data, final=self._ended)
        self._at = 0

    def _wrong(self, what: str) -> InputError:
        where = self._read - len(self._text) + self._at
        return InputError(
            f"{self.path} is not a readable trace: {what} (near byte {max(where, 0)}).",
            "Copy it again, or export the trace again.",
        )


@contextmanager
def open_trace(path: Path) -> Iterator[TraceStream]:
    """Open a trace, gzipped or not. Raises InputError when it is no regular file."""
    if not path.is_file():
        what = "is not a regular file" if path.exists() else "does not exist"
        raise InputError(f"{path} {what}.", "Give the trace that torch.profiler wrote.")
    try:
        with path.open("rb") as probe:
            packed = probe.read(2) == b"\x1f\x8b"
        with path.open("rb") as file:
            if packed:
                with gzip.GzipFile(fileobj=file) as unpacked:
                    yield TraceStream(path, cast("IO[bytes]", unpacked))
            else:
                yield TraceStream(path, file)
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}.") from None
