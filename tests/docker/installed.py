"""Our programs, side by side in one directory as they are when installed, where they find each other."""

import os
import pathlib
import shutil

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = pathlib.Path(os.environ.get("AGENTFENSE", ROOT / "build" / "src" / "cli" / "agentfense")).resolve()
OTHERS = {"agentfense-server": "server", "agentfense-client": "cli", "agentfense-supervisor": "supervisor", "agentfense-init": "init",
          "agentfense-container": "container"}


def install(place):
    place = pathlib.Path(place)
    place.mkdir(mode=0o755, parents=True, exist_ok=True)
    shutil.copy(PROGRAM, place)
    for name, room in OTHERS.items():
        beside = PROGRAM.parent / name
        shutil.copy(beside if beside.exists() else PROGRAM.parent.parent / room / name, place)
    return place / "agentfense"
