"""Parquet, by pyarrow: the columns of CSV, with samples as lists and times as timestamps."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from types import ModuleType
from typing import Any, BinaryIO, Final

from cli.formats.columns import (
    COLUMNS,
    FACTS,
    NUMBERS,
    TEXTS,
    TIMES,
    VALUES,
    point_of,
    refuse_unknown,
)
from cli.formats.node import Node
from cli.formats.problem import FormatError
from cli.formats.source import Source, parsed
from service.schemas.measured_elsewhere import ForeignPoint

MOST_UNPACKED: Final = 2**30
"""Bytes of a file once unpacked."""


def recognises(source: Source) -> bool:
    """True for a file that begins with ``PAR1``."""
    return source.content.startswith(b"PAR1")


def _pyarrow() -> tuple[ModuleType, ModuleType]:
    try:
        import pyarrow as pa  # noqa: PLC0415 - 0.1 s, for this format alone
        import pyarrow.parquet as pq  # noqa: PLC0415
    except ImportError:
        raise FormatError(
            "Parquet needs pyarrow: install it with pip install 'throughline[parquet]'."
        ) from None
    return pa, pq


def read(source: Source) -> Iterator[ForeignPoint]:
    """One point for each row."""
    pa, pq = _pyarrow()
    texts = [*TEXTS, *FACTS]
    try:
        file = pq.ParquetFile(pa.BufferReader(source.content), read_dictionary=texts)
        top = Node(None, source.path)
        _check_size(file.metadata, top)
        refuse_unknown(file.schema_arrow.names, top)
        number = 0
        for batch in file.iter_batches(batch_size=8192):
            columns = {
                name: _cells(pa, name, batch.column(name), top) for name in batch.schema.names
            }
            for index in range(batch.num_rows):
                number += 1
                row = {name: cells[index] for name, cells in columns.items()}
                yield point_of(source, Node(_typed(source, row), source.path, key=f"row {number}"))
    except (pa.ArrowException, OSError) as problem:
        raise FormatError(
            f"is no whole Parquet file ({type(problem).__name__}).", source.path
        ) from None


def _check_size(metadata: Any, top: Node) -> None:
    """Refuse by the footer what would unpack to more than `MOST_UNPACKED`."""
    chunks = (
        metadata.row_group(group).column(column)
        for group in range(metadata.num_row_groups)
        for column in range(metadata.num_columns)
    )
    # A number takes 8 bytes here, however few bits a run of equal ones takes there.
    size = sum(max(chunk.total_uncompressed_size, 8 * chunk.num_values) for chunk in chunks)
    if size > MOST_UNPACKED:
        raise top.refuse(f"unpacks to {size:,} bytes, and {MOST_UNPACKED:,} are allowed.")


def _cells(pa: ModuleType, name: str, column: Any, top: Node) -> Sequence[Any]:
    """The cells of a column as Python's values; equal texts are one value."""
    kind = column.type
    if pa.types.is_dictionary(kind) and name in (*TEXTS, *FACTS):
        words = column.dictionary.to_pylist()
        return [None if at is None else words[at] for at in column.indices.to_pylist()]
    if name in TIMES and pa.types.is_timestamp(kind):
        return list(column.cast(pa.string()).to_pylist())
    numeric = pa.types.is_floating(kind) or pa.types.is_integer(kind)
    if (
        (name in NUMBERS and numeric)
        or (name == VALUES and pa.types.is_list(kind))
        or pa.types.is_null(kind)
    ):
        return list(column.to_pylist())
    raise top.refuse(f"the column {name!r} is of type {kind}.")


def _typed(source: Source, row: dict[str, Any]) -> dict[str, Any]:
    facts = {key: _facts(source, row[key]) for key in FACTS if row.get(key)}
    return {**row, **facts}


@lru_cache(maxsize=64)
def _facts(source: Source, text: str) -> object:
    return parsed(text, source.path).value


def write(points: Sequence[ForeignPoint], stream: BinaryIO) -> None:
    """Write a table with one row a point."""
    pa, pq = _pyarrow()
    rows = [_row(point) for point in points]
    columns = {name: [row[name] for row in rows] for name in COLUMNS}
    packed = io.BytesIO()
    pq.write_table(pa.table(columns, schema=_schema(pa)), packed, compression="zstd")
    stream.write(packed.getvalue())


def _schema(pa: ModuleType) -> Any:
    types: Mapping[str, Any] = {
        VALUES: pa.list_(pa.float64()),
        **dict.fromkeys(NUMBERS, pa.float64()),
        **dict.fromkeys(TIMES, pa.timestamp("us", "UTC")),
    }
    return pa.schema([(name, types.get(name, pa.string())) for name in COLUMNS])


def _row(point: ForeignPoint) -> dict[str, object]:
    row = point.model_dump()
    facts = {key: json.dumps(row[key], ensure_ascii=False) if row[key] else None for key in FACTS}
    return {**row, **facts, "direction": point.direction.value}
