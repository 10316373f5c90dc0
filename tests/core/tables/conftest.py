"""A small run with an echo for a model, and a store that dies between two calls."""

import csv
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import attrs
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, QueryBuilder
from deltalake.exceptions import DeltaError

from ml_toolkit_core.order import WorkOrder
from ml_toolkit_core.pipeline.engine import Completion
from ml_toolkit_core.tables.columns import with_answers
from ml_toolkit_core.tables.localstore import LocalStore
from ml_toolkit_core.tables.parts import Part, RowError, SplitRows, Tally
from ml_toolkit_core.tables.pin import pin_table
from ml_toolkit_core.tables.sink import open_sink
from ml_toolkit_core.tables.source import open_source
from ml_toolkit_core.tables.store import Store
from ml_toolkit_core.values import (
    ModelKind,
    ModelLocation,
    Prompts,
    ReplicaPlan,
    TableFormat,
    TableLocation,
    WriteMode,
)


class Killed(BaseException):
    """The process died here."""


class DyingStore:
    """A store that dies just before or just after one of its calls."""

    def __init__(
        self, lives: int = 10**9, *, after: bool = False, inner: Store | None = None
    ) -> None:
        self.calls = 0
        self._lives = lives
        self._after = after
        self._store = inner or LocalStore()

    def __getattr__(self, name: str) -> Callable[..., Any]:
        inner = getattr(self._store, name)
        if not callable(inner):
            return inner

        def call(*args: Any, **kwargs: Any) -> Any:
            self.calls += 1
            last = self.calls == self._lives
            if last and not self._after:
                raise Killed
            result = None
            try:
                result = inner(*args, **kwargs)
            finally:
                if last:
                    getattr(result, "close", bool)()
                    raise Killed
            return result

        return call


@attrs.define
class Run:
    """A run over one table; ``fails`` holds the prompts that get no answer."""

    source: str
    output: str
    format: TableFormat = TableFormat.JSONL
    mode: WriteMode = WriteMode.ERROR
    run_id: str = "run-1"
    model: str = "echo"
    limit: int | None = None
    attempt: int = 1
    split_rows: int = 2
    fails: frozenset[str] = frozenset()
    asked: list[str] = attrs.field(factory=list)

    def order(self) -> WorkOrder:
        location, pin = pin_table(TableLocation(name=self.source, uri=self.source))
        return WorkOrder(
            run_id=self.run_id,
            attempt=self.attempt,
            limit=self.limit,
            executor="scripted",
            source=location,
            pin=pin,
            model=ModelLocation(name=self.model, uri=self.model, kind=ModelKind.HUB),
            output=TableLocation(name=self.output, uri=self.output, format=self.format),
            write_mode=self.mode,
            prompts=Prompts(),
            plan=ReplicaPlan(replicas=1),
            split_rows=self.split_rows,
            ledger_uri=f"{self.output}/_ml_toolkit/{self.run_id}",
        )

    def to_end(
        self, store: Store | None = None, *, commit_parts: int = 2
    ) -> str | None:
        """Do all that is left; return where the failed rows are listed."""
        try:
            return self._to_end(store, commit_parts)
        except DeltaError as error:
            if "Killed" in str(error):  # died while the Delta library asked for rows
                raise Killed from error
            raise

    def _to_end(self, store: Store | None, commit_parts: int) -> str | None:
        order = self.order()
        source = open_source(order.source, order.pin)
        sink = open_sink(order, store=store)
        done = {part.split for part in sink.open()}
        wanted = [s for s in source.splits(order.split_rows) if s.index not in done]
        waiting: list[Part] = []
        for rows in source.read(wanted):
            waiting.append(self.write(sink.writer, rows))
            if len(waiting) == commit_parts:
                sink.publish(waiting)
                waiting = []
        if waiting:
            sink.publish(waiting)
        sink.complete()
        return sink.list_failed()

    def write(self, writer: Any, rows: SplitRows) -> Part:
        """Answer the rows of a split and write it."""
        answers = [self._answer(rows, row) for row in range(rows.batch.num_rows)]
        table = with_answers(rows.batch, answers, "generated_text")
        failed = sum(answer.error is not None for answer in answers)
        tally = Tally(
            done=len(answers),
            failed=failed,
            prompt_tokens=len(answers) - failed,
            completion_tokens=len(answers) - failed,
        )
        return writer.write(rows.split, table, tally)

    def _answer(self, rows: SplitRows, row: int) -> Completion:
        if row in rows.errors:
            return Completion(key=row, error=rows.errors[row])
        prompt = rows.batch.column("prompt")[row].as_py()
        self.asked.append(prompt)
        if prompt in self.fails:
            return Completion(key=row, error=RowError("too_hard", "the echo is mute"))
        return Completion(
            key=row,
            text=prompt,
            finish_reason="stop",
            prompt_tokens=1,
            completion_tokens=1,
        )


