# Each command runs in a new shell (state is lost)
sandbox.run("cd /workspace/src")      # Changes directory
sandbox.run("pwd")                    # Output: /workspace (NOT /workspace/src)
