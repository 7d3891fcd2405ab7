client = SandboxClient()

# Create session
session = client.create_session(
    sandbox_id=sandbox.id,
    shell="/bin/bash",  # Or /bin/sh, /bin/zsh
    env={"PYTHONPATH": "/workspace/lib"},
)

# Execute commands
result = client.session_exec(session.id, command="cd /workspace")
result = client.session_exec(session.id, command="ls")

# Close session (optional - auto-closed when sandbox stops)
client.close_session(session.id)
