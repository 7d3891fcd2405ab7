"""`agentfense policy` as a person or a script uses it."""

import json
import os
import pathlib
import subprocess

import pytest

DOCS = ["--rule", "**/*=read", "--rule", "/secrets/**=none", "--rule", "/secrets/public.key=read"]


def ok(result):
    assert result.returncode == 0, result.stderr.decode()
    assert result.stderr == b""
    return result.stdout.decode()


def refused(result, *words, code=2):
    """One line on standard error, nothing on standard output."""
    text = result.stderr.decode()
    assert result.returncode == code, text
    assert result.stdout == b""
    assert text.count("\n") <= 2
    for word in words:
        assert word in text


def test_the_help_names_every_subcommand_and_option(run):
    text = ok(run("policy", "--help"))
    for word in ["presets", "show", "explain", "lint", "--preset", "--policy", "--rule", "--dir", "--tree", "--json"]:
        assert word in text
    assert "policy" in ok(run("--help"))
    assert ok(run("--version")).startswith("agentfense ")


def test_presets_are_the_five_by_name(run):
    names = ["agent-safe", "development", "full-access", "read-only", "view-only"]
    assert [line.split()[0] for line in ok(run("policy", "presets")).splitlines()] == names
    assert [preset["name"] for preset in json.loads(ok(run("policy", "presets", "--json")))] == names


PRESET_PATHS = [line.split(" ", 1) for line in (pathlib.Path(__file__).parent / "preset_paths.txt").read_text().splitlines()
                if line and not line.startswith("#")]


@pytest.mark.parametrize("preset", ["agent-safe", "development"])
def test_presets_hide_secrets_and_nothing_else(run, preset):
    """By names that tools and scanners know, and by those of real packages; below another directory too, and where agents may write."""
    for at in ("/", "/a/b/", "/output/", "/tmp/x/"):
        told = json.loads(ok(run("policy", "explain", "--preset", preset, "--json", *(at + path for _, path in PRESET_PATHS))))
        levels = {"hide": set(), "show": set(), "code": set()}
        for (kind, path), explained in zip(PRESET_PATHS, told, strict=True):
            if (explained["level"] == "none") != (kind == "hide") and (kind != "code" or preset == "development"):
                levels[kind].add(path)
        assert not levels["hide"], "secrets that are shown"
        assert not levels["show"] and not levels["code"], "hidden, and no secrets"


def test_what_no_secret_is_can_be_written_where_the_rest_can(run):
    names = [path for kind, path in PRESET_PATHS if kind == "show"]
    for preset, at in (("development", "/"), ("agent-safe", "/output/"), ("agent-safe", "/tmp/")):
        told = json.loads(ok(run("policy", "explain", "--preset", preset, "--json", *(at + name for name in names))))
        assert {explained["level"] for explained in told} == {"write"}, [x["path"] for x in told if x["level"] != "write"]


def test_explain_names_the_rule_and_what_it_beat(run):
    text = ok(run("policy", "explain", *DOCS, "/secrets/private.key", "/secrets/public.key"))
    assert "/secrets/private.key: none\n  hidden by rule 2 /secrets/** = none" in text
    assert "/secrets/public.key: read\n  by rule 3 /secrets/public.key = read" in text
    assert "not rule 1 **/* = read: lower kind: glob against file" in text


def test_explain_as_json(run):
    private, public = json.loads(ok(run("policy", "explain", *DOCS, "--json", "/secrets/private.key", "secrets/public.key")))
    assert (private["level"], private["cause"], private["rule"]["number"]) == ("none", "hidden", 2)
    assert (public["path"], public["level"], public["rule"]["pattern"]) == ("/secrets/public.key", "read", "/secrets/public.key")
    assert {other["number"] for other in public["others"]} == {1, 2}
    assert all(other["reason"] for other in public["others"])


def test_paths_may_be_named_as_the_sandbox_shows_them(run, tmp_path):
    args = ["policy", "explain", "--rule", "/src/**=read", "--json", "/workspace/src/a"]
    assert json.loads(ok(run(*args)))[0]["path"] == "/src/a"
    (tmp_path / "workspace").mkdir()
    assert json.loads(ok(run(*args, "--dir", str(tmp_path))))[0]["path"] == "/workspace/src/a"


def test_show_prints_the_rules_in_force_in_order(run, tmp_path):
    policy = tmp_path / "p.yaml"
    policy.write_text("version: 1\nextends: read-only\nrules:\n  - {pattern: /out/, permission: write, priority: 5}\n")
    rules = json.loads(ok(run("policy", "show", "--rule", "/x=none", "--policy", str(policy), "--preset", "view-only", "--json")))
    assert [(r["pattern"], r["permission"], r["priority"], r.get("preset")) for r in rules] == [
        ("**/*", "view", 0, "view-only"),
        ("**/*", "read", 0, "read-only"),
        ("/out/", "write", 5, None),
        ("/x", "none", 0, None),
    ]


def tree(run, directory, *args):
    entries = json.loads(ok(run("policy", "show", "--tree", "--dir", str(directory), "--json", *args)))
    return {entry["path"]: entry["level"] for entry in entries}


def test_the_tree_of_the_example_project_hides_its_secrets(run, shop):
    levels = tree(run, shop, "--preset", "agent-safe")
    assert levels["/src/shop/cart.py"] == "read"
    assert levels["/.env"] == "none"
    assert levels["/.env.example"] == "read"
    assert levels["/secrets"] == "none"
    assert levels["/output"] == "write"
    assert "/secrets/private.key" not in levels


