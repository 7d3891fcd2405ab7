"""Who gets in without a token: the server's own user, by a process like those that people start beside it. What has that user's uid and is
something else, a sandbox above all, stays out, whichever way it comes."""

import ctypes
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

import pytest
from conftest import PROGRAMS
from installed import install
from server import WAIT, Server, eventually

USER = 2_000_000_000 + os.getpid()  # nobody's, and apart from that of another run
IS_ROOT = os.geteuid() == 0
CLONE_NEWNS, MS_REC, MS_PRIVATE = 0x20000, 0x4000, 1 << 18
needs_root = pytest.mark.skipif(not IS_ROOT, reason="becoming another user needs root")

# What an agent would do next, over REST and gRPC. Prints a line for each: what came of it, and what was tried.
AGENT = r"""
import json, sys, urllib.error, urllib.request
told = json.loads(sys.argv[1])
for verb, path, body in told["rest"]:
    data = json.dumps(body).encode() if body is not None else None
    request = urllib.request.Request(told["http"] + path, data, {"Content-Type": "application/json"}, method=verb)
    try:
        status = urllib.request.urlopen(request, timeout=60).status
    except urllib.error.HTTPError as error:
        status = error.code
    except OSError as error:
        status = error.__class__.__name__
    print(status, verb, path, flush=True)
try:
    import grpc
except ImportError:
    sys.exit()
for address in told["grpc"]:
    with grpc.insecure_channel(address) as channel:
        for method in told["methods"]:
            try:
                channel.unary_unary(method)(b"", timeout=60)
                code = "OK"
            except grpc.RpcError as error:
                code = error.code().name
            print(code, address.partition(":")[0], method, flush=True)
"""

ASK = r"""
import os, socket, sys
def ask(address):
    "The status of a request without a token, by REST."
    host, port = address.rsplit(":", 1)
    with socket.create_connection((host, int(port))) as connection:
        connection.sendall(b"GET /v1/codebases HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        return connection.makefile("rb").readline().split()[1].decode()
"""

METHODS = ["/sandbox.v1.CodebaseService/ListCodebases", "/sandbox.v1.CodebaseService/CreateCodebase", "/sandbox.v1.SandboxService/ListSandboxes",
           "/sandbox.v1.SandboxService/CreateSandbox", "/sandbox.v1.SandboxService/UpdatePermissions", "/sandbox.v1.SandboxService/Exec",
           "/sandbox.v1.SandboxService/ListEvents"]


def as_user(server, words):
    """As the user of a server, in the namespaces of the tests."""
    return words if server.user is None else ["setpriv", "--reuid", str(server.user), "--regid", str(server.user), "--clear-groups", *words]


def start_server(who, **settings):
    if who == "root" and not IS_ROOT:
        pytest.skip("that needs root")
    return Server(PROGRAMS, user=USER if who == "user" and IS_ROOT else None, **settings).start()


def admin_token(server):
    return server.token("create", "--owner", "me", "--admin")


def told(server, box="sb_0123456789abcdef", **more):
    rule = [{"pattern": "**", "permission": "PERMISSION_WRITE"}]
    rest = [("GET", "/v1/codebases", None), ("POST", "/v1/codebases", {"name": "mine", "ownerId": "agent"}), ("GET", "/v1/sandboxes", None),
            ("POST", "/v1/sandboxes", {"codebaseId": "cb_0123456789abcdef", "preset": "full-access"}),
            ("PUT", f"/v1/sandboxes/{box}/permissions", {"permissions": rule}), ("POST", f"/v1/sandboxes/{box}/exec", {"command": "id"}),
            ("GET", "/v1/events", None), ("GET", "/api/v1/sandboxes", None), ("POST", "/api/v1/sandboxes", {"scopePath": "/", "projectRoot": "/"}),
            ("PUT", "/api/v1/config/profiles/mine", {"name": "Mine", "networkAccess": "full", "readWriteBinds": {"/var": "/var"}}), ("GET", "/api/v1/stats", None),
            ("GET", "/api/v1/metrics", None)]
    return json.dumps({"http": f"http://{server.http_address}", "rest": rest, "grpc": [server.grpc_address], "methods": METHODS, **more})


def assert_all_refused(text, with_grpc=True):
    lines = text.splitlines()
    assert len(lines) == 12 + with_grpc * len(METHODS), text
    assert not [line for line in lines if line.split()[0] not in ("401", "UNAUTHENTICATED")], text


@pytest.fixture(scope="module", params=["root", "user"])
def own(request):
    """A server with sandboxes on the host's network."""
    server = start_server(request.param, **{"sandbox-allow-host-network": "true"})
    yield server
    server.remove()


