"""Presets: rules for common cases, by name.

>>> list_presets()
['agent-safe', 'development', 'full-access', 'read-only', 'view-only']
>>> get_preset("read-only")
[PermissionRule(pattern='**/*', permission=<Permission.READ: 'read'>, type=<PatternType.GLOB: 'glob'>, priority=0)]
"""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import Any, Dict, Iterable, List, Optional, Tuple

from .types import Permission, PermissionRule, RuleLike

_NONE, _VIEW, _READ, _WRITE = Permission.NONE, Permission.VIEW, Permission.READ, Permission.WRITE

# The same as src/policy/preset.c, where the reasons are; the tests compare the two.
_SECRETS = (
    ".env* *.env secrets/** secrets.yml secrets.yaml secrets.json secrets.toml .secret .secrets .secrets.yml "
    ".secrets.yaml .secrets.json .secrets.toml .dev.vars local.settings.json wp-config.php *.key *.pem *.p8 *.p12 "
    "*.pfx *.pkcs12 *.ppk *.jks *.jceks *.bks *.keystore *.keytab *.kdbx *.ovpn id_rsa* id_dsa* id_ecdsa* "
    "id_ed25519* .ssh/id_* ssh_host_*_key .gnupg/** .password-store/** wallet.dat .npmrc .netrc _netrc .pypirc "
    ".git-credentials .pgpass .my.cnf .mylogin.cnf .vault-token .htpasswd .dockercfg .dockerconfigjson "
    ".docker/config.json .boto .s3cfg .databrickscfg .terraformrc .msmtprc .ftpconfig sftp-config.json rclone.conf "
    ".credentials .credentials.json .cargo/credentials* .gem/credentials .terraform.d/credentials.tfrc.json "
    ".m2/settings.xml .m2/settings-security.xml .kaggle/kaggle.json .cache/huggingface/token .codex/auth.json "
    ".gemini/oauth_creds.json .config/gh/hosts.yml .config/hub .config/glab-cli/** .config/github-copilot/** "
    ".config/op/** .config/sops/** .config/doctl/** .aws/** .azure/** .kube/** .oci/** .config/gcloud/** "
    "kubeconfig/** kubeconfig.yaml kubeconfig.yml *.kubeconfig *.tfstate *.tfstate.backup terraform.tfstate* "
    "*.tfvars *.tfvars.json service-account*.json service_account*.json client_secret*.json "
    "application_default_credentials.json gha-creds-*.json *-firebase-adminsdk-*.json .*_history .histfile "
    "fish_history"
).split()
_NOT_SECRET = (
    ".env*example .env*sample .env*template .env*.tmpl .env*.tpl .env*dist .env*.j2 .env*default .env*defaults "
    ".env.example.* .env.sample.* .env.template.* *example.env *sample.env *template.env default.env defaults.env "
    "secrets/**/*.example secrets/**/*.sample secrets/**/*.template secrets/**/README.md secrets/**/.gitkeep "
    "secrets/**/.gitignore templates/secrets.yaml templates/secrets.yml *example.tfvars *sample.tfvars "
    "service-account*example.json client_secret*example.json cacert.pem ca.pem ca-cert.pem chain.pem fullchain.pem "
    "roots.pem *ca-bundle.pem global-bundle.pem *public.pem *public_key.pem *public-key.pem *public_cert.pem "
    "*.pub.pem *public.key debug.keystore id_rsa*.pub id_dsa*.pub id_ecdsa*.pub id_ed25519*.pub kubeconfig/**/*.go "
    ".azure/pipelines/** site-packages/**/*.pem node_modules/**/*.pem site-packages/**/secrets/** "
    "node_modules/**/secrets/**"
).split()
_NOT_CREDENTIALS = (
    "credentials*.example credentials*.sample credentials*.template site-packages/**/credentials* "
    "node_modules/**/credentials*"
).split()
_CREDENTIAL_FILES = ["credentials/**"] + [
    f"credentials.{end}" for end in "json yaml yml toml ini csv xml properties txt".split()
]
_CREDENTIAL_CODE = [f"credentials/**/*.{end}" for end in "c cs go h java js kt php py rb rs ts tsx".split()]


def _rules(patterns: Iterable[str], level: Permission, priority: int = 0, at: str = "") -> List[PermissionRule]:
    return [PermissionRule(at + pattern, level, priority=priority) for pattern in patterns]


