"""tools/check-modules: the order of the modules holds in src/, and the checker sees what breaks it."""

import pathlib
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]
CHECK = ROOT / "tools" / "check-modules"


def check(src=None):
    command = [CHECK] + ([src] if src else [])
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


def check_tree(tmp_path, files):
    """Runs the checker over a src/ made of {path: text}; base/err.h is always there."""
    src = tmp_path / "src"
    for name, text in {"base/err.h": "#pragma once\n", **files}.items():
        path = src / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return check(src)


def refused(result, *words):
    assert result.returncode == 1, result.stdout + result.stderr
    lines = result.stdout.splitlines()
    assert len(lines) == 1, result.stdout
    for word in words:
        assert word in lines[0]


def test_the_sources_keep_the_order_of_the_rooms():
    result = check()
    assert (result.returncode, result.stdout) == (0, ""), result.stdout + result.stderr


def test_a_tree_in_order_passes(tmp_path):
    result = check_tree(tmp_path, {
        "policy/level.h": '#pragma once\n#include <stdbool.h>\n#include "base/err.h"\n',
        "policy/level.c": '#include "policy/level.h"\n\n#include <string.h>\n\n#include "base/err.h"\n',
    })
    assert (result.returncode, result.stdout) == (0, "")


def test_a_room_may_not_include_one_above_it(tmp_path):
    result = check_tree(tmp_path, {
        "policy/level.h": "#pragma once\n",
        "base/fd.c": '#include "policy/level.h"\n',
    })
    refused(result, "src/base/fd.c", "base may not include policy", "policy/level.h")


def test_a_room_may_not_include_a_neighbour_it_does_not_know(tmp_path):
    result = check_tree(tmp_path, {
        "policy/level.h": "#pragma once\n",
        "runtime/bwrap.c": '#include "policy/level.h"\n',
    })
    refused(result, "src/runtime/bwrap.c", "runtime may not include policy")


def test_a_directory_that_is_no_room_is_named(tmp_path):
    result = check_tree(tmp_path, {"helpers/string.c": '#include "base/err.h"\n'})
    refused(result, "src/helpers/string.c", "'helpers' is no module")


def test_a_header_of_an_unknown_room_is_named(tmp_path):
    result = check_tree(tmp_path, {"policy/rule.c": '#include "helpers/string.h"\n'})
    refused(result, "src/policy/rule.c", "helpers/string.h")


def test_an_include_without_its_room_is_named(tmp_path):
    result = check_tree(tmp_path, {"base/fd.c": '#include "err.h"\n'})
    refused(result, "src/base/fd.c", '"err.h" is not of the form "module/noun.h"')


def test_an_indented_include_is_seen_too(tmp_path):
    result = check_tree(tmp_path, {"base/fd.c": '#ifdef X\n#  include "err.h"\n#endif\n'})
    refused(result, "src/base/fd.c", '"err.h"')


def test_a_header_that_is_not_there_is_named(tmp_path):
    result = check_tree(tmp_path, {"base/fd.c": '#include "base/gone.h"\n'})
    refused(result, "src/base/fd.c", "base/gone.h does not exist")


def test_a_source_file_includes_its_own_header_first(tmp_path):
    result = check_tree(tmp_path, {
        "base/fd.h": "#pragma once\n",
        "base/fd.c": '#include "base/err.h"\n#include "base/fd.h"\n',
    })
    refused(result, "src/base/fd.c", "own header base/fd.h first")


def test_a_source_file_that_forgets_its_own_header_is_named(tmp_path):
    result = check_tree(tmp_path, {"base/fd.h": "#pragma once\n", "base/fd.c": "int x;\n"})
    refused(result, "src/base/fd.c", "own header base/fd.h first")
