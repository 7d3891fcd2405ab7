"""What tests of the verbs mount and delta share."""

import os
import subprocess

from harness import TIMEOUT


def agentfense(*args, timeout=TIMEOUT, **kw):
    return subprocess.run(
        [os.environ["AGENTFENSE"], *[os.fspath(a) for a in args]], capture_output=True, text=True, timeout=timeout, **kw
    )
