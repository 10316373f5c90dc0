"""A job's progress as one moving line, for a person at a terminal."""

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from ml_toolkit.functions.llm.inference._progress import headline, numbers, reason
from ml_toolkit_core.job import InferenceJob
from ml_toolkit_core.values import JobStatus


class Display:
    """Draws every status it is called with; the last one stays on the screen.

    Args:
        job: It is named first.
        console: A terminal; stderr when None.
    """

    def __init__(self, job: InferenceJob, console: Console | None = None) -> None:
        self._progress = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=24),
            TextColumn("{task.fields[numbers]}", markup=False),
            TimeElapsedColumn(),
            console=console or Console(stderr=True),
        )
        self._progress.console.print(headline(job), highlight=False)
        self._task: TaskID = self._progress.add_task("", total=None, numbers="")
        self._progress.start()

    def __call__(self, status: JobStatus) -> None:
        """Draw a status."""
        seen = status.progress
        # A resumed run has a ledger, which says nothing new while the job waits.
        if seen is None or status.state.is_waiting:
            self._progress.update(
                self._task, description=f"{status.state}{reason(status)}"
            )
        else:
            self._progress.update(
                self._task,
                description=f"{status.state} {seen.phase}",
                total=seen.rows or None,
                completed=seen.done,
                numbers=", ".join(numbers(seen)),
            )
        if status.state.is_final:
            self.close()

    def close(self) -> None:
        """Leave the line as it is and give the terminal back."""
        self._progress.stop()
