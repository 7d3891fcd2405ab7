"""docs/benchmarks.md and its pictures, from one file of bench/results: text in, text out."""

import math

import plot

WORDS = {"pass": "met", "MISS": "**missed**", "": ""}
SCALE_TEXT = {
    "sandboxes": "A command and a start while so many others are running. Points are reached one after the other, so what must not grow is the "
    "ratio to fork+exec and to bwrap, measured at the same moment. bwrap itself slows down: pivot_root(2), of which it needs two, makes the kernel "
    "look at every thread on the host, and a sandbox has nine.",
    "history": "Looking at the changes of a workspace and approving one, after so many approvals of it.",
    "files": "Starting a sandbox on a directory (`run`) and on a codebase of a server.",
    "rules": "Rules that name a path, a directory, a prefix or a suffix. Starting compiles them, so it may grow. What compiling alone costs is under "
    "[Rules](#rules).",
    "delta": "Operations on files that the agent changed, on their neighbours, and where nothing changed. Starting on a delta that is there already reads "
    "it once, so it grows with the directories and files in it; afterwards the fence knows in memory what is changed.",
    "depth": "By name from within the directory, and by the whole path. A whole path costs more the longer it is, on any file system; on one of FUSE "
    "the kernel also asks each component whether it still holds, in memory and without a message, so the ratio to native rises towards that of "
    "one component.",
}


def number(value, unit=""):
    if value is None:
        return "–"
    if value == 0 or unit == "":
        return f"{value:g}"
    digits = 2 if unit == "x" else max(0, 2 - math.floor(math.log10(abs(value))))
    text = f"{value:,.{min(digits, 3)}f}"
    return text if unit in ("x", "") else f"{text} {unit}"


def table(heads, rows):
    lines = ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
    return lines + ["| " + " | ".join(row) + " |" for row in rows]


def limit(row):
    return f"≤ {number(row['target'], row.get('unit', 'x')) if row['target'] else '0'}" if row["target"] is not None else ""


def row_table(rows):
    """What every part tells in the same form."""
    return table(["", "measured", "target", ""], [[r["what"], number(r["value"], r["unit"]), limit(r), WORDS[r["verdict"]]] for r in rows])


# ---- every judged figure of a run: (part, what, value, target, met) ----


def fs_rows(figures):
    return [
        {"what": f"{name} / native", "value": load["ratios"]["fence"], "unit": "x", "target": load["target"],
         "verdict": load["verdict"][:4]}
        for name, load in figures["bench-fs"]["loads"].items()
        if "fence" in load["ratios"]
    ]


def scale_rows(figures):
    for curve in figures["bench-scale"]["curves"]:
        for row in curve["series"]:
            yield {"what": f"{curve['what']}, {curve['points'][0]:,} to {curve['points'][-1]:,}: {row['what']}", "value": row["worst"],
                   "unit": "x", "target": row["target"], "verdict": row["verdict"]}


def rows_of(name, figures):
    if name == "fs":
        return fs_rows(figures)
    if name == "scale":
        return list(scale_rows(figures))
    return [row for one in figures.values() for row in one["rows"]]


# ---- the parts ----


LIVE = " *fence-live* is the fence over a directory that others may change meanwhile, as `agentfense run` and workspaces have it."


def fs_part(figures, pictures):
    result = figures["bench-fs"]
    others = [s for s in result["filesystems"] if s not in ("native", "fence")]
    loads = result["loads"]
    pictures["fs"] = plot.bars(
        "Time as a ratio to native: shorter is faster",
        [s for s in result["filesystems"] if s != "native"],
        [(name, load["ratios"], load["target"]) for name, load in loads.items()],
        f"red: what the fence must not exceed; {result['files']:,} files, median of {result['rounds']}",
    )
    rows = []
    for name, load in loads.items():
        fence = load["ratios"].get("fence")
        target = {"target": load["target"], "unit": "x"}
        verdict = WORDS[load["verdict"][:4]] + load["verdict"][4:]
        rows.append([name, number(1000 * load["native_s"], "ms"), number(fence, "x"), limit(target), verdict,
                     *[number(load["ratios"].get(s), "x") for s in others]])
    rivals = [s for s in others if not s.startswith("fence")]
    against = []
    for name, load in loads.items():
        fence = load["ratios"].get("fence")
        against.append([name, *[number(fence / load["ratios"][s] if fence and s in load["ratios"] else None, "x") for s in rivals]])
    return [
        f"The same loads in turns on ext4 itself, kernel overlayfs, fuse-overlayfs, bindfs and the fence, {result['files']:,} files, medians of "
        f"{result['rounds']} rounds. A *fresh* load is the first on a mount just made; the others run on one that has seen them before."
        + (LIVE if "fence-live" in others else ""),
        "",
        "![ratios to native](benchmarks/fs.svg)",
        "",
        "Time as a multiple of native:",
        "",
        *table(["load", "native", "fence", "target", "", *others], rows),
        "",
        "Time of the fence as a multiple of that of the others; below 1 the fence is faster:",
        "",
        *table(["load", *[f"fence / {s}" for s in rivals]], against),
    ]


