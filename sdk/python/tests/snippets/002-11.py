from agentfense import Sandbox, ResourceLimits

with Sandbox.from_local(
    "./project",
    resources=ResourceLimits(
        memory_bytes=512 * 1024 * 1024,  # 512 MB max
        pids_limit=100,                  # Max 100 processes
        cpu_quota=50000,                 # 50% CPU
    ),
) as sandbox:
    sandbox.run("untrusted_command")
