"""Parquet, by pyarrow: the columns of CSV, with samples as lists and times as timestamps."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Mapping, Sequence
from types import ModuleType
from typing import Any, BinaryIO, Final

from cli.formats import columns
from cli.formats.node import Node
from cli.formats.problem import FormatError
from cli.formats.source import Source
from service.schemas.measured_elsewhere import ForeignPoint

_WORDS: Final = (*columns.TEXTS, *columns.FACTS, *columns.TIMES)
_TEXT_TYPES: Final = frozenset({"string", "large_string"})
MOST_UNPACKED: Final = 2**30
"""Bytes of a file once unpacked."""


def recognises(source: Source) -> bool:
    """True for a file that begins with ``PAR1``."""
    return source.opening.startswith("PAR1")


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
    try:
        with source.opened(source.path) as packed:
            yield from _points(pa, _opened(pq, source, packed), source)
    except (pa.ArrowException, OSError) as problem:
        raise FormatError(
            f"is no whole Parquet file ({type(problem).__name__}).", source.path
        ) from None


def _points(pa: ModuleType, file: Any, source: Source) -> Iterator[ForeignPoint]:
    number, top = 0, Node(None, source.path)
    for batch in file.iter_batches(batch_size=8192):
        names = batch.schema.names
        by_column = [_cells(pa, name, batch.column(name), top) for name in names]
        for cells in zip(*by_column, strict=True):
            number += 1
            yield _point(source, number, dict(zip(names, cells, strict=True)))


def _opened(pq: ModuleType, source: Source, packed: BinaryIO) -> Any:
    """The file, so that a text that many rows share takes memory once."""
    top = Node(None, source.path)
    _check_size(pq.read_metadata(packed), top)
    schema = pq.read_schema(packed)
    columns.refuse_unknown(schema.names, top)
    texts = [f.name for f in schema if f.name in _WORDS and str(f.type) in _TEXT_TYPES]
    return pq.ParquetFile(packed, read_dictionary=texts)


def _point(source: Source, number: int, cells: dict[str, Any]) -> ForeignPoint:
    row = Node(cells, source.path, key=f"row {number}")
    cells |= {key: columns.facts_of(row, cells[key]) for key in columns.FACTS if cells.get(key)}
    return columns.point_of(source, row)


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
    if pa.types.is_dictionary(kind) and name in _WORDS:
        words = column.dictionary.to_pylist()
        return [None if at is None else words[at] for at in column.indices.to_pylist()]
    if name in columns.TIMES and pa.types.is_timestamp(kind):
        return list(column.cast(pa.string()).to_pylist())
    numeric = pa.types.is_floating(kind) or pa.types.is_integer(kind)
    listed = pa.types.is_list(kind) or pa.types.is_large_list(kind)
    if (
        (name in columns.NUMBERS and numeric)
        or (name == columns.VALUES and listed)
        or pa.types.is_null(kind)
    ):
        return list(column.to_pylist())
    raise top.refuse(f"the column {name!r} is of type {kind}.")


def write(points: Sequence[ForeignPoint], stream: BinaryIO) -> None:
    """Write a table with one row a point."""
    pa, pq = _pyarrow()
    rows = [_row(point) for point in points]
    by_column = {name: [row[name] for row in rows] for name in columns.COLUMNS}
    packed = io.BytesIO()
    pq.write_table(pa.table(by_column, schema=_schema(pa)), packed, compression="zstd")
    stream.write(packed.getvalue())


def _schema(pa: ModuleType) -> Any:
    types: Mapping[str, Any] = {
        columns.VALUES: pa.list_(pa.float64()),
        **dict.fromkeys(columns.NUMBERS, pa.float64()),
        **dict.fromkeys(columns.TIMES, pa.timestamp("us", "UTC")),
    }
    return pa.schema([(name, types.get(name, pa.string())) for name in columns.COLUMNS])


def _row(point: ForeignPoint) -> dict[str, object]:
    row = point.model_dump()
    facts = {
        key: json.dumps(row[key], ensure_ascii=False) if row[key] else None for key in columns.FACTS
    }
    return {**row, **facts, "direction": point.direction.value}
