/* What verbs say of themselves that are about workspaces: one text for both programs that have a part in a verb. */
#pragma once

#define CREATE_WORKSPACE_OPTIONS_HELP                                                                                          \
    "  -s, --scope DIR        the directory; nothing is copied, and nothing in it changes until 'agentfense approve'\n"        \
    "  --name NAME            a name to call it by; its metadata `name`\n"                                                     \
    "  --tag TAG              a tag; may be given again\n"                                                                     \
    "  -p, --project DIR      the project that it is in, and that paths are told from; without: the scope\n"                   \
    "  -r, --reserve PATH     what no other workspace may reserve meanwhile; may be given again; without: the scope\n"         \
    "  --no-lock              reserve nothing\n"                                                                               \
    "  -o, --owner OWNER      whose work it is\n"                                                                              \
    "  --owner-type TYPE      agent, user, task or system\n"                                                                   \
    "  --driver DRIVER        how changes are kept apart: fence, overlayfs or copy\n"                                          \
    "  --host-mount           mount its files on the host, too: its mergedDir; takes a server that runs as root\n"             \
    "  --profile ID           what of the host it sees, and its network; one that is none is told those there are\n"           \
    "  --behavior FILE        JSON: how it ends, what may be approved, by itself too, and which hooks run before that\n"       \
    "  --key KEY              the same request with the same key makes one workspace\n"

#define CREATE_WORKSPACE_HELP                                                                                                  \
    "usage: agentfense create --scope DIR [options]\n\n"                                                                       \
    "Makes a workspace, a sandbox over a live directory, starts it, and prints its id.\n\n" CREATE_WORKSPACE_OPTIONS_HELP      \
        POLICY_OPTIONS_HELP

#define DIFF_HELP                                                                                                              \
    "usage: agentfense diff SANDBOX [PATH...] [options]\n"                                                                     \
    "\n"                                                                                                                       \
    "Shows what a sandbox of 'agentfense run', or a workspace of 'agentfense create --scope', changes, as a unified diff: "    \
    "all\n"                                                                                                                    \
    "of it, or what is at and below each PATH. What could mislead a terminal is written out. `.git` is never shown.\n"         \
    "\n"                                                                                                                       \
    "  --stat                 how many lines changed in each file\n"                                                           \
    "  --name-only            the paths of the changed files\n"                                                                \
    "  --patch                exact bytes, as `git apply` takes them; to a file or a pipe\n"                                   \
    "\n"                                                                                                                       \
    "Of a workspace, --stat and --name-only do not count as having looked: 'agentfense approve' takes what was shown.\n"

#define APPROVE_HELP                                                                                                           \
    "usage: agentfense approve SANDBOX [PATH...] [options]\n"                                                                  \
    "\n"                                                                                                                       \
    "Writes what a sandbox of 'agentfense run', or a workspace, changes into its directory: all of it, or what is at and\n"    \
    "below each PATH, or with -p the hunks that you choose. The rest stays in the sandbox. What was changed there meanwhile\n" \
    "is merged; where that cannot be, nothing is written. 'agentfense undo' takes it back.\n"                                  \
    "\n"                                                                                                                       \
    "  -p, --patch            ask for each hunk\n"                                                                             \
    "  -a, --all              all changes, also without having looked at a diff (workspaces want to be seen first)\n"          \
    "  -n, --dry-run          only tell what would be written\n"                                                               \
    "  -f, --force            write in spite of conflicts\n"                                                                   \
    "  --acknowledge          also what runs later by itself: hooks, CI, editor tasks, links that lead out\n"                  \
    "  --override-acceptance  workspaces: also what their rules of acceptance leave out\n"                                     \
    "  --verify               workspaces, with --dry-run: run the hooks all the same\n"                                        \
    "  --no-verify            do not run the project's hooks; of workspaces for administrators\n"                              \
    "  --stop                 workspaces: it may be stopped for this and started again, where its driver needs that\n"         \
    "  -c, --commit           workspaces: commit what was written, and nothing else that is staged\n"                          \
    "  -m, --message TEXT     workspaces: the message of the commit\n"                                                         \
    "  --actor NAME           workspaces: who says so; the audit has who really called, too\n"

#define APPROVE_EXIT_HELP "\nExits with 1 when nothing was written because of conflicts, or of changes that nobody has seen.\n"

#define UNDO_HELP                                                                                                              \
    "usage: agentfense undo SANDBOX [APPROVAL] [options]\n"                                                                    \
    "\n"                                                                                                                       \
    "Takes an approval back: the directory gets what it had. The last one that was not undone, unless one is named. Where\n"   \
    "something was changed since, nothing is written.\n"                                                                       \
    "\n"                                                                                                                       \
    "  -l, --list             list approvals, the oldest first (of 'agentfense run')\n"                                        \
    "  -n, --dry-run          only tell what would be written\n"                                                               \
    "  --stop                 workspaces: it may be stopped for this and started again, where its driver needs that\n"

#define DISCARD_HELP                                                                                                           \
    "usage: agentfense discard NAME... [options]\n"                                                                            \
    "       agentfense discard WORKSPACE PATH... [options]\n"                                                                  \
    "\n"                                                                                                                       \
    "Removes sandboxes of 'agentfense run' with everything they changed. Of a workspace: takes the changes at and below "      \
    "each\n"                                                                                                                   \
    "PATH out of it; the agent sees the project's files there again.\n"                                                        \
    "\n"                                                                                                                       \
    "  --stop                 end what runs in a sandbox of 'agentfense run'; a workspace may be stopped for this and "        \
    "started\n"                                                                                                                \
    "                         again, where its driver needs that\n"
