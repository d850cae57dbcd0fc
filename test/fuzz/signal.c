/* Signals in YAML: what is read has a name, numbers within their limits, and a `backward` that
 * exists. */
#include "fuzz.h"
#include "plan/signal.h"

size_t fuzz_limit(size_t size) { return (1 << 16) + 256 * size; }

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    plan_signals signals;
    if (plan_signals_parse((const char *)data, size, "fuzzed", NULL, &signals) != SHOAL_OK)
        return 0;
    fuzz_accepted++;
    for (size_t i = 0; i < signals.list.count; i++) {
        const plan_signal *signal = signals.list.data[i];
        FUZZ_CHECK(plan_signal_find(&signals, signal->name) == signal);
        FUZZ_CHECK(!signal->backward || plan_signal_find(&signals, signal->backward));
        FUZZ_CHECK(signal->axis >= -SHOAL_MAX_RANK && signal->axis < SHOAL_MAX_RANK);
        for (uint32_t k = 0; k < signal->n_workers; k++)
            FUZZ_CHECK(signal->workers[k] < PLAN_SIGNAL_WORKERS);
        for (uint32_t k = 0; k < signal->n_shares; k++) FUZZ_CHECK(signal->shares[k] >= 0);
    }
    plan_signals_fini(&signals);
    return 0;
}
