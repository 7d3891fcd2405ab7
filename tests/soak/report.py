"""What came of it: a line while it runs, a table and a file at the end."""

import collections
import json
import sys
import time


class Report:
    def __init__(self, seed, minutes, quiet=False):
        self.seed, self.minutes, self.quiet = seed, minutes, quiet
        self.began = time.monotonic()
        self.last_line = 0.0
        self.phases = []

    def progress(self, phase, stage, actors, is_last=False):
        pause = 2 if sys.stderr.isatty() else 20
        if self.quiet or (time.monotonic() - self.last_line < pause and not is_last):
            return
        self.last_line = time.monotonic()
        passed = int(time.monotonic() - self.began)
        calls = sum(sum(actor.counts.values()) for actor in actors)
        text = (f"soak: {passed // 60:d}:{passed % 60:02d} {phase}: {calls} operations, {sum(stage.faults.values())} faults, "
                f"{stage.checker.count} checks, {len(stage.checker.losses)} losses")
        end = "\r" if sys.stderr.isatty() and not is_last else "\n"
        print(text, end=end, file=sys.stderr, flush=True)

    def add(self, phase, stage, actors, leaks):
        counts, answers = collections.Counter(), collections.Counter()
        for actor in actors:
            counts.update(actor.counts)
            answers.update(actor.answers)
        self.phases.append({
            "phase": phase,
            "operations": dict(sorted(counts.items())),
            "answers": dict(sorted(answers.items())),
            "faults": dict(sorted(stage.faults.items())),
            "checks": stage.checker.count,
            "losses": list(stage.checker.losses),  # what an interrupted load finds while everything goes is none
            "crashes": stage.crashes,
            "broken": stage.breaks,
            "refusals without a fault": stage.refusals,
            "words of refusals": stage.words,
            "leaks": leaks,
        })

    @property
    def is_good(self):
        return bool(self.phases) and not any(phase["losses"] or phase["crashes"] or phase["broken"] or phase["refusals without a fault"] or
                                             any(phase["leaks"].values()) for phase in self.phases)

    def as_dict(self):
        return {"seed": self.seed, "minutes": round((time.monotonic() - self.began) / 60, 1), "ok": self.is_good, "phases": self.phases}

    def write(self, path):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(self.as_dict(), indent=1) + "\n")

    def show(self):
        for phase in self.phases:
            print(f"\n{phase['phase']}: {sum(phase['operations'].values())} operations, {phase['checks']} checks")
            for title in ("operations", "faults", "answers"):
                for name, count in phase[title].items():
                    print(f"  {title[:-1]:<10} {count:>6}  {name}")
            for title in ("losses", "crashes", "broken", "refusals without a fault"):
                print(f"  {title}: {len(phase[title])}")
                for each in phase[title][:20]:
                    print(f"    {each}")
            for name, left in phase["leaks"].items():
                print(f"  leaks of {name}: {len(left) if isinstance(left, list) else left}")
                for each in (left if isinstance(left, list) else [])[:20]:
                    print(f"    {each}")
        print(f"\nsoak: {'good' if self.is_good else 'NOT GOOD'}; seed {self.seed}")
