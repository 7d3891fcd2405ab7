from agentfense import Sandbox

# Codebase is created, used, and deleted automatically
with Sandbox.from_local("./my-project") as sandbox:
    result = sandbox.run("ls /workspace")
# Codebase deleted here
