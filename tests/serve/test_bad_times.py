"""Disks that are full, descriptors that run out, other users, sockets that were there before. Databases that go away: test_database_away.py."""

import contextlib
import fcntl
import io
import os
import random
import resource
import signal
import socket
import ssl
import subprocess
import tarfile
import threading
import time

import grpc
import pytest
from disk import fill, free_bytes
from sandbox.v1 import codebase_pb2, sandbox_pb2
from server import OTHER_USER, WAIT, Client, eventually
from test_sandboxes import CODE

MIB = 1 << 20
NO_ROOM = (CODE.RESOURCE_EXHAUSTED,)
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="mounts and other users need root")


def code_of(call, *args, **fields):
    with pytest.raises(grpc.RpcError) as caught:
        call(*args, **fields)
    return caught.value.code()


# Disks.

def archive(**files):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for name, size in files.items():
            info = tarfile.TarInfo(name)
            info.size = size
            tar.addfile(info, io.BytesIO(os.urandom(size)))
    return out.getvalue()


def send_archive(client, codebase, data):
    head = codebase_pb2.ArchiveChunk(metadata=codebase_pb2.ArchiveChunk.Metadata(codebase_id=codebase))
    return client.upload_archive([head, *(codebase_pb2.ArchiveChunk(data=data[at:at + 65536]) for at in range(0, len(data), 65536))])


@needs_root
@pytest.mark.parametrize("how", ["file", "archive"])
def test_an_upload_that_does_not_fit_takes_no_room(make, disk, how):
    server = make()
    place = disk(server.state / "codebases", "4m")
    client = server.start().client()
    codebase = client.codebase({"kept": "kept", "big": "old"})
    before = None
    for _ in range(3):
        if how == "file":
            assert code_of(client.put, codebase, "big", b"x" * (6 * MIB)) in NO_ROOM
        else:
            assert code_of(send_archive, client, codebase, archive(big=6 * MIB)) in NO_ROOM
        before = before or eventually(lambda: free_bytes(place))
        eventually(lambda: free_bytes(place) >= before)
    assert before > 3 * MIB
    assert (client.get(codebase, "big"), client.get(codebase, "kept")) == (b"old", b"kept")
    assert client.put(codebase, "fits", b"y" * MIB).size == MIB
    assert sorted(client.names(codebase)) == ["big", "fits", "kept"]


@needs_root
@pytest.mark.parametrize("change", ["delete", "restore"])
def test_a_change_whose_counters_have_no_room_is_told_with_its_own_version(make, own_mounts, change):
    """Whoever looks at that version again finds what he did."""
    client = (server := make()).start().client()
    codebase = client.codebase({"kept": "kept", "f": "12345"})
    client.put(codebase, "f", b"123")
    before = client.get_codebase(codebase_id=codebase)
    meta = server.state / "codebases" / codebase / "meta"
    subprocess.run(["mount", "--bind", str(meta), str(meta)], check=True)  # nothing can take its place
    try:
        if change == "delete":
            told = client.delete_file(codebase_id=codebase, file_path="f")
            version = told.version
            assert (told.size, told.file_count) == (4, 1)
        else:
            version = client.restore_version(codebase_id=codebase, version=before.version - 1, path="f").number
        assert version == before.version + 1
    finally:
        subprocess.run(["umount", str(meta)], check=True)
    if change == "delete":
        assert code_of(client.get, codebase, "f", version=version) == CODE.NOT_FOUND
    else:
        assert client.get(codebase, "f", version=version) == b"12345"
    assert client.get(codebase, "f", version=before.version) == b"123"
    assert client.put(codebase, "new", b"x").version == version + 1


