with sandbox.session() as session:
    session.exec("cd /workspace/src")  # State persists
    result = session.exec("pwd")       # → /workspace/src
    session.exec("export VAR=value")
    result = session.exec("echo $VAR") # → value
