"""Carrying out a plan: a generator that yields what is to be done and is given what came of it."""

from __future__ import annotations

from typing import Any, Awaitable, Callable, Generator, TypeVar

S = TypeVar("S")
T = TypeVar("T")


def run(plan: Generator[S, Any, T], perform: Callable[[S], Any]) -> T:
    """Does each step by `perform`. What that raises is raised in the plan, which may undo what it did."""
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
    """Likewise in an event loop."""
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
