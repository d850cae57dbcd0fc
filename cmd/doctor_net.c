/* `shoal doctor` on the network: each trouble by its name, with what to do about it. */
#include "doctor.h"
#include "net.h"
#include "pool.h"
#include "text.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { HUB_TIMEOUT_MS = 3000, ADVICE = 2048, MOST_SKEW_MS = 30000 };

/* ---- this machine ---- */

static int64_t now_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* A clock that was never set shows 1970, or when the machine was made. */
static void check_clock(cJSON *rows) {
    const int64_t year_2025_ms = INT64_C(1735689600000);
    char text[64] = "?";
    struct tm utc;
    time_t seconds = (time_t)(now_ms() / 1000);
    if (gmtime_r(&seconds, &utc) != NULL) strftime(text, sizeof text, "%Y-%m-%d %H:%M UTC", &utc);
    if (now_ms() < year_2025_ms)
        doctor_add(rows, "clock", "trouble", text,
                   "it was never set, and tokens expire by it: sudo timedatectl set-ntp true");
    else
        doctor_add(rows, "clock", "ok", text, NULL);
}

static void check_addresses(cJSON *rows) {
    char all[NET_TEXT];
    if (net_addresses(all) > 0)
        doctor_add(rows, "network", "ok", all, NULL);
    else
        doctor_add(rows, "network", "none", "no address but loopback",
                   "to pool machines, connect this one to a network");
}

static void check_listen(cJSON *rows, const char *listen) {
    char host[NET_HOST], port[8], who[NET_TEXT], all[NET_TEXT], detail[2 * NET_TEXT],
        advice[ADVICE];
    if (!net_split(listen, host, port)) {
        snprintf(detail, sizeof detail, "'%s' is no HOST:PORT", listen);
        doctor_add(rows, "listen", "trouble", detail,
                   "name an interface and a port, as "
                   "192.168.1.5:7400");
        return;
    }
    int error = net_try_listen(host, port);
    snprintf(detail, sizeof detail, "%s: %s", listen,
             error == 0  ? "free"
             : error < 0 ? "no such host"
                         : strerror(error));
    net_addresses(all);
    snprintf(advice, sizeof advice, "this machine has: %s", all[0] != 0 ? all : "loopback only");
    if (error == EADDRINUSE) {
        bool told = net_listener(port, who);
        snprintf(detail, sizeof detail, "%s is in use%s%s", listen, told ? " by " : "",
                 told ? who : "");
        snprintf(advice, sizeof advice,
                 "end %s, or choose another port; a hub of yours in the background ends by 'shoal "
                 "stop hub', and 'sudo ss -ltnp sport = :%s' tells whose it is",
                 told ? who : "the process", port);
    } else if (error == EACCES) {
        snprintf(advice, sizeof advice, "ports below 1024 are for root: choose one above, as 7400");
    }
    doctor_add(rows, "listen", error == 0 ? "ok" : "trouble", detail, error == 0 ? NULL : advice);
}

/* ---- the hub on this machine ---- */

/* Two logins may disagree on where sockets are: the hub is there, but not where this one looks. */
static bool find_elsewhere(const char *address, char advice[ADVICE]) {
    char own[256], path[512], folders[2][128];
    const char *name = address + strlen("shm:");
    if (name[0] == '/' || shoal_folder_path(SHOAL_FOLDER_RUNTIME, false, own, sizeof own) != 0)
        own[0] = 0;
    snprintf(folders[0], sizeof folders[0], "/run/user/%u/shoal", (unsigned)getuid());
    snprintf(folders[1], sizeof folders[1], "/tmp/shoal-%u", (unsigned)getuid());
    for (int i = 0; i < 2 && name[0] != '/'; i++) {
        snprintf(path, sizeof path, "%s/%.255s", folders[i], name);
        if (strcmp(folders[i], own) == 0 || !net_socket_alive(path)) continue;
        if (i == 0)
            snprintf(advice, ADVICE,
                     "a hub of yours listens in %s, and this login looks elsewhere: export "
                     "XDG_RUNTIME_DIR=/run/user/%u",
                     folders[i], (unsigned)getuid());
        else
            snprintf(advice, ADVICE,
                     "a hub of yours listens in %s, and this login looks elsewhere: unset "
                     "XDG_RUNTIME_DIR, or start the hub anew",
                     folders[i]);
        return true;
    }
    return false;
}

