"""Engines that are set up in another way, each beside the one of all tests."""

import contextlib
import subprocess
import tempfile

import pytest
from engine import Engine, Unavailable


class Aside(Engine):
    """In a mount namespace of its own, where /etc and /sys can be others than the host's. What is mounted beneath `place` reaches it
    nevertheless, so fences of sandboxes that live there are seen, as with an engine whose mounts follow the host's."""

    namespaces = ("--mount", "--propagation", "slave")

    def __init__(self, prologue="", options=()):
        super().__init__()
        self.prologue, self.options = prologue, options
        self.dir.chmod(0o711)  # users that it maps go through
        self.place = self.dir / "place"
        self.place.mkdir()
        subprocess.run(["mount", "--bind", self.place, self.place], check=True)
        subprocess.run(["mount", "--make-shared", self.place], check=True)

    def start(self):
        self.launch(["--bridge=none", "--iptables=false", "--ip6tables=false"])
        return self

    @contextlib.contextmanager
    def home(self):
        """Servers that are made meanwhile are where it sees them."""
        before, tempfile.tempdir = tempfile.tempdir, str(self.place)
        try:
            yield
        finally:
            tempfile.tempdir = before

    def settings(self, **more):
        return {"runtime-docker-host": self.host, "runtime-docker-default-image": self.image("box"),
                **{f"runtime-docker-{key.replace('_', '-')}": value for key, value in more.items()}}


@contextlib.contextmanager
def engine_aside(prologue="", options=()):
    """Skips where none can be started like that, and leaves nothing."""
    engine = Aside(prologue, options)
    try:
        yield engine.start()
    except Unavailable as reason:
        pytest.skip(str(reason))
    finally:
        engine.stop()
