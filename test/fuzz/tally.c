#include "tally.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROLES = 8, UNKNOWN = TALLY_DATA - 1 };

static struct {
    const char *name;
    uint64_t n[TALLY_KINDS][TALLY_FATES];
} roles[ROLES];

static void print(void) {
    printf("%-22s %-12s %10s %10s %10s\n", "said by", "kind", "taken", "dropped", "refused");
    for (int r = 0; r < ROLES && roles[r].name; r++)
        for (int kind = 0; kind < TALLY_KINDS; kind++) {
            const uint64_t *n = roles[r].n[kind];
            if (!n[TALLY_TAKEN] && !n[TALLY_DROPPED] && !n[TALLY_REFUSED]) continue;
            const ProtobufCEnumValue *value =
                protobuf_c_enum_descriptor_get_value(&shoal__kind__descriptor, kind);
            printf("%-22s %-12s %10llu %10llu %10llu\n", roles[r].name,
                   kind == TALLY_DATA ? "data"
                   : value            ? value->name
                                      : "no kind",
                   (unsigned long long)n[TALLY_TAKEN], (unsigned long long)n[TALLY_DROPPED],
                   (unsigned long long)n[TALLY_REFUSED]);
        }
}

void tally(const char *role, uint32_t kind, tally_fate fate) {
    int r = 0;
    if (!roles[0].name) atexit(print);
    while (r < ROLES - 1 && roles[r].name && strcmp(roles[r].name, role)) r++;
    roles[r].name = role;
    bool known = kind == TALLY_DATA ||
                 protobuf_c_enum_descriptor_get_value(&shoal__kind__descriptor, (int)kind);
    roles[r].n[known ? kind : UNKNOWN][fate]++;
}
