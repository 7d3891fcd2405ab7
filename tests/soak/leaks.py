"""What is left when everybody has gone: descriptors, processes, mounts, cgroups, files, memory."""

import contextlib
import os
import pathlib
import re
import time

PATIENCE = 30
MEMORY_MIB = 24  # more than what allocator and caches keep


def descriptors(pid):
    with contextlib.suppress(OSError):
        return len(os.listdir(f"/proc/{pid}/fd"))
    return 0


def memory_mib(pid):
    """What is its own: libraries do not count."""
    text = pathlib.Path(f"/proc/{pid}/status").read_text()
    return int(re.search(r"RssAnon:\s+(\d+)", text).group(1)) / 1024


def processes(words):
    found = []
    for entry in pathlib.Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            line = (entry / "cmdline").read_bytes().decode(errors="replace").replace("\0", " ")
            if int(entry.name) != os.getpid() and any(word in line for word in words):
                found.append(f"{entry.name} {line[:200]}")
    return found


def parent_name(pid):
    parent = re.search(r"\nPPid:\t(\d+)", pathlib.Path(f"/proc/{pid}/status").read_text()).group(1)
    return pathlib.Path(f"/proc/{parent}/comm").read_text().strip()


def orphans():
    """Sandboxes that nobody has any more: what bwrap began, without a bwrap or a supervisor above it."""
    found = []
    for line in processes(["--info-fd 5 -- /run/agentfense/init"]):
        with contextlib.suppress(OSError):
            if parent_name(line.split()[0]) not in ("bwrap", "agentfense-supe"):
                found.append(line)
    return found


def mounts(top, disk):
    with open("/proc/self/mountinfo", encoding="utf-8", errors="replace") as lines:
        return [line.split()[4] for line in lines if line.split()[4].startswith(f"{top}/") and line.split()[4] != str(disk)]


def cgroups():
    """Of all sandboxes on this host. They come and go while one looks."""
    return {pathlib.Path(place, name) for place, names, _ in os.walk("/sys/fs/cgroup") if place.endswith("/agentfense") for name in names}


def settled(look):
    """What was ended a moment ago may take a moment to go."""
    until = time.monotonic() + PATIENCE
    while (left := look()) and time.monotonic() < until:
        time.sleep(0.2)
    return left


def age(sandboxes):
    """What a kill left half made or half removed goes when it is old, with the next sandbox that is made."""
    for path in sandboxes.glob(".af-tmp-*"):
        os.utime(path, (time.time() - 86400,) * 2)


class Leaks:
    """Taken twice of one life of a server: when it has warmed up, and at the end."""

    def __init__(self, stage):
        self.stage = stage
        self.homes = set()  # what the names of our sandboxes' cgroups begin with: others are others'
        self.found = {}
        self.pid = None

    def note_homes(self):
        names = set(self.stage.server.supervisors())
        self.homes |= {path.name.partition("-")[0] for path in cgroups() if path.name.partition("-")[2] in names}

    def take_baseline(self):
        pid = self.stage.server.process.pid
        self.pid, self.descriptors, self.memory = pid, descriptors(pid), memory_mib(pid)

    def of_server(self):
        """Everything was given back, nobody is connected."""
        pid = self.stage.server.process.pid
        if pid != self.pid:
            self.found["descriptors"] = self.found["memory_mib"] = "the server is another"
            return
        # What idle connections hold goes when they do.
        more = settled(lambda: max(0, descriptors(pid) - self.descriptors))
        self.found["descriptors"] = [os.readlink(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd")] if more else []
        self.found["memory_mib"] = [] if memory_mib(pid) - self.memory < MEMORY_MIB else [f"{self.memory:.1f} to {memory_mib(pid):.1f}"]
        self.memory_end = memory_mib(pid)

    def of_host(self):
        server, stage = self.stage.server, self.stage
        own = f"{server.process.pid} "
        self.found["processes"] = settled(lambda: [line for line in processes([str(server.top)]) if not line.startswith(own)] + orphans())
        self.found["mounts"] = settled(lambda: mounts(server.top, stage.disk))
        self.found["cgroups"] = settled(lambda: sorted(str(path) for path in cgroups() if path.name.partition("-")[0] in self.homes))
        self.found["files"] = settled(lambda: sorted(stage.state_files() - stage.baseline))

    def of_projects(self, actors):
        self.found["project files"] = [path for actor in actors if hasattr(actor, "project") for path in actor.project.leftovers()]
        self.found["run files"] = [str(path) for actor in actors if hasattr(actor, "state")
                                   for path in (actor.state / "sandboxes").glob("*")]
