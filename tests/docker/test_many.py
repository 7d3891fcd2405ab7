"""Many containers at once."""

import concurrent.futures

import pytest
from sandbox.v1 import sandbox_pb2
from server import eventually

OFF = sandbox_pb2.SYNC_MODE_OFF
PATIENCE = 300  # every call waits for its answer alone, whenever the engine gets to it; this is for one that never comes


def start_many(server, dock, count):
    client = server.client()
    codebase = client.codebase({"a": "a\n"})
    image = dock.image("box")

    def live(n):
        sandbox = client.sandbox(codebase, image=image, sync_on_completion=OFF)
        assert client.run(sandbox, f"cat a; echo {n} > mine", call_timeout=PATIENCE).stdout == "a\n"
        return sandbox

    with concurrent.futures.ThreadPoolExecutor(count) as pool:
        sandboxes = list(pool.map(live, range(count)))
        assert len(dock.containers()) == count
        mine = pool.map(lambda sandbox: client.run(sandbox, "cat mine", call_timeout=PATIENCE).stdout, sandboxes)
        assert list(mine) == [f"{n}\n" for n in range(count)]
        list(pool.map(lambda sandbox: client.destroy_sandbox(sandbox_id=sandbox, call_timeout=PATIENCE), sandboxes))
    assert not server.mounts()
    eventually(lambda: not dock.containers())  # an engine that is asked for fifty at once takes them away one after the other


def test_five_at_once(server, dock):
    start_many(server, dock, 5)


@pytest.mark.long
def test_fifty_at_once(make, dock):
    start_many(make().start(), dock, 50)
