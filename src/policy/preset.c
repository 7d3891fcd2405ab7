#include "policy/preset.h"

#include <errno.h>
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"

/* Patterns with a common prefix, level and priority. */
struct preset_part {
    const char *at; /* put before each pattern */
    const char *const *patterns;
    size_t count;
    enum level level;
    int32_t priority;
};

#define PART(at, patterns, level, priority)                                                                                    \
    {                                                                                                                          \
        at, patterns, ARRAY_LEN(patterns), level, priority                                                                     \
    }

// clang-format off
/*
 * Files that are secret by convention, at any depth. The names are those that tools document for their own credentials, that
 * secret scanners look for, and that .gitignore templates exclude. Literals, prefixes and suffixes cost nothing to match,
 * however many there are (docs/decisions/0006).
 */
static const char *const secrets[] = {
    /* environments and settings */
    ".env*", "*.env", "secrets/**", "secrets.yml", "secrets.yaml", "secrets.json", "secrets.toml", ".secret", ".secrets",
    ".secrets.yml", ".secrets.yaml", ".secrets.json", ".secrets.toml", ".dev.vars", "local.settings.json", "wp-config.php",
    /* keys and key stores */
    "*.key", "*.pem", "*.p8", "*.p12", "*.pfx", "*.pkcs12", "*.ppk", "*.jks", "*.jceks", "*.bks", "*.keystore", "*.keytab",
    "*.kdbx", "*.ovpn", "id_rsa*", "id_dsa*", "id_ecdsa*", "id_ed25519*", ".ssh/id_*", "ssh_host_*_key", ".gnupg/**",
    ".password-store/**", "wallet.dat",
    /* credentials of tools */
    ".npmrc", ".netrc", "_netrc", ".pypirc", ".git-credentials", ".pgpass", ".my.cnf", ".mylogin.cnf", ".vault-token", ".htpasswd",
    ".dockercfg", ".dockerconfigjson", ".docker/config.json", ".boto", ".s3cfg", ".databrickscfg", ".terraformrc", ".msmtprc",
    ".ftpconfig", "sftp-config.json", "rclone.conf", ".credentials", ".credentials.json", ".cargo/credentials*", ".gem/credentials",
    ".terraform.d/credentials.tfrc.json", ".m2/settings.xml", ".m2/settings-security.xml", ".kaggle/kaggle.json",
    ".cache/huggingface/token", ".codex/auth.json", ".gemini/oauth_creds.json", ".config/gh/hosts.yml", ".config/hub",
    ".config/glab-cli/**", ".config/github-copilot/**", ".config/op/**", ".config/sops/**", ".config/doctl/**",
    /* clouds and clusters */
    ".aws/**", ".azure/**", ".kube/**", ".oci/**", ".config/gcloud/**", "kubeconfig/**", "kubeconfig.yaml", "kubeconfig.yml",
    "*.kubeconfig", "*.tfstate", "*.tfstate.backup", "terraform.tfstate*", "*.tfvars", "*.tfvars.json", "service-account*.json",
    "service_account*.json", "client_secret*.json", "application_default_credentials.json", "gha-creds-*.json",
    "*-firebase-adminsdk-*.json",
    /* histories of shells */
    ".*_history", ".histfile", "fish_history",
};

/*
 * Files that the names above match although they are not secret: templates, certificates and public keys without which pip, npm
 * and databases fail, and code of installed packages. Each pattern has the class of the rule that it excepts from and is
 * contained in it, so it shows nothing that another secret rule hides. It also beats users' `none` rules of lower priority, so
 * the patterns are narrow.
 */