def read_jsonl(path: str | Path) -> list[dict[str, Any]]:
    """Return the objects of a JSON Lines file, or of a folder of such parts."""
    files = sorted(Path(path).glob("*.jsonl")) if Path(path).is_dir() else [path]
    return [
        json.loads(line)
        for file in files
        for line in Path(file).read_text(encoding="utf-8").splitlines()
    ]


def write_jsonl(path: Path, rows: Sequence[object]) -> str:
    """Write objects as JSON Lines; text is taken as it is."""
    lines = [row if isinstance(row, str) else json.dumps(row) for row in rows]
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return str(path)


def read_output(run: Run) -> list[dict[str, Any]]:
    """Return the rows that a reader of the output sees."""
    if run.format is TableFormat.DELTA:
        return read_delta(run.output)
    read = {
        TableFormat.JSONL: read_jsonl,
        TableFormat.CSV: read_csv,
        TableFormat.PARQUET: lambda path: pq.read_table(path).to_pylist(),
    }[run.format]
    if Path(run.output).is_dir():
        files = sorted(Path(run.output).glob(f"*.{run.format}"))
        return [row for file in files for row in read(file)]
    return read(run.output) if Path(run.output).exists() else []


def read_csv(path: str | Path) -> list[dict[str, Any]]:
    """Return the rows of a CSV file; nothing is null, and whole numbers are such."""
    with Path(path).open(encoding="utf-8", newline="") as file:
        return [
            {k: int(v) if v.isdecimal() else v or None for k, v in row.items()}
            for row in csv.DictReader(file, strict=True)
        ]


def read_delta(path: str) -> list[dict[str, Any]]:
    """Return the rows of a Delta table, by ``id``, as its own reader gives them."""
    rows = pa.table(
        QueryBuilder().register("t", DeltaTable(path)).execute("select * from t")
    )
    return sorted(rows.to_pylist(), key=lambda row: row.get("id", 0))


def read_list(kind: TableFormat, listed: str | None) -> list[dict[str, Any]]:
    """Return the list of failed rows; none when there is no list."""
    if listed is None:
        return []
    return read_delta(listed) if kind is TableFormat.DELTA else read_jsonl(listed)


def strays(run: Run) -> list[str]:
    """Return files that no reader needs and no later attempt would remove."""
    if run.format is TableFormat.DELTA:
        known = {Path(uri).name for uri in DeltaTable(run.output).file_uris()}
        return sorted(
            {file.name for file in Path(run.output).glob("*.parquet")} - known
        )
    kept = {"staging", "parts", "whole.jsonl", "whole.csv", "whole.parquet"}
    folder = Path(run.output).parent
    return [
        str(path)
        for path in folder.rglob("*")
        if path.is_file()
        and (kept & set(path.relative_to(folder).parts) or "unfinished" in path.name)
    ]


def run_of(kind: str, folder: Path, **options: Any) -> Run:
    """Return a run over ``folder/in.jsonl``.

    Args:
        kind: A format, with `` file`` for one file instead of a folder.
        folder: Where everything lies.
        **options: See :class:`Run`.
    """
    name, _, is_file = kind.partition(" ")
    output = folder / (f"out.{name}" if is_file else "out")
    return Run(
        str(folder / "in.jsonl"), str(output), format=TableFormat(name), **options
    )


@pytest.fixture(scope="session")
def kit() -> Any:
    """What the tests of tables share."""

    class Kit:
        Run = Run
        DyingStore = DyingStore
        Killed = Killed
        run_of = staticmethod(run_of)
        read_jsonl = staticmethod(read_jsonl)
        write_jsonl = staticmethod(write_jsonl)
        read_output = staticmethod(read_output)
        read_delta = staticmethod(read_delta)
        read_list = staticmethod(read_list)
        strays = staticmethod(strays)

    return Kit
