"""The examples that users were given, as they were written: tests/snippets/DOCUMENT-NUMBER, run statement by statement.

Around them are only the projects that they name, and variables that the text before them introduces. Each does what its text
says. What its own preset or the closed network forbids is refused cleanly, and done once more where it is allowed.
"""

import ast
import pathlib
import re
import textwrap

import agentfense
import pytest
from agentfense import Sandbox, SandboxClient
from conftest import PROJECT, needs_default_endpoint

SNIPPETS = pathlib.Path(__file__).parent / "snippets"

pytestmark = pytest.mark.usefixtures("server")


class Played:
    """What a snippet left: its variables, each value they had, values of expressions, commands with their results."""

    def __init__(self, space):
        self.space, self.history, self.values, self.results = space, {}, [], []

    def __getitem__(self, name):
        return self.space[name]

    def result_of(self, part):
        return next(result for command, result in self.results if part in command)


@pytest.fixture
def play(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)

    def run(name, replace=(), **space):
        played = Played(space)
        for owner, method in (
            (agentfense.Sandbox, "run"),
            (agentfense.SessionWrapper, "exec"),
            (agentfense.SandboxClient, "exec"),
            (agentfense.SandboxClient, "session_exec"),
        ):
            record(monkeypatch, played, owner, method)
        text = (SNIPPETS / name).read_text(encoding="utf-8")
        for old, new in replace:
            assert old in text
            text = text.replace(old, new)
        for statement in ast.parse(text, name).body:
            perform(statement, played)
        return played

    return run


def record(monkeypatch, played, owner, method):
    plain = getattr(owner, method)

    def recorded(self, *args, **named):
        result = plain(self, *args, **named)
        played.results.append((result.command, result))
        return result

    monkeypatch.setattr(owner, method, recorded)


def perform(statement, played):
    if isinstance(statement, ast.Expr):
        played.values.append(eval(compile(ast.Expression(statement.value), "snippet", "eval"), played.space))
        return
    exec(compile(ast.Module([statement], []), "snippet", "exec"), played.space)
    for target in getattr(statement, "targets", ()):
        played.history.setdefault(target.id, []).append(played.space[target.id])


@pytest.fixture
def sandbox(project):
    with Sandbox.from_local(project, preset="full-access") as sandbox:
        yield sandbox


def levels(project, rules, *paths):
    with Sandbox.from_local(project, permissions=rules) as sandbox:
        return [sandbox.explain(path).permission.value for path in paths]


# ---- 000: architecture


def test_000_01_a_search_in_one_line(play, tree):
    tree(PROJECT, "repo")
    played = play("000-01.py")
    assert played["result"].stdout == "print('hello')  # TODO: more\n"


def test_000_02_a_session_keeps_directory_and_variables(play, sandbox):
    played = play("000-02.py", sandbox=sandbox)
    assert played.result_of("pwd").stdout == "/workspace/src\n"
    assert played["result"].stdout == "value\n"


def test_000_03_the_file_rule_is_the_exception(play, project):
    rules = play("000-03.py")["rules"]
    assert levels(project, rules, "/secrets/public.key", "/secrets/private.key", "/app.py") == ["read", "none", "read"]


def test_000_04_the_way_of_a_command(play, tree):
    tree(PROJECT, "repo")
    assert play("000-04.py")["result"].stdout == "print('main')\n"
    with Sandbox.from_local(
        "./repo", permissions=[{"pattern": "**/*", "permission": "read"}, {"pattern": "/secrets/**", "permission": "none"}]
    ) as sandbox:
        result = sandbox.run("cat /workspace/secrets/.env")
        assert (result.exit_code, result.stderr) == (1, "cat: /workspace/secrets/.env: No such file or directory\n")


def test_000_05_view_lists_and_does_not_read(play, tree):
    rule = play("000-05.py").values[0]
    project = tree({"configs/api.yaml": "a", "configs/db.yaml": "b"})
    with Sandbox.from_local(project, permissions=[rule]) as sandbox:
        assert sandbox.run("ls /workspace/configs").stdout == "api.yaml\ndb.yaml\n"
        assert "Permission denied" in sandbox.run("cat /workspace/configs/api.yaml").stderr


# ---- 001: concepts


@needs_default_endpoint
def test_001_01_a_codebase_by_hand(play, capsys):
    played = play("001-01.py")
    assert capsys.readouterr().out == "app.py (13 bytes)\nconfig.yaml (12 bytes)\nprint('v1.0')\n"
    with pytest.raises(agentfense.CodebaseNotFoundError):
        played["client"].get_codebase(played["codebase"].id)