def run(server, script, *args, prefix=()):
    """As the user of the server."""
    done = subprocess.run(as_user(server, [*prefix, sys.executable, "-c", script, *args]), capture_output=True, text=True, cwd="/", check=False,
                          timeout=WAIT * 2)
    assert done.returncode == 0, done.stderr
    return done.stdout


# ---- sandboxes ----

def test_a_sandbox_on_the_host_s_network_is_nobody(own):
    """Of an ordinary user it has its owner's uid, and that is all it has."""
    client = own.client(admin_token(own))
    codebase = client.codebase({"agent.py": AGENT, "secret": "x"})
    box = client.sandbox(codebase, permissions=(("**", "read"), ("secret", "none")), network="host")
    done = client.exec(sandbox_id=box, command="python3 agent.py \"$TOLD\"", env={"TOLD": told(own, box)})
    assert done.exit_code == 0, done
    assert_all_refused(done.stdout, with_grpc="UNAUTHENTICATED" in done.stdout or "OK" in done.stdout)
    assert client.exec(sandbox_id=box, command="cat secret").exit_code != 0
    assert [one.id for one in client.list_codebases().codebases] == [codebase]
    client.destroy_sandbox(sandbox_id=box, force=True)
    client.delete_codebase(codebase_id=codebase)


HIDE = r"""
import ctypes, sys, time
ctypes.CDLL(None).prctl(4, 0)
sys.stdout.write("hidden\n"); sys.stdout.flush()
time.sleep(1000)
"""


def test_an_agent_that_is_not_to_be_looked_into_does_not_keep_its_owner_out(own):
    """/proc shows the descriptors of such a process to root alone; an ordinary user's server fetches them."""
    client = own.client(admin_token(own))
    codebase = client.codebase({"hide.py": HIDE, "ask.py": ASK + "print(ask(sys.argv[1]))"})
    box = client.sandbox(codebase, network="host")
    hidden = client.exec_stream(sandbox_id=box, command="python3 hide.py")
    assert next(iter(hidden)).data == b"hidden\n"
    assert run(own, ASK + "print(ask(sys.argv[1]))", own.http_address) == "200\n"
    script = "import ctypes; ctypes.CDLL(None).prctl(4, 0); exec(open('ask.py').read())"
    assert client.exec(sandbox_id=box, command=f'python3 -c "{script}" {own.http_address}').stdout == "401\n"
    hidden.cancel()
    client.destroy_sandbox(sandbox_id=box, force=True)
    client.delete_codebase(codebase_id=codebase)


def test_agentfense_run_on_the_host_s_network_is_nobody(own):
    """The same from a sandbox that no server made."""
    place = pathlib.Path(tempfile.mkdtemp(prefix="af-callers-"))
    try:
        (place / "agent.py").write_text(AGENT)
        place.chmod(0o755)
        os.chown(place, own.user or os.geteuid(), -1)
        words = [own.program, "run", "-q", "--rm", "--net", "host", "-e", f"TOLD={told(own)}", str(place), "--", "sh", "-c",
                 "exec python3 agent.py \"$TOLD\""]
        words = own.as_user(words) if own.user is not None else words
        done = subprocess.run(words, env={**own.environment(), "AGENTFENSE_STATE_DIR": str(own.top / "run-state")}, capture_output=True, text=True, cwd="/",
                              check=False, timeout=WAIT * 2)
        assert done.returncode == 0, done.stderr
        assert_all_refused(done.stdout, with_grpc="UNAUTHENTICATED" in done.stdout or "OK" in done.stdout)
    finally:
        shutil.rmtree(place)


def test_whoever_is_outside_gets_in(own):
    lines = run(own, AGENT, told(own, rest=[("GET", "/v1/codebases", None), ("GET", "/api/v1/stats", None)], grpc=[own.grpc_address, own.unix_address],
                                 methods=METHODS[:1])).split("\n")
    assert [line.split()[0] for line in lines if line] == ["200", "200", "OK", "OK"], lines
    done = subprocess.run(as_user(own, ["curl", "-s", "-o", "/dev/null", "-w", "%{http_code}", own.url("/v1/codebases")]), capture_output=True, text=True,
                          check=True, cwd="/")
    assert done.stdout == "200"


# ---- other namespaces ----

def can(server, *words):
    return subprocess.run(as_user(server, [*words, "true"]), capture_output=True, check=False, cwd="/").returncode == 0


