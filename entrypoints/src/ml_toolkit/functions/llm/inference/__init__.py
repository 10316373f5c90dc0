"""One answer per row of a table, from an open model, on the compute you name.

>>> from ml_toolkit.functions.llm.inference import run_inference
"""

from ml_toolkit.functions.llm.inference._anyscale import submit_anyscale_inference
from ml_toolkit.functions.llm.inference._run import (
    attach,
    plan_inference,
    register_backend,
    run_inference,
)
from ml_toolkit_anyscale.catalog import AnyscaleComputeConfig
from ml_toolkit_anyscale.routing import AnyscaleJobKind, AnyscaleTeam
from ml_toolkit_core.errors import (
    BackendLoadError,
    JobError,
    MissingExtra,
    PlatformUnavailable,
    PluginError,
    RequestError,
    StartTimeout,
    StillRunning,
    SubmitUnknown,
    ToolkitError,
    Unreachable,
)
from ml_toolkit_core.job import InferenceJob
from ml_toolkit_core.plan import InferencePlan
from ml_toolkit_core.values import JobHandle, JobState, JobStatus, Progress, RunResult

__all__ = [
    "AnyscaleComputeConfig",
    "AnyscaleJobKind",
    "AnyscaleTeam",
    "BackendLoadError",
    "InferenceJob",
    "InferencePlan",
    "JobError",
    "JobHandle",
    "JobState",
    "JobStatus",
    "MissingExtra",
    "PlatformUnavailable",
    "PluginError",
    "Progress",
    "RequestError",
    "RunResult",
    "StartTimeout",
    "StillRunning",
    "SubmitUnknown",
    "ToolkitError",
    "Unreachable",
    "attach",
    "plan_inference",
    "register_backend",
    "run_inference",
    "submit_anyscale_inference",
]