def test_001_02_the_codebase_is_made_and_deleted(play, tree, client):
    tree(PROJECT, "my-project")
    before = {codebase.id for codebase in client.list_codebases()}
    played = play("001-02.py")
    assert played["result"].stdout.split() == ["README.md", "app.py", "config.yaml", "docs", "metadata", "output", "src", "tmp"]
    assert {codebase.id for codebase in client.list_codebases()} == before


def test_001_03_limits_in_docker(play, tree, client):
    """Where no Docker is, it is refused and nothing is left; the same limits hold with the runtime that is there."""
    tree({"heavy_task.py": "print('heavy')\n"})
    before = client.list_sandboxes()
    try:
        assert play("001-03.py")["result"].stdout == "heavy\n"
    except agentfense.SandboxStartError as error:
        assert error.reason == "START_FAILED"
    assert client.list_sandboxes() == before
    try:
        played = play("001-03.py", replace=[("RuntimeType.DOCKER", "RuntimeType.BWRAP")])
    except agentfense.SandboxStartError as error:
        pytest.skip(f"this host has no limits: {error.details}")
    assert played["result"].stdout == "heavy\n"


def test_001_04_the_life_of_a_sandbox(play, client, capsys):
    with pytest.raises(agentfense.CodebaseNotFoundError) as caught:
        play("001-04.py")
    assert caught.value.codebase_id == "cb_xxx"
    codebase = client.create_codebase("x", "me")
    client.upload_file(codebase.id, "a.txt", "a")
    played = play("001-04.py", replace=[("cb_xxx", codebase.id)])
    assert capsys.readouterr().out == "a.txt\n\n"
    with pytest.raises(agentfense.SandboxNotFoundError):
        client.get_sandbox(played["sandbox"].id)
    client.delete_codebase(codebase.id)


def test_001_05_which_rule_wins(play, project):
    rules = play("001-05.py")["permissions"]
    assert levels(project, rules, "/secrets/private.key", "/secrets/public.key", "/app/main.py") == ["none", "read", "read"]


def test_001_06_rules_for_a_project(play, project):
    played = play("001-06.py")
    assert played.result_of("README").stdout == "# Project\n"
    assert played.result_of("echo result").success
    assert played.result_of("ls").stdout == "public.key\n"
    assert played.result_of("cat /workspace/secrets").stdout == "tell everybody\n"


def test_001_07_without_a_session_nothing_is_kept(play, sandbox):
    assert play("001-07.py", sandbox=sandbox).values[1].stdout == "/workspace\n"


def test_001_08_with_a_session_it_is(play, sandbox, capsys):
    play("001-08.py", sandbox=sandbox)
    assert capsys.readouterr().out == "/workspace/src\n\n"


WHEEL = "vendor/tinydep-1.0-py3-none-any.whl"


