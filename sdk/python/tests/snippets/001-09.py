from agentfense import Sandbox

with Sandbox.from_local("./python-app") as sandbox:
    with sandbox.session() as session:
        # Setup environment
        session.exec("cd /workspace")
        session.exec("export DEBUG=1")
        session.exec("source venv/bin/activate")
        
        # Install dependencies (venv is active)
        session.exec("pip install -r requirements.txt")
        
        # Run tests (DEBUG=1 and venv still active)
        result = session.exec("pytest tests/")
        print(result.stdout)
