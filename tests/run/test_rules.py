"""Which rules hold in a sandbox, and what is said of them."""

import pytest

from conftest import SHOP, TIMEOUT, hash_tree

pytestmark = pytest.mark.docker

SECRETS = (b"-----BEGIN", b"STRIPE", b"PASSWORD")


def shop(host, *options, script):
    return host.call("run", *options, SHOP, "--", "sh", "-c", script)


@pytest.fixture(autouse=True)
def readable(request):
    if "host" in request.fixturenames and request.getfixturevalue("host").as_user:
        path = SHOP
        while path != path.parent:
            if not path.stat().st_mode & 0o005 == 0o005:
                pytest.skip(f"{path} is closed to other users")
            path = path.parent


def test_the_shops_secrets_are_invisible(host):
    before = hash_tree(SHOP)
    result = shop(host, "-q", "--preset", "agent-safe", script="""
        find . | sort
        cat .env secrets/private.key secrets/public.key; ls secrets
        cat .env.example > /dev/null && echo ==
        echo x > .env; echo x > secrets/new; mkdir secrets; mv README.md x; ln -s .env y
        ls -a output""")
    listing, _, rest = result.out.partition(b"==\n")
    assert b"./.env\n" not in listing and b"./secrets" not in listing and b"./.env.example\n" in listing
    assert rest == b".\n..\n"
    for word in ("cat: .env: No such file or directory", "cat: secrets/private.key: No such file or directory",
                 "ls: cannot access 'secrets': No such file or directory", "cannot create .env: Permission denied"):
        assert word in result.err
    assert hash_tree(SHOP) == before


def test_agent_safe_reads_and_writes_only_output_and_tmp(host):
    result = shop(host, "--preset", "agent-safe", "--name", "box", script="""
        python3 scripts/report.py && cat output/stock.csv | head -1
        echo x >> README.md; rm Makefile; echo t > tmp/t""")
    assert b"sku,name,stock,value" in result.out, result
    assert "cannot create README.md: Permission denied" in result.err
    assert "cannot remove 'Makefile': Permission denied" in result.err
    assert "agentfense: 2 files changed (2 added, 0 modified, 0 deleted); see: agentfense diff box" in result.err
    assert not (SHOP / "output").exists()


def test_the_default_is_development(one):
    one.write(".env", "SECRET=1")
    assert one.run("-q", command="ls -A; echo x > new; rm hello.txt; ls -A").out == b"hello.txt\nnew\n"


def test_rules_alone_are_all_the_rules(one):
    one.write("a", "a")
    one.write("b", "b")
    result = one.run("-q", "--rule", "/a=read", command="ls; cat a; echo x > a; echo x > c")
    assert result.out == b"a\na", result
    assert result.err.count("Permission denied") == 2


def test_a_preset_and_rules_together(one):
    one.write("a", "a")
    one.write("keep/b", "b")
    result = one.run("-q", "--preset", "read-only", "--rule", "/keep/**=write", "--rule", "a=none",
                     command="ls; echo x > keep/new && echo wrote; echo x > new")
    assert result.out == b"hello.txt\nkeep\nwrote\n", result


def test_a_policy_file(one, tmp_path):
    policy = tmp_path / "policy.yaml"
    policy.write_text("version: 1\nextends: view-only\nrules:\n  - {pattern: /hello.txt, permission: read}\n")
    one.write("other", "x")
    result = one.run("-q", "--policy", policy, command="ls; cat hello.txt; cat other")
    assert result.out == b"hello.txt\nother\nhello\n"
    assert "cat: other: Permission denied" in result.err


@pytest.mark.parametrize("options, word", [(["--preset", "nope"], "nope"), (["--rule", "x"], "x"), (["--rule", "/a=rw"], "rw"),
                                           (["--rule", "../a=read"], "../a"), (["--policy", "/nonexistent"], "/nonexistent")])
def test_bad_rules_are_refused_before_anything_is_made(one, options, word):
    result = one.run(*options, command=["true"])
    assert result.code in (2, 125)
    assert word in result.err and result.err.count("\n") == 1, result
    assert one.names() == []


def test_rules_that_do_not_do_what_they_seem_to_are_told_of(one):
    result = one.run("--rule", "**/*=write", "--rule", "/a=read", "--rule", "/a=read", command=["true"])
    assert result.err.count("agentfense: note: ") >= 1 or "agentfense: careful: " in result.err, result
    assert result.code == 0
    assert one.run("-q", "--rule", "**/*=write", "--rule", "/a=read", "--rule", "/a=read", command=["true"]).err == ""


def test_good_rules_are_not_talked_about(one):
    assert one.run("--preset", "agent-safe", command=["true"]).err == "agentfense: no files changed\n"


def test_refusals_are_shown_on_request(host):
    host.write("secret", "s")
    host.write("locked", "l")
    options = ["--preset", "full-access", "--rule", "/secret=none", "--rule", "/locked=read", "--rule", "/seen=view"]
    host.write("seen", "v")
    script = "cat secret; echo x >> locked; cat seen; true"
    loud = host.run("-v", *options, command=script).err
    for line in ("agentfense: refused: lookup /secret (none)", "agentfense: refused: write /locked (read)",
                 "agentfense: refused: read /seen (view)"):
        assert line in loud.splitlines(), loud
    assert "refused" not in host.run(*options, command=script).err


def test_names_cannot_forge_what_is_printed(one):
    name = "x\n\x1b[31magentfense: fine"
    result = one.run("-v", "--preset", "full-access", "--rule", "x*=none", command=["cat", name])
    ours = [line for line in result.err.splitlines() if line.startswith("agentfense: ")]
    assert "\x1b" not in "".join(ours)
    assert any("refused: lookup /x\\" in line for line in ours), result


def test_a_file_made_later_obeys_the_rules(one):
    result = one.run("-q", "--preset", "full-access", "--rule", "*.key=none", command="echo x > a.key; ls; mkdir d; echo y > d/b.key")
    assert result.out == b"hello.txt\n" or b"a.key" not in result.out
    assert result.err.count("Permission denied") == 2


def test_the_project_may_change_while_a_sandbox_runs(one):
    with one.start("-q", command="echo ready; read x; cat later.txt") as run:
        assert run.stdout.readline() == b"ready\n"
        one.write("later.txt", "later\n")
        run.stdin.write(b"go\n")
        run.stdin.close()
        assert run.stdout.read() == b"later\n"
        assert run.wait(TIMEOUT) == 0


def test_refusals_of_a_commands_last_moment_are_told_as_they_are(one):
    """They reach us before or after the command's end. Freed memory is written over, so that whoever still reads it shows."""
    for _ in range(16):
        result = one.call("run", "--verbose", "--preset", "agent-safe", SHOP, "--", "sh", "-c", "echo changed >> README.md",
                          env={"MALLOC_PERTURB_": "245"})
        lines = [line for line in result.err.splitlines() if line.startswith("agentfense: refused")]
        assert lines == ["agentfense: refused: write /README.md (read)"]
