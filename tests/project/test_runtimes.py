"""The table of runtimes (src/wire/runtime_type.h) is the only place that knows them by name or number, and agrees with the API."""

import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[2]
TABLE = ROOT / "src" / "wire" / "runtime_type.h"

# The program of that name, which is no runtime.
PROGRAMS = {
    "src/runtime/bwrap_args.c": {"bwrap"},
    "src/server/setting.c": {"bwrap"},
}


def rows():
    found = re.findall(r"ROW\((\w+), (\d+), [^)]*\)", TABLE.read_text(encoding="utf-8"))
    assert len(found) >= 3
    return {name: int(number) for name, number in found}


def strings(text):
    """String literals of C without comments."""
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.S)
    return {m[1] for m in re.finditer(r'"((?:[^"\\\n]|\\.)*)"', text)}


def test_no_other_file_names_a_runtime():
    names = set(rows())
    for path in sorted((ROOT / "src").rglob("*.[ch]")):
        name = str(path.relative_to(ROOT))
        assert strings(path.read_text(encoding="utf-8")) & names <= PROGRAMS.get(name, set()), name


def test_no_other_file_has_a_runtime_by_its_number():
    for path in sorted((ROOT / "src").rglob("*.[ch]")):
        found = re.findall(r"\bRUNTIME_TYPE_(?:%s)\b" % "|".join(rows()).upper(), path.read_text(encoding="utf-8"))
        assert not found, path


def test_the_numbers_are_those_of_the_api():
    proto = (ROOT / "proto" / "sandbox" / "v1" / "sandbox.proto").read_text(encoding="utf-8")
    of_api = {name.lower(): int(number) for name, number in re.findall(r"RUNTIME_TYPE_(\w+) = (\d+);", proto)}
    del of_api["unspecified"]
    assert {name: number for name, number in rows().items() if name in of_api} == of_api
    assert not {number for name, number in rows().items() if name not in of_api} & set(of_api.values())
