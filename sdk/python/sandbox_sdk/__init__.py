"""The name that this package had once: `from sandbox_sdk import SandboxClient` goes on working."""

from agentfense import *  # noqa: F403
from agentfense import __all__ as __all__
from agentfense import __version__ as __version__
