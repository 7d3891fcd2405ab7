"""Carries out a plan: a generator that yields steps and receives their results."""

from __future__ import annotations

from typing import Any, Awaitable, Callable, Generator, TypeVar

S = TypeVar("S")
T = TypeVar("T")


def run(plan: Generator[S, Any, T], perform: Callable[[S], Any]) -> T:
    """Carries out each step with `perform`. Exceptions are raised inside the plan, so that it can clean up."""
    try:
        step = next(plan)
        while True:
            try:
                answer = perform(step)
            except BaseException as error:
                step = plan.throw(error)
            else:
                step = plan.send(answer)
    except StopIteration as end:
        result: T = end.value
        return result


async def run_async(plan: Generator[S, Any, T], perform: Callable[[S], Awaitable[Any]]) -> T:
    """Does the same in an event loop."""
    try:
        step = next(plan)
        while True:
            try:
                answer = await perform(step)
            except BaseException as error:
                step = plan.throw(error)
            else:
                step = plan.send(answer)
    except StopIteration as end:
        result: T = end.value
        return result
