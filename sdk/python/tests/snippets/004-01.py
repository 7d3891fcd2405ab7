from sandbox_sdk import SandboxClient

client = SandboxClient(endpoint="localhost:9000")

sandbox = client.create_sandbox(
    codebase_id="cb_123",
    permissions=[
        {"pattern": "/docs/**", "permission": "write"},
        {"pattern": "**/*.py", "permission": "read"},
    ]
)
client.start_sandbox(sandbox.id)

result = client.exec(sandbox.id, command="ls -la /workspace")
print(result.stdout)