@pytest.mark.parametrize("namespaces", [["--user", "--map-current-user"], ["--user", "--map-current-user", "--pid", "--fork"], ["--pid", "--fork"]], ids=" ".join)
def test_processes_of_the_user_in_other_namespaces_need_a_token(own, namespaces):
    """As a sandbox that can see the server's unix socket, or a container of the user's own."""
    if not can(own, "unshare", *namespaces):
        pytest.skip("no such namespace for this user")
    out = run(own, AGENT, told(own, grpc=[own.grpc_address, own.unix_address]), prefix=["unshare", *namespaces])
    assert len(out.splitlines()) == 12 + 2 * len(METHODS) and not [
        line for line in out.splitlines() if line.split()[0] not in ("401", "UNAUTHENTICATED")], out
    token = admin_token(own)
    status = run(own, "import sys, urllib.request as u; print(u.urlopen(u.Request(sys.argv[1], headers={'Authorization': 'Bearer ' + sys.argv[2]})).status)",
                 own.url("/v1/codebases"), token, prefix=["unshare", *namespaces])
    assert status == "200\n"


HAND_ON = ASK + r"""
import array, ctypes, time
kind, address, keeps = sys.argv[1], sys.argv[2], sys.argv[3] == "keeps"
ours, theirs = socket.socketpair()
if kind == "tcp":
    host, port = address.rsplit(":", 1)
    connection = socket.create_connection((host, int(port)))
else:
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(address)
ready, go = os.pipe(), os.pipe()
child = os.fork()
if child == 0:
    connection.close()
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(0x10000000):
        os._exit(77)
    _, fds, _, _ = socket.recv_fds(theirs, 1, 1)
    connection = socket.socket(fileno=fds[0])
    os.write(ready[1], b"x")
    os.read(go[0], 1)
    if kind == "tcp":
        connection.sendall(b"GET /v1/codebases HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        print(connection.makefile("rb").readline().split()[1].decode(), flush=True)
    else:
        import h2.config, h2.connection, h2.events
        session = h2.connection.H2Connection(h2.config.H2Configuration(header_encoding="utf-8"))
        session.initiate_connection()
        session.send_headers(1, [(":method", "POST"), (":path", "/sandbox.v1.CodebaseService/ListCodebases"), (":scheme", "http"), (":authority", "x"),
                                 ("content-type", "application/grpc"), ("te", "trailers")])
        session.send_data(1, bytes(5), end_stream=True)
        connection.sendall(session.data_to_send())
        status = None
        while status is None:
            for event in session.receive_data(connection.recv(65536)):
                status = dict(getattr(event, "headers", None) or {}).get("grpc-status", status)
            connection.sendall(session.data_to_send())
        print("401" if status == "16" else "grpc-status " + status, flush=True)
    os._exit(0)
socket.send_fds(ours, [b"x"], [connection.fileno()])
os.read(ready[0], 1)
if not keeps:
    connection.close()
os.write(go[1], b"x")
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@pytest.mark.parametrize("kind, keeps", [("tcp", "keeps"), ("tcp", "closes"), ("unix", "closes")])
def test_a_connection_that_is_handed_to_another_namespace_is_nobody_s(own, kind, keeps):
    done = subprocess.run(as_user(own, [sys.executable, "-c", HAND_ON, kind, own.http_address if kind == "tcp" else own.unix_address[5:], keeps]),
                          capture_output=True, text=True, cwd="/", check=False, timeout=WAIT)
    if done.returncode == 77:
        pytest.skip("no user namespace for this user")
    assert (done.returncode, done.stdout) == (0, "401\n"), done.stderr


# ---- who else may hold a connection ----

def test_programs_that_work_for_sandboxes_do_not_pass(own):
    """Whatever a sandbox has them connect to, or hands them: they are outside, and have its owner's uid."""
    place = pathlib.Path(tempfile.mkdtemp(prefix="af-callers-"))
    try:
        place.chmod(0o755)
        for name in ("agentfense-supervisor", "agentfense-container", "agentfense-egress", "agentfense-init"):
            shutil.copy(os.path.realpath(sys.executable), place / name)
            words = as_user(own, [str(place / name), "-c", ASK + "print(ask(sys.argv[1]))", own.http_address])
            done = subprocess.run(words, capture_output=True, text=True, cwd="/", env={**os.environ, "PYTHONHOME": sys.prefix}, check=True, timeout=WAIT)
            assert done.stdout == "401\n", name
    finally:
        shutil.rmtree(place)


UNREADABLE = r"""
import ctypes, os, sys, time
libc = ctypes.CDLL(None, use_errno=True)
assert libc.unshare(0x20000000) == 0
child = os.fork()
if child == 0:
    os.setresgid(int(sys.argv[1]), int(sys.argv[1]), int(sys.argv[1]))
    os.setresuid(int(sys.argv[1]), int(sys.argv[1]), int(sys.argv[1]))
    print("ready", flush=True)
    sys.stdin.read()
    os._exit(0)
os.waitpid(child, 0)
"""


