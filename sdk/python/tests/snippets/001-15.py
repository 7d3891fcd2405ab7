# Option 1: Use read-only preset
with Sandbox.from_local("./project", preset="read-only") as sandbox:
    # All writes fail (permission denied)
    pass

# Option 2: Allow writes but don't sync (custom server config)
# Set sync_on_completion=false in server config
