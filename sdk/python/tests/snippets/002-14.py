# DANGEROUS: Agent can modify source code
{"pattern": "**/*", "permission": "write"}

# SAFE: Only specific output directories are writable
{"pattern": "/output/**", "permission": "write"}
{"pattern": "/tmp/**", "permission": "write"}
