"""The work order: the one value that crosses to the far side, as a JSON file."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Final, Self

from attrs import field, frozen
from attrs.validators import ge, gt, matches_re, optional

from ml_toolkit_core.errors import RequestError
from ml_toolkit_core.values import (
    RUN_ID_PATTERN,
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
        identity: What the run is, by part; the same ``run_id`` with another
            identity is refused.
        limit: Rows of the run at most, counted from the input's first.
        split_rows: Rows of a split at most; the unit of publication.
        ledger_uri: The run's own folder: ledger, order and lease.
    """

    order_version: str = ORDER_VERSION
    run_id: str = field(validator=matches_re(RUN_ID_PATTERN))
    attempt: int = field(default=1, validator=ge(1))
    identity: Mapping[str, Json] = field(factory=dict, converter=frozen_json)
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

    @property
    def rows(self) -> int:
        """Rows to answer at most: those of the pinned files, within the limit."""
        return self.pin.rows if self.limit is None else min(self.limit, self.pin.rows)

    def dumps(self) -> str:
        """Return the order as JSON text."""
        return json.dumps(to_json(self), ensure_ascii=False, indent=1)

    @classmethod
    def loads(cls, text: str) -> Self:
        """Read an order.

        Raises:
            RequestError: When it is none, or of another major version.
        """
        data = json.loads(text)
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
