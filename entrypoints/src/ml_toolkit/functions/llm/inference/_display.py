"""A job's progress as one moving line, for a person at a terminal."""

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from ml_toolkit.functions.llm.inference._progress import headline, numbers
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
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            TextColumn("{task.fields[numbers]}"),
            TimeElapsedColumn(),
            console=console or Console(stderr=True),
        )
        self._progress.console.print(headline(job), highlight=False)
        self._task: TaskID = self._progress.add_task("", total=None, numbers="")
        self._progress.start()

    def __call__(self, status: JobStatus) -> None:
        """Draw a status."""
        seen = status.progress
        if seen is None:
            self._progress.update(self._task, description=str(status.state))
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
