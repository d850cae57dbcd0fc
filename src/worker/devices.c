/* The devices of a worker: opening those that it lends, what stands beside them, and losing one. */
#include "worker/state.h"

#include "backend/registry.h"
#include "base/log.h"

#include <string.h>

/* ---- opening ---- */

shoal_status worker_slot_open(worker *w, worker_slot *slot, const worker_device *device) {
    slot->worker = w;
    slot->tail = &slot->head;
    slot->submitted_end = &slot->submitted;
    slot->number = UINT32_MAX;
    slot->home = !device;
    if (!device) return SHOAL_OK;
    slot->device = *device;
    return worker_queue_open(&slot->own, device);
}

static bool is_processor(const worker_slot *slot) {
    return !slot->home && !strcmp(slot->device.backend->name, "cpu");
}

/* What a device cannot do the processor does: that of a slot, else one that is no slot. */
static shoal_status stand_beside(worker *w) {
    bool others = false;
    for (uint32_t i = 0; i < w->n_slots; i++) {
        if (is_processor(&w->slots[i]) && !w->processor) w->processor = &w->slots[i].own;
        others |= !is_processor(&w->slots[i]) && !w->slots[i].home;
    }
    if (!others) return SHOAL_OK;
    if (!w->processor) {
        uint32_t threads = 0;
        for (uint32_t i = 0; i < w->n_slots; i++)
            if (w->slots[i].device.threads > threads) threads = w->slots[i].device.threads;
        worker_device beside = {.threads = threads};
        SHOAL_TRY(backend_find("cpu", &beside.backend));
        w->processor = &w->spare;
        SHOAL_TRY(worker_queue_open(&w->spare, &beside));
    }
    for (uint32_t i = 0; i < w->n_slots; i++)
        if (!is_processor(&w->slots[i]) && !w->slots[i].home) w->slots[i].aside = w->processor;
    return SHOAL_OK;
}

shoal_status worker_devices_open(worker *w, const worker_options *options) {
    shoal_status status = SHOAL_OK;
    for (uint32_t i = 0; i < options->n_devices; i++) {
        worker_slot *slot = &w->slots[w->n_slots++];
        status = worker_slot_open(w, slot, &options->devices[i]);
        if (status == SHOAL_OK) continue;
        if (!options->devices[i].dispensable) return status;
        base_log(BASE_WARN, w->name, "goes without device %u of backend %s: %s",
                 options->devices[i].index, options->devices[i].backend->name,
                 shoal_error_message());
        worker_queue_close(&slot->own);
        *slot = (worker_slot){0};
        w->n_slots--;
    }
    if (!w->n_slots && options->n_devices) return status;
    return stand_beside(w);
}

uint64_t worker_capacity(const worker_slot *slot, uint32_t n, uint64_t *near) {
    const worker_queue *own = &slot->own, *machine = own->host ? own : slot->aside;
    uint64_t share = machine ? machine->info.memory / 4 * 3 / n : 0;
    uint64_t itself = own->info.memory / (slot->device.share ? slot->device.share : 1);
    uint64_t all = own->host ? share : itself + share;
    if (slot->device.memory) all = slot->device.memory;
    *near = own->host || itself > all ? all : itself;
    return all;
}

/* ---- losing ---- */

/* A piece that a task holds stays until that ends. */
static void forget_pieces(worker_slot *slot) {
    size_t at = 0;
    uint64_t key;
    void *piece;
    while (base_map_next(&slot->pieces, &at, &key, &piece)) worker_piece_release(piece);
    base_map_fini(&slot->pieces);
    base_map_init(&slot->pieces);
}

void worker_part(worker *w) {
    for (uint32_t i = 0; i < w->n_slots && w->hub && !w->stopping; i++) {
        worker_slot *slot = &w->slots[i];
        if (slot->parted || slot->home || !atomic_load(&slot->own.lost)) continue;
        slot->parted = true;
        base_log(BASE_WARN, w->name, "goes on without %s: %s", slot->own.name, slot->own.why);
        Shoal__Error error = SHOAL__ERROR__INIT;
        Shoal__DeviceLost lost = SHOAL__DEVICE_LOST__INIT;
        error.status = SHOAL_LOST;
        error.message = slot->own.why;
        lost.slot = slot->number;
        lost.error = &error;
        if (wire_send(w->hub, SHOAL__KIND__DEVICE_LOST, &lost.base) != SHOAL_OK)
            base_log(BASE_WARN, w->name, "%s", shoal_error_message());
        forget_pieces(slot);
    }
}
