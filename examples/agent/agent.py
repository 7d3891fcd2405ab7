#!/usr/bin/env python3
"""An agent at work in a sandbox: a model says what to run, the sandbox runs it, the model sees what came of it.

The model here is a script, so that this needs no network and does the same each time; a real one takes its place by having
the same method `next`. What it may do does not depend on what it says: it looks at a secret, at a file that is only listed,
tries to change the source, and then does its job.

    python3 examples/agent/agent.py        # the package agentfense, and the program agentfense in PATH
"""

import pathlib
import sys

from agentfense import ExecResult, Sandbox, SandboxError

SHOP = pathlib.Path(__file__).resolve().parents[1] / "shop"
STEPS_MAX = 20

# Of agent-safe: read everything, write output/ and tmp/, secrets do not exist. And one more.
RULES = [{"pattern": "/config/production.yaml", "permission": "view"}]


class ScriptedModel:
    """Stands for a language model: sees the last result, gives the next command, or its answer at the end."""

    def __init__(self):
        self.script = self.talk()
        next(self.script)

    def next(self, result):
        """("run", command) or ("answer", text)."""
        return self.script.send(result)

    def talk(self):
        result = yield
        result = yield "run", "ls -A . config"
        result = yield "run", "cat secrets/private.key"
        secret = "readable!" if result.success else "no such thing"
        result = yield "run", "ls -l config/production.yaml && cat config/production.yaml"
        production = "readable!" if result.success else "listed, not readable"
        result = yield "run", "head -n 3 src/shop/cart.py && echo 'import os' >> src/shop/cart.py"
        source = "writable!" if result.success else "readable, not writable"
        result = yield "run", "python3 scripts/report.py && head -n 2 output/stock.csv"
        report = "written" if result.success else "not written!"
        yield (
            "answer",
            f"none   secrets/private.key      {secret}\n"
            f"view   config/production.yaml   {production}\n"
            f"read   src/shop/cart.py         {source}\n"
            f"write  output/stock.csv         {report}",
        )


def show(command: str, result: ExecResult) -> None:
    print(f"$ {command}")
    for line in result.output.splitlines():
        print(f"  {line}")
    if not result.success:
        print(f"  (exit code {result.exit_code})")


def work(model, sandbox: Sandbox) -> str:
    """The loop that every agent has."""
    result = None
    for _ in range(STEPS_MAX):
        kind, text = model.next(result)
        if kind == "answer":
            return text
        result = sandbox.run(text, timeout=30)
        show(text, result)
    return "The model did not come to an end."


def main() -> int:
    try:
        with Sandbox.from_local(SHOP, preset="agent-safe", permissions=RULES) as sandbox:
            print(work(ScriptedModel(), sandbox))
            print("changed:", ", ".join(path for path in sandbox.list_files("output")))
    except SandboxError as error:
        print(f"agent: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