@needs_root
def test_changes_that_do_not_fit_wait_in_their_sandbox(make, disk):
    server = make()
    place = disk(server.state / "codebases", "4m")
    client = server.start().client()
    codebase = client.codebase({"a": "1"})
    box = client.sandbox(codebase)
    filler = fill(place)
    result = client.run(box, "head -c 1000000 /dev/zero > work; echo 2 > a")
    assert result.exit_code == 0 and result.codebase_version == 0
    assert client.names(codebase) == ["a"] and client.get(codebase, "a") == b"1"
    assert client.run(box, "cat a; wc -c < work").stdout == "2\n1000000\n"
    assert code_of(client.destroy_sandbox, sandbox_id=box) in NO_ROOM
    assert client.run(box, "cat a").stdout == "2\n"
    other = client.sandbox(codebase)
    client.run(other, "head -c 1000000 /dev/zero > given-up")
    client.destroy_sandbox(sandbox_id=other, force=True)
    filler.unlink()
    eventually(lambda: "work" in client.names(codebase))  # nobody has to come by for that
    assert client.get(codebase, "a") == b"2\n" and len(client.get(codebase, "work")) == 1000000


@needs_root
def test_a_sandbox_s_full_disk_is_the_command_s_affair(make, disk):
    server = make()
    place = disk(server.top / "disk", "8m")
    server.state.mkdir(mode=0o700)
    server.settings["storage-mount-path"] = place
    client = server.start().client()
    codebase = client.codebase({"a": "1"})
    box = client.sandbox(codebase)
    filler = fill(place)
    result = client.run(box, "head -c 1000000 /dev/zero > work; echo $?")
    assert result.stdout == "1\n" and "No space left" in result.stderr
    assert code_of(client.create_sandbox, codebase_id=codebase) in NO_ROOM
    filler.unlink()
    assert client.run(box, "echo 3 > a; cat a").stdout == "3\n"
    other = client.sandbox(codebase)
    assert client.run(other, "cat a").stdout == "3\n"


@needs_root
def test_a_full_database_keeps_what_it_acknowledged(make, disk):
    server = make()
    place = disk(server.top / "db", "1m")
    server.settings["storage-db-path"] = place / "metadata.db"
    client = server.start().client()
    kept = [client.codebase()]
    box = client.sandbox(kept[0])
    filler = fill(place)
    with pytest.raises(grpc.RpcError) as caught:
        for _ in range(10000):
            kept.append(client.codebase())
    assert caught.value.code() in NO_ROOM
    assert len(client.list_codebases(page_size=1000).codebases) == len(kept)
    version = client.put(kept[0], "doomed", "x").version
    assert client.delete_file(codebase_id=kept[0], file_path="doomed").version == version + 1  # the row knows neither
    assert client.run(box, "echo on > on; cat on").stdout == "on\n"  # what needs no row
    server.kill()
    filler.unlink()
    client = server.start().client()
    assert {one.id for one in client.list_codebases(page_size=1000).codebases} == set(kept)
    assert sorted(path.name for path in (server.state / "codebases").glob("cb_*")) == sorted(kept)
    assert client.get(kept[0], "on") == b"on\n"
    assert client.codebase()


@needs_root
def test_a_server_starts_on_a_full_disk(make, disk):
    server = make()
    place = disk(server.state, "16m")
    client = server.start().client()
    codebase = client.codebase({"a": "1"})
    box = client.sandbox(codebase)
    filler = fill(place)
    server.kill()
    client = server.start().client()
    assert client.get(codebase, "a") == b"1"
    assert client.run(box, "cat a").stdout == "1"
    assert code_of(client.put, codebase, "b", "2") in NO_ROOM
    filler.unlink()
    client.put(codebase, "b", "2")
    assert client.run(box, "cat b").stdout == "2"


# Descriptors.

