/* Values of options of the command: the first byte says of which. A wrong one ends the command, so
 * its way out is a jump here. */
#include "fuzz.h"

#include "../../cmd/args.h"

#include <setjmp.h>
#include <string.h>

size_t fuzz_limit(size_t size) { return 1 << 16; }

static jmp_buf out;

_Noreturn void cmd_usage(const char *format, ...) { longjmp(out, 1); }

static void parse(int which, char *text) {
    static args_share shares;
    args_range range;
    args_split split;
    static args_slots slots;
    int64_t shape[3];
    switch (which % 8) {
    case 0: {
        int64_t count = args_count("--x", text, -5, 1000);
        FUZZ_CHECK(count >= -5 && count <= 1000);
        break;
    }
    case 1: FUZZ_CHECK(args_positive("--x", text) > 0); break;
    case 2: FUZZ_CHECK(args_size("--x", text) > 0); break;
    case 3:
        range = args_rows("--x", text);
        FUZZ_CHECK(range.first >= 0 && range.last >= range.first);
        break;
    case 4:
        args_shares("--x", text, &shares);
        FUZZ_CHECK(shares.count > 0 && shares.count <= ARGS_MOST_SLOTS);
        break;
    case 5:
        split = args_splits("--x", text);
        FUZZ_CHECK(split.rows + split.columns + split.inner > 0);
        break;
    case 6:
        if (args_shape(text, shape)) FUZZ_CHECK(shape[0] > 0 && shape[1] > 0 && shape[2] > 0);
        break;
    default:
        args_named_slots("--x", text, &slots);
        FUZZ_CHECK(slots.count > 0 && slots.count <= ARGS_MOST_SLOTS && *slots.names[0]);
        FUZZ_CHECK(slots.share.count == 0 || slots.share.count == slots.count);
        break;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (!size) return 0;
    char *text = malloc(size);
    if (!text) return 0;
    memcpy(text, data + 1, size - 1);
    text[size - 1] = 0;
    if (!setjmp(out)) {
        parse(data[0], text);
        fuzz_accepted++;
    }
    free(text);
    return 0;
}