def test_a_hidden_directory_with_something_visible_is_a_passage(run, tmp_path):
    (tmp_path / "secrets" / "deep").mkdir(parents=True)
    (tmp_path / "secrets" / "public.key").touch()
    (tmp_path / "secrets" / "private.key").touch()
    levels = tree(run, tmp_path, *DOCS)
    assert levels["/secrets"] == "passage"
    assert levels["/secrets/public.key"] == "read"
    assert levels["/secrets/private.key"] == "none"
    assert levels["/secrets/deep"] == "none"
    text = ok(run("policy", "explain", *DOCS, "--dir", str(tmp_path), "/secrets"))
    assert "as a passage" in text
    (tmp_path / "secrets" / "public.key").unlink()
    assert tree(run, tmp_path, *DOCS)["/secrets"] == "none"


def test_lint_fails_when_something_hidden_is_shown(run):
    result = run("policy", "lint", "--rule", "**/*.key=none", "--rule", "**/*=read@10")
    assert result.returncode == 1
    assert b"error: rule 1 '**/*.key' = none hides nothing" in result.stdout
    result = run("policy", "lint", "--rule", "**/*.key=none", "--rule", "**/*=read@10", "--json")
    assert result.returncode == 1
    finding = json.loads(result.stdout)[0]
    assert (finding["severity"], finding["code"], finding["rule"]["number"]) == ("error", "none-beaten", 1)


def test_lint_passes_with_warnings_and_finds_typos_in_the_codebase(run, shop):
    text = ok(run("policy", "lint", "--preset", "development", "--rule", "/secret/**=none@200", "--dir", shop))
    assert "rule" in text and "'/secret/**' = none @200 matches nothing that exists" in text
    assert ok(run("policy", "lint", *DOCS)) == "no findings\n"


def test_lint_looks_into_hidden_directories_for_matches(run, shop):
    text = ok(run("policy", "lint", "--rule", "/src/**=read", "--rule", "/secrets/private.key=none", "--dir", shop))
    assert "matches nothing" not in text


@pytest.mark.parametrize(
    "args, words",
    [
        (["explain", "/x"], ["no rules", "--preset"]),
        (["explain", "--rule", "/x=read"], ["explain needs a PATH"]),
        (["explain", "--rule", "/x=raed", "/x"], ["rule 1 '/x=raed'", "unknown level 'raed'"]),
        (["explain", "--rule", "a/../b=read", "/x"], ["rule 1 'a/../b'", "'..' is not allowed"]),
        (["explain", "--rule", "/x=read", "../x"], ["'../x'", "leaves the workspace"]),
        (["lint", "--preset", "nope"], ["unknown preset 'nope'", "agent-safe"]),
        (["show", "--rule", "/[x=read"], ["rule 1 '/[x'", "unclosed character class"]),
        (["show", "--rule", "/x=read@4294967296"], ["priority '4294967296'"]),
        (["show", "--rule", "/x=read", "--tree"], ["--tree needs --dir"]),
        (["show", "--rule", "/x=read", "surplus"], ["unexpected argument 'surplus'"]),
        (["frobnicate"], ["unknown subcommand 'frobnicate'"]),
        (["show", "--frobnicate"], ["agentfense policy: unrecognized option"]),
    ],
)
def test_bad_input_is_refused_in_one_line(run, args, words):
    refused(run("policy", *args), *words)


def test_a_missing_directory_or_file_is_named(run, tmp_path):
    missing = str(tmp_path / "missing")
    refused(run("policy", "lint", "--preset", "read-only", "--dir", missing), missing, "No such file", code=125)
    result = run("policy", "lint", "--policy", missing)
    assert result.returncode in (2, 125) and missing in result.stderr.decode()


def test_more_than_ten_thousand_rules_are_refused(run, tmp_path):
    policy = tmp_path / "many.json"
    policy.write_text(json.dumps([{"pattern": f"/d{i}/**", "permission": "read"} for i in range(10001)]))
    refused(run("policy", "show", "--policy", str(policy)), "10000")


def test_names_cannot_speak_to_the_terminal(run, tmp_path):
    os.mkdir(bytes(tmp_path) + b"/evil\x1b[31m\n\xff")
    out = run("policy", "show", "--tree", "--dir", str(tmp_path), "--rule", "**/*=read").stdout
    assert b"\x1b" not in out and b"\\x1b[31m\\n\\xff" in out
    assert len(tree(run, tmp_path, "--rule", "**/*=read")) == 1
    assert b"\x1b" not in run("policy", "explain", "--rule", "/\x1b[31m=read", "/\x1b[31m").stdout


def test_output_that_cannot_be_written_is_a_failure(run):
    program = pathlib.Path(run("--version").args[0])
    with open("/dev/full", "wb") as full:
        result = subprocess.run([program, "policy", "presets"], stdout=full, stderr=subprocess.PIPE, check=False, timeout=60)
    assert result.returncode == 125
    assert b"writing output" in result.stderr


def test_a_policy_may_come_from_standard_input(run):
    result = run("policy", "explain", "--policy", "-", "--json", "/x", input=b"version: 1\nrules: [{pattern: /x, permission: view}]\n")
    assert json.loads(ok(result))[0]["level"] == "view"
