/* Help texts of the review verbs. */
#pragma once

#define DIFF_HELP                                                                                                              \
    "usage: agentfense diff SANDBOX [PATH...] [options]\n"                                                                     \
    "\n"                                                                                                                       \
    "Shows what a sandbox changes, as a unified diff: all of it, or what is at and below each PATH. Control\n"                 \
    "characters are escaped. Changes in `.git` are never shown.\n"                                                             \
    "\n"                                                                                                                       \
    "  --stat                 how many lines changed in each file\n"                                                           \
    "  --name-only            the paths of the changed files\n"                                                                \
    "  --patch                exact bytes, as `git apply` takes them; to a file or a pipe\n"                                   \
    "\n"                                                                                                                       \
    "--stat and --name-only do not count as shown: 'agentfense approve' writes only changes that were shown.\n"

#define APPROVE_OPTIONS_HELP                                                                                                   \
    "  -n, --dry-run          only print what would be written\n"                                                              \
    "  -f, --force            write in spite of conflicts, and changes that were not shown\n"                                  \
    "  --acknowledge          also files that run by themselves later: hooks, CI, editor tasks, links that lead out\n"         \
    "  --override-acceptance  also files that the sandbox's rules of acceptance leave out\n"                                   \
    "  --verify               with --dry-run: run the hooks all the same\n"                                                    \
    "  --no-verify            do not run the project's hooks; administrators may\n"                                            \
    "  --stop                 the sandbox may be stopped for this and started again, where its driver needs that\n"            \
    "  -c, --commit           commit the written files, and nothing else that is staged\n"                                     \
    "  -m, --message TEXT     the message of the commit\n"                                                                     \
    "  --actor NAME           who approves; the audit log has the caller as well\n"

#define APPROVE_HELP                                                                                                           \
    "usage: agentfense approve SANDBOX [PATH...] [options]\n"                                                                  \
    "\n"                                                                                                                       \
    "Writes what a sandbox changes into its directory: all that 'agentfense diff' has shown, or what is at and below each\n"   \
    "PATH, or with -p the hunks that you choose. The rest stays in the sandbox. What was changed there meanwhile is merged;\n" \
    "where that cannot be, nothing is written. 'agentfense undo' takes it back.\n"                                             \
    "\n"                                                                                                                       \
    "  -p, --patch            ask for each hunk\n"                                                                             \
    "  -a, --all              all changes there are, also those that no diff has shown\n"                                      \
    "  --rm                   remove the sandbox when nothing is left in it\n" APPROVE_OPTIONS_HELP

#define APPLY_HELP                                                                                                             \
    "usage: agentfense apply SANDBOX [PATH...] [options]\n"                                                                    \
    "\n"                                                                                                                       \
    "The same as 'agentfense approve --all --rm': writes all that a sandbox changes, or what is at and below each PATH, and\n" \
    "removes the sandbox when nothing is left in it.\n"                                                                        \
    "\n"                                                                                                                       \
    "  --keep                 keep the sandbox\n" APPROVE_OPTIONS_HELP

#define APPROVE_EXIT_HELP "\nExits with 1 when nothing was written because of conflicts, or of changes that were not shown.\n"

#define UNDO_HELP                                                                                                              \
    "usage: agentfense undo SANDBOX [APPROVAL] [options]\n"                                                                    \
    "\n"                                                                                                                       \
    "Takes an approval back: the directory gets what it had. The last one that was not undone, unless one is named. Where\n"   \
    "something was changed since, nothing is written.\n"                                                                       \
    "\n"                                                                                                                       \
    "  -l, --list             list approvals, the newest first\n"                                                              \
    "  -n, --dry-run          only print what would be written\n"                                                              \
    "  --stop                 the sandbox may be stopped for this and started again, where its driver needs that\n"            \
    "  --actor NAME           who decides\n"

#define DISCARD_HELP                                                                                                           \
    "usage: agentfense discard SANDBOX PATH... [options]\n"                                                                    \
    "       agentfense discard SANDBOX --all [options]\n"                                                                      \
    "\n"                                                                                                                       \
    "Gives up changes of a sandbox: those at and below each PATH, or all. The agent sees the project's files there again.\n"   \
    "'agentfense rm' removes a sandbox with its changes.\n"                                                                    \
    "\n"                                                                                                                       \
    "  -a, --all              all changes\n"                                                                                   \
    "  --stop                 the sandbox may be stopped for this and started again, where its driver needs that\n"            \
    "  --actor NAME           who decides\n"
