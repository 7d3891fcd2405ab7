from agentfense import Sandbox

# Use a preset directly
with Sandbox.from_local("./project", preset="agent-safe") as sandbox:
    result = sandbox.run("ls")
