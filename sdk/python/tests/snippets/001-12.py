from agentfense import extend_preset

# Start with agent-safe, add custom rules
rules = extend_preset(
    base="agent-safe",
    additions=[
        {"pattern": "/logs/**", "permission": "write"},  # Also allow log writes
    ],
    overrides=[
        {"pattern": "**/.git/**", "permission": "read"},  # Override: make .git readable
    ],
)

with Sandbox.from_local("./project", permissions=rules) as sandbox:
    result = sandbox.run("echo log > /workspace/logs/app.log")  # ✅
