"""A SQLite export as a set of tables whose names and columns are discovered, never assumed.

Only tables and columns named in the code are ever read, and of the strings only those that kernels,
API calls and ranges refer to: environment blocks, process streams and host names stay where they
are (reference: parsing rules Q68, Q69, Q80).
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from urllib.parse import quote

import numpy as np

from rooflens.errors import InputError
from rooflens.parsers.timeline.trace import NONE, Int

MAX_NAME = 8192
"""Characters of a kernel or range name that are kept."""
_CHUNK = 500
_AGAIN = "Export it again: nsys export --type sqlite --force-overwrite true FILE.nsys-rep."


class Export:
    """An open export: tables, columns, strings."""

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        self.path = path
        self._connection = connection
        self._columns: dict[str, tuple[str, ...]] = {}
        for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'"):
            info = connection.execute(f"PRAGMA table_info({_quoted(str(name))})")
            self._columns[str(name)] = tuple(str(row[1]) for row in info)

    def table(self, name: str) -> str | None:
        """The table of this name, or of a later version of it (`NAME_V2`), or None.

        Where there are several versions, the last one that has rows.
        """
        if name in self._columns:
            return name
        versions = sorted(n for n in self._columns if n.startswith(f"{name}_V"))
        return next((n for n in reversed(versions) if self.count(n)), None)

    def columns(self, table: str) -> tuple[str, ...]:
        """Column names of a table that exists."""
        return self._columns[table]

    def tables(self) -> tuple[str, ...]:
        """All table names."""
        return tuple(self._columns)

    def count(self, table: str) -> int:
        """Rows of a table; 0 when there is no such table."""
        if table not in self._columns:
            return 0
        return int(self._connection.execute(f"SELECT count(*) FROM {_quoted(table)}").fetchone()[0])

    def integers(self, table: str, columns: Sequence[str], where: str = "") -> list[Int]:
        """Columns of a table as int64 arrays. NULL and a missing column are NONE (-1)."""
        have = self._columns[table]
        terms = [
            f"COALESCE(CAST({_quoted(c)} AS INTEGER), {NONE})" if c in have else str(NONE)
            for c in columns
        ]
        source = f"FROM {_quoted(table)} {where}"
        # A column with one value (the device, the process ...) is not fetched: SQLite finds that
        # out several times faster than Python can take the values over.
        spans = ", ".join(f"min({term}), max({term})" for term in terms)
        count, *extremes = self._connection.execute(f"SELECT count(*), {spans} {source}").fetchone()
        lows, highs = extremes[0::2], extremes[1::2]
        vary = [i for i in range(len(terms)) if lows[i] != highs[i]]
        made = [np.full(count, low if count else 0, dtype=np.int64) for low in lows]
        if vary:
            sql = f"SELECT {', '.join(terms[i] for i in vary)} {source}"
            values = chain.from_iterable(self._connection.execute(sql))
            flat = np.fromiter(values, dtype=np.int64, count=count * len(vary))
            for place, i in enumerate(vary):
                made[i] = np.ascontiguousarray(flat[place :: len(vary)])
        return made

    def texts(self, table: str, column: str, where: str) -> tuple[Int, list[str]]:
        """A text column as an index per row (NONE for NULL) into its distinct texts."""
        known: dict[bytes | None, int] = {None: NONE}
        sql = f"SELECT CAST(substr({_quoted(column)}, 1, {MAX_NAME}) AS BLOB) FROM {_quoted(table)}"
        index = np.fromiter(
            (known.setdefault(text, len(known) - 1)
             for (text,) in self._connection.execute(f"{sql} {where}")),
            dtype=np.int64,
        )  # fmt: skip
        return index, [_text(text) for text in known if text is not None]

    def rows(self, sql: str, parameters: Sequence[object] = ()) -> Iterator[tuple[object, ...]]:
        """Run a query of our own (small results only)."""
        yield from self._connection.execute(sql, tuple(parameters))

    def strings(self, ids: Iterable[int]) -> dict[int, str]:
        """The strings of these ids; an id without a string is left out."""
        table = self.table("StringIds")
        wanted = [int(i) for i in ids if i != NONE]
        found: dict[int, str] = {}
        if table is None:
            return found
        for first in range(0, len(wanted), _CHUNK):
            some = wanted[first : first + _CHUNK]
            marks = ",".join("?" * len(some))
            sql = (
                f"SELECT id, substr(CAST(value AS TEXT), 1, {MAX_NAME}) FROM {_quoted(table)} "
                f"WHERE id IN ({marks})"
            )
            for key, value in self._connection.execute(sql, some):
                found[int(key)] = value or ""
        return found


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


@contextmanager
def open_export(path: Path) -> Iterator[Export]:
    """Open an export for reading only; nothing is written beside it.

    Raises InputError, in one line, for a file that is missing, no database, cut short or damaged,
    also when the damage shows only while it is read.
    """
    if not path.is_file():
        what = "is not a regular file" if path.exists() else "does not exist"
        raise InputError(f"{path} {what}.", "Give the .sqlite file that nsys exported.")
    uri = f"file:{quote(str(path.absolute()))}?mode=ro&immutable=1"
    connection = None
    try:
        connection = sqlite3.connect(uri, uri=True)
        connection.text_factory = _text
        connection.execute("PRAGMA trusted_schema = OFF")
        connection.execute("PRAGMA cell_size_check = ON")
        yield Export(path, connection)
    except (sqlite3.Error, OverflowError, ValueError, TypeError, MemoryError) as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise InputError(f"{path} is damaged or cut short ({reason}).", _AGAIN) from None
    finally:
        if connection is not None:
            connection.close()


def _text(data: bytes) -> str:
    return data.decode("utf-8", errors="replace")