def test_a_server_without_descriptors_refuses_and_recovers(make):
    server = make()
    server.start(preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (80, 80)))
    client = server.client()
    codebase = client.codebase({"a": "1"})
    box = client.sandbox(codebase)
    codes = []

    def work():
        with grpc.insecure_channel(server.grpc_address, [("grpc.use_local_subchannel_pool", 1)]) as channel:
            try:
                Client(channel).run(box, "sleep 1.5", call_timeout=60)  # long enough for all to be there at once
                codes.append(CODE.OK)
            except grpc.RpcError as error:
                codes.append(error.code())

    threads = [threading.Thread(target=work) for _ in range(100)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(codes) == 100 and set(codes) <= {CODE.OK, CODE.RESOURCE_EXHAUSTED, CODE.UNAVAILABLE, CODE.DEADLINE_EXCEEDED}, set(codes)
    assert CODE.OK in codes and len(set(codes)) > 1
    assert client.run(box, "cat a").stdout == "1"
    client.put(codebase, "b", "2")
    other = client.sandbox(codebase)
    assert client.run(other, "cat b").stdout == "2"
    assert server.process.poll() is None


def test_a_stop_without_descriptors_ends_it_all_the_same(make):
    server = make().start()
    client = server.client()
    box = client.sandbox(client.codebase({"a": "1"}))
    pid = server.process.pid
    before = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (3, before[1]))
    call = client.stop_sandbox_call.future(sandbox_pb2.StopSandboxRequest(sandbox_id=box))
    with contextlib.suppress(grpc.FutureTimeoutError):
        call.exception(timeout=0.5)
    resource.prlimit(pid, resource.RLIMIT_NOFILE, before)
    assert call.exception(timeout=WAIT) is None and client.get_sandbox(sandbox_id=box).status == 3
    eventually(lambda: not server.supervisors())
    client.start_sandbox(sandbox_id=box)
    assert client.run(box, "cat a").stdout == "1"


# Restarts.

@pytest.mark.bwrap("two hundred containers take minutes; tests/docker has fifty")
def test_two_hundred_sandboxes_and_a_new_server(make):
    server = make().start()
    client = server.client()
    codebase = client.codebase({"a": "1"})
    idle = {client.sandbox(codebase, start=False) for _ in range(200)}
    running = {client.sandbox(codebase) for _ in range(3)}
    server.kill()
    client = server.start().client()
    found = {}
    token = ""
    while True:
        page = client.list_sandboxes(codebase_id=codebase, page_size=64, page_token=token)
        found.update((box.id, box.status) for box in page.sandboxes)
        token = page.next_page_token
        if not token:
            break
    assert found == {**dict.fromkeys(idle, 1), **dict.fromkeys(running, 2)}
    box = min(running)
    assert client.run(box, "cat a").stdout == "1"
    client.delete_codebase(codebase_id=client.codebase())
    assert code_of(client.delete_codebase, codebase_id=codebase) == CODE.FAILED_PRECONDITION


def test_a_command_outlives_a_server_that_is_told_to_end(make):
    server = make(**{"server-drain-timeout": "500ms"}).start()
    client = server.client()
    codebase = client.codebase()
    box = client.sandbox(codebase)
    call = client.exec_stream(sandbox_id=box, command="echo up; until [ -e /tmp/go ]; do sleep 0.05; done; echo over > over")
    assert next(call).data == b"up\n"
    server.stop(hang_up=False)
    with pytest.raises(grpc.RpcError):
        list(call)
    client = server.start().client()
    assert client.run(box, "touch /tmp/go").exit_code == 0
    eventually(lambda: "over" in client.names(codebase))


def test_a_second_signal_ends_it_at_once(make):
    server = make(**{"server-drain-timeout": "10m"}).start()
    client = server.client()
    box = client.sandbox(client.codebase())
    call = client.exec_stream(sandbox_id=box, command="echo up; sleep 971")
    assert next(call).data == b"up\n"
    server.process.send_signal(signal.SIGTERM)
    eventually(lambda: any("ending" in line.get("msg", "") for line in server.lines()))
    server.process.send_signal(signal.SIGTERM)
    assert server.process.wait(WAIT) == 0
    assert box in server.supervisors()


def certify(place, name):
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout",
                    place / "key.pem", "-out", place / "cert.pem", "-subj", f"/CN={name}", "-addext",
                    "subjectAltName=DNS:localhost,IP:127.0.0.1", "-days", "2"], check=True, capture_output=True)
    return (place / "cert.pem").read_text()


def shown(address, protocols=None):
    """The certificate that a server shows."""
    host, port = address.rsplit(":", 1)
    context = ssl._create_unverified_context()
    if protocols:
        context.set_alpn_protocols(protocols)
    with socket.create_connection((host, int(port)), timeout=WAIT) as plain, context.wrap_socket(plain) as secure:
        return ssl.DER_cert_to_PEM_cert(secure.getpeercert(binary_form=True))