static const char *const not_secret[] = {
    ".env*example", ".env*sample", ".env*template", ".env*.tmpl", ".env*.tpl", ".env*dist", ".env*.j2", ".env*default", ".env*defaults",
    ".env.example.*", ".env.sample.*", ".env.template.*", "*example.env", "*sample.env", "*template.env", "default.env",
    "defaults.env", "secrets/**/*.example", "secrets/**/*.sample", "secrets/**/*.template", "secrets/**/README.md",
    "secrets/**/.gitkeep", "secrets/**/.gitignore", "templates/secrets.yaml", "templates/secrets.yml", "*example.tfvars",
    "*sample.tfvars", "service-account*example.json", "client_secret*example.json", "cacert.pem", "ca.pem", "ca-cert.pem",
    "chain.pem", "fullchain.pem", "roots.pem", "*ca-bundle.pem", "global-bundle.pem", "*public.pem", "*public_key.pem",
    "*public-key.pem", "*public_cert.pem", "*.pub.pem", "*public.key", "debug.keystore", "id_rsa*.pub", "id_dsa*.pub", "id_ecdsa*.pub", "id_ed25519*.pub",
    "kubeconfig/**/*.go", ".azure/pipelines/**", "site-packages/**/*.pem", "node_modules/**/*.pem",
    "site-packages/**/secrets/**", "node_modules/**/secrets/**",
};

static const char *const not_credentials[] = {
    "credentials*.example", "credentials*.sample", "credentials*.template", "site-packages/**/credentials*",
    "node_modules/**/credentials*",
};

/* Source called credentials.py, or in a package of that name, must build in development: there only data of that name is
 * hidden. */
static const char *const credential_files[] = {
    "credentials/**", "credentials.json", "credentials.yaml", "credentials.yml", "credentials.toml", "credentials.ini",
    "credentials.csv", "credentials.xml", "credentials.properties", "credentials.txt",
};

static const char *const credential_code[] = {
    "credentials/**/*.c", "credentials/**/*.cs", "credentials/**/*.go", "credentials/**/*.h", "credentials/**/*.java",
    "credentials/**/*.js", "credentials/**/*.kt", "credentials/**/*.php", "credentials/**/*.py", "credentials/**/*.rb",
    "credentials/**/*.rs", "credentials/**/*.ts", "credentials/**/*.tsx",
};
// clang-format on

static const char *const everything[] = { "**/*" };
static const char *const credentials[] = { "credentials*" };
static const char *const git[] = { ".git/**" };
static const char *const outputs[] = { "/output/**", "/tmp/**" };

static const struct preset_part agent_safe[] = {
    PART("", everything, LEVEL_READ, 0),
    PART("", outputs, LEVEL_WRITE, 10),
    /* In the class of the exceptions below: otherwise a look-up of .git would search it for templates. */
    PART("**/", git, LEVEL_NONE, 100),
    PART("**/", secrets, LEVEL_NONE, 100),
    PART("**/", credentials, LEVEL_NONE, 100),
    PART("**/", not_secret, LEVEL_READ, 100),
    PART("**/", not_credentials, LEVEL_READ, 100),
    /* A virtual environment in a writable directory contains such files too, and installing into it writes them. */
    PART("/output/**/", not_secret, LEVEL_WRITE, 100),
    PART("/output/**/", not_credentials, LEVEL_WRITE, 100),
    PART("/tmp/**/", not_secret, LEVEL_WRITE, 100),
    PART("/tmp/**/", not_credentials, LEVEL_WRITE, 100),
};

static const struct preset_part development[] = {
    PART("", everything, LEVEL_WRITE, 0),           PART("**/", secrets, LEVEL_NONE, 100),
    PART("**/", credential_files, LEVEL_NONE, 100), PART("**/", not_secret, LEVEL_WRITE, 100),
    PART("**/", credential_code, LEVEL_WRITE, 100),
};

static const struct preset_part full_access[] = { PART("", everything, LEVEL_WRITE, 0) };
static const struct preset_part read_only[] = { PART("", everything, LEVEL_READ, 0) };
static const struct preset_part view_only[] = { PART("", everything, LEVEL_VIEW, 0) };

static const struct preset presets[] = {
    { "agent-safe", "read everything, write to /output and /tmp; secrets and .git do not exist" },
    { "development", "read and write everything; secrets do not exist" },
    { "full-access", "read and write everything" },
    { "read-only", "read everything, write nothing" },
    { "view-only", "list everything, read nothing" },
};

