"""Archives made to be unpacked elsewhere than where they are sent, or never to end. Each is sent by gRPC and by REST; whatever becomes of it,
nothing outside the codebase is touched, and a refused one leaves the codebase as it was. Single entries are tried in tests/unit/codebase and
tests/serve/test_codebases.py, and the readers are fuzzed."""

import gzip
import io
import os
import pathlib
import subprocess
import tarfile
import zlib

import grpc
import pytest
from conftest import IS_LONG, PROGRAMS
from sandbox.v1 import codebase_pb2
from server import Server

LINK, HARD, DIRECTORY = tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.DIRTYPE
EVIL = f"af-evil-{os.getpid()}"  # no other run is to blame
CANARY = "canary-of-the-host"


def tar(entries, format=tarfile.PAX_FORMAT, **options):
    """(name, content or attributes) pairs."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=format, **options) as made:
        for name, what in entries:
            info = tarfile.TarInfo(name)
            info.mode = 0o644
            if isinstance(what, dict):
                for key, value in what.items():
                    setattr(info, key, value)
                made.addfile(info, io.BytesIO(b"\0" * info.size) if info.size and info.isreg() else None)
            else:
                info.size = len(what)
                made.addfile(info, io.BytesIO(what))
    return out.getvalue()


def header(name=b"file", size=b"00000000001", kind=b"0", link=b"", prefix=b"", magic=b"ustar\x0000", mode=b"0000644", checksum=None):
    """One of a tar's, every field of it the test's to choose."""
    raw = name.ljust(100, b"\0")[:100] + mode.ljust(8, b"\0") + b"0000000\0" * 2 + size.ljust(12, b"\0")[:12] + b"00000000000\0" + b" " * 8 + kind + \
        link.ljust(100, b"\0")[:100] + magic + b"\0" * 64 + b"0000000\0" * 2 + prefix.ljust(155, b"\0")[:155]
    raw = raw.ljust(512, b"\0")[:512]
    total = b"%06o\0 " % sum(raw) if checksum is None else checksum
    return raw[:148] + total.ljust(8, b"\0") + raw[156:]


END = b"\0" * 1024


def pax(records, name=b"file", content=b"x"):
    """A file whose real attributes stand in a record before it."""
    text = b""
    for key, value in records:
        body = b" " + key + b"=" + value + b"\n"
        length = len(body) + 1
        while len(str(length)) + len(body) != length:
            length = len(str(length)) + len(body)
        text += str(length).encode() + body
    def padded(data):
        return data + b"\0" * (-len(data) % 512)
    return header(b"././@PaxHeader", b"%011o" % len(text), b"x") + padded(text) + header(name, b"%011o" % len(content)) + padded(content) + END


def outside(server):
    """All places near the codebase, and what is in them."""
    found = {}
    for place in (server.top, server.state, server.state / "codebases"):
        for path in sorted(place.glob("*")):
            if path.is_file() and not path.name.startswith(("metadata", "log")):
                found[str(path)] = path.read_bytes()
            elif not path.name.startswith(("metadata", "log")) and place != server.state / "codebases":
                found[str(path)] = None
    return found


REFUSED = {
    "up": tar([("../up", b"evil")]),
    "up, further in": tar([("a/b/../../../up", b"evil")]),
    "from the root": tar([(f"/etc/cron.d/{EVIL}", b"evil")]),
    "from the root by a record": pax([(b"path", f"/etc/cron.d/{EVIL}".encode())]),
    "up by a record": pax([(b"path", b"../../up")]),
    "up by a record that comes twice": pax([(b"path", b"fine"), (b"path", b"../up")]),
    "up by the prefix": header(b"up", prefix=b"../..") + b"x".ljust(512, b"\0") + END,
    "up by a long name of GNU's": header(b"././@LongLink", b"%011o" % 8, b"L") + b"../../up".ljust(512, b"\0") + header(b"x") + b"x".ljust(512, b"\0") + END,
    "through a link": tar([("l", {"type": LINK, "linkname": "/"}), (f"l/tmp/{EVIL}", b"evil")]),
    "through a link to above": tar([("l", {"type": LINK, "linkname": "../.."}), ("l/up", b"evil")]),
    "through two links": tar([("a", {"type": LINK, "linkname": "b"}), ("b", {"type": LINK, "linkname": "/tmp"}), (f"a/{EVIL}", b"evil")]),
    "through a link that a record makes": tar([("l", {"type": LINK, "linkname": "x", "pax_headers": {"linkpath": "/tmp"}}), (f"l/{EVIL}", b"evil")]),
    "making a directory of a link": tar([("l", {"type": LINK, "linkname": "/tmp"}), ("l", {"type": DIRECTORY, "mode": 0o777}), (f"l/{EVIL}", b"evil")]),
    "by a hard link to the host": tar([("h", {"type": HARD, "linkname": "/etc/passwd"})]),
    "by a hard link to above": tar([("h", {"type": HARD, "linkname": "../../../metadata.db"})]),
    "by a hard link to a link": tar([("l", {"type": LINK, "linkname": "/etc/passwd"}), ("h", {"type": HARD, "linkname": "l"})]),
    "by a hard link through a link": tar([("l", {"type": LINK, "linkname": "/etc"}), ("h", {"type": HARD, "linkname": "l/passwd"})]),
    "a disk": tar([("sda", {"type": tarfile.BLKTYPE, "devmajor": 8, "devminor": 0})]),
    "a device": tar([("mem", {"type": tarfile.CHRTYPE, "devmajor": 1, "devminor": 1})]),
    "a pipe": tar([("pipe", {"type": tarfile.FIFOTYPE})]),
    "a marker of the fence's": tar([("d/.wh..wh..opq", b"")]),
    "a name without end": tar([("/".join(["d" * 200] * 40), b"x")]),
    "a name that is too long": tar([("n" * 300, b"x")]),
    "a file that is cut off": tar([("f", b"x" * 5000)])[:2000],
    "a size below zero": header(size=b"-0000000001") + END,
    "a size without measure": header(size=b"\x80" + b"\0" * 3 + b"\x7f" + b"\xff" * 7) + END,
    "a wrong sum": header(checksum=b"000000\0 ") + END,
}


def send_grpc(client, codebase, data, replace=False):
    Archive = codebase_pb2.ArchiveChunk
    head = Archive(metadata=Archive.Metadata(codebase_id=codebase, replace=replace))
    return client.upload_archive([head, *[Archive(data=data[at:at + 65536]) for at in range(0, len(data), 65536)]])


@pytest.fixture(scope="module")
def place(shared):
    (shared.top / "canary").write_text(CANARY)
    return shared


@pytest.mark.few_as_user(every=5)
@pytest.mark.parametrize("what", REFUSED)
@pytest.mark.parametrize("replace", [False, True] if IS_LONG else [True])
def test_an_archive_that_leads_elsewhere(place, what, replace):
    client = place.client()
    codebase = client.codebase({"old": "1"})
    version, before = client.get_codebase(codebase_id=codebase).version, outside(place)
    with pytest.raises(grpc.RpcError) as refused:
        send_grpc(client, codebase, REFUSED[what], replace)
    assert refused.value.code() in (grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.RESOURCE_EXHAUSTED, grpc.StatusCode.FAILED_PRECONDITION), refused.value
    status, answer = place.http("PUT", f"/v1/codebases/{codebase}/archive?replace={str(replace).lower()}", gzip.compress(REFUSED[what]))
    assert 400 <= status < 500, (status, answer)
    assert client.names(codebase) == ["old"] and client.get(codebase, "old") == b"1" and client.get_codebase(codebase_id=codebase).version == version
    assert outside(place) == before and not os.path.exists(f"/tmp/{EVIL}") and not os.path.exists(f"/etc/cron.d/{EVIL}")
    client.delete_codebase(codebase_id=codebase)


def test_privileges_owners_and_times_in_an_archive(place):
    """Taken as the files of whoever sends them: no set-user-ID, nobody else's owner, no file that everybody may write."""
    client = place.client()
    codebase = client.codebase()
    send_grpc(client, codebase, tar([("suid", {"mode": 0o6777, "uid": 0, "gid": 0, "uname": "root"}), ("far", {"mtime": 1 << 40, "mode": 0o7777}),
                                     ("xattr", {"pax_headers": {"SCHILY.xattr.security.capability": "\1\0\0\2", "LIBARCHIVE.xattr.user.x": "eA=="}}),
                                     ("d", {"type": DIRECTORY, "mode": 0o7777})]))
    root = place.state / "codebases" / codebase / "files"
    for path in root.rglob("*"):
        st = path.lstat()
        assert st.st_mode & 0o7022 == 0 and st.st_uid == os.geteuid(), (path, oct(st.st_mode))
        assert os.listxattr(path) == []
    client.delete_codebase(codebase_id=codebase)


