"""What others built on: names, arguments and their defaults, and what the types do."""

import asyncio
import copy
import inspect
import json
import pickle
import subprocess
from datetime import timedelta

import agentfense
import pytest
from agentfense import AsyncSandbox, AsyncSandboxClient, Permission, PermissionRule, ResourceLimits, Sandbox, SandboxClient
from conftest import PROGRAMS

NAMES = """
Sandbox AsyncSandbox SandboxClient AsyncSandboxClient SessionWrapper AsyncSessionWrapper
Permission PatternType SandboxStatus SessionStatus RuntimeType PermissionRule ResourceLimits SandboxInfo Codebase FileInfo
UploadResult Session ExecResult
get_preset get_preset_dicts extend_preset list_presets register_preset PRESETS PRESET_AGENT_SAFE PRESET_READ_ONLY
PRESET_FULL_ACCESS PRESET_DEVELOPMENT PRESET_VIEW_ONLY
SandboxError ConnectionError SandboxNotFoundError SandboxNotRunningError CommandTimeoutError CommandExecutionError
PermissionDeniedError ResourceLimitExceededError InvalidConfigurationError CodebaseError CodebaseNotFoundError FileNotFoundError
UploadError SessionError SessionNotFoundError SessionClosedError
walk_directory parse_ignore_file human_readable_size generate_codebase_name generate_owner_id count_files
""".split()

ARGUMENTS = {
    "Sandbox.from_local": "path preset permissions runtime image resources endpoint secure owner_id codebase_name ignore_patterns labels auto_start",
    "Sandbox.from_codebase": "codebase_id preset permissions runtime image resources endpoint secure labels auto_start",
    "Sandbox.connect": "sandbox_id endpoint secure",
    "Sandbox.run": "command timeout env workdir raise_on_error",
    "Sandbox.exec": "command stdin env workdir timeout",
    "Sandbox.exec_stream": "command stdin env workdir timeout",
    "Sandbox.session": "shell env",
    "Sandbox.destroy": "delete_codebase",
    "Sandbox.list_files": "path recursive",
    "Sandbox.write_file": "path content",
    "SandboxClient": "endpoint secure",
    "SandboxClient.create_sandbox": "codebase_id permissions labels expires_in runtime image resources",
    "SandboxClient.exec": "sandbox_id command stdin env workdir timeout",
    "SandboxClient.create_session": "sandbox_id shell env",
    "SandboxClient.session": "sandbox_id shell env",
    "SandboxClient.session_exec": "session_id command timeout",
    "SandboxClient.create_codebase": "name owner_id",
    "SandboxClient.upload_file": "codebase_id file_path content chunk_size",
    "SandboxClient.list_files": "codebase_id path recursive",
    "SandboxClient.list_codebases": "owner_id",
    "SandboxClient.list_sandboxes": "codebase_id",
    "SessionWrapper.exec": "command timeout",
    "PermissionRule": "pattern permission type priority",
    "ResourceLimits": "memory_bytes cpu_quota cpu_shares pids_limit",
    "ExecResult": "stdout stderr exit_code duration command",
    "extend_preset": "base additions overrides",
    "walk_directory": "path ignore_patterns include_default_ignores max_file_size",
}


def find(path, of=agentfense):
    for name in path.split("."):
        of = getattr(of, name)
    return of


def arguments(of):
    return [name for name in inspect.signature(of).parameters if name != "self"]


def test_all_names_are_there():
    assert len(NAMES) == 52 and set(NAMES) <= set(agentfense.__all__)
    assert len(agentfense.__all__) == len(set(agentfense.__all__))
    assert all(hasattr(agentfense, name) for name in agentfense.__all__)


@pytest.mark.parametrize("path", ARGUMENTS)
def test_arguments_have_their_names_and_places(path):
    wanted = ARGUMENTS[path].split()
    assert arguments(find(path))[: len(wanted)] == wanted


@pytest.mark.parametrize("plain, other", [(Sandbox, AsyncSandbox), (SandboxClient, AsyncSandboxClient),
                                          (agentfense.SessionWrapper, agentfense.AsyncSessionWrapper)])  # fmt: skip
def test_both_kinds_have_the_same_methods(plain, other):
    def public(of):
        return {
            name: str(inspect.signature(value)).replace("Async", "")
            for name, value in inspect.getmembers(of)
            if not name.startswith("_") and callable(value)
        }

    assert public(plain) == public(other)


def test_the_presets_are_those_of_the_program():
    for name in agentfense.list_presets():
        done = subprocess.run([PROGRAMS / "agentfense", "policy", "show", "--preset", name, "--json"], capture_output=True, check=True)
        theirs = [{key: rule[key] for key in ("pattern", "permission", "type", "priority")} for rule in json.loads(done.stdout)]
        assert agentfense.get_preset_dicts(name) == theirs


def test_presets_are_copies_and_extending_leaves_them_alone():
    before = copy.deepcopy(agentfense.PRESETS)
    agentfense.get_preset("agent-safe")[0].permission = Permission.WRITE
    rules = agentfense.extend_preset("agent-safe", [PermissionRule("/a")], [{"pattern": "/b", "priority": 7}, {"pattern": "/c", "priority": 999}])
    assert [(rule.pattern, rule.priority) for rule in rules[-3:]] == [("/a", 0), ("/b", 200), ("/c", 999)]
    assert agentfense.PRESETS == before