static const struct {
    const struct preset_part *parts;
    size_t count;
} contents[ARRAY_LEN(presets)] = {
    { agent_safe, ARRAY_LEN(agent_safe) }, { development, ARRAY_LEN(development) }, { full_access, ARRAY_LEN(full_access) },
    { read_only, ARRAY_LEN(read_only) },   { view_only, ARRAY_LEN(view_only) },
};

const struct preset *preset_list(size_t *ret_count)
{
    *ret_count = ARRAY_LEN(presets);
    return presets;
}

static int preset_reject_name(const char *name, struct err *err)
{
    autodone(buf) struct buf text = BUF_EMPTY;

    buf_add_str(&text, "unknown preset '");
    buf_add_excerpt(&text, name, strlen(name));
    buf_add_str(&text, "' (one of ");
    for (size_t i = 0; i < ARRAY_LEN(presets); i++)
        buf_addf(&text, "%s%s", i ? ", " : "", presets[i].name);
    return err_invalid(err, "%s)", text.data);
}

static int preset_add_part(const char *preset, const struct preset_part *part, struct rule_list *rules, struct err *err)
{
    for (size_t i = 0; i < part->count; i++) {
        autofree char *pattern = xprintf("%s%s", part->at, part->patterns[i]);
        int r = rule_list_add(rules, pattern, strlen(pattern), RULE_GLOB, part->level, part->priority, err);
        if (r < 0)
            return r;
        rules->items[rules->count - 1].preset = preset;
    }
    return 0;
}

int preset_add(const char *name, struct rule_list *rules, struct err *err)
{
    size_t p = 0, count = 0;
    int r = 0;

    while (p < ARRAY_LEN(presets) && strcmp(presets[p].name, name) != 0)
        p++;
    if (p == ARRAY_LEN(presets))
        return preset_reject_name(name, err);
    for (size_t i = 0; i < contents[p].count; i++)
        count += contents[p].parts[i].count;
    if (rules->count + count > RULES_MAX)
        return err_invalid(err, "more than %d rules with those of preset '%s'", RULES_MAX, name);
    for (size_t i = 0; r == 0 && i < contents[p].count; i++)
        r = preset_add_part(presets[p].name, &contents[p].parts[i], rules, err);
    return r;
}

int preset_extend(const char *name, const struct rule_list *additions, const struct rule_list *overrides,
                  struct rule_list *rules, struct err *err)
{
    autodone(rule_list) struct rule_list all = RULE_LIST_EMPTY;
    int r;

    r = preset_add(name, &all, err);
    if (r >= 0 && additions)
        r = rule_list_add_all(&all, additions, err);
    if (r < 0)
        return r;

    size_t raise_from = all.count;
    int32_t highest = INT32_MIN;
    for (size_t i = 0; i < all.count; i++)
        highest = all.items[i].priority > highest ? all.items[i].priority : highest;
    if (highest > INT32_MAX - 100)
        highest = INT32_MAX - 100;
    if (overrides)
        r = rule_list_add_all(&all, overrides, err);
    for (size_t i = raise_from; i < all.count; i++) {
        if (all.items[i].priority <= highest)
            all.items[i].priority = highest + 100;
    }
    if (r >= 0)
        r = rule_list_add_all(rules, &all, err);
    return r;
}

const char *preset_find(const struct rule_list *rules, size_t *ret_count)
{
    const char *found = NULL;

    *ret_count = 0;
    for (size_t i = 0; i < ARRAY_LEN(presets); i++) {
        autodone(rule_list) struct rule_list own = RULE_LIST_EMPTY;
        size_t same = 0;
        if (preset_add(presets[i].name, &own, NULL) < 0)
            continue;
        while (same < own.count && same < rules->count && strcmp(own.items[same].pattern, rules->items[same].pattern) == 0 &&
               own.items[same].level == rules->items[same].level && own.items[same].priority == rules->items[same].priority)
            same++;
        if (same == own.count && own.count > *ret_count) {
            found = presets[i].name;
            *ret_count = own.count;
        }
    }
    return found;
}