def exec_part(figures, _pictures):
    result = figures["bench-exec"]
    medians = sorted(result["medians_us"].items(), key=lambda item: item[1])
    out = [
        f"Medians of {result['rounds']} rounds in turns. *run* is `agentfense run`, from its start to the first byte that the command prints; "
        "*exec* is asked of a sandbox that runs already.",
        "",
        *row_table(result["rows"]),
        "",
        "The times behind these ratios:",
        "",
        *table(["", "median", "best"], [[name, number(us / 1000, "ms"), number(result["best_us"][name] / 1000, "ms")] for name, us in medians]),
    ]
    if result["idle"]:
        out += ["", "Private memory of an idle sandbox by process: "
                + ", ".join(f"{name} {size} kB" for name, size in result["idle"]["parts_kb"]) + "."]
    if result["skipped"]:
        out += ["", "Not measured: " + ", ".join(sorted(result["skipped"])) + "."]
    return out


def serve_part(figures, _pictures):
    result = figures["serve"]
    load = [[what, f"{row['count']:,}", number(row["p50_ms"], "ms"), number(row["p99_ms"], "ms")] for what, row in result["load"].items()]
    return [
        "A server with TLS off, over loopback, by gRPC. An upload is answered when it is on disk.",
        "",
        *row_table(result["rows"]),
        "",
        "All clients at once:",
        "",
        *table(["call", "calls", "p50", "p99"], load),
    ]


def diff_part(figures, _pictures):
    result = figures["diff"]
    rows = [[name, number(1000 * r["seconds"], "ms"), number(r["peak_mb"], "MB")] for name, r in result["contestants"].items()]
    return [
        "All changes with hunks, line counts and hashes, as a review shows them, against `git diff --no-index` of the same trees.",
        "",
        *row_table(result["rows"]),
        "",
        *table(["", "median", "peak of memory"], rows),
    ]


def policy_part(figures, pictures):
    variants = figures["policy"]["variants"]
    counts = sorted({v["rules"] for v in variants})
    kinds = list(dict.fromkeys(v["kind"] for v in variants))
    depths = sorted({v["depth"] for v in variants})

    def of(kind, key, depth=depths[0]):
        return [next(v[key] for v in variants if (v["kind"], v["rules"], v["depth"]) == (kind, c, depth)) for c in counts]

    def ratios(values):
        return [v / values[0] for v in values]

    pictures["policy"] = plot.curves(
        "A step from a directory to a name, as a ratio to one rule", counts, [(kind, ratios(of(kind, "step_ns"))) for kind in kinds], "rules"
    )
    rows = []
    for kind in kinds:
        for i, count in enumerate(counts):
            rows.append([kind, f"{count:,}", *[number(of(kind, key)[i], unit) for key, unit in
                                              (("step_ns", "ns"), ("cold_ns", "ns"), ("compile_ms", "ms"))],
                         number(of(kind, "size_bytes")[i] / 1e6, "MB"), number(1000 * of(kind, "compile_ms")[i] / count, "us")])
    return [
        f"What deciding costs, without any file system: one step from a directory to a name in it, at depth {depths[0]}, warm and when the name was "
        "never seen; and what compiling the rules costs. Rules that are found by look-up or by the beginning or end of a name do not grow "
        "with their number; arbitrary globs share a cache of bounded size.",
        "",
        *row_table(figures["policy"]["rows"] + figures["init"]["rows"]),
        "",
        "![a step over the number of rules](benchmarks/policy.svg)",
        "",
        *table(["rules of", "rules", "step", "step, never seen", "compiling", "memory", "compiling, each"], rows),
    ]