@needs_root
def test_a_process_that_cannot_be_looked_into_may_hold_the_connection():
    """Of the same user, in a deeper pid namespace: whether it holds the connection cannot be told, so it does."""
    server = start_server("user")
    try:
        assert run(server, ASK + "print(ask(sys.argv[1]))", server.http_address) == "200\n"
        with subprocess.Popen([sys.executable, "-c", UNREADABLE, str(server.user)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
            assert holder.stdout.readline() == "ready\n"
            assert run(server, ASK + "print(ask(sys.argv[1]))", server.http_address) == "401\n"
            holder.stdin.close()
        assert run(server, ASK + "print(ask(sys.argv[1]))", server.http_address) == "200\n"
    finally:
        server.remove()


IN_CGROUP = ASK + r"""
import http.client
for name in sys.argv[2:]:
    if name == "connect":
        connection = http.client.HTTPConnection(sys.argv[1])
        connection.connect()
        continue
    with open(os.path.join(name, "cgroup.procs"), "w") as procs:
        procs.write("0")
connection.request("GET", "/v1/codebases")
print(connection.getresponse().status)
"""


def mount_cgroups(place):
    """For the process that is to become the server, whose mounts the tests do not share."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWNS) or libc.mount(b"none", b"/", None, MS_REC | MS_PRIVATE, None) or \
            libc.mount(b"cgroup2", str(place).encode(), b"cgroup2", 0, None):
        raise OSError(ctypes.get_errno(), "no cgroups of version 2")


@needs_root
def test_a_connection_that_was_made_in_another_cgroup_was_handed_on():
    """Where the kernel tells in which cgroup a socket was made: in that of its holder, and that is no sandbox's."""
    server = Server(PROGRAMS)
    place = server.top / "cgroup"
    place.mkdir()
    made = []
    try:
        try:
            server.start(preexec_fn=lambda: mount_cgroups(place))
        except subprocess.SubprocessError:
            pytest.skip("no cgroups of version 2 here")
        root = pathlib.Path(f"/proc/{server.process.pid}/root{place}/af-test-{os.getpid()}")
        for path in (root, root / "agentfense", root / "agentfense" / "box", root / "other"):
            path.mkdir()
            made.append(path)
        ask = [sys.executable, "-c", IN_CGROUP, server.http_address]
        for steps, status in ((["connect"], "200"), ([root / "other", "connect"], "200"), ([root / "agentfense" / "box", "connect"], "401"),
                              ([root / "agentfense" / "box", "connect", root / "other"], "401"), ([root, "connect", root / "other"], "401")):
            done = subprocess.run([*ask, *map(str, steps)], capture_output=True, text=True, check=True, cwd="/", timeout=WAIT)
            assert done.stdout == status + "\n", steps
    finally:
        for path in reversed(made):
            eventually(lambda path=path: not (path / "cgroup.procs").read_text())
            path.rmdir()
        server.remove()


# ---- the other way round ----

FAKE = r"""
import ctypes, socket, sys
if sys.argv[1] == "sandbox" and ctypes.CDLL(None).unshare(0x10000000):
    sys.exit(77)
with socket.create_server(("127.0.0.1", 0)) as server:
    print(server.getsockname()[1], flush=True)
    while True:
        connection, _ = server.accept()
        if connection.recv(1000):
            print("asked", flush=True)
            sys.exit()
"""


def test_the_command_line_asks_no_server_that_a_sandbox_pretends_to_be(tmp_path):
    """The state being another's just now, commands ask the server at the usual address, if it is the user's. An agent on the host's network may
    listen there, with the same uid."""
    server = start_server("root" if IS_ROOT else "user")  # has the state, and listens elsewhere
    program = install(tmp_path / "bin")
    try:
        for who, is_asked in (("user", True), ("sandbox", False)):
            with subprocess.Popen([sys.executable, "-c", FAKE, who], stdout=subprocess.PIPE, text=True) as fake:
                try:
                    port = fake.stdout.readline().strip()
                    if not port:
                        pytest.skip("no user namespace for this user")
                    done = subprocess.run([program, "status"], env={**server.environment(), "AGENTFENSE_SERVER_HTTP_ADDR": f"127.0.0.1:{port}",
                                                                    "AGENTFENSE_TOKEN": "secret"}, capture_output=True, text=True, check=False, timeout=WAIT)
                    assert done.returncode == 125, done
                finally:
                    fake.kill()
                assert ("asked" in fake.stdout.read()) == is_asked, done
    finally:
        server.remove()


# ---- web pages ----

def test_web_pages_need_a_token_whoever_served_them(own):
    """A browser runs as the user, outside: only what it says of the page tells that this is not the user's own doing."""
    def status(**headers):
        script = ASK.replace("Connection: close", "".join(f"{name.replace('_', '-')}: {value}\\r\\n" for name, value in headers.items()) + "Connection: close")
        return run(own, script + "print(ask(sys.argv[1]))", own.http_address).strip()

    page = f"http://{own.http_address}"
    assert status() == "200"
    for headers in ({"Origin": page, "Host": own.http_address}, {"Sec_Fetch_Site": "same-origin"}, {"Sec_Fetch_Site": "none", "Sec_Fetch_Mode": "navigate"},
                    {"Sec_Fetch_Site": "cross-site", "Sec_Fetch_Mode": "navigate"}):
        headers.pop("Host", None)
        assert status(**headers) in ("401", "403"), headers
    token = admin_token(own)
    assert status(Sec_Fetch_Site="same-origin", Authorization=f"Bearer {token}") == "200"
    out = run(own, r"""
import grpc, sys
with grpc.insecure_channel(sys.argv[1]) as channel:
    for metadata in ((), (("origin", "http://localhost"),), (("sec-fetch-site", "none"),)):
        try:
            channel.unary_unary("/sandbox.v1.CodebaseService/ListCodebases")(b"", timeout=60, metadata=metadata)
            print("OK")
        except grpc.RpcError as error:
            print(error.code().name)
""", own.grpc_address)
    assert out.split() == ["OK", "UNAUTHENTICATED", "UNAUTHENTICATED"]


# ---- what strangers are told ----

def get(server, path, token=None):
    answer, body = server.http("GET", path, headers={"Authorization": f"Bearer {token}"} if token else {}, raw=True)
    return answer.status, body.decode()


def test_strangers_are_told_that_the_server_lives_and_nothing_else(make, tmp_path):
    """Neither where projects are, nor what others have. Probes need no token, and a wrong one changes nothing for them."""
    server = make(**{"server-require-token": "true", "workspace-project-root": tmp_path}).start()
    for token in (None, "aft_" + "0" * 48):
        assert get(server, "/health", token) == (200, '{"status":"ok"}\n')
        assert (200, {"status": "healthy"}) == (lambda status, body: (status, json.loads(body)))(*get(server, "/api/v1/health", token))
        for path in ("/metrics", "/metrics?format=json", "/api/v1/metrics", "/api/v1/stats"):
            status, body = get(server, path, token)
            assert status == 401 and "agentfense_" not in body and "workspace_sandbox_" not in body, path


def test_holders_of_a_token_learn_nothing_of_others_from_counters(make, tmp_path):
    server = make(**{"server-require-token": "true", "workspace-project-root": tmp_path}).start()
    alice, bob, boss = (server.token("create", "--owner", name, *more) for name, more in
                        (("alice", ["--root", str(tmp_path)]), ("bob", []), ("boss", ["--admin"])))
    status, body = server.http("POST", "/api/v1/sandboxes", {"scopePath": str(tmp_path), "projectRoot": str(tmp_path)}, {"Authorization": f"Bearer {alice}"})
    assert status == 201, body
    try:
        for path in ("/metrics", "/metrics?format=json"):
            assert get(server, path, bob)[0] == 403 and get(server, path, boss)[0] == 200, path
        assert 'agentfense_calls_total' in get(server, "/metrics", boss)[1]
        counted = json.loads(get(server, "/api/v1/metrics?format=json", bob)[1])
        assert counted and not any(counted.values()), counted
        assert json.loads(get(server, "/api/v1/metrics?format=json", alice)[1])["active_sandboxes"] == 1
        for path in ("/health", "/api/v1/health"):
            theirs, own, all_of_it = (json.loads(get(server, path, token)[1]) for token in (bob, alice, boss))
            assert str(tmp_path) not in json.dumps(theirs) and theirs["metrics"]["total_sandboxes"] == 0
            assert own["metrics"]["active_sandboxes"] == own["metrics"]["total_sandboxes"] == 1
            assert all_of_it["config"]["projectRoot"] == str(tmp_path) and all_of_it["metrics"]["active_sandboxes"] == 1
            assert all_of_it["metrics"]["total_disk_usage_bytes"] >= 0 and all_of_it["status"] == "healthy"
    finally:
        server.http("DELETE", f"/api/v1/sandboxes/{body['id']}", headers={"Authorization": f"Bearer {boss}"})