def test_sighup_reads_certificates_again(make, tmp_path):
    first = certify(tmp_path, "first")
    server = make(**{"server-tls-cert": tmp_path / "cert.pem", "server-tls-key": tmp_path / "key.pem"}).start()
    assert shown(server.grpc_address, ["h2"]) == first and shown(server.http_address) == first
    second = certify(tmp_path, "second")
    assert shown(server.grpc_address, ["h2"]) == first
    server.process.send_signal(signal.SIGHUP)
    eventually(lambda: any(line.get("msg") == "reloaded" for line in server.lines()))
    assert shown(server.grpc_address, ["h2"]) == second
    assert shown(server.http_address) == second
    (tmp_path / "cert.pem").write_text("nothing")
    server.process.send_signal(signal.SIGHUP)
    eventually(lambda: any("could not be read again" in line.get("msg", "") for line in server.lines()))
    assert shown(server.grpc_address, ["h2"]) == second and shown(server.http_address) == second


def start_with(server, sockets):
    """As systemd does it: the sockets are descriptors 3 and up, and LISTEN_PID says who they are for."""
    script = 'LISTEN_PID=$$ LISTEN_FDS=2 LISTEN_FDNAMES=grpc:http exec "$@"'
    args = ["/bin/sh", "-c", script, "sh", server.program, "serve", *[f"--{key}={value}" for key, value in server.settings.items()]]
    high = [fcntl.fcntl(one.fileno(), fcntl.F_DUPFD_CLOEXEC, 100) for one in sockets]

    def place():
        for at, fd in enumerate(high):
            os.dup2(fd, 3 + at, inheritable=True)

    server.log_from = server.log_path.stat().st_size if server.log_path.exists() else 0
    with open(server.log_path, "ab") as log:
        server.process = subprocess.Popen(args, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=server.environment(), cwd="/",
                                          preexec_fn=place, close_fds=False)
    for fd in high:
        os.close(fd)


