"""A SQLite export as a set of tables whose names and columns are discovered, never assumed.

Only tables and columns named in the code are ever read, and of the strings only those that kernels,
API calls and ranges refer to: environment blocks, process streams and host names stay where they
are (reference: parsing rules Q68, Q69, Q80).
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
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
        """Columns of a table as int64 arrays. NULL and a missing column are NONE (-1).

        `a|b` stands for a, and for b where a is NULL or missing. A column with one value (the
        device, the process ...) is not fetched: SQLite finds that out several times faster than
        Python can take the values over.
        """
        have = self._columns[table]
        source = f"FROM {_quoted(table)} {where}"
        terms = {c: _term(c, have) for c in columns if set(c.split("|")) & set(have)}
        same = self._constants(table, terms, where)
        vary = [c for c in terms if c not in same]
        count = int(self._connection.execute(f"SELECT count(*) {source}").fetchone()[0])
        made = {c: np.full(count, same.get(c, NONE), dtype=np.int64) for c in columns}
        if vary:
            sql = f"SELECT {', '.join(terms[c] for c in vary)} {source}"
            values = chain.from_iterable(self._connection.execute(sql))
            flat = np.fromiter(values, dtype=np.int64, count=count * len(vary))
            for place, column in enumerate(vary):
                made[column] = np.ascontiguousarray(flat[place :: len(vary)])
        return [made[column] for column in columns]

    def _constants(self, table: str, terms: Mapping[str, str], where: str) -> dict[str, int]:
        """Columns that have one value in all rows, and the value."""
        names = list(terms)
        select = f"SELECT {', '.join(terms.values())} FROM {_quoted(table)}"
        first = self._connection.execute(f"{select} {where} LIMIT 1").fetchone() if names else None
        if first is None:
            return {}
        same = {name: int(value) for name, value in zip(names, first, strict=True)}
        condition = f"({where.partition('ORDER BY')[0].removeprefix('WHERE')})" if where else "1"
        while same:  # each round finds a row that differs, and what differs in it
            unequal = " OR ".join(f"{terms[name]} <> {value}" for name, value in same.items())
            row = self._connection.execute(
                f"{select} WHERE {condition} AND ({unequal}) LIMIT 1"
            ).fetchone()
            if row is None:
                break
            found = dict(zip(names, row, strict=True))
            same = {name: value for name, value in same.items() if found[name] == value}
        return same

    def texts(self, table: str, column: str, where: str) -> tuple[Int, list[str]]:
        """A text column as an index per row (NONE for NULL) into its distinct texts."""
        known = _Numbers({None: NONE})
        sql = f"SELECT CAST(substr({_quoted(column)}, 1, {MAX_NAME}) AS BLOB) FROM {_quoted(table)}"
        texts = chain.from_iterable(self._connection.execute(f"{sql} {where}"))
        index = np.fromiter(map(known.__getitem__, texts), dtype=np.int64)
        return index, [_text(text) for text in known if isinstance(text, bytes)]

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


def _term(column: str, have: Sequence[str]) -> str:
    """SQL for a column as integers, whatever is in it. `a|b` is a, or where that is NULL b."""
    names = [f"CAST({_quoted(name)} AS INTEGER)" for name in column.split("|") if name in have]
    return f"COALESCE({', '.join(names)}, {NONE})"


class _Numbers(dict[object, int]):
    """Gives each new key the next number."""

    def __missing__(self, key: object) -> int:
        self[key] = number = len(self) - 1
        return number


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
