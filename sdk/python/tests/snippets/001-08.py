# Commands run in the same shell (state is preserved)
with sandbox.session() as session:
    session.exec("cd /workspace/src")
    result = session.exec("pwd")
    print(result.stdout)  # Output: /workspace/src ✅