def test_sockets_that_were_there_before(make):
    server = make(**{"server-grpc-addr": "127.0.0.1:1", "server-http-addr": "127.0.0.1:1"})
    with socket.socket() as rpc, socket.socket() as rest:
        for one in (rpc, rest):
            one.bind(("127.0.0.1", 0))
            one.listen()
        start_with(server, (rpc, rest))
        server.wait_listening()
        assert [server.grpc_address, server.http_address] == [f"127.0.0.1:{one.getsockname()[1]}" for one in (rpc, rest)]
        codebase = server.client().codebase()
        assert server.http("GET", f"/v1/codebases/{codebase}")[0] == 200
        # Whoever comes while no server is there waits for the next.
        server.kill()
        with socket.create_connection(rest.getsockname(), timeout=WAIT) as waiting:
            waiting.sendall(f"GET /v1/codebases/{codebase} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
            start_with(server, (rpc, rest))
            assert waiting.recv(100).startswith(b"HTTP/1.1 200")


# Other users.

@needs_root
def test_an_ordinary_user_s_server(make):
    server = make(user=OTHER_USER).start()
    client = Client(server.channel(), [("authorization", f"Bearer {server.token('create', '--owner', 'tester', '--admin')}")])
    codebase = client.codebase({"src/a": "1", ".env": "secret"})
    box = client.sandbox(codebase, permissions=(("**/*", "write"), ("**/.env", "none")))
    result = client.run(box, "cat src/a .env; echo 2 > src/a; id -u; kill -9 $$")
    assert result.stdout.startswith("1") and "secret" not in result.stdout and result.exit_code == 137
    assert client.get(codebase, "src/a") == b"2\n"
    session = client.create_session(sandbox_id=box)
    assert client.session_exec(session_id=session.id, command="X=5; echo $X").stdout == "5\n"
    server.kill()
    server.start()
    client = Client(server.channel(), client.metadata)
    assert client.session_exec(session_id=session.id, command="echo $X").stdout == "5\n"
    assert client.run(box, "cat src/a").stdout == "2\n"
    client.stop_sandbox(sandbox_id=box)
    client.start_sandbox(sandbox_id=box)
    assert client.run(box, "cat src/a").stdout == "2\n"
    client.destroy_sandbox(sandbox_id=box)
    client.delete_codebase(codebase_id=codebase)
    assert not list((server.state / "codebases").glob("cb_*")) and not list((server.state / "sandboxes").glob("sb_*"))


# What a killed server leaves.

def test_events_have_the_server_s_clock(server):
    client = server.client()
    before = time.time()
    codebase = client.codebase({"a": "1"})
    box = client.sandbox(codebase)
    client.run(box, "true")
    after = time.time()
    eventually(lambda: client.events(codebase_id=codebase, type="command_executed"))
    events = client.events(codebase_id=codebase)
    times = [event.time.seconds + event.time.nanos / 1e9 for event in events]
    assert all(before - 0.001 <= moment <= after for moment in times), (before, times, after)
    assert [event.type for event in events if event.type != "file_uploaded"] == [
        "codebase_created", "sandbox_created", "sandbox_started", "command_executed"]
    assert [event.sequence for event in events] == sorted(event.sequence for event in events)
    middle = events[2].time
    later = client.events(codebase_id=codebase, since=middle)
    assert [event.sequence for event in later] == [event.sequence for event in events if event.time.ToNanoseconds() >= middle.ToNanoseconds()]


def test_a_key_left_open_is_finished_or_free_at_the_next_start(server):
    client = server.client()
    made = client.create_codebase(name="x", owner_id="tester", idempotency_key="made")
    client.create_codebase(name="x", owner_id="tester", idempotency_key="not made")
    server.kill()
    server.sql("UPDATE claims SET is_finished = 0, response = ''" if server.db else "UPDATE claims SET is_finished = 0, response = x''")
    server.sql("UPDATE claims SET resource_id = 'cb_0123456789abcdef' WHERE idempotency_key = 'not made'")
    client = server.start().client()
    assert client.create_codebase(name="x", owner_id="tester", idempotency_key="made").id == made.id
    again = client.create_codebase(name="x", owner_id="tester", idempotency_key="not made")
    assert again.id not in (made.id, "cb_0123456789abcdef")
    assert code_of(client.create_codebase, name="y", owner_id="tester", idempotency_key="made") == CODE.ALREADY_EXISTS


def test_a_key_makes_one_thing_whenever_the_server_is_killed(server):
    moments = random.Random(7)
    codebase = server.client().codebase()
    for number in range(10):
        client = server.client()
        grpc.channel_ready_future(client.channel).result(WAIT)  # a call that waits for a connection would wait for the dead server
        call = client.create_sandbox_call.future(sandbox_pb2.CreateSandboxRequest(codebase_id=codebase, idempotency_key=f"k{number}"))
        time.sleep(moments.uniform(0, 0.03))
        server.kill()
        call.exception(WAIT)
        client = server.start().client()
        first = client.create_sandbox(codebase_id=codebase, idempotency_key=f"k{number}").id
        if call.exception() is None:
            assert call.result().id == first
        assert client.create_sandbox(codebase_id=codebase, idempotency_key=f"k{number}").id == first
        assert len(client.list_sandboxes(codebase_id=codebase).sandboxes) == number + 1


def test_a_lost_database_costs_no_files(server):
    client = server.client()
    codebase = client.codebase({"precious": "work"})
    box = client.sandbox(codebase, sync_on_completion=2)
    client.run(box, "echo more > unsynced")
    server.stop()
    for name in ("metadata.db", "metadata.db-wal", "metadata.db-shm"):
        with contextlib.suppress(FileNotFoundError):
            (server.state / name).rename(server.top / name)
    client = server.start().client()
    assert [one.id for one in client.list_codebases().codebases] == [codebase]  # its sandbox's directory names it
    assert any("not in the database" in line.get("msg", "") for line in server.lines())
    server.stop()
    for name in ("metadata.db", "metadata.db-wal", "metadata.db-shm"):
        with contextlib.suppress(FileNotFoundError):
            (server.state / name).unlink()
        with contextlib.suppress(FileNotFoundError):
            (server.top / name).rename(server.state / name)
    client = server.start().client()
    assert client.get(codebase, "precious") == b"work"
    if client.get_sandbox(sandbox_id=box).status != 2:
        client.start_sandbox(sandbox_id=box)
    assert client.run(box, "cat unsynced").stdout == "more\n"
