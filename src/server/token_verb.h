/* 'agentfense token': manages the tokens of the server with this configuration, whether it runs or not. */
#pragma once

/* argv[0] is "token". Returns the exit code. */
int token_verb(int argc, char **argv);
