"""Real tools at work in a sandbox."""

import os
import shutil
import subprocess

import pytest


def need(program):
    """As the sandbox sees it: below /usr."""
    if not shutil.which(program, path="/usr/local/bin:/usr/bin:/bin"):
        pytest.skip(f"{program} is not installed in /usr")


def ok(result):
    assert result.code == 0, result
    return result.out.decode()


def test_git_makes_a_repository(host):
    need("git")
    out = ok(host.run("-q", command="""
        set -e
        git init -q . && git config user.name a && git config user.email a@example.org
        git add -A && git commit -qm first
        echo more >> hello.txt
        git status --short && git commit -qam second
        git log --format=%s && git fsck --full && git gc -q && git status --short"""))
    assert out == " M hello.txt\nsecond\nfirst\n"


def test_git_works_on_a_repository_that_is_there(host):
    need("git")
    env = {**os.environ, "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null"}
    if host.as_user:
        subprocess.run(["chown", "-R", "0:0", host.base], check=True)
    for words in (["init", "-q", "."], ["add", "-A"], ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "base"]):
        subprocess.run(["git", *words], cwd=host.base, env=env, check=True, timeout=60)
    if host.as_user:
        subprocess.run(["chown", "-R", f"{host.uid}:{host.uid}", host.base], check=True)
    head = (host.base / ".git" / "HEAD").read_text()
    out = ok(host.run("-q", command="""
        set -e
        git status --short; git checkout -qb work; echo x > new; git add new
        git -c user.name=a -c user.email=a@b commit -qm work; git log --format=%s; git diff --stat HEAD~1 | tail -1"""))
    assert out == "work\nbase\n 1 file changed, 1 insertion(+)\n"
    assert (host.base / ".git" / "HEAD").read_text() == head
    again = ok(host.run("--in", host.name(), "-q", command="git status --short; git log --format=%s -1"))
    assert again == "work\n"


def test_python_and_sqlite(host):
    script = """
import sqlite3
db = sqlite3.connect("data.db")
db.execute("pragma journal_mode=wal")
db.execute("create table t (n integer)")
with db:
    db.executemany("insert into t values (?)", [(n,) for n in range(1000)])
print(db.execute("select sum(n) from t").fetchone()[0], db.execute("pragma integrity_check").fetchone()[0])
"""
    assert ok(host.run("-q", command=["python3", "-c", script])) == "499500 ok\n"
    assert ok(host.run("--in", host.name(), "-q", command=["python3", "-c",
              "import sqlite3; print(sqlite3.connect('data.db').execute('select count(*) from t').fetchone()[0])"])) == "1000\n"


@pytest.mark.bwrap("a tool of the host")
def test_make_builds_only_what_is_old(one):
    need("make")
    one.write("Makefile", "out.txt: in.txt\n\tcp in.txt out.txt\n")
    one.write("in.txt", "1\n")
    out = ok(one.run("-q", command="make && make && sleep 0.1 && echo 2 > in.txt && make && cat out.txt"))
    assert out == "cp in.txt out.txt\nmake: 'out.txt' is up to date.\ncp in.txt out.txt\n2\n"


@pytest.mark.bwrap("a tool of the host")
def test_a_compiler(one):
    need("gcc")
    one.write("a.c", "#include <stdio.h>\nint main(void) { puts(\"compiled\"); }\n")
    assert ok(one.run("-q", command="gcc -o a a.c && ./a")) == "compiled\n"


@pytest.mark.bwrap("a tool of the host")
def test_pip_installs_a_package_of_the_project(one):
    if subprocess.run(["/usr/bin/python3", "-c", "import venv, ensurepip, setuptools"], capture_output=True, check=False).returncode != 0:
        pytest.skip("no venv or setuptools for /usr/bin/python3")
    one.write("pkg/setup.py", "from setuptools import setup\nsetup(name='tiny', version='1', py_modules=['tiny'])\n")
    one.write("pkg/tiny.py", "print('tiny works')\n")
    out = ok(one.run("-q", command="""
        /usr/bin/python3 -m venv --system-site-packages env &&
        env/bin/pip -q --disable-pip-version-check install --no-index --no-build-isolation ./pkg && env/bin/python -c 'import tiny'"""))
    assert out.endswith("tiny works\n")


@pytest.mark.bwrap("a tool of the host")
def test_npm_runs_a_script_and_installs_a_local_package(one):
    need("npm")
    one.write("package.json", '{"name": "app", "version": "1.0.0", "scripts": {"hi": "echo hi from npm"}}')
    one.write("dep/package.json", '{"name": "dep", "version": "1.0.0", "main": "index.js"}')
    one.write("dep/index.js", "module.exports = 'dep works';")
    out = ok(one.run("-q", command="""
        npm run -s hi && npm install --silent --offline --no-audit --no-fund ./dep && node -e "console.log(require('dep'))" """))
    assert out == "hi from npm\ndep works\n"


def test_tar_and_a_tree_of_many_files(one):
    need("tar")
    out = ok(one.run("-q", command="""
        mkdir t && for i in $(seq 300); do echo $i > t/$i; done
        tar cf t.tar t && rm -r t && tar xf t.tar && ls t | wc -l && cat t/* | sort -n | tail -1"""))
    assert out == "300\n300\n"


def test_the_shell_has_a_home_and_a_tmp(host):
    assert ok(host.run("-q", command="echo x > ~/f && cat ~/f && mktemp -d > /dev/null && id -un && ls -A ~ | wc -l")) == "x\nagent\n1\n"
    assert host.names() == []
