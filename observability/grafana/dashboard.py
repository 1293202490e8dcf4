"""The Grafana dashboard as code: prints temporal-slab.json (`make docs` writes it, a test compares it).

    dashboard.py             the JSON
    dashboard.py --queries   every query, one a line, for checks against a real Prometheus
"""

import json
import sys

BYTES, SECONDS, RATE, COUNT, PERCENT = "decbytes", "s", "ops", "short", "percentunit"

# Title, unit, kind, [(legend, query)]. $job and $instance are variables of the dashboard.
W = '{job=~"$job", instance=~"$instance"}'


def select(**labels):
    return '{job=~"$job", instance=~"$instance"' + "".join(f', {k}="{v}"' for k, v in labels.items()) + "}"


PANELS = [
    ("Memory of the process", BYTES, "timeseries", [
        ("resident", f"temporal_slab_rss_bytes{W}"),
        ("committed", f"temporal_slab_committed_bytes{W}"),
        ("retained", f"temporal_slab_retained_bytes{W}"),
        ("metadata", f"temporal_slab_metadata_bytes{W}")]),
    ("Slabs by epoch label", BYTES, "stacked", [
        ("{{label}} {{state}}", f"temporal_slab_epoch_estimated_rss_bytes{W}")]),
    ("Slabs by class", BYTES, "stacked", [("{{class}}", f"temporal_slab_slab_bytes{W}")]),
    ("Given back to the system", "Bps", "timeseries", [
        ("bytes", f"rate(temporal_slab_madvise_bytes_total{W}[30s])")]),
    ("Purge calls", RATE, "timeseries", [
        ("calls", f"rate(temporal_slab_madvise_calls_total{W}[30s])"),
        ("failures", f"rate(temporal_slab_madvise_failures_total{W}[30s])")]),
    ("Slow paths by reason", RATE, "timeseries", [
        ("{{reason}}", f"sum by (reason) (rate(temporal_slab_slow_path_hits_total{W}[30s]))")]),
    ("Slow paths, part of all allocations", PERCENT, "timeseries", [
        ("part", f"sum(rate(temporal_slab_slow_path_hits_total{W}[30s])) / "
                 f"sum(rate(temporal_slab_allocated_objects_total{W}[30s]))")]),
    ("Tail attribution: mean of timed allocations", SECONDS, "stacked", [
        ("on the processor", f"sum(rate(temporal_slab_alloc_cpu_seconds_total{W}[30s])) / "
                             f"sum(rate(temporal_slab_alloc_samples_total{W}[30s]))"),
        ("waiting", f"sum(rate(temporal_slab_alloc_wait_seconds_total{W}[30s])) / "
                    f"sum(rate(temporal_slab_alloc_samples_total{W}[30s]))")]),
    ("Tail attribution: longest so far", SECONDS, "timeseries", [
        ("allocation, clock", f"max(temporal_slab_alloc_wall_max_seconds{W})"),
        ("allocation, processor", f"max(temporal_slab_alloc_cpu_max_seconds{W})"),
        ("free, clock", f"max(temporal_slab_free_wall_max_seconds{W})"),
        ("free, processor", f"max(temporal_slab_free_cpu_max_seconds{W})")]),
    ("Contention", RATE, "timeseries", [
        ("locks waited for", f"rate(temporal_slab_lock_contended_total{W}[30s])"),
        ("locks got at once", f"rate(temporal_slab_lock_fast_acquires_total{W}[30s])"),
        ("foreign frees tried again", f"rate(temporal_slab_foreign_free_cas_retries_total{W}[30s])"),
        ("foreign frees", f"sum(rate(temporal_slab_foreign_frees_total{W}[30s]))")]),
    ("Slab recycling", RATE, "timeseries", [
        ("taken into use", f"sum(rate(temporal_slab_slabs_allocated_total{W}[30s]))"),
        ("recycled", f"sum(rate(temporal_slab_slabs_recycled_total{W}[30s]))"),
        ("given back", f"sum(rate(temporal_slab_slabs_overflowed_total{W}[30s]))")]),
    ("Top epochs by label", BYTES, "table", [
        ("", f"topk(10, sum by (label) (temporal_slab_epoch_estimated_rss_bytes{W}))")]),
    ("Leaks: seconds since the close, with live objects", SECONDS, "table", [
        ("", f"temporal_slab_epoch_closing_seconds{W} > 0")]),
    ("Leaks: bytes in closed epochs", BYTES, "stacked", [
        ("{{label}} class {{class}}", f"temporal_slab_epoch_class_live_bytes{select(state='closing')}")]),
    ("Live bytes by label and class", BYTES, "stacked", [
        ("{{label}} class {{class}}", f"sum by (label, class) (temporal_slab_epoch_class_live_bytes{W})")]),
    ("Contention by label", RATE, "timeseries", [
        ("{{label}} lock waits", f"rate(temporal_slab_label_lock_waits_total{W}[30s])"),
        ("{{label}} frees tried again", f"rate(temporal_slab_label_cas_retries_total{W}[30s])")]),
    ("Leaks: objects of the workloads, as they count them", COUNT, "timeseries", [
        ("{{pattern}} {{allocator}}", f"benchmark_objects_leaked_total{W}")]),
    ("Objects", RATE, "timeseries", [
        ("allocated", f"sum(rate(temporal_slab_allocated_objects_total{W}[30s]))"),
        ("freed", f"sum(rate(temporal_slab_freed_objects_total{W}[30s]))"),
        ("rejected frees", f"rate(temporal_slab_rejected_frees_total{W}[30s])")]),
    ("Epochs", COUNT, "timeseries", [
        ("open", f"temporal_slab_active_epochs{W}"),
        ("closing", f"temporal_slab_closing_epochs{W}"),
        ("closed per second", f"rate(temporal_slab_epoch_close_calls_total{W}[30s])")]),
    ("Memory by NUMA node", BYTES, "stacked", [("node {{node}}", f"temporal_slab_node_committed_bytes{W}")]),
    ("Remote frees by NUMA node", RATE, "timeseries", [("of node {{node}}", f"rate(temporal_slab_node_remote_frees_total{W}[30s])")]),
    ("Zones by state", COUNT, "stacked", [("{{device}} {{state}}", f"temporal_slab_zones{W}")]),
    ("Zones: written and spilled", "Bps", "timeseries", [
        ("{{device}} appended", f"rate(temporal_slab_zones_appended_bytes_total{W}[30s])"),
        ("{{device}} padding", f"rate(temporal_slab_zones_padding_bytes_total{W}[30s])"),
        ("{{device}} payload", f"rate(temporal_slab_zones_payload_bytes_total{W}[30s])")]),
    ("Zones: write amplification and fill at reset", COUNT, "timeseries", [
        ("{{device}} amplification", f"temporal_slab_zones_write_amplification{W}"),
        ("{{device}} fill", f"temporal_slab_zones_fill_at_reset{W}")]),
]

