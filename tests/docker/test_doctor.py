"""What `agentfense doctor` says of an engine."""

import json


def finding(shop, **env):
    done = shop.call("doctor", "--json", **env)
    found = json.loads(done.stdout)
    return next(each for each in found["findings"] if each["name"] == "Docker")


def test_an_engine_is_found_with_its_version(shop, dock):
    found = finding(shop)
    assert found["state"] == "ok" and dock.socket in found["found"] and "Docker/" in found["found"]


def test_what_is_missing_is_said_with_its_remedy(shop, tmp_path):
    found = finding(shop, DOCKER_HOST=f"unix://{tmp_path}/none.sock")
    assert found["state"] == "missing" and str(tmp_path) in found["found"]
    assert "runtime.docker.host" in found["fix"] and "bwrap" in found["cost"]