static void advise_local(const char *address, shoal_status status, bool asked,
                         char advice[ADVICE]) {
    switch (status) {
    case SHOAL_NOT_FOUND:
        if (find_elsewhere(address, advice)) return;
        snprintf(advice, ADVICE,
                 asked ? "no process serves it; start it: shoal hub --daemon --address %s"
                       : "a program alone needs none; to pool processes: shoal hub --daemon "
                         "--address %s",
                 address);
        return;
    case SHOAL_DENIED:
        snprintf(advice, ADVICE,
                 "a Unix socket serves its own user: be that user, or come over the network: there "
                 "'shoal hub --listen HOST:PORT', here 'shoal join'");
        return;
    default:
        snprintf(advice, ADVICE,
                 "its process is there but does not answer: look for it with 'ps -C shoal -o "
                 "pid,stat,args' (T is stopped: kill -CONT PID), else end it and start it anew");
    }
}

/* ---- the hub on another machine ---- */

/* What a plain TCP connection to one address finds; true when that explains the failure. */
static bool advise_route(const char *host, const char *port, char detail[NET_TEXT],
                         char advice[ADVICE]) {
    char why[NET_TEXT];
    net_state state = net_probe(host, port, why);
    if (state == NET_OPEN) return false;
    snprintf(detail, NET_TEXT, "%.200s port %s: %.500s", host, port, why);
    switch (state) {
    case NET_REFUSED:
        snprintf(
            advice, ADVICE,
            "that machine answers, but no process listens at port %s: start the hub there with "
            "'shoal hub --listen %.200s:%s', or check the port",
            port, host, port);
        break;
    case NET_SILENT:
        snprintf(advice, ADVICE,
                 "nothing comes back: a firewall drops it, or no machine has that address. Where "
                 "the hub runs, let the port in: 'sudo ufw allow %s/tcp', or 'sudo firewall-cmd "
                 "--add-port=%s/tcp'; a guest WiFi may keep its machines apart",
                 port, port);
        break;
    case NET_UNREACHED:
        snprintf(
            advice, ADVICE,
            "this machine has no way there: check the address, the cable, the WiFi or the VPN");
        break;
    case NET_UNKNOWN:
        snprintf(advice, ADVICE,
                 "the name is not known here: use the hub's address in numbers, which it printed, "
                 "or add the name to /etc/hosts");
        break;
    default: snprintf(advice, ADVICE, "check the address: tcp://HOST:PORT");
    }
    return true;
}

static void advise_remote(const char *addresses, shoal_status status, char detail[NET_TEXT],
                          char advice[ADVICE]) {
    char host[NET_HOST], port[8], one[NET_HOST];
    if (status == SHOAL_DENIED) {
        snprintf(advice, ADVICE,
                 "this user has not joined it: where the hub runs, 'shoal invite' prints a token; "
                 "here, run 'shoal join'");
        return;
    }
    for (const char *at = strstr(addresses, "tcp://"); at != NULL; at = strstr(at + 1, "tcp://")) {
        size_t length = strcspn(at + 6, ",/");
        snprintf(one, sizeof one, "%.*s", (int)(length < sizeof one ? length : 0), at + 6);
        if (net_split(one, host, port) && advise_route(host, port, detail, advice)) return;
    }
    snprintf(advice, ADVICE,
             "something listens there, but does not answer as that hub: check that the port is the "
             "hub's, and that the hub is not stopped ('shoal status' where it runs)");
}

