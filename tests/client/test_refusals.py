"""What cannot be is said clearly, with the right exit code, and whom to ask is found."""

import os
import re
import socket
import subprocess

import pytest

from place import eventually

VERBS = ["codebase", "cp", "create", "start", "stop", "rm", "ls", "inspect", "exec", "session", "rules", "events", "logs", "status",
         "completion", "process", "prune", "attach", "shell"]


@pytest.mark.parametrize("words, text", [
    (["nonsense"], "unknown verb 'nonsense'; 'agentfense help' lists them\n"),
    (["rnu"], "unknown verb 'rnu'; did you mean 'run'? 'agentfense help' lists them\n"),
    (["help", "exce"], "did you mean 'exec'?"),
    (["codebase", "crate"], "unknown word 'crate'; did you mean 'create'?"),
    (["ps", "--nonsense"], "unknown option '--nonsense'"),
    (["ps", "-x"], "unknown option '-x'"),
    (["ps", "--codebase"], "option '--codebase' needs a value"),
    (["ps", "extra"], "one word too many"),
    (["ps", "--status", "odd"], "none of pending, running, stopped, error"),
    (["codebase"], "the second word must be one of create, ls, rm, put, get, files, versions, del, restore\nusage: agentfense codebase create NAME"),
    (["session"], "the second word must be one of open, exec, ls, close\nusage: agentfense session open SANDBOX"),
    (["rules"], "the second word must be one of show, add, rm, set, explain\nusage: agentfense rules show SANDBOX"),
    (["delta"], "the second word must be list, export or discard\nusage: agentfense delta list "),
    (["delta", "list"], "DELTA is missing\nusage: agentfense delta list "),
    (["policy"], "the second word must be presets, show, explain or lint\nusage: agentfense policy presets"),
    (["policy", "explain", "--preset", "agent-safe"], "explain needs a PATH; usage: agentfense policy explain RULES "),
    (["codebase", "odd"], "unknown word 'odd'"),
    (["create"], "DIR is missing; usage: agentfense create [options] DIR, or --codebase CODEBASE"),
    (["create", "--net", "odd", "cb"], "none of none, host and bridge"),
    (["process", "kill", "sb"], "give the id or the pid of the process"),
    (["create", "-m", "0", "cb"], "leaves nothing"),
    (["create", "--cpus", "x", "cb"], "not a number from 0.01"),
    (["create", "--label", "x", "cb"], "KEY=VALUE"),
    (["create", "--rule", "x", "cb"], "x"),
    (["create", "--expires", "soon", "cb"], "--expires"),
    (["exec", "sb", "other", "--", "ls"], "one word too many"),
    (["exec", "sb"], "no command"),
    (["exec", "-t", "0", "sb", "--", "ls"], "not a positive time"),
    (["cp", "a", "b"], "CODEBASE:PATH"),
    (["rules", "set", "sb"], "no rules"),
    (["events", "--since", "yesterday"], "neither a time"),
    (["codebase", "restore", "cb", "x"], "not a number"),
    (["completion", "tcsh"], "no script for 'tcsh'"),
    (["status", "--server", "ftp://x"], "neither http://..., https://... nor unix:PATH"),
])
def test_a_bad_call_is_2_and_says_why(cli, words, text):
    done = cli.run(*words, code=2)
    assert text in done.err and done.out == ""


