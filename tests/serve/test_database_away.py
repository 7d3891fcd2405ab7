"""A PostgreSQL that goes away and comes back, or that two hosts share."""

import concurrent.futures
import os
import random
import signal
import threading
import time

import grpc
import pytest
from server import eventually
from test_sandboxes import CODE


def code_of(call, *args, **fields):
    with pytest.raises(grpc.RpcError) as caught:
        call(*args, **fields)
    return caught.value.code()


def test_a_database_that_goes_and_comes(make, postgres):
    server = make(db=postgres.new_database()).start()
    client = server.client()
    codebase = client.codebase({"a": "1"})
    box = client.sandbox(codebase)
    call = client.exec_stream(sandbox_id=box, command="echo up; until [ -e /tmp/go ]; do sleep 0.05; done; echo 2 > a; cat a")
    assert next(call).data == b"up\n"
    postgres.kill()
    with concurrent.futures.ThreadPoolExecutor(4) as pool:  # the server is patient with a database, so all at once
        made = pool.submit(code_of, client.create_codebase, name="x", owner_id="tester")
        listed = pool.submit(code_of, client.list_events)
        health = pool.submit(server.http, "GET", "/health")
        # What needs no row goes on.
        assert client.run(box, "cat a; touch /tmp/go").stdout == "1"
        assert b"".join(chunk.data for chunk in call) == b"2\n"
        assert made.result() == CODE.UNAVAILABLE
        assert listed.result() == CODE.UNAVAILABLE  # and not never
        assert health.result()[0] == 503
    postgres.start()
    eventually(lambda: server.http("GET", "/health")[0] == 200)
    assert client.get(codebase, "a") == b"2\n"
    eventually(lambda: len(client.events(sandbox_id=box, type="command_executed")) == 2)
    assert client.sandbox(client.codebase())
    server.kill()
    client = server.start().client()
    assert client.get_codebase(codebase_id=codebase).version == 2 and client.run(box, "cat a").stdout == "2\n"


def test_a_database_killed_again_and_again_loses_nothing(make, postgres):
    server = make(db=postgres.new_database()).start()
    client = server.client()
    kept, stop = {}, threading.Event()

    def work(number):
        count = 0
        while not stop.is_set():
            count += 1
            key = f"{number}-{count}"
            while True:
                try:
                    kept[key] = client.create_codebase(name="x", owner_id="tester", idempotency_key=key).id
                    break
                except grpc.RpcError as error:
                    assert error.code() in (CODE.UNAVAILABLE, CODE.ABORTED), error
                    if stop.is_set():
                        return
                    time.sleep(0.05)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    moments = random.Random(3)
    for _ in range(5):
        time.sleep(moments.uniform(0.1, 0.4))
        postgres.kill()
        postgres.start()
    time.sleep(0.3)
    stop.set()
    for thread in threads:
        thread.join()
    there, token = [], ""
    while True:
        page = client.list_codebases(page_size=1000, page_token=token)
        there += [one.id for one in page.codebases]
        token = page.next_page_token
        if not token:
            break
    assert len(kept) > 0 and set(kept.values()) <= set(there)
    assert len(there) <= len(kept) + 3, "more was made than was asked for"


def test_what_ends_while_the_database_is_away_is_told_later(make, postgres):
    server = make(db=postgres.new_database()).start()
    client = server.client()
    box = client.sandbox(client.codebase({"a": "1"}))
    other = client.sandbox(client.codebase())
    postgres.kill()
    os.kill(server.supervisors()[box], signal.SIGKILL)
    eventually(lambda: box not in server.supervisors())
    assert client.run(other, "echo on").stdout == "on\n"
    eventually(lambda: any("could not be noted" in line.get("msg", "") for line in server.lines()))
    postgres.start()
    eventually(lambda: server.http("GET", "/health")[0] == 200)
    ended = eventually(lambda: (now := client.get_sandbox(sandbox_id=box)).status == 4 and now)
    assert "the database was away" in ended.status_reason
    assert client.get_sandbox(sandbox_id=other).status == 2
    client.start_sandbox(sandbox_id=box)
    assert client.run(box, "cat a").stdout == "1"


@pytest.mark.parametrize("ending", ["server lives", "server killed"])
def test_sessions_that_end_while_the_database_is_away_are_closed_later(make, postgres, ending):
    server = make(db=postgres.new_database(), **{"sandbox-cleanup-interval": "1h"}).start()
    client = server.client()
    box, other = client.sandbox(client.codebase()), client.sandbox(client.codebase())
    ended, kept, lost = (client.create_session(sandbox_id=one).id for one in (box, box, other))
    shell = client.session_exec(session_id=ended, command="echo $$").stdout.strip()
    postgres.kill()
    client.run(box, f"kill -9 {shell}")
    os.kill(server.supervisors()[other], signal.SIGKILL)
    eventually(lambda: any(line.get("msg") == "session_closed" for line in server.lines()))
    eventually(lambda: any("could not be noted" in line.get("msg", "") for line in server.lines()))
    if ending == "server killed":
        server.kill()
    postgres.start()
    if ending == "server killed":
        client = server.start().client()
    eventually(lambda: server.http("GET", "/health")[0] == 200)
    eventually(lambda: [one.id for one in client.list_sessions(sandbox_id=box).sessions] == [kept])
    eventually(lambda: not client.list_sessions(sandbox_id=other).sessions and client.get_sandbox(sandbox_id=other).status == 4)
    assert code_of(client.get_session, session_id=lost) == CODE.NOT_FOUND
    assert client.session_exec(session_id=kept, command="echo on").stdout == "on\n"


def test_two_hosts_with_one_database(make, postgres):
    url = postgres.new_database()
    one, two = make(db=url).start(), make(db=url).start()
    first, second = one.client(), two.client()
    codebase = first.codebase({"a": "1"})
    box = first.sandbox(codebase)
    other = second.sandbox(second.codebase({"a": "2"}))
    assert {box, other} == {found.id for found in first.list_sandboxes().sandboxes} == {found.id for found in second.list_sandboxes().sandboxes}
    for call, fields in ((second.start_sandbox, {"sandbox_id": box}), (second.stop_sandbox, {"sandbox_id": box}),
                         (second.destroy_sandbox, {"sandbox_id": box}), (second.delete_codebase, {"codebase_id": codebase, "force": True}),
                         (second.list_files, {"codebase_id": codebase}), (second.create_sandbox, {"codebase_id": codebase}),
                         (second.exec, {"sandbox_id": box, "command": "true"})):
        assert code_of(call, **fields) == CODE.FAILED_PRECONDITION, call
    # One's death, start and end are nothing to the other.
    two.kill()
    two.start()
    assert first.get_sandbox(sandbox_id=box).status == 2 and first.run(box, "cat a").stdout == "1"
    one.kill()
    second = two.client()
    assert second.get_sandbox(sandbox_id=box).status == 2 and second.run(other, "cat a").stdout == "2"
    two.stop()
    two.start()
    first = one.start().client()
    assert first.run(box, "cat a").stdout == "1" and first.get(codebase, "a") == b"1"
