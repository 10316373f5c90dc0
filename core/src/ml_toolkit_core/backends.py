"""Discovery and selection of backends; the only user of pluggy's manager."""

import inspect
import re
from collections.abc import Callable
from typing import Final, cast

import pluggy
from attrs import define, field

from ml_toolkit_core import defaults, discovery
from ml_toolkit_core.errors import (
    PluginError,
    RequestError,
    ToolkitError,
    did_you_mean,
)
from ml_toolkit_core.hookspecs import BackendHooks
from ml_toolkit_core.values.request import NAME_PATTERN

#: Hooks that only the backend itself can answer.
REQUIRED: Final = ("resolve_compute", "submit", "poll")


@define
class Backends:
    """The backends of this process, each with a plugin manager of its own.

    One each, so that one plugin cannot answer for another, and a broken one breaks
    nothing but itself.
    """

    _registered: dict[str, object] = field(factory=dict, init=False)
    _hooks: dict[str, BackendHooks] = field(factory=dict, init=False)

    def names(self) -> tuple[str, ...]:
        """Return every name that can be a ``compute_type``; imports nothing."""
        return tuple(sorted({*discovery.found(discovery.BACKENDS), *self._registered}))

    def register(self, name: str, plugin: object) -> None:
        """Add a backend of this process, for notebooks and tests.

        The same name again takes the place of what was registered under it.

        Raises:
            RequestError: When no backend can have this name beside the others.
            PluginError: When the plugin does not keep the contract.
        """
        self._check_name(name)
        self._hooks[name] = _hooks(name, plugin)
        self._registered[name] = plugin

    def get(self, name: str) -> BackendHooks:
        """Return the hooks of one backend, importing it on first use.

        Raises:
            RequestError: When there is no such backend.
            PluginError: When it does not keep the contract.
        """
        if name not in self._hooks:
            plugin = discovery.load(discovery.BACKENDS, name)
            self._hooks[name] = _hooks(name, plugin)
        return self._hooks[name]

    def _check_name(self, name: str) -> None:
        if not isinstance(name, str) or not re.fullmatch(NAME_PATTERN, name):
            raise RequestError(
                f"backend {name!r}: a name is of small letters, digits and "
                "underscores, and begins with a letter"
            )
        installed = discovery.found(discovery.BACKENDS).get(name)
        if installed:
            raise RequestError(
                f"backend {name!r} is installed already, as "
                f"{discovery.sentence(installed)}; register yours under another name"
            )
        for other in self.names():
            short, long = sorted((name, other), key=len)
            if long.startswith(f"{short}_"):
                raise RequestError(
                    f"backend {name!r} cannot be beside backend {other!r}: options "
                    f"that begin with {f'{long}_'!r} could be of either. Register "
                    "yours under another name"
                )


def _hooks(name: str, plugin: object) -> BackendHooks:
    if inspect.isclass(plugin):
        raise PluginError(
            f"backend {name!r} is the class {plugin.__name__}; register an instance of "
            "it, or a module"
        )
    manager = pluggy.PluginManager("ml_toolkit")
    manager.add_hookspecs(BackendHooks)
    manager.register(defaults, name="the core")  # which no backend can be called
    try:
        manager.register(plugin, name=name)
        manager.check_pending()
    except pluggy.PluginValidationError as error:
        raise PluginError(
            f"backend {name!r} does not keep the contract: {error}{_hint(str(error))}"
        ) from error
    answered = {caller.name for caller in manager.get_hookcallers(plugin) or ()}
    if not answered:
        raise PluginError(
            f"backend {name!r} registers no hooks; mark its functions with "
            "ml_toolkit_core.hookspecs.hookimpl"
        )
    missing = [hook for hook in REQUIRED if hook not in answered]
    if missing:
        raise PluginError(
            f"backend {name!r} does not answer {' and '.join(missing)}, which only a "
            "backend can"
        )
    return cast("BackendHooks", _Typed(manager.hook, name))


def _hint(message: str) -> str:
    words = message.replace("'", " ").split()
    hooks = [hook for hook in vars(BackendHooks) if not hook.startswith("_")]
    return next((hint for word in words if (hint := did_you_mean(word, hooks))), "")


class _Typed:
    """Turns positional calls of the protocol into pluggy's keyword calls."""

    def __init__(self, relay: pluggy.HookRelay, backend: str) -> None:
        self._relay = relay
        self._backend = backend

    def __getattr__(self, hook: str) -> Callable[..., object]:
        caller = getattr(self._relay, hook)
        spec = caller.spec.argnames

        def ask(*args: object, **kwargs: object) -> object:
            try:
                answer = caller(**dict(zip(spec, args, strict=False)), **kwargs)
            except ToolkitError:
                raise
            except Exception as error:
                raise PluginError(
                    f"backend {self._backend!r}: {hook} raised "
                    f"{type(error).__name__}: {error}"
                ) from error
            if answer is None:
                raise PluginError(f"backend {self._backend!r}: {hook} answered None")
            return answer

        return ask