def python_app(tree):
    """A project with a virtual environment, as `python3 -m venv` makes it in /workspace, and a dependency that needs no network."""
    import zipfile

    app = tree(
        {
            ".agentfenseignore": "!venv/\n",
            "requirements.txt": "--no-index\n--find-links vendor\ntinydep==1.0\n",
            "tests/test_app.py": "import os\n\ndef test_debug():\n    assert os.environ['DEBUG'] == '1'\n"
            "    assert os.environ['VIRTUAL_ENV'] == '/workspace/venv'\n",
            "venv/pyvenv.cfg": "home = /usr/bin\ninclude-system-site-packages = true\nversion = 3.11\n",
            "venv/bin/activate": 'export VIRTUAL_ENV=/workspace/venv\nexport PATH="$VIRTUAL_ENV/bin:$PATH"\n',
            "vendor": None,
        },
        "python-app",
    )
    for name in ("python", "python3"):
        (app / "venv/bin" / name).symlink_to("/usr/bin/python3")
    (app / "venv/bin/pip").write_text('#!/bin/sh\nPIP_USER=0 exec /workspace/venv/bin/python -m pip --no-cache-dir "$@"\n')
    (app / "venv/bin/pytest").write_text('#!/bin/sh\nexec /workspace/venv/bin/python -m pytest -p no:cacheprovider "$@"\n')
    for name in ("pip", "pytest"):
        (app / "venv/bin" / name).chmod(0o755)
    with zipfile.ZipFile(app / WHEEL, "w") as wheel:
        wheel.writestr("tinydep.py", "")
        wheel.writestr("tinydep-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: tinydep\nVersion: 1.0\n")
        wheel.writestr("tinydep-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr("tinydep-1.0.dist-info/RECORD", "")
    return app


def test_001_09_a_workflow_of_many_steps(play, tree, capsys):
    """The default preset lets nobody install into the project, so pip is refused and all else is done; with a preset for
    development pip is as well."""
    python_app(tree)
    played = play("001-09.py")
    assert played.result_of("source").success
    assert not played.result_of("pip install").success
    assert "Permission denied" in played.result_of("pip install").output
    assert "1 passed" in played["result"].stdout

    played = play("001-09.py", replace=[('"./python-app"', '"./python-app", preset="development"')])
    assert "Successfully installed tinydep-1.0" in played.result_of("pip install").stdout, played.result_of("pip install").output
    assert "1 passed" in played["result"].stdout


def test_001_10_sessions_by_hand(play, sandbox):
    played = play("001-10.py", sandbox=sandbox, SandboxClient=SandboxClient)
    assert "README.md" in played["result"].stdout
    with pytest.raises(agentfense.SessionNotFoundError):
        played["client"].get_session(played["session"].id)


def test_001_11_a_preset_by_name(play, project):
    assert play("001-11.py")["result"].stdout.split() == [
        "README.md", "app.py", "config.yaml", "docs", "metadata", "output", "src", "tmp"
    ]  # fmt: skip


def test_001_12_a_preset_and_more(play, project):
    played = play("001-12.py", Sandbox=Sandbox)
    assert played["result"].success
    assert levels(project, played["rules"], "/logs/x", "/.git/config", "/.env", "/app.py") == ["write", "read", "none", "read"]


def test_001_13_a_preset_of_ones_own(play, tree, monkeypatch):
    monkeypatch.setattr(agentfense.presets, "PRESETS", dict(agentfense.PRESETS))
    tree({"package.json": '{"name": "app", "scripts": {"build": "echo made > build/made.txt && cat build/made.txt"}}'}, "app")
    played = play("001-13.py", Sandbox=Sandbox)
    result = played.result_of("npm run build")
    if "npm: not found" in result.stderr:
        pytest.skip("no npm in /usr")
    assert result.stdout.endswith("made\n"), result.output


def test_001_14_the_last_writer_wins(play, project):
    """The default preset refuses to write there; where it is allowed each `from_local` has a codebase of its own."""
    played = play("001-14.py")
    assert [result.exit_code for _, result in played.results] == [2, 2]
    assert all("Permission denied" in result.stderr for _, result in played.results)

    played = play("001-14.py", replace=[('"./project"', '"./project", preset="full-access"')])
    assert [result.exit_code for _, result in played.results] == [0, 0]
    with Sandbox.from_local(project, preset="full-access") as first:
        with Sandbox.from_codebase(first.codebase_id, preset="full-access") as second:
            first.run("echo A > /workspace/output.txt")
            second.run("echo B > /workspace/output.txt")
        assert first.read_file("output.txt") == "B\n"


def test_001_15_nothing_is_written(play, project):
    played = play("001-15.py", Sandbox=Sandbox)
    assert played["sandbox"].info.permissions == agentfense.get_preset("read-only")


# ---- 002: security. (The first block there is what others do, not ours.)


def test_002_02_a_program_needs_no_checks(play, project):
    code = (SNIPPETS / "002-02.py").read_text(encoding="utf-8")
    with Sandbox.from_local(project) as sandbox:
        for path, error in (("secrets/private.key", "FileNotFoundError"), ("app.py", None)):
            result = sandbox.exec("python3 -", stdin=f"path = {path!r}\n{code}")
            assert error in result.stderr if error else result.success


def transcript(name):
    """Rules, and pairs of a command and what it is said to put out."""
    text = (SNIPPETS / name).read_text(encoding="utf-8")
    rules, _, rest = text.partition("\n# Agent")
    space = {}
    exec(rules, space)
    pairs = re.findall(r"^\$ (.*)\n# Output: (.*)$", rest, re.M)
    assert pairs
    return space["permissions"], pairs


@pytest.mark.parametrize("name", ["002-03.txt", "002-04.txt", "002-05.txt", "002-06.txt"])
def test_002_each_level_as_shown(project, name):
    rules, pairs = transcript(name)
    (project / ".env.production").write_text("TOKEN=tell-nobody")
    with Sandbox.from_local(project, permissions=rules) as sandbox:
        with sandbox.session() as session:
            for command, said in pairs:
                result = session.exec(command)
                error = said.rpartition(": ")[2] if "No such file" in said or "denied" in said else None
                if error:
                    assert error in result.stderr and not result.success, command
                elif said.startswith("(nothing") or said.startswith("(no .env"):
                    assert ".env" not in result.stdout and "exists" not in result.stdout, command
                else:
                    assert result.success, (command, result.stderr)
                for word in re.findall(r"\w+\.(?:json|yaml)(?= \()", said):
                    assert word in result.stdout


def test_002_07_no_ambiguity(play, project):
    rules = play("002-07.py")["rules"]
    assert levels(project, rules, "/app/main.py", "/secrets/private.key", "/secrets/public.key") == ["read", "none", "read"]


def test_002_08_deny_first(play, project):
    good, bad = play("002-08.py").history["permissions"]
    paths = ("/README.md", "/src/main.py", "/output/x")
    assert levels(project, good, *paths) == ["none", "read", "write"]
    assert levels(project, bad, *paths) == ["write"] * 3


def test_002_09_secrets_first(play, project):
    rules = play("002-09.py")["permissions"]
    assert levels(project, rules, "/.env.local", "/secrets/public.key", "/deep/a.key", "/a.pem", "/app.py") == ["none"] * 4 + ["read"]


def test_002_10_a_preset_as_a_start(play, project):
    assert levels(project, play("002-10.py")["rules"], "/logs/x", "/secrets/private.key") == ["write", "none"]


def test_002_11_limits(play, project):
    try:
        played = play("002-11.py")
    except agentfense.SandboxStartError as error:
        pytest.skip(f"this host has no limits: {error.details}")
    assert played.results[0][1].exit_code == 127


def test_002_12_git_is_hidden(play, client):
    problem, solution = play("002-12.py").history["permissions"]
    codebase = client.create_codebase("git", "me")
    client.upload_file(codebase.id, ".git/config", "url = https://user:password@host")
    for rules, visible in ((problem, True), (solution, False)):
        with Sandbox.from_codebase(codebase.id, permissions=rules) as sandbox:
            assert sandbox.run("cat .git/config").success is visible
            assert (".git" in sandbox.run("ls -A").stdout) is visible
    client.delete_codebase(codebase.id)


def test_002_13_a_typo_hides_nothing(play, project):
    (wrong,), (right,) = play("002-13.py").values
    everything = {"pattern": "**/*", "permission": "read"}
    assert levels(project, [everything, wrong], "/secrets/private.key") == ["read"]
    assert levels(project, [everything, right], "/secrets/private.key") == ["none"]
    with Sandbox.from_local(project, permissions=[everything, wrong]) as sandbox:
        assert sandbox.run("cat secrets/private.key").success


def test_002_14_write_only_where_it_is_meant(play, project):
    everything, output, tmp = play("002-14.py").values
    assert levels(project, [everything], "/app.py") == ["write"]
    assert levels(project, [output, tmp], "/app.py", "/output/x", "/tmp/x") == ["none", "write", "write"]


# ---- 004: the first design, under the package's first name


@needs_default_endpoint
def test_004_01_the_first_example(play, client, capsys):
    with pytest.raises(agentfense.CodebaseNotFoundError):
        play("004-01.py")
    codebase = client.create_codebase("x", "me")
    for path in ("docs/a.md", "src/b.py", "c.txt"):
        client.upload_file(codebase.id, path, path)
    sandbox_id = play("004-01.py", replace=[("cb_123", codebase.id)])["sandbox"].id
    listing = capsys.readouterr().out
    assert "docs" in listing and "src" in listing and "c.txt" not in listing
    assert client.exec(sandbox_id, "echo x >> docs/a.md && cat src/b.py && ! echo x >> src/b.py").success
    client.destroy_sandbox(sandbox_id)
    client.delete_codebase(codebase.id)


def test_the_picture_shows_what_runs(project, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "repo").symlink_to(project)
    space = {"Sandbox": Sandbox}
    exec(textwrap.dedent('''
        with Sandbox.from_local("./repo") as sb:
            found = sb.run("grep TODO *.py")
    '''), space)  # fmt: skip
    assert "TODO" in space["found"].stdout
