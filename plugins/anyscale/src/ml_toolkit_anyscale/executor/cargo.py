"""Rows on their way to a replica: a slice travels without the table it is cut from."""

from typing import Self

import pyarrow as pa
from attrs import frozen

from ml_toolkit_core.tables.parts import RowError, RowFault, Split, SplitRows


@frozen(kw_only=True)
class Cargo:
    """The rows of one split as bytes; pickling Arrow slices sends whole buffers.

    Args:
        split: Which.
        rows: The batch, as an Arrow stream.
        errors: Rows that could not be read: offset, kind and message.
    """

    split: Split
    rows: bytes
    errors: tuple[tuple[int, str, str], ...]

    @classmethod
    def pack(cls, rows: SplitRows) -> Self:
        """Turn rows into bytes."""
        stream = pa.BufferOutputStream()
        with pa.ipc.new_stream(stream, rows.batch.schema) as writer:
            writer.write_batch(rows.batch)
        return cls(
            split=rows.split,
            rows=stream.getvalue().to_pybytes(),
            errors=tuple((i, e.kind, e.message) for i, e in rows.errors.items()),
        )

    def unpack(self) -> SplitRows:
        """Turn bytes into rows."""
        with pa.ipc.open_stream(self.rows) as reader:
            batch = reader.read_next_batch()
        return SplitRows(
            split=self.split,
            batch=batch,
            errors={i: RowError(RowFault(kind), text) for i, kind, text in self.errors},
        )
