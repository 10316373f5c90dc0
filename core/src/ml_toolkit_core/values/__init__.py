"""The frozen values that travel through the house, in the order of the flow."""

from ml_toolkit_core.values.compute import (
    BackendInfo,
    ComputeTarget,
    Option,
    ReplicaPlan,
)
from ml_toolkit_core.values.credentials import CredentialKind, CredentialReference
from ml_toolkit_core.values.jobs import (
    JobHandle,
    JobState,
    JobStatus,
    LedgerState,
    Missing,
    Outcome,
    Progress,
    RunResult,
)
from ml_toolkit_core.values.locations import (
    Column,
    FilePin,
    InputPin,
    ModelKind,
    ModelLocation,
    Pinned,
    TableFormat,
    TableLocation,
)
from ml_toolkit_core.values.request import (
    RUN_ID_PATTERN,
    DuplicateIds,
    InferenceRequest,
    Prompts,
    WriteMode,
)

__all__ = [
    "RUN_ID_PATTERN",
    "BackendInfo",
    "Column",
    "ComputeTarget",
    "CredentialKind",
    "CredentialReference",
    "DuplicateIds",
    "FilePin",
    "InferenceRequest",
    "InputPin",
    "JobHandle",
    "JobState",
    "JobStatus",
    "LedgerState",
    "Missing",
    "ModelKind",
    "ModelLocation",
    "Option",
    "Outcome",
    "Pinned",
    "Progress",
    "Prompts",
    "ReplicaPlan",
    "RunResult",
    "TableFormat",
    "TableLocation",
    "WriteMode",
]
