"""Say at once when this machine cannot run the CPU set."""

import platform
import sys

problems = []
if sys.version_info < (3, 11):
    problems.append(f"Python {platform.python_version()}: 3.11 or newer is needed")
if sys.platform != "linux":
    problems.append(f"{platform.system()}: vLLM's CPU wheels are for Linux only")
if platform.machine() not in {"x86_64", "aarch64"}:
    problems.append(f"{platform.machine()}: vLLM's CPU wheels are x86-64 and aarch64")
if problems:
    sys.exit("ml-toolkit cannot be set up here.\n  " + "\n  ".join(problems))
if sys.version_info[:2] != (3, 11):
    print(
        f"note: the pinned CPU set is verified on Python 3.11; this is "
        f"{platform.python_version()}"
    )
