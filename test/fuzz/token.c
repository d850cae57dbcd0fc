/* A token as text: what is taken has a key and addresses. */
#include "fuzz.h"
#include "wire/keys.h"

#include <string.h>

size_t fuzz_limit(size_t size) { return 2 * size + (1 << 14); }

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char *text = malloc(size + 1);
    if (!text) return 0;
    memcpy(text, data, size);
    text[size] = 0;
    wire_token token;
    if (wire_token_parse(text, &token) == SHOAL_OK) {
        fuzz_accepted++;
        FUZZ_CHECK(token.addresses[0] && strlen(token.addresses) < sizeof token.addresses);
    }
    free(text);
    return 0;
}