def _agent_safe() -> List[PermissionRule]:
    rules = _rules(["**/*"], _READ) + _rules(["/output/**", "/tmp/**"], _WRITE, 10)
    rules += _rules([".git/**", *_SECRETS, "credentials*"], _NONE, 100, "**/")
    for at, level in (("**/", _READ), ("/output/**/", _WRITE), ("/tmp/**/", _WRITE)):
        rules += _rules(_NOT_SECRET + _NOT_CREDENTIALS, level, 100, at)
    return rules


PRESET_AGENT_SAFE: List[PermissionRule] = _agent_safe()
PRESET_READ_ONLY: List[PermissionRule] = _rules(["**/*"], _READ)
PRESET_FULL_ACCESS: List[PermissionRule] = _rules(["**/*"], _WRITE)
PRESET_DEVELOPMENT: List[PermissionRule] = (
    _rules(["**/*"], _WRITE)
    + _rules(_SECRETS + _CREDENTIAL_FILES, _NONE, 100, "**/")
    + _rules(_NOT_SECRET + _CREDENTIAL_CODE, _WRITE, 100, "**/")
)
PRESET_VIEW_ONLY: List[PermissionRule] = _rules(["**/*"], _VIEW)

PRESETS: Dict[str, List[PermissionRule]] = {
    "agent-safe": PRESET_AGENT_SAFE,
    "read-only": PRESET_READ_ONLY,
    "full-access": PRESET_FULL_ACCESS,
    "development": PRESET_DEVELOPMENT,
    "view-only": PRESET_VIEW_ONLY,
}

_BUILT_IN = frozenset(PRESETS)
DEFAULT_PRESET = "agent-safe"
_lock = threading.Lock()


def to_rule(rule: RuleLike) -> PermissionRule:
    """A rule of its own, whatever form it has."""
    return replace(rule) if isinstance(rule, PermissionRule) else PermissionRule.from_dict(rule)


def get_preset(name: str) -> List[PermissionRule]:
    """The rules of a preset, as a copy."""
    if name not in PRESETS:
        raise ValueError(f"Unknown preset '{name}'. Available presets: {', '.join(list_presets())}")
    return [replace(rule) for rule in PRESETS[name]]


def get_preset_dicts(name: str) -> List[Dict[str, Any]]:
    """The rules of a preset as dicts.

    >>> get_preset_dicts("view-only")
    [{'pattern': '**/*', 'permission': 'view', 'type': 'glob', 'priority': 0}]
    """
    return [rule.to_dict() for rule in get_preset(name)]


def extend_preset(
    base: str, additions: Optional[Iterable[RuleLike]] = None, overrides: Optional[Iterable[RuleLike]] = None
) -> List[PermissionRule]:
    """The rules of a preset and more. `overrides` win over all of the preset's: their priorities are raised if need be.

    >>> rules = extend_preset("read-only", additions=[{"pattern": "/logs/**", "permission": "write"}])
    >>> [rule.pattern for rule in rules]
    ['**/*', '/logs/**']
    """
    rules = get_preset(base) + [to_rule(rule) for rule in additions or ()]
    highest = max((rule.priority for rule in rules), default=0)
    for rule in map(to_rule, overrides or ()):
        rules.append(rule if rule.priority > highest else replace(rule, priority=highest + 100))
    return rules


def list_presets() -> List[str]:
    """The names of all presets, sorted."""
    return sorted(PRESETS)


def register_preset(name: str, rules: Iterable[RuleLike]) -> None:
    """Adds a preset under a name of its own, for this process."""
    made = [to_rule(rule) for rule in rules]
    with _lock:
        if name in PRESETS:
            raise ValueError(f"Preset '{name}' already exists")
        PRESETS[name] = made


def choose_rules(
    preset: Optional[str], permissions: Optional[Iterable[RuleLike]]
) -> Tuple[Optional[str], List[PermissionRule]]:
    """What holds for a sandbox: the preset's rules, then those given; with neither, the default preset.

    The presets that every server has go by their names, so that its own form of them holds.
    """
    if preset is None and permissions is None:
        preset = DEFAULT_PRESET
    rules = [to_rule(rule) for rule in permissions or ()]
    if preset is None or preset in _BUILT_IN:
        return preset, rules
    return None, get_preset(preset) + rules
