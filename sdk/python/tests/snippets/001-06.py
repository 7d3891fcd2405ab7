from agentfense import Sandbox

# Scenario: Allow read all, write to /output, hide secrets
PERMISSIONS = [
    # Base rule: read everything
    {"pattern": "**/*", "permission": "read", "priority": 0},
    
    # Allow writes to output directory
    {"pattern": "/output/**", "permission": "write", "priority": 10},
    
    # Hide secrets (higher priority overrides base)
    {"pattern": "**/.env*", "permission": "none", "priority": 100},
    {"pattern": "/secrets/**", "permission": "none", "priority": 100},
    {"pattern": "**/*.key", "permission": "none", "priority": 100},
    
    # Exception: public key should be readable
    {"pattern": "/secrets/public.key", "permission": "read", "priority": 200},
]

with Sandbox.from_local("./project", permissions=PERMISSIONS) as sandbox:
    # Can read most files
    sandbox.run("cat /workspace/README.md")  # ✅
    
    # Can write to /output
    sandbox.run("echo result > /workspace/output/log.txt")  # ✅
    
    # Cannot see private keys
    sandbox.run("ls /workspace/secrets/")  # public.key only (no private.key)
    
    # Can read public key
    sandbox.run("cat /workspace/secrets/public.key")  # ✅
