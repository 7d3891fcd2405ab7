from agentfense import SandboxClient

client = SandboxClient(endpoint="localhost:9000")

# Create a codebase
codebase = client.create_codebase(
    name="my-app-v1.0",
    owner_id="team_123",
)

# Upload files
client.upload_file(codebase.id, "app.py", b"print('v1.0')")
client.upload_file(codebase.id, "config.yaml", b"version: 1.0")

# List files
files = client.list_files(codebase.id, path="/", recursive=True)
for f in files:
    print(f"{f.path} ({f.size} bytes)")

# Download a file
content = client.download_file(codebase.id, "app.py")
print(content.decode())

# Clean up (only after destroying all sandboxes)
client.delete_codebase(codebase.id)