@pytest.mark.parametrize("call, missing, usage, where", [
    ("session ls", "SANDBOX", "session ls [options] SANDBOX", "ls"),
    ("session open", "SANDBOX", "session open [options] SANDBOX", "ls"),
    ("session exec", "SESSION", "session exec [options] SESSION -- COMMAND [ARGUMENT...]", "session ls SANDBOX"),
    ("session close", "SESSION", "session close [options] SESSION...", "session ls SANDBOX"),
    ("codebase files", "CODEBASE", "codebase files [options] CODEBASE [PATH]", "codebase ls"),
    ("codebase put cb", "SRC", "codebase put [options] CODEBASE SRC [PATH]", None),
    ("codebase get cb", "DST", "codebase get [options] CODEBASE [PATH] DST", None),
    ("codebase restore cb", "VERSION", "codebase restore [options] CODEBASE VERSION [PATH]", None),
    ("codebase create", "NAME", "codebase create [options] NAME [DIR]", None),
    ("rules explain sb", "PATH", "rules explain [options] SANDBOX PATH", None),
    ("cp a", "CODEBASE:PATH", "cp [options] SRC CODEBASE:PATH", None),
    ("start", "SANDBOX", "start [options] SANDBOX...", "ls"),
    ("rm", "SANDBOX", "rm [options] SANDBOX...", "ls"),
    ("logs", "SANDBOX", "logs [options] SANDBOX", "ls"),
    ("inspect", "ID", "inspect [options] ID...", None),
    ("exec", "SANDBOX", "exec [options] SANDBOX [--] COMMAND [ARGUMENT...]", "ls"),
    ("shell", "SANDBOX", "shell [options] SANDBOX", "ls"),
    ("process kill", "SANDBOX", "process kill [options] SANDBOX PROCESS...", "ls"),
    ("reject", "SANDBOX", "reject [options] SANDBOX...", "ls"),
    ("provenance", "PATH", "provenance [options] PATH", None),
])
def test_a_call_with_too_little_names_what_is_missing_and_how_to_call_it(cli, call, missing, usage, where):
    done = cli.run(*call.split(), code=2)
    listed = f" ('agentfense {where}' lists them)" if where else ""
    verb = call if call.split()[0] in ("session", "codebase", "rules", "process") else call.split()[0]
    verb = " ".join(verb.split()[:2])
    assert done.err == f"agentfense {verb}: {missing} is missing{listed}; usage: agentfense {usage}\n"
    assert done.out == ""


@pytest.mark.parametrize("words, text", [
    (["inspect", "sb_0000000000000000"], "there is no sandbox 'sb_0000000000000000'"),
    (["inspect", "nope"], "there is neither a sandbox nor a codebase 'nope'"),
    (["start", "nope"], "there is no sandbox 'nope'; 'agentfense ls' lists them\n"),
    (["exec", "nope", "--", "ls"], "there is no sandbox 'nope'"),
    (["session", "close", "nope"], "there is no session 'nope'"),
    (["create", "nope"], "'nope' is neither a directory here nor a codebase; 'agentfense codebase ls'"),
    (["codebase", "get", "cb_0000000000000000", "x"], "codebase not found"),
    (["codebase", "put", "cb_0000000000000000", "/does/not/exist"], "No such file or directory"),
])
def test_what_is_not_there_is_125_and_said_alike(cli, words, text):
    assert text in cli.run(*words, code=125).err


def test_an_ambiguous_beginning_names_what_it_may_mean(cli, codebase):
    made = [cli.say("create", codebase) for _ in range(17)]
    digit = next(digit for digit in "0123456789abcdef" if sum(one[3] == digit for one in made) > 1)
    refusal = cli.run("stop", f"sb_{digit}", code=2).err
    assert sum(one in refusal for one in made) > 1, refusal
    cli.run("rm", *made)


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_has_a_help(cli, verb):
    done = cli.run(verb, "--help")
    assert done.out.startswith("usage: agentfense ") and done.err == ""
    assert cli.run("help", verb).out == done.out
    assert re.search(rf"^  {verb} ", cli.run("help").out, re.M)


