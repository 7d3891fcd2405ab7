"""Runs every C test program of a build directory, a few at once.    usage: run_all.py DIRECTORY

For as_user.py: Meson runs each of them as whoever runs Meson. Prints what each printed; fails if one of them did.
"""

import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys

SKIPPED = 77
TIMEOUT = 600
OUTCOME = re.compile(r"^(\[ +(?:OK|SKIPPED|FAILED) +\] )(?!\d+ test\(s\))", re.M)


def run(program):
    try:
        done = subprocess.run([program], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=TIMEOUT, check=False)
    except subprocess.TimeoutExpired as late:
        return None, late.stdout or b""
    return done.returncode, done.stdout


def main(directory):
    programs = sorted(path for path in pathlib.Path(directory).glob("*/test-*") if path.is_file() and os.access(path, os.X_OK))
    if not programs:
        sys.exit(f"there is no test program below {directory}")
    failed = []
    with concurrent.futures.ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        for program, (code, output) in zip(programs, pool.map(run, programs)):
            # tools/run-tests counts by name, and several programs have tests of the same name.
            print(OUTCOME.sub(rf"\1{program.name}: ", output.decode(errors="replace")), flush=True)
            if code not in (0, SKIPPED):
                failed.append(program.name)
                print(f"Error: {program.name} {'takes too long' if code is None else f'ended with {code}'}", flush=True)
    sys.exit(f"failed: {' '.join(failed)}" if failed else 0)


if __name__ == "__main__":
    main(sys.argv[1])
