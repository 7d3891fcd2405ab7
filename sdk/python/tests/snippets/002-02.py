# AgentFense: no checks needed
open(path).read()  # FUSE rejects at kernel level if not allowed