SOURCE = {"type": "prometheus", "uid": "${source}"}
# The data source that the variable begins with: that of provisioning/. Where there is none, Grafana takes the first.
PROVISIONED = {"text": "temporal-slab", "value": "temporal-slab-prometheus"}


def panel(number, title, unit, kind, queries):
    stacked = {"stacking": {"mode": "normal"}, "fillOpacity": 40} if kind == "stacked" else {"fillOpacity": 0}
    table = kind == "table"
    return {
        "id": number + 1, "title": title, "datasource": SOURCE, "type": "table" if table else "timeseries",
        "gridPos": {"h": 8, "w": 12, "x": 12 * (number % 2), "y": 8 * (number // 2)},
        "fieldConfig": {"defaults": {"unit": unit, "min": 0, **({} if table else {"custom": stacked})}, "overrides": []},
        "targets": [{"refId": chr(65 + i), "datasource": SOURCE, "expr": expr, "legendFormat": legend,
                     **({"format": "table", "instant": True} if table else {})}
                    for i, (legend, expr) in enumerate(queries)],
    }


def variable(name, query):
    return {"name": name, "type": "query", "datasource": SOURCE, "query": query, "refresh": 2, "multi": True,
            "includeAll": True, "allValue": ".*", "current": {"text": "All", "value": "$__all"}}


def dashboard():
    return {
        "uid": "temporal-slab", "title": "temporal-slab", "schemaVersion": 38, "version": 1, "refresh": "5s",
        "time": {"from": "now-15m", "to": "now"}, "editable": True, "tags": ["temporal-slab"],
        "templating": {"list": [
            {"name": "source", "label": "Prometheus", "type": "datasource", "query": "prometheus",
             "current": PROVISIONED},
            variable("job", "label_values(temporal_slab_build_info, job)"),
            variable("instance", 'label_values(temporal_slab_build_info{job=~"$job"}, instance)')]},
        "annotations": {"list": []},
        "panels": [panel(i, *p) for i, p in enumerate(PANELS)],
    }


if __name__ == "__main__":
    if sys.argv[1:] == ["--queries"]:
        for _, _, _, queries in PANELS:
            for _, expr in queries:
                print(expr.replace("$job", ".*").replace("$instance", ".*"))
    elif len(sys.argv) > 1:
        sys.exit("usage: dashboard.py [--queries]")
    else:
        print(json.dumps(dashboard(), indent=1))
