from agentfense import Sandbox

# Two sandboxes share the same codebase
with Sandbox.from_local("./project") as sandbox_a:
    sandbox_a.run("echo A > /workspace/output.txt")
    
with Sandbox.from_local("./project") as sandbox_b:
    sandbox_b.run("echo B > /workspace/output.txt")

# After both complete, codebase has:
# - output.txt with content "B" (Last-Writer-Wins)