def scale_part(figures, pictures):
    result = figures["bench-scale"]
    out = [
        "What grows with what: each row at points a factor apart, as a ratio to its first point, medians of rounds in turns. "
        "Rows with a target are those that the design says are flat; the red line is how far a point may lie above the first.",
    ]
    for curve in result["curves"]:
        judged = [row for row in curve["series"] if row["target"]]
        title = curve["what"][0].upper() + curve["what"][1:]
        pictures[f"scale-{curve['name']}"] = plot.curves(
            f"{title}: cost as a ratio to the first point", curve["points"], [(row["what"], row["ratios"]) for row in judged], curve["what"],
            max((row["target"] for row in judged), default=None),
        )
        heads = ["", f"at {curve['points'][0]:,}", *[f"{p:,}" for p in curve["points"][1:]], "target", ""]
        rows = []
        for row in curve["series"]:
            at = next(i for i, v in enumerate(row["values"]) if v is not None)
            first = number(row["values"][at], row["unit"] if row["unit"] != "x" else "x")
            cells = ["–"] * at + [first] + [number(r, "x") for r in row["ratios"][at + 1 :]]
            rows.append([row["what"], *cells, limit({"target": row["target"], "unit": "x"}), WORDS[row["verdict"]]])
        text = f"{SCALE_TEXT.get(curve['name'], '')} Medians of {curve['rounds']} rounds, {curve['seconds']} s.".strip()
        out += ["", f"### {title}", "", text, "", f"![{curve['what']}](benchmarks/scale-{curve['name']}.svg)", "",
                *table(heads, rows), *[line for note in curve["notes"] for line in ("", f"{note[0].upper()}{note[1:]}.")]]
    return out


PARTS = [
    ("fs", "Files", fs_part),
    ("exec", "Sandboxes and commands", exec_part),
    ("serve", "The server", serve_part),
    ("diff", "Looking at changes", diff_part),
    ("policy", "Rules", policy_part),
    ("scale", "As things grow", scale_part),
]


# ---- the page ----


def summary(run):
    rows, missed, total, all_met = [], [], 0, 0
    for name, title, _ in PARTS:
        part = run["parts"].get(name)
        if not part:
            rows.append([title, "", "not measured in this run", "", ""])
            continue
        judged = [r for r in rows_of(name, part["figures"]) if r["verdict"]]
        met = sum(r["verdict"] == "pass" for r in judged)
        total, all_met = total + len(judged), all_met + met
        missed += [[r["what"], number(r["value"], r["unit"]), limit(r), f"`{part['command']}`"] for r in judged if r["verdict"] == "MISS"]
        link = "[" + title + "](#" + title.lower().replace(" ", "-") + ")"
        rows.append([link, f"{met} of {len(judged)}", f"`{part['command']}`", f"{part['seconds']} s",
                     " ".join(f"{x:.2f}" for x in part["load_before"])])
    out = [f"{all_met} of {total} targets are met.", ""]
    out += table(["part", "targets met", "command", "took", "load before"], rows)
    if missed:
        out += ["", "Missed:", "", *table(["", "measured", "target", "command"], missed)]
    return out


def render(run, source):
    """File name below docs to its text."""
    machine, pictures = run["machine"], {}
    out = [
        "# Benchmarks",
        "",
        "Measured by `make bench`, which writes `bench/results/`; this page and its pictures are made from the newest file there by "
        "`tools/render-benchmarks`, never by hand. Every comparison is of one run in which all contestants took turns, so that what else the machine "
        "does hits all alike; figures are medians, and ratios to something measured beside them wherever there is such a thing.",
        "",
    ]
    if run["quick"]:
        out += ["**This is of a small run that shows whether everything works: its figures mean little.**", ""]
    out += [
        *table(["", ""], [
            ["measured", run["when"].replace("T", " ").replace("+00:00", " UTC")],
            ["commit", run["commit"]],
            ["CPU", f"{machine['cpu']}, {machine['cpus']} of them"],
            ["memory", f"{machine['memory_gb']:g} GB"],
            ["kernel", machine["kernel"]],
            ["figures", f"`{source}`"],
        ]),
        "",
        *summary(run),
    ]
    for name, title, body in PARTS:
        part = run["parts"].get(name)
        if part:
            out += ["", f"## {title}", "", f"`{part['command']}`, which ran `{part['ran']}`", "", *body(part["figures"], pictures)]
    files = {"benchmarks.md": "\n".join(line.rstrip() for line in out) + "\n"}
    files.update({f"benchmarks/{name}.svg": text for name, text in pictures.items()})
    return files
