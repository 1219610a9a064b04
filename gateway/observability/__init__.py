"""What watches the service: Prometheus, its alerts, and Grafana's dashboards.

The Python here writes the dashboards' JSON (`make dashboards`); the service never imports it.
"""
