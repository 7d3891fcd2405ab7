from agentfense import Sandbox, RuntimeType, ResourceLimits

with Sandbox.from_local(
    "./project",
    runtime=RuntimeType.DOCKER,
    image="python:3.11-slim",
    resources=ResourceLimits(
        memory_bytes=512 * 1024 * 1024,  # 512 MB RAM
        cpu_quota=50000,                 # 50% CPU (50000/100000)
        pids_limit=100,                  # Max 100 processes
    ),
) as sandbox:
    result = sandbox.run("python heavy_task.py")
