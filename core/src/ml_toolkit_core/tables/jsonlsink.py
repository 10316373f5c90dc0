"""JSON Lines out: a folder with one file per split, each published whole and once."""

import json
import re
import secrets
from collections.abc import Iterator, Sequence
from typing import Final, Self

import pyarrow as pa
from attrs import define, field, frozen

from ml_toolkit_core.errors import RequestError, RunFenced
from ml_toolkit_core.order import WorkOrder
from ml_toolkit_core.tables import failures
from ml_toolkit_core.tables.claim import OWN_FOLDER, claim
from ml_toolkit_core.tables.columns import output_schema
from ml_toolkit_core.tables.jsonlines import lines, parse_with_texts
from ml_toolkit_core.tables.jsontext import dumps, json_lines
from ml_toolkit_core.tables.parts import Part, Split, Tally
from ml_toolkit_core.tables.pinned import pinned_schema
from ml_toolkit_core.tables.store import Store, join, read_json
from ml_toolkit_core.values import TableFormat

_PART: Final = re.compile(r"part-(\d{6,})\.jsonl")
_DRIVER: Final = "driver.json"


@frozen(kw_only=True)
class JsonlWriter:
    """Writes parts into the staging folder of one driver.

    Args:
        store: Where the output lies.
        output: The output's folder.
        staging: Relative to it.
    """

    store: Store
    output: str
    staging: str

    def write(self, split: Split, rows: pa.Table, tally: Tally) -> Part:
        """Write the rows as lines; what a replica wrote before stays as it is."""
        data = b"".join(json_lines(rows))
        path = f"{self.staging}/{split.index}-{secrets.token_hex(4)}.jsonl"
        self.store.create(join(self.output, path), [data])
        return Part(split=split.index, path=path, bytes=len(data), tally=tally)


@define(kw_only=True)
class JsonlSink:
    """The output folder of one run.

    The newest driver owns the run: ``driver.json`` names it, and each driver stages
    in a folder of its own, which the next one removes.
    """

    store: Store
    order: WorkOrder
    schema: pa.Schema
    _driver: str = field(init=False, factory=lambda: secrets.token_hex(8))
    _published: dict[int, Part] = field(init=False, factory=dict)

    @classmethod
    def of(cls, order: WorkOrder, store: Store) -> Self:
        """Check the columns."""
        schema = output_schema(order.pin, order.output_column, TableFormat.JSONL)
        return cls(store=store, order=order, schema=schema)

    @property
    def writer(self) -> JsonlWriter:
        """What replicas write with."""
        return JsonlWriter(
            store=self.store,
            output=self.order.output.uri,
            staging=f"{self._staging}/{self._driver}",
        )

    def open(self) -> tuple[Part, ...]:
        """Claim the folder, fence older drivers and count what they published."""
        claim(self.store, self.order, self._list_uri)
        self.store.replace(self._uri(self._run, _DRIVER), [self._token()])
        self.store.delete_folder(self._uri(self._staging))
        self._published = {}
        for file in self.store.files(self._uri()):
            name = _PART.fullmatch(file.path)
            if name:
                split = int(name[1])
                self._published[split] = Part(
                    split=split,
                    path=file.path,
                    bytes=file.bytes,
                    tally=self._tally(file.path),
                )
        return self._parts()

    def publish(self, parts: Sequence[Part]) -> None:
        """Move parts to where readers look, each whole, without replacing any.

        Parts become visible one by one. They are checked together before the first,
        so that only a driver which comes in between leaves some of them visible,
        each whole and once all the same.
        """
        self._check_fence([part.split for part in parts])
        for part in parts:
            path = self._part_path(part.split)
            try:
                self.store.publish(self._uri(part.path), self._uri(path))
            except (FileExistsError, FileNotFoundError) as error:
                raise self._fenced() from error
            self._published[part.split] = Part(
                split=part.split, path=path, bytes=part.bytes, tally=part.tally
            )

    def list_failed(self) -> str | None:
        """Write all failed rows, in order, into one file beside the folder."""
        if not any(part.tally.failed for part in self._parts()):
            self.store.delete(self._list_uri)
            return None
        self.store.replace(self._list_uri, self._failed_lines())
        return self._list_uri

    def _failed_lines(self) -> Iterator[bytes]:
        inputs = pinned_schema(self.order.pin).names
        kind, error, attempts = (field.name for field in failures.list_fields(inputs))
        for part in self._parts():
            if not part.tally.failed:
                continue
            for line in self._lines(part.path):
                row = parse_with_texts(line.decode())
                fault, error_text = row["error"]
                if fault is not None:
                    items = {name: row[name][1] for name in inputs} | {
                        kind: dumps(failures.kind_of(fault)),
                        error: error_text,
                        attempts: dumps(failures.attempts_of(fault)),
                    }
                    joined = ", ".join(f"{dumps(k)}: {v}" for k, v in items.items())
                    yield f"{{{joined}}}\n".encode()

    def _tally(self, path: str) -> Tally:
        try:
            rows = [json.loads(line) for line in self._lines(path)]
            return Tally(
                done=len(rows),
                failed=sum(row["error"] is not None for row in rows),
                truncated=sum(row["finish_reason"] == "length" for row in rows),
                prompt_tokens=sum(row["prompt_tokens"] or 0 for row in rows),
                completion_tokens=sum(row["completion_tokens"] or 0 for row in rows),
            )
        except (ValueError, KeyError, TypeError) as error:
            raise RequestError(
                f"{self._uri(path)!r} is not as run_id={self.order.run_id!r} wrote it; "
                "remove it to have its rows answered again"
            ) from error

    def _lines(self, path: str) -> Iterator[bytes]:
        with self.store.open(self._uri(path)) as handle:
            for _, line in lines(handle):
                yield line

    def _check_fence(self, splits: Sequence[int]) -> None:
        driver = read_json(self.store, self._uri(self._run, _DRIVER)) or {}
        if driver.get("driver") != self._driver:
            raise self._fenced()
        for split in splits:
            if self.store.stat(self._uri(self._part_path(split))) is not None:
                raise self._fenced()

    def _part_path(self, split: int) -> str:
        """Return a name whose place among the others is that of the split."""
        order = self.order
        splits = sum(-(-file.rows // order.split_rows) for file in order.pin.files)
        return f"part-{split:0{max(6, len(str(splits - 1)))}d}.jsonl"

    def _fenced(self) -> RunFenced:
        return RunFenced(
            f"run_id={self.order.run_id!r}: another driver publishes to "
            f"{self.order.output.name!r}; attempt {self.order.attempt} stops here. "
            "What is published is whole, and the other driver goes on"
        )

    def _token(self) -> bytes:
        return dumps({"driver": self._driver, "attempt": self.order.attempt}).encode()

    def _parts(self) -> tuple[Part, ...]:
        return tuple(self._published[split] for split in sorted(self._published))

    def _uri(self, *path: str) -> str:
        return join(self.order.output.uri, *path)

    @property
    def _run(self) -> str:
        return f"{OWN_FOLDER}/{self.order.run_id}"

    @property
    def _staging(self) -> str:
        return f"{self._run}/staging"

    @property
    def _list_uri(self) -> str:
        return failures.list_uri(self.order.output.uri, TableFormat.JSONL)
