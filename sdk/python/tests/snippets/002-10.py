from agentfense import extend_preset

# Start with agent-safe, customize
rules = extend_preset(
    base="agent-safe",  # Hides secrets, allows read-all, write to /output & /tmp
    additions=[
        {"pattern": "/logs/**", "permission": "write"},  # Also allow log writes
    ],
)
