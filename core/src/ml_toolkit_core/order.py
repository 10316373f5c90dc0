"""The work order: the one value that crosses to the far side, as a JSON file."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Final, Self

from attrs import field, frozen
from attrs.validators import ge, gt, matches_re, optional

from ml_toolkit_core.errors import RequestError
from ml_toolkit_core.identity import digest
from ml_toolkit_core.values import (
    RUN_ID_PATTERN,
    CredentialReference,
    InputPin,
    ModelLocation,
    Prompts,
    ReplicaPlan,
    TableLocation,
    WriteMode,
)
from ml_toolkit_core.wire import Json, from_json, frozen_json, to_json

#: A reader takes every minor version of its own major one.
ORDER_VERSION: Final = "1.0"


@frozen(kw_only=True)
class WorkOrder:
    """All that the far side needs to know; no secret is in it.

    Args:
        run_id: Names the run over all its attempts.
        attempt: Counts submits of this run from 1.
        limit: Rows of the run at most, counted from the input's first.
        split_rows: Rows of a split at most; the unit of publication.
        ledger_uri: The run's own folder: ledger, order and lease.
        credentials: Where the far side finds them, by what they are for. No part of
            what the run is: the same run may find them elsewhere tomorrow.
    """

    order_version: str = ORDER_VERSION
    run_id: str = field(validator=matches_re(RUN_ID_PATTERN))
    attempt: int = field(default=1, validator=ge(1))
    executor: str
    source: TableLocation
    pin: InputPin
    model: ModelLocation
    output: TableLocation
    write_mode: WriteMode = WriteMode.ERROR
    prompts: Prompts
    sampling_params: Mapping[str, Json] = field(factory=dict, converter=frozen_json)
    engine_kwargs: Mapping[str, Json] = field(factory=dict, converter=frozen_json)
    output_column: str = "generated_text"
    limit: int | None = field(default=None, validator=optional(ge(1)))
    engine_timeout_s: float = field(default=600.0, validator=gt(0))
    plan: ReplicaPlan
    split_rows: int = field(validator=ge(1))
    ledger_uri: str
    credentials: Mapping[str, CredentialReference] = field(factory=dict)

    @property
    def rows(self) -> int:
        """Rows to answer at most: those of the pinned files, within the limit."""
        return self.pin.rows if self.limit is None else min(self.limit, self.pin.rows)

    @property
    def identity(self) -> dict[str, Json]:
        """What the run is, by part: the same ``run_id`` with another is refused."""
        return {
            "input_table": {
                "uri": self.source.uri,
                "version": self.pin.version,
                "content": digest(self.pin),
                "read_options": to_json(self.source.read_options),
            },
            "model": {"uri": self.model.uri, "revision": self.model.revision},
            "prompts": to_json(self.prompts),
            "sampling_params": to_json(self.sampling_params),
            "engine_kwargs": to_json(self.engine_kwargs),
            "limit": self.limit,
            "split_rows": self.split_rows,
            "executor": self.executor,
            "output": {
                "uri": self.output.uri,
                "format": to_json(self.output.format),
                "column": self.output_column,
                "write_mode": self.write_mode.value,
            },
        }

    def dumps(self) -> str:
        """Return the order as JSON text."""
        return json.dumps(to_json(self), ensure_ascii=False, indent=1)

    @classmethod
    def loads(cls, text: str) -> Self:
        """Read an order.

        Raises:
            RequestError: When it is none, or of another major version.
        """
        try:
            data = json.loads(text)
        except ValueError as error:
            raise RequestError(f"the work order is not JSON: {error}") from error
        if not isinstance(data, dict):
            raise RequestError(f"the work order is a {type(data).__name__}, no object")
        given = str(data.get("order_version"))
        if given.partition(".")[0] != ORDER_VERSION.partition(".")[0]:
            raise RequestError(
                f"order_version={given!r} cannot be read here, where it is "
                f"{ORDER_VERSION!r}; install the same ml-toolkit-core on both sides"
            )
        return from_json(cls, data)

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read an order from a file."""
        return cls.loads(path.read_text(encoding="utf-8"))