def test_preset_names_are_checked():
    with pytest.raises(ValueError, match="Unknown preset 'x'. Available presets: agent-safe, development"):
        agentfense.get_preset("x")
    with pytest.raises(ValueError, match="already exists"):
        agentfense.register_preset("read-only", [])


def test_paths_are_checked_before_anything_is_asked(tmp_path):
    with pytest.raises(ValueError, match="does not exist"):
        Sandbox.from_local(tmp_path / "x", endpoint="localhost:1")
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match="not a directory"):
        Sandbox.from_local(tmp_path / "file", endpoint="localhost:1")
    with pytest.raises(ValueError, match="does not exist"):
        asyncio.run(AsyncSandbox.from_local(tmp_path / "x", endpoint="localhost:1"))


def test_no_server_is_a_connection_error(tmp_path):
    with pytest.raises(agentfense.ConnectionError) as caught:
        SandboxClient("localhost:1").list_codebases()
    assert caught.value.endpoint == "localhost:1" and isinstance(caught.value, ConnectionError)
    with pytest.raises(agentfense.ConnectionError):
        Sandbox.from_local(tmp_path, endpoint="localhost:1")


@pytest.mark.parametrize("error", [
    agentfense.SandboxError("a", "b", (5, "not found")), agentfense.ConnectionError("x"), agentfense.CommandTimeoutError("sleep", 3),
    agentfense.CommandDeniedError("c", 1, "out", "err"), agentfense.CommandLimitError("c", 137, "", "", "memory", "1"),
    agentfense.FileNotFoundError("f", "cb"), agentfense.SandboxStartTimeoutError("sb", 2),
])  # fmt: skip
def test_exceptions_can_be_pickled(error):
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error) and str(again) == str(error) and again.__dict__ == error.__dict__


def test_texts_of_exceptions():
    assert str(agentfense.SandboxError("Failed.", "because")) == "Failed. Details: because"
    denied = agentfense.CommandDeniedError("touch x", 1, "", "touch: Permission denied\n")
    assert str(denied) == "Command failed with exit code 1: touch x Details: touch: Permission denied"
    assert isinstance(denied, agentfense.PermissionDeniedError) and isinstance(denied, PermissionError)


def test_rules_and_limits_as_dicts():
    assert PermissionRule.from_dict({"pattern": "/x", "priority": "5"}) == PermissionRule("/x", priority=5)
    with pytest.raises(ValueError, match="permision"):
        PermissionRule.from_dict({"pattern": "/x", "permision": "none"})
    limits = ResourceLimits(memory_bytes=1, pids_limit=2)
    assert limits.to_dict() == {"memory_bytes": 1, "pids_limit": 2} and ResourceLimits.from_dict(limits.to_dict()) == limits


def test_utilities(tree):
    top = tree({"a.py": "x", "b/c.txt": "yy", "b/d.pyc": "", ".gitignore": "# no\nb/\n"})
    assert dict(agentfense.walk_directory(top)) == {"a.py": b"x", ".gitignore": b"# no\nb/\n"}
    assert dict(agentfense.walk_directory(top, max_file_size=1)) == {"a.py": b"x"}
    assert agentfense.parse_ignore_file(top / ".gitignore") == ["b/"] and agentfense.parse_ignore_file(top / "none") == []
    assert agentfense.count_files(top) == 2
    assert agentfense.human_readable_size(1536) == "1.5 KB"
    assert agentfense.generate_codebase_name("/x/ä b") == "b" and agentfense.generate_codebase_name("/") == "unnamed-project"
    assert agentfense.generate_owner_id().startswith("user_") and len(agentfense.generate_owner_id()) == 13


def test_where_the_server_is(monkeypatch):
    monkeypatch.delenv("AGENTFENSE_ENDPOINT", raising=False)
    assert SandboxClient().endpoint == "localhost:9000"
    monkeypatch.setenv("AGENTFENSE_ENDPOINT", "unix:/run/x.sock")
    assert SandboxClient().endpoint == "unix:/run/x.sock"
    assert SandboxClient("elsewhere:1").endpoint == "elsewhere:1"
    monkeypatch.setenv("AGENTFENSE_TOKEN", "secret")
    with pytest.warns(UserWarning, match="without encryption"):
        SandboxClient("elsewhere:1")
    with pytest.raises(agentfense.InvalidConfigurationError):
        SandboxClient("elsewhere:1", ca_cert="/nonexistent")


def test_a_proxy_is_not_asked_for_this_host(server, monkeypatch):
    for name in ("http_proxy", "https_proxy", "grpc_proxy"):
        monkeypatch.setenv(name, "http://localhost:1")
    monkeypatch.delenv("no_proxy", raising=False)
    assert SandboxClient(server.endpoint).list_codebases() is not None


def test_durations_may_be_numbers():
    from agentfense._convert import to_duration

    assert to_duration(1.5) == to_duration(timedelta(seconds=1.5))
    assert (to_duration(1.5).seconds, to_duration(1.5).nanos) == (1, 500000000) and to_duration(0) is None
    with pytest.raises(agentfense.InvalidConfigurationError):
        to_duration(-1)
