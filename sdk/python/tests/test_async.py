"""Sandboxes from an event loop: the same logic, many at once."""

import asyncio
import json
import os
import subprocess
import sys
import textwrap

import agentfense
import pytest
from agentfense import AsyncSandbox, AsyncSandboxClient
from conftest import HERE, IS_LONG

pytestmark = pytest.mark.usefixtures("server")

MANY = 20 if "AGENTFENSE_SANITIZED" in os.environ else 100 if IS_LONG else 24


def test_the_life_of_a_sandbox(project):
    async def main():
        async with await AsyncSandbox.from_local(project) as sandbox:
            assert (await sandbox.run("cat app.py")).stdout == "print('hello')  # TODO: more\n"
            assert not (await sandbox.run("cat secrets/private.key")).success
            async with await sandbox.session() as session:
                await session.exec("cd src")
                assert (await session.exec("pwd")).stdout == "/workspace/src\n"
                assert [chunk async for chunk in session.exec_stream("echo x")] == [b"x\n"]
            stream = sandbox.exec_stream("echo out; exit 4")
            assert b"".join([chunk async for chunk in stream]) == b"out\n" and stream.exit_code == 4
            await sandbox.write_file("a.txt", "text")
            assert await sandbox.read_file("a.txt") == "text" and "a.txt" in await sandbox.list_files()
            async with await AsyncSandbox.connect(sandbox.id) as other:
                assert (await other.run("true")).success
            with pytest.raises(agentfense.CommandTimeoutError) as caught:
                await sandbox.run("sleep 60", timeout=0.3)
            assert (caught.value.command, caught.value.timeout_seconds) == ("sleep 60", 0.3)
            with pytest.raises(agentfense.CommandDeniedError):
                await sandbox.run("echo x > app.py", raise_on_error=True)
            return sandbox.id

    sandbox_id = asyncio.run(main())

    async def gone():
        async with AsyncSandboxClient() as client:
            with pytest.raises(agentfense.SandboxNotFoundError):
                await client.get_sandbox(sandbox_id)
            with pytest.raises(agentfense.SandboxNotFoundError):
                async for _ in client.exec_stream(sandbox_id, "true"):
                    pass

    asyncio.run(gone())


def test_the_loop_goes_on_while_a_tree_is_sent(tree, client):
    top = tree({f"f{i}": "x" * 20000 for i in range(400)})
    before = client.list_codebases()

    async def main():
        ticks = 0

        async def tick():
            nonlocal ticks
            while True:
                ticks += 1
                await asyncio.sleep(0)

        ticking = asyncio.ensure_future(tick())
        async with await AsyncSandbox.from_local(top, auto_start=False) as sandbox:
            assert sandbox.codebase.file_count == 400
        ticking.cancel()
        return ticks

    assert asyncio.run(main()) > 10
    assert client.list_codebases() == before


def test_cancelling_leaves_nothing(tree, client):
    top = tree({f"f{i}": "x" * 1000 for i in range(300)})
    before = client.list_codebases(), client.list_sandboxes()

    async def main():
        begun = asyncio.Event()
        loop = asyncio.get_running_loop()
        making = asyncio.ensure_future(
            AsyncSandbox.from_local(top, progress=lambda progress: loop.call_soon_threadsafe(begun.set))
        )
        await begun.wait()
        making.cancel()
        with pytest.raises(asyncio.CancelledError):
            await making

    asyncio.run(main())
    assert (client.list_codebases(), client.list_sandboxes()) == before


def test_what_fails_while_a_tree_is_sent_is_told(tree, client):
    top = tree({f"f{i}": "x" * 1000 for i in range(300)})
    before = client.list_codebases()

    def fail(progress):
        if progress.files == 200:
            raise KeyError("mine")

    async def main():
        with pytest.raises(KeyError, match="mine"):
            await AsyncSandbox.from_local(top, progress=fail)

    asyncio.run(main())
    assert client.list_codebases() == before


PROGRAM = """
import asyncio, json, resource, sys, time
from agentfense import AsyncSandbox, AsyncSandboxClient

async def main(count, codebase_id):
    errors = []
    begin = time.monotonic()

    async def one(number):
        try:
            async with await AsyncSandbox.from_codebase(codebase_id, sync_on_completion=False) as sandbox:
                arrived.append(number)
                if len(arrived) == count:
                    all_here.set()
                await asyncio.wait_for(all_here.wait(), 500)  # so that all are there at the same time
                result = await sandbox.run(f"echo {number} > output/n; cat output/n secrets/private.key")
                assert result.stdout == f"{number}\\n" and "No such file" in result.stderr, result
        except Exception as error:
            errors.append(repr(error))
            all_here.set()

    arrived, all_here = [], asyncio.Event()
    await asyncio.gather(*(one(number) for number in range(count)))
    usage = resource.getrusage(resource.RUSAGE_SELF)
    print(json.dumps({"errors": errors, "seconds": round(time.monotonic() - begin, 2), "memory_mb": usage.ru_maxrss // 1024,
                      "cpu": round(usage.ru_utime + usage.ru_stime, 2)}))

asyncio.run(main(int(sys.argv[1]), sys.argv[2]))
"""


def test_many_at_once(project, client, record_property):
    """All of them running at the same time, from one process, in its own memory; a hundred with AGENTFENSE_LONG=1."""
    codebase = client.create_codebase("many", "me")
    client.upload_directory(codebase.id, project)
    environment = {**os.environ, "PYTHONPATH": str(HERE.parent)}
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(PROGRAM), str(MANY), codebase.id],
        env=environment, capture_output=True, text=True, timeout=600,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    print(f"{MANY} at once: {told}")
    for name, value in told.items():
        record_property(name, value)
    assert told["errors"] == []
    assert told["memory_mb"] < 100
    assert [sandbox for sandbox in client.list_sandboxes() if sandbox.codebase_id == codebase.id] == []
    client.delete_codebase(codebase.id)


