/* The hub's keeper of artifacts: `shoal compile --serve`, a process of its own, so that the hub
 * looks at nothing that it looks at. */
#ifndef SHOAL_CMD_KEEPER_H
#define SHOAL_CMD_KEEPER_H

typedef struct keeper keeper;

/* Starts it, and again when it ends by itself. what: as of --artifacts; both texts are copied.
 * NULL, told: that cannot be done. */
keeper *keeper_start(const char *what, const char *addresses);
/* Ends it, within seconds though it is stopped. NULL is fine. */
void keeper_end(keeper **k);

#endif
