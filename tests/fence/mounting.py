"""What tests of the verbs mount and delta share."""

import os
import subprocess


def agentfense(*args, timeout=20, **kw):
    return subprocess.run(
        [os.environ["AGENTFENSE"], *[os.fspath(a) for a in args]], capture_output=True, text=True, timeout=timeout, **kw
    )
