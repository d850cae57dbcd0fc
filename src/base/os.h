/* What the operating system gives beyond POSIX: shared memory, doorbells, local sockets that carry
 * descriptors, names and folders. The only place for such code (os_*.c). Any thread. Every
 * descriptor is close-on-exec; no function raises a signal. */
#ifndef BASE_OS_H
#define BASE_OS_H

#include "base/status.h"

#include <sys/types.h>

/* ---- the machine and this process (os_process.c) ---- */

/* After much has been freed: the system gets its pages back. */
void base_os_memory_trim(void);
/* Blocks of some MiB are taken and freed all the time from now on: malloc does not give their pages
 * back after each, up to 64 MiB at the end of each of its arenas, until base_os_memory_trim. Of
 * itself it does so once the first block of 32 MiB has been freed. Nothing where the user has set
 * malloc's parameters. */
void base_os_memory_keep(void);
/* The program's name ("python3"), "?" when unknown; returns `out`. */
char *base_os_process_name(char *out, size_t room);
/* Names the calling thread, for debuggers; at most 15 bytes count. */
void base_os_thread_name(const char *name);
/* Random bytes from the kernel. */
shoal_status base_os_random(void *out, size_t bytes) SHOAL_CHECK_RESULT;
/* Whether a process of this machine is stopped (SIGSTOP, a debugger), or has ended; RUNS when that
 * cannot be told, but ENDED, too, of one that cannot be seen. */
typedef enum base_os_state { BASE_OS_RUNS, BASE_OS_STOPPED, BASE_OS_ENDED } base_os_state;
base_os_state base_os_process_state(uint32_t pid);
/* Runs a program (found by PATH) without a shell, and waits: what it printed becomes *out. Fails
 * with NOT_FOUND where it cannot be run, IO where it ends with an error or prints more than fits;
 * its errors go where ours go. */
shoal_status base_os_output(const char *const *command, char *out, size_t room) SHOAL_CHECK_RESULT;

/* ---- folders of this user (os_folder.c) ---- */

/* The folder for this user's sockets: $XDG_RUNTIME_DIR/shoal, else /tmp/shoal-UID; made when
 * `create`. Fails with DENIED when it is open to others or belongs to somebody else, NOT_FOUND when
 * it does not exist. */
shoal_status base_os_runtime_folder(bool create, char *out, size_t room) SHOAL_CHECK_RESULT;
/* The same for keys: $XDG_CONFIG_HOME/shoal, else ~/.config/shoal. */
shoal_status base_os_config_folder(bool create, char *out, size_t room) SHOAL_CHECK_RESULT;
/* The same for logs: $XDG_STATE_HOME/shoal, else ~/.local/state/shoal. */
shoal_status base_os_state_folder(bool create, char *out, size_t room) SHOAL_CHECK_RESULT;
/* The same for what can be made again: $XDG_CACHE_HOME/shoal, else ~/.cache/shoal. */
shoal_status base_os_cache_folder(bool create, char *out, size_t room) SHOAL_CHECK_RESULT;
/* A file to be written that will stand at a path: it has no name, so that it is gone when this
 * process ends, however that is. Where the file system has no such files, *named is set, and it is
 * called `draft`, a name in the same folder that must be free. */
shoal_status base_os_draft_open(const char *path, const char *draft, int *fd,
                                bool *named) SHOAL_CHECK_RESULT;
/* Gives one without a name its draft's. */
shoal_status base_os_draft_name(int fd, const char *draft) SHOAL_CHECK_RESULT;
/* These bytes of an open file are zeros from here on, and take no room, where the file system can
 * do so. */
void base_os_file_release(int fd, uint64_t offset, uint64_t bytes);
/* Renames a file within a folder, and syncs that: it has its new name after a power cut, too. */
shoal_status base_os_rename(const char *from, const char *to) SHOAL_CHECK_RESULT;

/* ---- memory shared between processes, doorbells (os_shared.c) ---- */

/* A new memory file of `bytes` zeros that nobody can shrink; to be closed with close(). */
shoal_status base_os_shared_new(const char *name, size_t bytes, int *fd) SHOAL_CHECK_RESULT;
/* Checks a memory file from elsewhere: of exactly this size and sealed, so that reading it can
 * never raise a signal. Fails with FORMAT. */
shoal_status base_os_shared_check(int fd, size_t bytes) SHOAL_CHECK_RESULT;
/* Maps bytes [offset, offset + bytes), `times` times one after the other: with 2, what runs over
 * the end of the first is the start of the second. All are multiples of 64 KiB. */