def test_links_that_lead_out_stay_links(place):
    """Taken as what they are; nothing of ours goes through them afterwards, in or out."""
    client = place.client()
    codebase = client.codebase()
    secret = place.top / "canary"
    send_grpc(client, codebase, tar([("l", {"type": LINK, "linkname": str(secret)}), ("d", {"type": LINK, "linkname": str(place.top)})]))
    for path in ("l", "d/canary"):
        with pytest.raises(grpc.RpcError):
            client.get(codebase, path)
        with pytest.raises(grpc.RpcError):
            client.put(codebase, "d/new", "evil")
    client.put(codebase, "l", "mine")
    assert secret.read_text() == CANARY and not (place.top / "new").exists() and client.get(codebase, "l") == b"mine"
    back = b"".join(chunk.data for chunk in client.download_archive(codebase_id=codebase))
    assert CANARY.encode() not in back
    box = client.sandbox(codebase)
    assert CANARY not in client.run(box, "cat l d/canary; ls d").stdout
    client.destroy_sandbox(sandbox_id=box)
    client.delete_codebase(codebase_id=codebase)


def test_names_that_come_twice_and_change_their_kind(place):
    client = place.client()
    codebase = client.codebase()
    send_grpc(client, codebase, tar([("a", b"1"), ("a", b"2"), ("./a", b"3"), ("l", {"type": LINK, "linkname": "a"}), ("l", b"4"), ("d//x", b"5"), ("d/./x", b"6")]))
    assert {name: client.get(codebase, name) for name in client.names(codebase) if name != "d"} == {"a": b"3", "l": b"4", "d/x": b"6"}
    for entries in ([("a", b"1"), ("a/b", b"2")], [("e/b", b"1"), ("e", b"2")]):
        with pytest.raises(grpc.RpcError):
            send_grpc(client, codebase, tar(entries))
    client.delete_codebase(codebase_id=codebase)


