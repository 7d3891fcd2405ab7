"""A curve: what something costs as something else grows."""

import statistics

FLAT = 1.3  # how far a point of a flat curve may lie above the first; medians of one interleaved run still differ by this much


def at_first(values):
    return next((v for v in values if v is not None), None)


class Curve:
    """Measurements at each of `points`, in any number of series. A series is flat when the design says that its cost does not depend on
    where it is measured; the others are told without judging them."""

    def __init__(self, name, what, points):
        self.name, self.what, self.points = name, what, list(points)
        self.series = {}
        self.notes = []

    def add(self, point, series, value, unit="us", flat=False, target=None):
        row = self.series.setdefault(
            series, {"unit": unit, "target": target or (FLAT if flat else None), "samples": {p: [] for p in self.points}}
        )
        row["samples"][point].append(value)

    def forget(self, kept):
        """Back to the samples there were, as `kept` has them."""
        for name, row in self.series.items():
            row["samples"] = kept.get(name) or {p: [] for p in self.points}

    def divide(self, series, over, under, flat=True, target=None):
        """A series of the ratio of two others: what the machine does to both alike is gone from it."""
        a, b = (self.series[name]["samples"] for name in (over, under))
        for point in self.points:
            if a[point] and b[point]:
                self.add(point, series, statistics.median(a[point]) / statistics.median(b[point]), "x", flat, target)

    def result(self):
        rows = []
        for name, row in self.series.items():
            values = [statistics.median(row["samples"][p]) if row["samples"][p] else None for p in self.points]
            first = at_first(values)
            ratios = [None if v is None else v / first for v in values]
            worst = max(r for r in ratios if r is not None)
            verdict = "" if row["target"] is None else "pass" if worst <= row["target"] else "MISS"
            rows.append({
                "what": name,
                "unit": row["unit"],
                "values": [None if v is None else float(f"{v:.4g}") for v in values],
                "ratios": [None if r is None else round(r, 3) for r in ratios],
                "worst": round(worst, 2),
                "target": row["target"],
                "verdict": verdict,
            })
        return {"name": self.name, "what": self.what, "points": self.points, "series": rows, "notes": self.notes}


def in_turns(curve, rounds, turn):
    """Every point once in each round, in an order that rotates, so that what else the machine does hits all alike. A round in front
    warms up, and is forgotten."""
    points, kept = curve.points, {name: {p: list(v) for p, v in row["samples"].items()} for name, row in curve.series.items()}
    for r in range(-1, rounds):
        shift = r % len(points)
        for point in points[shift:] + points[:shift]:
            turn(point)
        if r < 0:
            curve.forget(kept)


def table(curve):
    heads = [f"{p:,}" for p in curve["points"]]
    lines = [curve["what"], f"  {'':44} {'':>9}" + "".join(f"{h:>11}" for h in heads) + "     worst"]
    for row in curve["series"]:
        first = at_first(row["values"])
        cells = "".join("          -" if r is None else f"{r:11.2f}" for r in row["ratios"])
        target = f" <= {row['target']:g} {row['verdict']}" if row["target"] else ""
        lines.append(f"  {row['what']:44} {first:7.4g} {row['unit']:2}{cells} {row['worst']:9.2f}{target}")
    return "\n".join(lines + [f"  {note}" for note in curve["notes"]])