@pytest.mark.parametrize("shell", ["bash", "zsh"])
def test_completion_offers_what_there_is(cli, codebase, shell):
    script = f'source <("$AF" completion {shell}); agentfense() {{ "$AF" "$@"; }}; _agentfense_words "$@"'
    before = "compdef() { :; }; " if shell == "zsh" else ""

    def offered(*words):
        return subprocess.run([shell, "-c", before + script, shell, *words], capture_output=True, text=True, timeout=60,
                              env=cli.environment(AF=cli.program), stdin=subprocess.DEVNULL).stdout.split()

    assert {"run", "exec", "serve", "completion"} <= set(offered("1", "", "", ""))
    assert {"--rule", "--memory", "--server"} <= set(offered("2", "create", "--", "--"))
    assert {"--exclude"} <= set(offered("3", "codebase", "put", "--"))
    assert {"create", "ls", "put", "restore"} <= set(offered("2", "codebase", "", ""))
    assert {codebase, "test"} <= set(offered("3", "create", "--codebase", "", "--codebase"))
    assert {"agent-safe", "development"} <= set(offered("3", "run", "--preset", "", "--preset"))


def test_fish_gets_a_script(cli):
    assert "complete -c agentfense" in cli.say("completion", "fish")


# ---- whom to ask ----


def test_a_server_that_is_not_there_is_said(make):
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))  # and does not listen, nor does anybody else there
        url = f"http://127.0.0.1:{sock.getsockname()[1]}"
        assert f"no server answers at {url}" in make().run("ps", "--server", url, code=125).err
    assert "no server answers at unix:/nowhere" in make().run("ps", "--server", "unix:/nowhere", code=125).err


def test_what_is_no_server_of_ours_is_said(make):
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        sock.listen()
        place = make()
        client = place.start("ps", "--server", f"http://127.0.0.1:{sock.getsockname()[1]}")
        peer = sock.accept()[0]
        peer.recv(65536)
        peer.sendall(b"HTTP/1.1 404 Not Found\r\nContent-Length: 5\r\n\r\nhello")
        errors = client.communicate(timeout=60)[1].decode()
        peer.close()
    assert client.returncode == 125 and "not an agentfense server (HTTP status 404)" in errors


def test_a_stream_that_breaks_off_is_no_success(make):
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        sock.listen()
        client = make().start("exec", "sb_0123456789abcdef", "--server", f"http://127.0.0.1:{sock.getsockname()[1]}", "--", "x")
        peer = sock.accept()[0]
        peer.recv(65536)
        peer.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"
                     b": beat\n\nevent: message\ndata: {\"type\":\"OUTPUT_TYPE_STDOUT\",\"data\":\"aGk=\"}\n\n")
        peer.close()
        out, errors = client.communicate(timeout=60)
    assert (client.returncode, out) == (125, b"hi") and b"ended before its end" in errors


def test_tokens_are_shown_and_wrong_ones_refused(make, tmp_path):
    place = make().serve("--server-require-token=true")
    assert "token" in place.run("ps", code=125).err
    token = place.token("--owner", "alice")
    assert place.run("ps", env={"AGENTFENSE_TOKEN": token}).err == ""
    (tmp_path / "token").write_text(token + "\n")
    made = place.json("codebase", "create", "hers", "--token-file", tmp_path / "token")
    assert made["ownerId"] == "alice"
    assert place.run("ls", env={"AGENTFENSE_TOKEN": "wrong"}, code=125).err.startswith("agentfense ls: ")
    (tmp_path / "token").write_text("")
    assert "is empty" in place.run("ps", "--token-file", tmp_path / "token", code=2).err


def test_the_server_that_has_our_state_is_asked(make):
    """Nobody names it: it holds the state, and answers where the configuration says."""
    place = make().serve()
    place.url = None
    told = place.json("status", env={"AGENTFENSE_SERVER_HTTP_ADDR": place.address})
    assert (told["remote"], told["server"]) == (True, f"http://{place.address}")


