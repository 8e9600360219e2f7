package config

import "context"

// pluginMetrics serves the metrics.
const pluginMetrics = "io.containerd.server.v1.metrics"

// ReadMetrics reads the TCP address on which metrics are served, imports included; empty: none.
func ReadMetrics(ctx context.Context, path string) (string, error) {
	tree, err := loadTree(ctx, path)
	if err != nil {
		return "", err
	}
	t := treeSource(tree).plugin(pluginMetrics) // where the loader puts [metrics]: containerd config.go, serviceMigrate
	address, _ := t["address"].(string)
	return address, nil
}
