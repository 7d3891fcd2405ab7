"""The files of a workspace over HTTP, as its sandbox sees them."""

import base64
import os
import urllib.parse

import pytest
from workspace import Workspace, refused

NOBODY = "00000000-0000-4000-8000-000000000000"


@pytest.fixture(scope="module")
def workspace(shared, tmp_path_factory):
    made = Workspace(shared, {"README": "read me\n", "src/a.txt": "a\n", "secret/key": "hidden\n", "locked.txt": "read only\n"},
                     rules=[{"pattern": "**", "permission": "write"}, {"pattern": "/secret/**", "permission": "none"},
                            {"pattern": "/locked.txt", "permission": "read"}])
    outside = tmp_path_factory.mktemp("outside")
    (outside / "host.txt").write_text("of the host\n")
    os.symlink(outside / "host.txt", made.project / "leak")
    os.symlink(outside, made.project / "leakdir")
    os.symlink("src", made.project / "inner")
    made.outside = outside
    yield made
    made.remove()


def q(path):
    return "?path=" + urllib.parse.quote(path, safe="")


def test_a_directory_is_listed(workspace):
    for path in ("", "?path=", "?path=/", "?path=."):
        answer = workspace.ok("GET", "/files" + path)
        assert answer["path"] == "/" and answer["total"] == len(answer["entries"])
        entries = {entry["name"]: entry for entry in answer["entries"]}
        assert {"README", "src", "leak", "inner"} <= set(entries)
    readme = entries["README"]
    assert (readme["path"], readme["isDir"], readme["size"], readme["type"]) == ("/README", False, 8, "file")
    assert readme["mode"].startswith("-rw") and readme["modTime"].endswith("Z") and len(readme["mode"]) == 10
    assert entries["src"]["isDir"] is True and entries["src"]["mode"][0] == "d"
    assert entries["leak"]["type"] == "symlink" and entries["leak"]["isDir"] is False and entries["leak"]["mode"][0] == "l"
    inner = workspace.ok("GET", "/files" + q("src"))
    assert inner["path"] == "/src" and [entry["path"] for entry in inner["entries"]] == ["/src/a.txt"]


def test_many_entries(workspace):
    workspace.sh("mkdir many && cd many && seq 3000 | xargs touch")
    answer = workspace.ok("GET", "/files" + q("/many"))
    assert answer["total"] == 3000 and {entry["name"] for entry in answer["entries"]} == {str(i) for i in range(1, 3001)}


def test_content_comes_and_goes(workspace):
    answer = workspace.ok("GET", "/files/content" + q("/README"))
    assert answer == {"path": "/README", "content": "read me\n", "encoding": "utf8", "size": 8, "isBinary": False}
    made = workspace.ok("PUT", "/files/content" + q("new/deep/file.txt"), {"content": "höre\n"}, status=201)
    assert made == {"path": "/new/deep/file.txt", "size": 6, "created": True}
    assert workspace.exec("cat", "new/deep/file.txt")["stdout"] == "höre\n"
    again = workspace.ok("PUT", "/files/content" + q("new/deep/file.txt"), {"content": "", "mode": 0o755})
    assert again == {"path": "/new/deep/file.txt", "size": 0, "created": False}
    assert workspace.ok("GET", "/files/content" + q("new/deep/file.txt"))["content"] == ""
    assert not (workspace.project / "new").exists(), "the project is as it was"


def test_bytes_survive(workspace):
    content = bytes(range(256)) * 100
    workspace.ok("PUT", "/files/content" + q("b.bin"), {"content": base64.b64encode(content).decode(), "encoding": "base64", "mode": 0o600}, status=201)
    answer = workspace.ok("GET", "/files/content" + q("b.bin"))
    assert answer["isBinary"] is True and answer["encoding"] == "base64" and base64.b64decode(answer["content"]) == content
    latin = "Größe\n".encode("latin-1")
    workspace.ok("PUT", "/files/content" + q("latin"), {"content": base64.b64encode(latin).decode(), "encoding": "base64"}, status=201)
    answer = workspace.ok("GET", "/files/content" + q("latin"))
    assert answer["isBinary"] is False and base64.b64decode(answer["content"]) == latin
    assert workspace.exec("stat", "-c", "%a", "b.bin")["stdout"] == "600\n"


def test_a_download_is_the_bytes(workspace):
    workspace.sh("head -c 30000000 /dev/urandom > big 'we\"ird\nn\u00e4me' ; head -c 30000000 /dev/urandom > big")
    answer, content = workspace.http("GET", "/files/download" + q("big"), raw=True)
    assert answer.status == 200 and answer.headers["Content-Type"] == "application/octet-stream" and len(content) == 30000000
    assert answer.headers["Content-Length"] == "30000000" and 'attachment; filename="big"' in answer.headers["Content-Disposition"]
    refused(workspace.http("GET", "/files/content" + q("big")), 400)
    workspace.sh("echo x > 'a\"b\n\u00e4'")
    answer, content = workspace.http("GET", "/files/download" + q('a"b\n\u00e4'), raw=True)
    assert (answer.status, content) == (200, b"x\n") and "filename*=UTF-8''a%22b%0A%C3%A4" in answer.headers["Content-Disposition"]