shoal_status base_os_shared_map(int fd, size_t offset, size_t bytes, int times,
                                void **out) SHOAL_CHECK_RESULT;
/* Undoes a map; nothing for NULL. */
void base_os_shared_unmap(void *at, size_t bytes, int times);

/* A doorbell: becomes readable when rung, until drained. */
shoal_status base_os_doorbell_new(int *fd) SHOAL_CHECK_RESULT;
/* Checks that a descriptor from elsewhere is a doorbell: ringing it never blocks or raises a
 * signal. Fails with FORMAT. */
shoal_status base_os_doorbell_check(int fd) SHOAL_CHECK_RESULT;
void base_os_doorbell_ring(int fd);
void base_os_doorbell_drain(int fd);

/* ---- local stream sockets, non-blocking (os_socket.c) ---- */

enum { BASE_OS_MAX_FDS = 4 };

/* Listens at a path. The lock file PATH.lock is held as long as *lock is open: BUSY when another
 * process holds it; a socket left behind by a dead process is replaced. */
shoal_status base_os_socket_listen(const char *path, int *fd, int *lock) SHOAL_CHECK_RESULT;
/* Removes the socket and the lock file, and closes both. */
void base_os_socket_unlisten(const char *path, int fd, int lock);
/* Removes from a folder what processes left there that ended without unlistening. */
void base_os_socket_sweep(const char *folder);
/* *fd is -1 when nobody is waiting. */
shoal_status base_os_socket_accept(int listener, int *fd) SHOAL_CHECK_RESULT;
/* Fails with NOT_FOUND when nobody listens, BUSY when the listener's queue is full (try again). */
shoal_status base_os_socket_connect(const char *path, int *fd) SHOAL_CHECK_RESULT;
/* Whether the process at the other end runs as our user, and its number. */
shoal_status base_os_socket_peer(int fd, bool *same_user, uint32_t *pid) SHOAL_CHECK_RESULT;
/* Sends all the bytes, with descriptors that the receiver gets copies of. Short messages only: what
 * does not fit the socket's buffer is a failure. */
shoal_status base_os_socket_send(int fd, const void *bytes, size_t n, const int *fds,
                                 size_t fd_count) SHOAL_CHECK_RESULT;
/* Receives up to `room` bytes; *n is 0 when there is nothing yet. Descriptors are appended to fds
 * (room for BASE_OS_MAX_FDS; more than that: FORMAT). Fails with LOST at the end. */
shoal_status base_os_socket_receive(int fd, void *bytes, size_t room, size_t *n, int *fds,
                                    size_t *fd_count) SHOAL_CHECK_RESULT;
/* Milliseconds since bytes last came on a TCP connection; -1 when that cannot be told. */
int64_t base_os_socket_silence(int fd);
/* Bytes a second at which the other end of a TCP connection has taken what was sent of late, while
 * there was something to send; 0 when that cannot be told. */
double base_os_socket_speed(int fd);
/* What tells a socket from another one that has its descriptor later: its inode, from 1 on; 0 for
 * what is no socket. */
uint64_t base_os_socket_identity(int fd);
/* Cuts a connection, both ways, unless the descriptor is another's by now. */
void base_os_socket_cut(int fd, uint64_t identity);
/* Whether a TCP connection leads to another machine; false when that cannot be told. */
bool base_os_socket_leaves(int fd);
/* Whom a TCP connection leads to, as "192.168.1.5:7400" or "[fd00::5]:7400"; false when that cannot
 * be told. */
bool base_os_socket_reached(int fd, char *out, size_t room);
/* Whether such an address is in numbers: one with a name has to be looked up, which may take long.
 */
bool base_os_socket_numbers(const char *address);

/* ---- datagrams to all of one network (os_datagram.c) ---- */

/* A socket that sends to everyone on the network of `host`, an IPv4 address in numbers of this
 * machine, and to nobody else. Fails with UNSUPPORTED where there is no way to do so. */
shoal_status base_os_broadcast_open(const char *host, uint16_t port, int *fd) SHOAL_CHECK_RESULT;
/* May get lost. Never waits. */
void base_os_broadcast_send(int fd, const void *bytes, size_t n);
/* Hears what is sent to everyone on any of this machine's networks; others may listen, too. */
shoal_status base_os_broadcast_listen(uint16_t port, int *fd) SHOAL_CHECK_RESULT;
/* The next datagram, of which `room` bytes are kept; 0 when none comes within so many ms. */
size_t base_os_broadcast_receive(int fd, void *out, size_t room, int ms);
/* The address of this machine from which packets go to an IPv4 address in numbers. */
bool base_os_route(const char *host, char *out, size_t room);

#endif