static void explain_hub(cJSON *rows, const char *address, bool asked, shoal_status status) {
    char message[NET_TEXT], detail[NET_TEXT] = "", both[2 * NET_TEXT + 4], advice[ADVICE] = "";
    bool local = strncmp(address, "shm:", 4) == 0;
    snprintf(message, sizeof message, "%s", shoal_error_message());
    if (status == SHOAL_VERSION)
        snprintf(advice, sizeof advice, "this is Shoal %s: install one version on all machines",
                 shoal_version());
    else if (status == SHOAL_INVALID)
        snprintf(advice, sizeof advice, "give an address like shm:hub, or the one the hub printed");
    else if (local)
        advise_local(address, status, asked, advice);
    else
        advise_remote(address, status, detail, advice);
    snprintf(both, sizeof both, "%s%s%s", message, detail[0] != 0 ? "; " : "", detail);
    doctor_add(rows, "hub", asked ? "trouble" : "none", both, advice);
}

/* Tokens are made on one machine and expire on another. */
static void check_skew(cJSON *rows, int64_t before, int64_t hub, int64_t after) {
    int64_t skew = hub - (before + after) / 2;
    char detail[128];
    if (hub == 0) return; /* an older hub does not tell */
    snprintf(detail, sizeof detail, "%.1f s %s the hub's", (double)(skew < 0 ? -skew : skew) * 1e-3,
             skew < 0 ? "ahead of" : "behind");
    if (skew < -MOST_SKEW_MS || skew > MOST_SKEW_MS)
        doctor_add(rows, "clocks", "trouble", detail,
                   "tokens expire by the clock, and logs cannot be compared: on both machines, "
                   "sudo timedatectl set-ntp true");
}

static void check_relayed(cJSON *rows, const shoal_slot *slot) {
    char detail[NET_TEXT], bytes[TEXT_ROOM];
    snprintf(detail, sizeof detail, "%s at %s: %s came by way of the hub", slot->worker, slot->host,
             text_bytes(slot->relayed, bytes));
    doctor_add(rows, "links", "note", detail,
               "others cannot reach it, or it them, and this is slower: let TCP in there, or "
               "start it with --listen and an address that the others reach");
}

static void check_hub(cJSON *rows, const char *given) {
    const char *address = cmd_hub_address(given);
    bool asked = given != NULL || getenv("SHOAL_HUB") != NULL;
    char detail[NET_TEXT];
    const shoal_options session = {
        .size = sizeof session, .hub = address, .timeout_ms = HUB_TIMEOUT_MS, .name = "doctor"};
    cmd_pool pool;
    shoal_status status = pool_open(&session, &pool);
    if (status != SHOAL_OK) {
        explain_hub(rows, address, asked, status);
        return;
    }
    shoal_pool_status again = {.size = sizeof again};
    int64_t before = now_ms();
    if (shoal_status_of(pool.session, &again, NULL, 0) == SHOAL_OK)
        check_skew(rows, before, (int64_t)again.unix_ms, now_ms());
    uint32_t workers = 0;
    for (uint32_t i = 0; i < pool.status.n_slots; i++) workers += pool.slots[i].compute;
    snprintf(detail, sizeof detail, "%s, version %s, %u worker%s", pool.status.address,
             pool.status.version, workers, workers == 1 ? "" : "s");
    if (strcmp(pool.status.version, shoal_version()) != 0)
        doctor_add(rows, "hub", "note", detail, "run one version everywhere");
    else
        doctor_add(rows, "hub", workers > 0 ? "ok" : "note", detail,
                   workers > 0 ? NULL : "start a worker: shoal worker --daemon");
    for (uint32_t i = 0; i < pool.status.n_slots; i++)
        if (pool.slots[i].compute && pool.slots[i].relayed > 0) check_relayed(rows, &pool.slots[i]);
    pool_close(&pool);
}

void doctor_network(cJSON *rows, const char *hub, const char *listen) {
    check_clock(rows);
    check_addresses(rows);
    if (listen != NULL) check_listen(rows, listen);
    check_hub(rows, hub);
}