@pytest.mark.skipif(os.geteuid() != 0, reason="another user's server: needs root")
def test_a_stranger_at_the_usual_address_is_not_asked(make):
    """On a shared host anybody may listen there, and answer whatever they like."""
    place, uid = make(), str(2_000_000_000 + os.getpid())
    script = ("import socket, sys\ns = socket.socket()\ns.bind(('127.0.0.1', 0))\ns.listen()\nprint(s.getsockname()[1], flush=True)\n"
              "while True:\n    c = s.accept()[0]\n    print(len(c.recv(100)), flush=True)\n    c.close()\n")
    stranger = subprocess.Popen(["setpriv", "--reuid", uid, "--regid", uid, "--clear-groups", "/usr/bin/python3", "-c", script],
                                stdout=subprocess.PIPE, text=True)
    try:
        port = int(stranger.stdout.readline())
        place.serve()
        place.url = None
        assert "is in use" in place.run("ps", env={"AGENTFENSE_SERVER_HTTP_ADDR": f"127.0.0.1:{port}",
                                                   "AGENTFENSE_TOKEN": "secret"}, code=125).err
        stranger.terminate()
        assert set(stranger.communicate(timeout=60)[0].split()) <= {"0"}
    finally:
        if stranger.poll() is None:
            stranger.kill()
            stranger.communicate()


def test_a_unix_socket_does_too(make, tmp_path):
    place = make()
    place.serve(f"--server-http-addr=unix:{tmp_path}/http.sock")
    place.url = f"unix:{tmp_path}/http.sock"
    assert place.json("status")["server"] == place.url
    url, place.url = place.url, None
    assert place.json("status", env={"AGENTFENSE_SERVER_HTTP_ADDR": url})["server"] == url
    place.url = url
    place.run("codebase", "create", "by-socket")
    eventually(lambda: place.say("codebase", "ls", "-q"))


def certify(where, name):
    """A key and a certificate that vouches for itself."""
    key, cert = where / f"{name}.key", where / f"{name}.pem"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", key, "-out",
                    cert, "-days", "2", "-subj", f"/CN={name}", "-addext", "subjectAltName=IP:127.0.0.1"], check=True, capture_output=True)
    return key, cert


def test_a_server_that_asks_for_a_certificate_gets_ours(make, tmp_path):
    (key, cert), (my_key, mine), (other_key, other) = (certify(tmp_path, name) for name in ("server", "me", "other"))
    both = tmp_path / "both.pem"
    both.write_text(mine.read_text() + my_key.read_text())
    place = make().serve(f"--server-tls-cert={cert}", f"--server-tls-key={key}", f"--server-tls-client-ca={mine}")
    place.url = f"https://{place.address}"
    trust = {"AGENTFENSE_CA": str(cert)}
    assert place.json("status", "--ca", cert, "--cert", mine, "--key", my_key)["server"] == place.url
    assert place.json("status", "--ca", cert, "--cert", both)["server"] == place.url
    assert place.say("codebase", "ls", "-q", env={**trust, "AGENTFENSE_CLIENT_CERT": str(mine), "AGENTFENSE_CLIENT_KEY": str(my_key)}) == ""
    place.run("codebase", "ls", env=trust, code=125)
    place.run("codebase", "ls", "--cert", other, "--key", other_key, env=trust, code=125)
    assert "without a certificate" in place.run("codebase", "ls", "--key", my_key, env=trust, code=2).err


def test_a_certificate_is_believed_only_when_it_is_vouched_for(make, tmp_path):
    key, cert = certify(tmp_path, "test")
    place = make().serve(f"--server-tls-cert={cert}", f"--server-tls-key={key}")
    place.url = f"https://{place.address}"
    assert place.json("status", "--ca", cert)["server"] == place.url
    assert place.say("codebase", "ls", "-q", env={"AGENTFENSE_CA": str(cert)}) == ""
    assert place.url in place.run("status", code=125).err
    env = {"AGENTFENSE_SERVER_HTTP_ADDR": place.address, "AGENTFENSE_SERVER_TLS_CERT": str(cert), "AGENTFENSE_SERVER_TLS_KEY": str(key)}
    url, place.url = place.url, None
    assert place.json("status", "--ca", cert, env=env)["server"] == url
