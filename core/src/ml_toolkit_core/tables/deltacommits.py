"""Delta tables of a store: opened, created, and committed to by delta-rs."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import pyarrow as pa
from deltalake import (
    CommitProperties,
    DeltaTable,
    PostCommitHookProperties,
    Schema,
)
from deltalake.transaction import AddAction

from ml_toolkit_core.errors import RequestError
from ml_toolkit_core.tables.durable import make_folder

#: delta-rs takes these in paths for other characters, in whatever form it gets them.
_MISREAD: Final = re.compile(r"%[0-9A-Fa-f]{2}|\\")
#: Published parts are found in the history, so our own commits never shorten it.
_KEEP_HISTORY: Final = PostCommitHookProperties(cleanup_expired_logs=False)


class DeltaCommits:
    """What all stores do alike for Delta tables."""

    def table_uri(self, uri: str) -> str | Path:
        """Return what delta-rs calls the table."""
        check_table_uri(uri)
        return uri

    def open_table(self, uri: str, version: int | None = None) -> DeltaTable:
        """Read the log."""
        return DeltaTable(self.table_uri(uri), version=version)

    def create_table(
        self, uri: str, schema: pa.Schema, commit: CommitProperties
    ) -> DeltaTable:
        """Write the first commit."""
        path = self.table_uri(uri)
        if isinstance(path, Path):
            make_folder(path)
        once = CommitProperties(
            custom_metadata=commit.custom_metadata,
            app_transactions=commit.app_transactions,
            # When it loses a race to create the table, delta-rs would try again, and
            # succeed with version 1.
            max_commit_retries=0,
        )
        return DeltaTable.create(path, schema, mode="error", commit_properties=once)

    def refresh_table(self, table: DeltaTable) -> None:
        """Read the commits that came since."""
        table.update_incremental()

    def commit_files(
        self,
        table: DeltaTable,
        files: Sequence[AddAction],
        commit: CommitProperties,
        *,
        replace: pa.Schema | None = None,
    ) -> None:
        """Write the next commit."""
        table.create_write_transaction(
            [*files],
            mode="append" if replace is None else "overwrite",
            schema=table.schema() if replace is None else Schema.from_arrow(replace),
            commit_properties=commit,
            post_commithook_properties=_KEEP_HISTORY,
        )


def check_table_uri(uri: str) -> None:
    """Refuse a name that delta-rs takes for another.

    Raises:
        RequestError: Then.
    """
    if _MISREAD.search(uri):
        raise RequestError(
            f"{uri!r}: the Delta library takes {_MISREAD.findall(uri)[0]!r} in a path "
            "for another character; rename the folder, or use another format"
        )
