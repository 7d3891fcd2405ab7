"""What a review costs after many others of the same workspace."""

import time

from curve import Curve, in_turns


class Desk:
    """A workspace in which one file is changed and approved over and over, while another is never decided about."""

    def __init__(self, server, project):
        project.mkdir()
        self.server = server
        self.place = "/api/v1/sandboxes"
        self.place += "/" + self.ask("POST", "", {"projectRoot": str(project), "scopePath": str(project)})["id"]
        self.serial = 0
        self.write("undecided")

    def ask(self, verb, path, body=None):
        status, answer = self.server.http(verb, self.place + path, body)
        if status >= 300:
            raise RuntimeError(f"{verb} {path}: {status}: {answer}")
        return answer

    def write(self, name):
        self.serial += 1
        self.ask("PUT", f"/files/content?path={name}", {"content": f"{self.serial}\n"})

    def timed_ms(self, *request):
        began = time.perf_counter()
        self.ask(*request)
        return (time.perf_counter() - began) * 1000

    def look_ms(self):
        return self.timed_ms("GET", "/diff")

    def approve_ms(self):
        return self.timed_ms("POST", "/approve", {"files": ["decided"]})

    def live_through(self, approvals):
        for _ in range(approvals):
            self.write("decided")
            self.look_ms()
            self.approve_ms()


def history(work, points, rounds, say, server):
    curve = Curve("history", "approvals of a workspace before", points)
    desks = {}
    for n in points:
        say(f"{n} approvals")
        desks[n] = Desk(server, work / f"project{n}")
        desks[n].live_through(n)

    def turn(n):
        desk = desks[n]
        desk.write("decided")
        curve.add(n, "GET diff", desk.look_ms(), "ms")
        curve.add(n, "POST approve", desk.approve_ms(), "ms", flat=True)

    in_turns(curve, rounds, turn)
    curve.notes.append("a diff reads what the agent did to which file, of which up to 64 KiB are kept before it is shortened")
    return curve
