from agentfense import SandboxClient

client = SandboxClient()

# Create sandbox
sandbox = client.create_sandbox(
    codebase_id="cb_xxx",
    permissions=[{"pattern": "**/*", "permission": "read"}],
)

# Start (allocates resources, mounts FUSE)
client.start_sandbox(sandbox.id)

# Execute commands
result = client.exec(sandbox.id, command="ls /workspace")
print(result.stdout)

# Stop (unmounts FUSE, stops processes)
client.stop_sandbox(sandbox.id)

# Destroy (cleans up all resources)
client.destroy_sandbox(sandbox.id)
