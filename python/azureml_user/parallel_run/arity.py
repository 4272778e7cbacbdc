"""Whether a function of an entry script takes the context beside the mini-batch (spec E3)."""

from __future__ import annotations

import contextlib
import functools
import inspect
import itertools
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Callable, NamedTuple

from azureml_user.parallel_run.errors import ScriptError

_Kind = inspect.Parameter
_CALL = "__call__"
# Decorators around a function that are looked behind.
_DEEPEST = 50


def takes_context(function: Callable[..., Any], name: str) -> bool:
    """Whether the second positional parameter of `function` has no default, and gets the context. Where it
    takes `*args`, the function that it holds decides, as a decorator holds the one that it was put on; where
    none is found, it gets the context. Raises `ScriptError` where one or two arguments cannot call it."""
    with contextlib.suppress(TypeError, ValueError):
        _refuse(name, list(_signature(function).values()))
    return _takes_second(function, name, _Given(), _DEEPEST)


class _Given(NamedTuple):
    """What a function gets beside the arguments of its caller: so many in front, and these by name."""

    in_front: int = 0
    by_name: frozenset[str] = frozenset()


def _signature(function: Callable[..., Any]) -> Mapping[str, inspect.Parameter]:
    return inspect.signature(function, follow_wrapped=False).parameters


def _positional(parameters: Iterable[inspect.Parameter]) -> list[inspect.Parameter]:
    return [p for p in parameters if p.kind in (_Kind.POSITIONAL_ONLY, _Kind.POSITIONAL_OR_KEYWORD)]


def _takes_second(function: Callable[..., Any], name: str, given: _Given, depth: int) -> bool:
    try:
        parameters = _signature(function).values()
    except (TypeError, ValueError):
        # Built in another language and silent about its parameters: one argument is the common form.
        return False
    # Those behind one that is given by name are given by name, too.
    free = itertools.takewhile(lambda p: p.name not in given.by_name, _positional(parameters))
    positional = list(free)[given.in_front :]
    if len(positional) > 1:
        return positional[1].default is _Kind.empty
    if all(p.kind is not _Kind.VAR_POSITIONAL for p in parameters):
        return False
    held = list(_held(function)) if depth else []
    named = [one for one in held if getattr(one[0], "__name__", None) == name]
    answers = set()
    for one, more in named or held:
        more = _Given(given.in_front + more.in_front, given.by_name | more.by_name)
        answers.add(_takes_second(one, name, more, depth - 1))
    return answers != {False}


def _refuse(name: str, parameters: list[inspect.Parameter]) -> None:
    """Refuses what cannot be called with one or two arguments."""
    positional = _positional(parameters)
    takes_any = any(p.kind is _Kind.VAR_POSITIONAL for p in parameters)
    required = [p.name for p in positional if p.default is _Kind.empty]
    keywords = [p.name for p in parameters if p.kind is _Kind.KEYWORD_ONLY and p.default is _Kind.empty]
    expected = f"{name}(mini_batch) or {name}(mini_batch, mini_batch_context) is expected"
    if keywords:
        raise ScriptError("TypeError", f"{name}() requires the keyword argument {keywords[0]!r}; {expected}")
    if len(required) > 2:
        raise ScriptError(
            "TypeError", f"{name}() requires {len(required)} arguments ({', '.join(required)}); {expected}"
        )
    if not positional and not takes_any:
        raise ScriptError("TypeError", f"{name}() takes no argument; {expected}")


def _held(function: Callable[..., Any]) -> Iterator[tuple[Callable[..., Any], _Given]]:
    """The functions that `function` may call with what it gets, and what each gets besides."""
    if isinstance(function, functools.partial):
        yield function.func, _Given(len(function.args), frozenset(function.keywords))
        return
    holders: list[tuple[Any, int]]
    if inspect.ismethod(function):
        holders = [(function.__func__, 1), (function.__self__, 0)]
    elif inspect.isfunction(function):
        holders = [(function, 0)]
    else:
        holders = [(function, 0), (getattr(type(function), _CALL, None), 1)]
    for holder, in_front in holders:
        wrapped = getattr(holder, "__wrapped__", None)
        if callable(wrapped):
            yield wrapped, _Given(in_front)
            return
    for holder, in_front in holders:
        values = [cell.cell_contents for cell in getattr(holder, "__closure__", None) or () if _is_set(cell)]
        if not inspect.isroutine(holder):
            values += getattr(holder, "__dict__", {}).values()
        for value in values:
            # Classes are most often exceptions that a decorator catches.
            if callable(value) and not inspect.isclass(value) and value is not function:
                yield value, _Given(in_front)


def _is_set(cell: Any) -> bool:
    try:
        return cell.cell_contents is not None
    except ValueError:
        return False