def test_deleting(workspace):
    workspace.sh("mkdir -p d/e && touch d/e/f one")
    assert workspace.ok("DELETE", "/files/content" + q("/one")) == {"path": "/one", "deleted": True}
    assert workspace.ok("DELETE", "/files/content" + q("/one")) == {"path": "/one", "deleted": False}
    status, _ = workspace.http("DELETE", "/files/content" + q("/d"))
    assert status in (400, 409), "not with what is in it"
    assert workspace.ok("DELETE", "/files/content" + q("/d") + "&recursive=true")["deleted"] is True
    assert workspace.exec("ls", "d")["exitCode"] != 0
    for path in ("/", ".", "//"):
        refused(workspace.http("DELETE", "/files/content" + q(path) + "&recursive=true"), 400)


def test_making_directories(workspace):
    assert workspace.ok("POST", "/files/mkdir", {"path": "x/y/z"}, status=201) == {"path": "/x/y/z", "created": True}
    assert workspace.exec("test", "-d", "x/y/z")["exitCode"] == 0
    workspace.ok("POST", "/files/mkdir", {"path": "x/y/z"}, status=201)
    refused(workspace.http("POST", "/files/mkdir", {}), 400)


def test_what_is_not_there(workspace):
    for path in ("/nothing", "/README/x"):
        got, _ = workspace.http("GET", "/files/content" + q(path))
        assert got in (400, 404), path
    refused(workspace.http("GET", "/files/content" + q("/nothing")), 404)
    refused(workspace.http("GET", "/files/download" + q("/nothing")), 404)
    refused(workspace.http("GET", "/files" + q("/nothing")), 404)
    refused(workspace.http("GET", "/files/content"), 400)
    refused(workspace.http("GET", "/files/content" + q("/src")), 400)


@pytest.mark.parametrize("path", ["../x", "/../etc/passwd", "src/../../etc/passwd", "src/..", "%2e%2e/x"])
def test_no_path_leaves_the_workspace(workspace, path):
    query = "?path=" + path
    refused(workspace.http("GET", "/files" + query), 400)
    refused(workspace.http("GET", "/files/content" + query), 400)
    refused(workspace.http("PUT", "/files/content" + query, {"content": "x"}), 400)
    refused(workspace.http("DELETE", "/files/content" + query), 400)


@pytest.mark.parametrize("path", ["/leak", "/leakdir/host.txt", "/inner/a.txt"])
def test_links_are_never_followed(workspace, path):
    for route in ("/files/content", "/files/download"):
        status, body = workspace.http("GET", route + q(path))
        assert status >= 400 and "of the host" not in str(body), body
    status, _ = workspace.http("GET", "/files" + q("/leakdir"))
    assert status >= 400
    workspace.http("PUT", "/files/content" + q(path), {"content": "overwritten"})
    workspace.http("PUT", "/files/content" + q("/leakdir/new"), {"content": "written"})
    workspace.http("DELETE", "/files/content" + q("/leakdir/host.txt"))
    workspace.http("POST", "/files/mkdir", {"path": "/leakdir/made"})
    assert sorted(os.listdir(workspace.outside)) == ["host.txt"] and (workspace.outside / "host.txt").read_text() == "of the host\n"


def test_the_rules_hold(workspace):
    refused(workspace.http("GET", "/files/content" + q("/secret/key")), 404)
    assert "secret" not in {entry["name"] for entry in workspace.ok("GET", "/files")["entries"]}
    assert workspace.ok("GET", "/files/content" + q("/locked.txt"))["content"] == "read only\n"
    refused(workspace.http("PUT", "/files/content" + q("/locked.txt"), {"content": "x"}), 403)


def test_if_match(workspace):
    workspace.ok("PUT", "/files/content" + q("tagged"), {"content": "1"}, status=201)
    answer, _ = workspace.http("GET", "/files/content" + q("tagged"), raw=True)
    tag = answer.headers["ETag"]
    assert workspace.http("PUT", "/files/content" + q("tagged"), {"content": "22"}, headers={"If-Match": tag})[0] == 200
    refused(workspace.http("PUT", "/files/content" + q("tagged"), {"content": "3"}, headers={"If-Match": tag}), 412)
    refused(workspace.http("DELETE", "/files/content" + q("tagged"), headers={"If-Match": tag}), 412)
    refused(workspace.http("PUT", "/files/content" + q("untagged"), {"content": "3"}, headers={"If-Match": "*"}), 412)
    assert workspace.ok("GET", "/files/content" + q("tagged"))["content"] == "22"


@pytest.mark.parametrize("body", [{}, {"content": 3}, {"content": "x", "encoding": "rot13"}, {"content": "!", "encoding": "base64"},
                                  {"content": "x", "mode": 0o1777}, {"content": "x", "mode": "0644"}, "{"])
def test_what_is_no_content(workspace, body):
    refused(workspace.http("PUT", "/files/content" + q("bad"), body), 400)


def test_a_sandbox_that_is_not_there_or_not_active(shared, server):
    for verb, path, body in (("GET", "/files", None), ("GET", "/files/content?path=x", None), ("DELETE", "/files/content?path=x", None),
                             ("PUT", "/files/content?path=x", {"content": ""}), ("POST", "/files/mkdir", {"path": "x"})):
        refused(shared.http(verb, f"/api/v1/sandboxes/{NOBODY}{path}", body), 404)
    stopped = Workspace(server)
    try:
        stopped.ok("POST", "/stop")
        refused(stopped.http("GET", "/files"), 409)
        refused(stopped.http("DELETE", "/files/content?path=x"), 409)
    finally:
        stopped.remove()
