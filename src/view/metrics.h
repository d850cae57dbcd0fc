/* A pool's state as metrics, in Prometheus' text exposition format 0.0.4.
 * https://prometheus.io/docs/instrumenting/exposition_formats */
#ifndef VIEW_METRICS_H
#define VIEW_METRICS_H

#include "shoal/shoal.h"

#include <stdio.h>

#define VIEW_METRICS_TYPE "text/plain; version=0.0.4; charset=utf-8"

/* Writes every metric. `status` and its slots as shoal_status_of tells them; `watchers` of the
 * sessions only look at the pool and are not counted. Errors show in ferror. Any thread. */
void view_metrics_write(FILE *out, const shoal_pool_status *status, const shoal_slot *slots,
                        uint32_t n_slots, uint32_t watchers);

#endif