def test_bytes_that_are_no_text_in_names(place):
    """Not every name can be told as JSON; none is taken for another, and none breaks the answer."""
    client = place.client()
    codebase = client.codebase()
    names = ["caf\udce9", "\u202egpj.exe", "new\nline", "\x1b[2Jclear", "-rf", "a\\..\\b", "%2e%2e", "CON", "a" * 255, "trailing ", ".hidden"]
    for name in names:
        try:
            send_grpc(client, codebase, tar([(name, name.encode("utf-8", "surrogateescape"))], tarfile.GNU_FORMAT, encoding="utf-8", errors="surrogateescape"))
        except grpc.RpcError as refused:
            assert refused.code() == grpc.StatusCode.INVALID_ARGUMENT, refused
    status, listing = place.http("GET", f"/v1/codebases/{codebase}/files?recursive=true")
    assert status == 200 and "-rf" in {file["path"] for file in listing["files"]}
    assert all(".." not in file["path"].split("/") for file in listing["files"])
    client.delete_codebase(codebase_id=codebase, force=True)


@pytest.fixture(scope="module")
def small():
    """A server whose codebases have little room."""
    server = Server(PROGRAMS, **{"codebase-quota": "8M"}).start()
    yield server
    server.remove()


def bomb(kind):
    if kind == "zeroes":  # 128 MiB of them, a hundred kilobytes on the way
        squeeze = zlib.compressobj(9, zlib.DEFLATED, 31)
        out = [squeeze.compress(header(b"big", b"%011o" % (1 << 27)))]
        block = bytes(1 << 20)
        out += [squeeze.compress(block) for _ in range(1 << 7)]
        return b"".join([*out, squeeze.compress(END), squeeze.flush()])
    if kind == "holes":  # a file of an exabyte with one byte at its end
        sparse = b"%d\0" % ((1 << 60) - 1)
        body = b"1\n" + b"%d\n" % ((1 << 60) - 512) + b"1\n"
        records = [(b"GNU.sparse.major", b"1"), (b"GNU.sparse.minor", b"0"), (b"GNU.sparse.name", b"holes"), (b"GNU.sparse.realsize", sparse.rstrip(b"\0"))]
        return pax(records, content=body.ljust(512, b"\n") + b"x")
    if kind == "a size that lies":
        return header(b"lies", b"77777777777") + b"x" * 5000
    if kind == "many names":
        return gzip.compress(b"".join(header(b"%d/%d" % (n % 100, n), b"00000000000") for n in range(200_000 if IS_LONG else 1500)) + END, 1)
    if kind == "deep":
        return tar([("/".join("d" * 1 for _ in range(n)), {"type": DIRECTORY, "mode": 0o755}) for n in range(1, 1500)])
    if kind == "squeezed again and again":
        data = tar([("f", bytes(1 << 20))])
        for _ in range(40):
            data = gzip.compress(data)
        return data
    assert kind == "records without end"
    return header(b"././@PaxHeader", b"%011o" % (1 << 29), b"x") + b"9" * (1 << 20)


@pytest.mark.parametrize("kind", ["zeroes", "holes", "a size that lies", "many names", "deep", "squeezed again and again", "records without end"])
def test_archives_that_are_larger_than_they_look(small, kind):
    """Refused when it is too much, and not before it is; no room and no memory is left taken."""
    client = small.client()
    codebase = client.codebase({"old": "1"})

    def resident():
        text = pathlib.Path(f"/proc/{small.process.pid}/status").read_text()
        return int(text.split("VmRSS:")[1].split()[0])

    before = resident()
    try:
        send_grpc(client, codebase, bomb(kind))
        taken = True
    except grpc.RpcError as refused:
        taken = False
        assert refused.code() in (grpc.StatusCode.RESOURCE_EXHAUSTED, grpc.StatusCode.INVALID_ARGUMENT), refused
    used = int(subprocess.run(["du", "-s", "--block-size=1", small.state / "codebases" / codebase], capture_output=True, check=True).stdout.split()[0])
    assert kind in ("many names", "deep") or not taken
    assert used < (300 << 20 if taken else 1 << 20), used
    assert client.get(codebase, "old") == b"1"
    if not os.environ.get("AGENTFENSE_SANITIZED"):
        assert resident() < before + 64 * 1024
    client.delete_codebase(codebase_id=codebase)
    assert small.http("GET", "/health")[0] == 200
