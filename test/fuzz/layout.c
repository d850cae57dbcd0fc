/* The flat form of a layout, as clients ask for it, and its verification. */
#include "fuzz.h"
#include "plan/layout.h"

size_t fuzz_limit(size_t size) { return 64 * size + (1 << 16); }

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const int64_t dims[] = {4, 6, 5};
    base_arena arena;
    plan_layout layout;
    base_arena_init(&arena, fuzz_limit(size) / 2);
    if (plan_layout_decode(&arena, data, size, &layout) == SHOAL_OK &&
        plan_layout_verify(&layout, 3, dims) == SHOAL_OK) {
        fuzz_accepted++;
        for (uint32_t i = 0; i < layout.n_slots; i++) {
            base_box box = plan_layout_box(&layout, i);
            for (uint32_t a = 0; a < 3; a++)
                FUZZ_CHECK(box.start[a] >= 0 && box.start[a] + box.size[a] <= dims[a]);
        }
    }
    base_arena_fini(&arena);
    return 0;
}
