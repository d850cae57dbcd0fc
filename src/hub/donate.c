/* Donation: an operand that nobody needs after an instance gives it its memory, so that a result
 * may be written over it (a KV cache, the state of an optimizer, a buffer of a chain).
 *
 * Every device starts instances in the order of their numbers. So what its client has let go of,
 * and no later instance reads, is the last user's from the moment in which that is handed out. */
#include "hub/state.h"

#include "base/log.h"

/* The instances under way that a check may have run again and whose results this one reads: none
 * (0), one, or several. What moves in with this one waits for nothing. */
typedef struct waits {
    uint64_t instance;
    bool several;
} waits;

static waits find_waits(const hub_instance *instance) {
    waits w = {0};
    for (uint32_t i = 0; i < instance->record->n_inputs; i++) {
        const hub_value *value = instance->record->inputs[i];
        if (!value->checked || value->counted || value->checked == instance->id) continue;
        w.several |= w.instance && w.instance != value->checked;
        w.instance = value->checked;
    }
    return w;
}

/* Whether a check, of what is under way, may have it, or another that reads this operand, run again
 * with it. */
static bool may_need(const hub_instance *instance, const waits *w, uint32_t i) {
    const hub_value *operand = instance->record->inputs[i];
    if (instance->program->keeps && instance->program->keeps[i]) return true;
    if (operand->rereads > instance->checked) return true;
    /* What is made together is made again together. */
    bool together = !operand->counted && operand->checked == w->instance;
    return w->instance && (w->several || !together);
}

/* Only what can be made again, where the instance itself may have to be run again. What is bound is
 * lost with its slots in any case. */
static bool may_donate(const hub *h, const hub_instance *instance, const waits *w, uint32_t i) {
    const hub_value *value = instance->record->inputs[i];
    const hub_slot *slot = value->absent ? NULL : hub_slot_of(h, value->layout.slots[0]);
    return value->released && value->last_user == instance->id && !value->twice &&
           !value->data.size && value->stored == instance->input_ids[i] && slot && slot->compute &&
           (value->origin || value->kept ||
            ((value->bound || !hub_recovers(h)) && !may_need(instance, w, i)));
}

/* Members that have parts of it and no part in the instance are told as of all that can go. */
static void free_elsewhere(const hub *h, const hub_instance *instance, const hub_value *value) {
    for (uint32_t i = 0; i < value->layout.n_slots; i++) {
        const hub_slot *slot = hub_slot_of(h, value->layout.slots[i]);
        if (!slot || hub_takes_part(h, &instance->variant->plan, slot->peer)) continue;
        if (!base_vec_push(&slot->peer->free_values, value->stored))
            base_log(BASE_ERROR, "hub", "%s", shoal_error_message());
    }
}

/* Its memory counts as the instance's from now on. */
static shoal_status give(hub *h, hub_value *value, hub_instance *instance) {
    for (uint32_t i = 0; i < value->layout.n_slots; i++) {
        hub_slot *slot = hub_slot_of(h, value->layout.slots[i]);
        if (!slot) continue;
        shoal_type type = plan_layout_type(&value->layout, i, &value->type);
        hub_donation donation = {slot->number, (uint64_t)base_type_bytes(&type)};
        if (!base_vec_push(&instance->donations, donation)) return SHOAL_NO_MEMORY;
        slot->reserved += donation.bytes;
    }
    free_elsewhere(h, instance, value);
    hub_value_nowhere(h, value);
    value->donated_to = instance->id;
    return SHOAL_OK;
}

shoal_status hub_donate(hub *h, hub_instance *instance, uint64_t *donated, size_t *n) {
    waits w =
        find_waits(instance); /* before any is given away, which looks as what is yet to come */
    for (uint32_t i = 0; i < instance->record->n_inputs; i++) {
        if (!may_donate(h, instance, &w, i)) continue;
        donated[(*n)++] = instance->input_ids[i];
        SHOAL_TRY(give(h, instance->record->inputs[i], instance));
    }
    return SHOAL_OK;
}

void hub_donations_carried(const hub *h, const hub_instance *instance, uint64_t *bytes) {
    const plan_result *plan = &instance->variant->plan;
    waits w = find_waits(instance);
    for (uint32_t i = 0; i < instance->record->n_inputs; i++) {
        const hub_value *value = instance->record->inputs[i];
        if (!instance->program->carry[i] || !value->counted || !may_donate(h, instance, &w, i))
            continue;
        for (uint32_t p = 0; p < plan->n_programs; p++) {
            int at = plan_layout_find_from(&value->layout, plan->programs[p].slot, p);
            if (at < 0) continue;
            shoal_type type = plan_layout_type(&value->layout, (uint32_t)at, &value->type);
            bytes[p] += (uint64_t)base_type_bytes(&type);
        }
    }
}

void hub_donated_end(hub *h, const hub_instance *instance) {
    for (size_t i = 0; i < instance->donations.count; i++) {
        hub_slot *slot = hub_slot_of(h, instance->donations.data[i].slot);
        if (slot) slot->reserved -= instance->donations.data[i].bytes;
    }
}
