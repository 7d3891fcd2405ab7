"""Images for tests, made of what this machine has: nothing is fetched."""

import io
import os
import pathlib
import re
import shutil
import subprocess
import tarfile

# What tests run inside, where it is installed: shells, and the tools that they call from them.
TOOLS = """sh bash zsh dash [ awk base64 basename cat chmod cmp comm cp cut date dd df diff dirname du echo env expr false find getent git grep
gzip head hostname id kill ln ls mkdir mkfifo mknod mktemp mount mv nice nohup nproc od paste pgrep pkill printenv printf ps pwd python3
readlink realpath rm rmdir sed seq setsid sha256sum sleep sort split stat stdbuf stty sync tail tar tee test timeout touch tr true
truncate tty umount uname uniq unlink unshare wc which whoami xargs yes""".split()
PYTHON_LEFT_OUT = {"test", "tests", "idlelib", "tkinter", "ensurepip", "lib2to3", "pydoc_data", "__pycache__", "turtledemo", "distutils"}
ETC = {
    "etc/passwd": "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/nonexistent:/bin/false\n",
    "etc/group": "root:x:0:\nnogroup:x:65534:\n",
    "etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\n",
}
PLACES = ("root", "home", "proc", "sys", "dev", "run")
PATH = "/usr/bin:/bin:/usr/sbin:/sbin"  # the distribution's, whatever else whoever runs the tests has
MERGED = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")


class Tree:
    """A file system of an image, as a tar file on disk."""

    def __init__(self, path):
        self.path = pathlib.Path(path)
        self.tar = tarfile.open(self.path, "w")
        self.names = set()

    def add(self, name, kind=tarfile.REGTYPE, mode=0o755, content=b"", target=""):
        if name in self.names:
            return
        self.names.add(name)
        if "/" in name:
            self.add(name.rpartition("/")[0], tarfile.DIRTYPE)
        entry = tarfile.TarInfo(name)
        entry.type, entry.mode, entry.linkname, entry.size = kind, mode, target, len(content)
        self.tar.addfile(entry, io.BytesIO(content))

    def add_file(self, source, name=None):
        """With what its links lead to."""
        name = self.merged(name or str(source))
        source = pathlib.Path(source).resolve()
        self.add(name, mode=source.stat().st_mode & 0o755, content=source.read_bytes())

    @staticmethod
    def merged(name):
        name = name.lstrip("/")
        return f"usr/{name}" if name.partition("/")[0] in MERGED else name

    def add_places(self):
        for name in PLACES:
            self.add(name, tarfile.DIRTYPE)
        for name in ("tmp", "var/tmp"):
            self.add(name, tarfile.DIRTYPE, mode=0o1777)
        for name, text in ETC.items():
            self.add(name, mode=0o644, content=text.encode())

    def close(self):
        self.tar.close()
        return self.path


def libraries(files):
    """What the loader needs for these."""
    done = subprocess.run(["ldd", *map(str, files)], capture_output=True, text=True, check=False)
    return sorted({match for match in re.findall(r"(?:=> |^\s+)(/\S+) \(0x", done.stdout, re.M)})


def add_python(tree):
    program = shutil.which("python3", path=PATH)
    home = subprocess.check_output([program, "-I", "-c", "import os; print(os.path.dirname(os.__file__))"], text=True).strip()
    found = []
    for parent, dirs, files in os.walk(home):
        dirs[:] = [name for name in dirs if name not in PYTHON_LEFT_OUT and not name.startswith("config-")]
        for name in files:
            if not name.endswith((".pyc", ".a")):
                found.append(pathlib.Path(parent) / name)
                tree.add_file(found[-1])
    return [path for path in found if path.suffix == ".so"]


def make_tools(path):
    """A small distribution: what this machine has of TOOLS, with its Python."""
    tree = Tree(path)
    for name in MERGED:
        if os.path.islink(f"/{name}"):
            tree.add(name, tarfile.SYMTYPE, target=f"usr/{name}")
            tree.add(f"usr/{name}", tarfile.DIRTYPE)
    found = [pathlib.Path(program) for program in (shutil.which(name, path=PATH) for name in TOOLS) if program]
    for program in found:
        tree.add_file(program)
    objects = [program.resolve() for program in found] + add_python(tree)
    for modules in pathlib.Path("/usr/lib").glob("*/zsh"):
        for module in modules.rglob("*.so"):
            tree.add_file(module)
            objects.append(module)
    for template in pathlib.Path("/usr/share/git-core/templates").rglob("*"):
        if template.is_file():
            tree.add_file(template)
    for library in libraries(objects):
        tree.add_file(library)
    tree.add_places()
    return tree.close()


def make_box(path):
    """Busybox, and nothing else: not even a directory for the workspace."""
    tree = Tree(path)
    busybox = shutil.which("busybox")
    tree.add_file(busybox, "/sh/busybox")
    for name in subprocess.check_output([busybox, "--list"], text=True).split():
        tree.add(f"bin/{name}", tarfile.SYMTYPE, target="/sh/busybox")
    tree.add("tmp", tarfile.DIRTYPE, mode=0o1777)
    for name, text in ETC.items():
        tree.add(name, mode=0o644, content=text.encode())
    return tree.close()


def make_bare(path):
    """A program, and no shell: nor a library, /etc or /tmp."""
    tree = Tree(path)
    tree.add_file(shutil.which("busybox"), "/opt/cat")
    return tree.close()


MAKERS = {"tools": make_tools, "box": make_box, "bare": make_bare}
