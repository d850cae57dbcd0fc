/* Commands that run in the background: a lock on a file with the process's number says that one
 * runs, its output goes to a file, and `shoal stop` ends it.
 *
 *   $XDG_RUNTIME_DIR/shoal/ID.pid (else /tmp/shoal-UID)    locked for as long as it runs
 *   $XDG_STATE_HOME/shoal/ID.log (else ~/.local/state)     opened anew on SIGHUP
 *
 * ID is the command's name, or COMMAND-NAME. */
#ifndef CMD_DAEMON_H
#define CMD_DAEMON_H

#include "cmd.h"

enum { DAEMON_ID = 80 };

/* Forms the ID; a usage error when the name (NULL: none) cannot be part of a file's. */
void daemon_identify(const char *command, const char *name, char id[DAEMON_ID]);
/* Goes to the background. Only the child returns, with CMD_OK, or CMD_FAILED after a message; the
 * parent waits for daemon_ready and ends the process, with the child's exit code when that fails.
 * Until then standard output, and the messages of cmd_fail, are the parent's. */
int daemon_start(const char *id);
/* Lets the parent go: from here on all output goes to the log; nothing where none was started. A
 * service of systemd is told to be ready. */
void daemon_ready(void);
/* Gives up the lock. */
void daemon_end(void);
/* Takes a message of cmd_fail; false when this process is in the foreground. */
bool daemon_says(const char *message);

#endif
