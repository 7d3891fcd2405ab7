#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "cli/client_verbs.h"
#include "cli/verb.h"
#include "wire/runtime_type.h"

/*
 * The scripts contain no list of verbs, options, ids or presets: they run 'agentfense help', 'agentfense VERB --help' and the listing verbs. So their
 * offers cannot differ from this program.
 */
static const char help[] = "usage: agentfense completion bash|zsh|fish\n\n"
                           "Prints a script that completes verbs, options and ids. For this shell, and for good:\n\n"
                           "  bash   source <(agentfense completion bash)\n"
                           "         mkdir -p ~/.local/share/bash-completion/completions\n"
                           "         agentfense completion bash > ~/.local/share/bash-completion/completions/agentfense\n"
                           "  zsh    source <(agentfense completion zsh)\n"
                           "  fish   agentfense completion fish | source\n"
                           "         mkdir -p ~/.config/fish/completions\n"
                           "         agentfense completion fish > ~/.config/fish/completions/agentfense.fish\n\n"
                           "'make install' has done so for everybody.\n";

/* Shell code that prints the completions for word number $1 (from 1) of those after the verb. $5 is the word before it. */
#define WORDS_FUNCTION                                                                                                         \
    "_agentfense_names() {\n"                                                                                                  \
    "    \"$@\" 2>/dev/null | awk 'NR > 1 { print $1; if ($2 != \"-\") print $2 }'\n"                                          \
    "}\n"                                                                                                                      \
    "_agentfense_words() {\n"                                                                                                  \
    "    local at=$1 verb=$2 second=$3 current=$4 before=$5\n"                                                                 \
    "    if [ \"$at\" -le 1 ]; then\n"                                                                                         \
    "        agentfense help | sed -n 's/^  \\([a-z][a-z]*\\) .*/\\1/p'\n"                                                     \
    "        return\n"                                                                                                         \
    "    fi\n"                                                                                                                 \
    "    case $before in\n"                                                                                                    \
    "    --preset) agentfense policy presets | sed 's/ .*//'; return ;;\n"                                                     \
    "    --codebase) _agentfense_names agentfense codebase ls; return ;;\n"                                                    \
    "    --runtime) printf '%s\\n'" RUNTIME_TYPE_NAMES_OFFERED "; return ;;\n"                                                 \
    "    esac\n"                                                                                                               \
    "    case $current in\n"                                                                                                   \
    "    -*)\n"                                                                                                                \
    "        case $verb in\n"                                                                                                  \
    "        codebase | policy | process | rules | session) agentfense \"$verb\" \"$second\" --help ;;\n"                      \
    "        *) agentfense \"$verb\" --help ;;\n"                                                                              \
    "        esac 2>/dev/null | sed -n 's/^  \\(-[a-zA-Z], \\)*\\(--[a-z-]*\\).*/\\2/p'\n"                                     \
    "        return\n"                                                                                                         \
    "        ;;\n"                                                                                                             \
    "    esac\n"                                                                                                               \
    "    case $verb:$at in\n"                                                                                                  \
    "    codebase:2 | policy:2 | process:2 | rules:2 | session:2 | token:2)\n"                                                 \
    "        agentfense \"$verb\" --help | sed -n \"s/.* agentfense $verb \\([a-z][a-z]*\\).*/\\1/p\" | sort -u ;;\n"          \
    "    completion:2) printf '%s\\n' bash zsh fish ;;\n"                                                                      \
    "    codebase:*) _agentfense_names agentfense codebase ls ;;\n"                                                            \
    "    start:* | stop:* | rm:* | inspect:* | exec:* | shell:2 | attach:2 | process:3 | rules:3 | session:3 | events:2 | "    \
    "logs:2 | diff:2 | approve:2 | discard:2 | undo:2 | conflicts:2 | rebase:2 | commit:2 | comments:3)\n"                     \
    "        _agentfense_names agentfense ls ;;\n"                                                                             \
    "    restore:*) _agentfense_names agentfense ls --status deleted; _agentfense_names agentfense ls --decision rejected "    \
    ";;\n"                                                                                                                     \
    "    esac\n"                                                                                                               \
    "}\n"

static const char bash_script[] =
    "# agentfense(1) for bash\n" WORDS_FUNCTION "_agentfense() {\n"
    "    local current=${COMP_WORDS[COMP_CWORD]}\n"
    "    mapfile -t COMPREPLY < <(compgen -W \"$(_agentfense_words \"$COMP_CWORD\" \\\n"
    "        \"${COMP_WORDS[1]}\" \"${COMP_WORDS[2]}\" \"$current\" \"${COMP_WORDS[COMP_CWORD - 1]}\")\" -- \"$current\")\n"
    "}\n"
    "complete -o default -F _agentfense agentfense\n";

static const char zsh_script[] =
    "#compdef agentfense\n" WORDS_FUNCTION "_agentfense() {\n"
    "    local -a found\n"
    "    found=(${(f)\"$(_agentfense_words $((CURRENT - 1)) \"$words[2]\" \"$words[3]\" \"$words[CURRENT]\" \\\n"
    "        \"$words[CURRENT - 1]\")\"})\n"
    "    compadd -a found || _files\n"
    "}\n"
    "if [ \"$funcstack[1]\" = _agentfense ]; then\n" /* zsh autoloads this file from fpath as a function */
    "    _agentfense \"$@\"\n"
    "else\n"
    "    compdef _agentfense agentfense\n"
    "fi\n";

static const char fish_script[] = "# agentfense(1) for fish\n"
                                  "function __agentfense_words\n"
                                  "    set -l words (commandline -opc)\n"
                                  "    set -l current (commandline -ct)\n"
                                  "    set -l at (count $words)\n"
                                  "    bash -c 'source <(agentfense completion bash); _agentfense_words \"$@\"' - $at "
                                  "\"$words[2]\" \"$words[3]\" \"$current\" \"$words[-1]\"\n"
                                  "end\n"
                                  "complete -c agentfense -a '(__agentfense_words)'\n";

int cmd_completion(int argc, char **argv)
{
    static const struct {
        const char *shell, *script;
    } scripts[] = { { "bash", bash_script }, { "zsh", zsh_script }, { "fish", fish_script } };
    const char *shell = argc > 1 ? argv[1] : "";

    for (size_t i = 0; i < ARRAY_LEN(scripts); i++) {
        if (strcmp(shell, scripts[i].shell) == 0 && argc == 2) {
            fputs(scripts[i].script, stdout);
            return EXIT_SUCCESS;
        }
    }
    if (strcmp(shell, "--help") == 0 || strcmp(shell, "-h") == 0) {
        fputs(help, stdout);
        return EXIT_SUCCESS;
    }
    fprintf(stderr, *shell ? "agentfense completion: no script for '%s'\n" : "agentfense completion: for which shell?\n",
            shell);
    fputs(help, stderr);
    return EXIT_USAGE;
}
