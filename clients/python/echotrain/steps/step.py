"""The decorator of steps, and their call."""

from __future__ import annotations

import inspect
from typing import Any, Callable, List, Optional, Tuple, Type, TypeVar, Union

from .items import ITEMS, Item, StepError, results_of

Kind = Union[str, Type[Item]]
Function = TypeVar("Function", bound=Callable[..., Any])


def _kind(what: Kind) -> Type[Item]:
    name = what if isinstance(what, str) else what.__name__
    if name not in ITEMS:
        raise StepError(f"a step takes and gives one of {', '.join(ITEMS)}, not {name}")
    return ITEMS[name]


def step(*, takes: Kind, gives: Kind) -> Callable[[Function], Function]:
    """Says what a function takes and gives, as its pipeline does: @echotrain.step(takes=KSpace, gives=CoilImages).

    The function gets one item, and, if it has a second argument, the config of its gadget. It gives an item, an array
    (its data), several of these, or None.
    """
    pair = (_kind(takes), _kind(gives))
    _possible(*pair)

    def mark(function: Function) -> Function:
        function.__echotrain_step__ = pair  # type: ignore[attr-defined]
        return function

    return mark


def _possible(takes: Type[Item], gives: Type[Item]) -> None:
    names = [takes.__name__] + [name for name in ("CoilImages", "Images") if takes.__name__ != name]
    if takes.__name__ in ("Images", "Readouts"):
        names = [takes.__name__]
    if gives.__name__ not in names:
        raise StepError(f"a step that takes {takes.__name__} gives {' or '.join(names)}, not {gives.__name__}")


def pair_of(function: Callable[..., Any]) -> Optional[Tuple[Type[Item], Type[Item]]]:
    """What the decorator says; None without one."""
    pair: Optional[Tuple[Type[Item], Type[Item]]] = getattr(function, "__echotrain_step__", None)
    return pair


def with_config(function: Callable[..., Any], config: Any) -> Callable[[Item], Any]:
    """The function of the item alone."""
    try:
        parameters = [
            each
            for each in inspect.signature(function).parameters.values()
            if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)
        ]
    except (TypeError, ValueError):  # what is not written in Python tells no signature
        return function
    if len(parameters) > 1 and parameters[1].default is parameters[1].empty:
        return lambda item: function(item, config)
    return function


def call(function: Callable[[Item], Any], item: Item, gives: Type[Item]) -> List[Item]:
    return results_of(function(item), item, gives)
